//! Promise of the subjects: each key fires once, at its deadline; what was cancelled never does.
//! Held against a map.

use super::bitwheel::BitWheel;
use super::schemes::{HashedWheel, LinkedWheel, OneWheel, OrderedList, UnorderedList};
use super::{Subject, btree, delay_queue, heap, hhwt, nexus, queue, wheelwork};
use fastrand::Rng;
use std::any::type_name;
use std::collections::BTreeMap;

const STEPS: usize = 5_000;
const DELAY_MAX: u64 = 100_000;

/// The keys that stand, with their deadlines and handles.
type Model<H> = BTreeMap<u64, (u64, H)>;

/// One that stands, or sometimes none.
fn take_any<H>(model: &mut Model<H>, rng: &mut Rng) -> Option<(u64, H)> {
    let key = model.keys().nth(rng.usize(..=model.len())).copied()?;
    let (_, handle) = model.remove(&key)?;
    Some((key, handle))
}

/// `early`: the number of ticks by which a timer may fire before its deadline.
fn follows_the_model<S: Subject>(early: u64) {
    for seed in 0..3 {
        let mut rng = Rng::with_seed(seed);
        let (mut subject, mut model, mut now) = (S::new(), Model::new(), 0);
        for key in 0..STEPS as u64 {
            match rng.u32(..11) {
                0..5 => {
                    let delay_max = [3, 300, 5_000, DELAY_MAX][rng.usize(..4)];
                    let deadline = now + rng.u64(1..=delay_max);
                    model.insert(key, (deadline, subject.insert(deadline, key)));
                }
                5..8 => {
                    if let Some((_, handle)) = take_any(&mut model, &mut rng) {
                        subject.cancel(handle);
                    }
                }
                8 => {
                    if let Some((key, handle)) = take_any(&mut model, &mut rng) {
                        let deadline = now + rng.u64(1..=DELAY_MAX);
                        let handle = subject.rearm(handle, deadline, key);
                        model.insert(key, (deadline, handle));
                    }
                }
                _ => {
                    let ticks_max = [1, 40, 400, 10_000][rng.usize(..4)];
                    now += rng.u64(1..=ticks_max);
                    advance(&mut subject, &mut model, now, early);
                }
            }
        }
        advance(&mut subject, &mut model, now + DELAY_MAX, early);
        let (name, left) = (type_name::<S>(), model.len());
        assert_eq!(left, 0, "timers of {name} never fired");
    }
}

fn advance<S: Subject>(subject: &mut S, model: &mut Model<S::Handle>, now: u64, early: u64) {
    let name = type_name::<S>();
    subject.advance(now, |key| {
        let standing = model.remove(&key).map(|(deadline, _)| deadline);
        let is_due = standing.is_some_and(|deadline| deadline <= now + early);
        assert!(is_due, "{name}: {key} fires at {now}, due {standing:?}");
    });
    let mut standing = model.iter().map(|(key, (deadline, _))| (key, deadline));
    let late = standing.find(|&(_, deadline)| *deadline <= now);
    assert_eq!(late, None, "{name} has not fired it at {now}");
}

#[test]
fn every_subject_follows_the_model() {
    follows_the_model::<wheelwork::Wheelwork>(0);
    follows_the_model::<queue::Queue>(0);
    follows_the_model::<nexus::Nexus>(0);
    follows_the_model::<BitWheel<128>>(4_095);
    follows_the_model::<hhwt::Hhwt>(0);
    follows_the_model::<delay_queue::Queue>(0);
    follows_the_model::<UnorderedList>(0);
    follows_the_model::<OrderedList>(0);
    follows_the_model::<heap::Heap>(0);
    follows_the_model::<btree::Btree>(0);
    follows_the_model::<OneWheel>(0);
    follows_the_model::<HashedWheel>(0);
    follows_the_model::<LinkedWheel>(0);
}
