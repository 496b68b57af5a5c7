//! Promise of the subjects of `wheels`: each key fires once, at its deadline; what was cancelled never does. Held against a map.

#[path = "../src/wheels/subjects/mod.rs"]
mod subjects;

use fastrand::Rng;
use std::collections::BTreeMap;
use subjects::*;

const STEPS: usize = 5_000;
const DELAY_MAX: u64 = 100_000;

/// The keys that stand, with their deadlines and handles.
type Model<H> = BTreeMap<u64, (u64, H)>;

/// `early`: so many ticks before its deadline a timer may fire.
fn follows_the_model<S: Subject>(early: u64) {
    for seed in 0..3 {
        let (mut rng, mut subject, mut model, mut now) = (Rng::with_seed(seed), S::new(), Model::new(), 0);
        for key in 0..STEPS as u64 {
            match rng.u32(..10) {
                0..5 => {
                    let delay_max = [3, 300, 5_000, DELAY_MAX][rng.usize(..4)];
                    let deadline = now + rng.u64(1..=delay_max);
                    model.insert(key, (deadline, subject.insert(deadline, key)));
                }
                5..8 => {
                    let standing = model.keys().nth(rng.usize(..=model.len())).copied();
                    if let Some((_, handle)) = standing.and_then(|key| model.remove(&key)) {
                        subject.cancel(handle);
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
        assert!(model.is_empty(), "{} timers never fired", model.len());
    }
}

fn advance<S: Subject>(subject: &mut S, model: &mut Model<S::Handle>, now: u64, early: u64) {
    subject.advance(now, |key| {
        let (deadline, _) = model.remove(&key).unwrap_or_else(|| panic!("{key} does not stand"));
        assert!(deadline <= now + early, "{key} of {deadline} fires at {now}");
    });
    let late = model.iter().find(|(_, (deadline, _))| *deadline <= now);
    assert!(late.is_none(), "{:?} has not fired at {now}", late.map(|(key, (deadline, _))| (key, deadline)));
}

#[test]
fn wheelwork() {
    follows_the_model::<Wheelwork>(0);
}

#[test]
fn nexus() {
    follows_the_model::<Nexus>(0);
}

#[test]
fn bitwheel() {
    follows_the_model::<BitWheel<128>>(4_095);
}

#[test]
fn hhwt() {
    follows_the_model::<Hhwt>(0);
}

#[test]
fn delay_queue() {
    follows_the_model::<Queue>(0);
}

#[test]
fn unordered_list() {
    follows_the_model::<UnorderedList>(0);
}

#[test]
fn ordered_list() {
    follows_the_model::<OrderedList>(0);
}

#[test]
fn heap() {
    follows_the_model::<Heap>(0);
}

#[test]
fn btree() {
    follows_the_model::<Btree>(0);
}

#[test]
fn one_wheel() {
    follows_the_model::<OneWheel>(0);
}

#[test]
fn hashed_wheel() {
    follows_the_model::<HashedWheel>(0);
}

#[test]
fn linked_wheel() {
    follows_the_model::<LinkedWheel>(0);
}
