//! Handlers: how one ends, by chance.

use super::{Said, Scene, Shared};
use fastrand::Rng;
use std::panic::resume_unwind;
use wheelwork_durable::{Delivery, HandlerResult};

/// How a handler ends.
#[derive(Clone, Copy)]
pub enum End {
    Done,
    Failed,
    Panics,
    Dies,
}

/// How a handler of this kind ends.
pub fn end_by_chance(kind: &str, rng: &mut Rng, has_trouble: bool) -> End {
    match (kind, rng.u8(..10)) {
        ("poison", _) => End::Dies,
        ("shaky", 0..3) | ("batch" | "limited", 0) => End::Failed,
        ("shaky", 3) => End::Panics,
        ("shaky", 4) if has_trouble && rng.u8(..10) == 0 => End::Dies,
        _ => End::Done,
    }
}

impl<W: Scene> Shared<W> {
    /// Ends a handler.
    pub fn finish(&self, node: W::Node, delivery: &Delivery, end: End) -> HandlerResult {
        let mut world = self.lock();
        match end {
            End::Done => {
                world.said(node, delivery, Said::Done);
                Ok(())
            }
            End::Failed => {
                world.said(node, delivery, Said::Failed);
                Err("simulated".into())
            }
            End::Panics => {
                world.said(node, delivery, Said::Failed);
                drop(world);
                // (Without a word from the panic hook.)
                resume_unwind(Box::new("simulated"))
            }
            End::Dies => {
                world.dies(node, delivery);
                Ok(())
            }
        }
    }
}
