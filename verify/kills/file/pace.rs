//! Pace: how fast a process was at what it did, and how late its timers.

use crate::wire::{Commits, Event, Phase};
use std::collections::BTreeMap;
use wheelwork_kit::lateness::Lateness;

/// How much was done in a phase, and how long the process was at it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) operations: u64,
    pub(crate) ns: u64,
}

#[derive(Default)]
pub(crate) struct Pace {
    phase: Phase,
    phase_since: u64,
    /// By the system's clock. `None`: not yet.
    ready_us: Option<i64>,
    open_us: i64,
    /// When the first overdue timer of this life was handled.
    first_overdue_us: Option<i64>,
    life: u32,
    life_commits: Commits,
    second: (i64, u64),
    /// Until all are armed: arms, and the cancels that were made meanwhile.
    pub(crate) arming: Work,
    pub(crate) cancelling: Work,
    /// Handled in one second, at the most.
    pub(crate) handled_per_s_max: u64,
    pub(crate) commits: Commits,
    pub(crate) commit_us: BTreeMap<u64, u64>,
    /// Of blocks, from ask to answer.
    pub(crate) arm_answers: Lateness,
    pub(crate) cancel_answers: Lateness,
    /// How long a process took to open what an earlier one has left.
    pub(crate) reopens: Lateness,
    /// From the start of that until the first timer was handled that was overdue.
    pub(crate) first_overdue: Lateness,
    /// Of timers that fell due while the process was ready for them.
    pub(crate) lateness: Lateness,
    /// Of those that fell due before that, in an earlier life or between two.
    pub(crate) lateness_across: Lateness,
}

impl Pace {
    /// A process begins.
    pub(crate) fn begin_life(&mut self, life: u32) {
        // What is handled before it is ready was due before.
        (self.life, self.ready_us, self.first_overdue_us) = (life, None, None);
    }

    /// It has ended, and all that it has told is heard.
    pub(crate) fn end_life(&mut self, at: u64) {
        if let (Some(first_us), Some(ready_us)) = (self.first_overdue_us, self.ready_us) {
            let start_us = ready_us - self.open_us;
            let [start_ns, first_ns] = [start_us, first_us].map(|us| us as u64 * 1_000);
            self.first_overdue.late(start_ns, first_ns);
        }
        self.begin(Phase::Opening, at);
        let commits = std::mem::take(&mut self.life_commits);
        self.commits.commits += commits.commits;
        self.commits.written_bytes += commits.written_bytes;
        for (us, count) in commits.histogram {
            *self.commit_us.entry(us).or_default() += count;
        }
    }

    fn begin(&mut self, phase: Phase, at: u64) {
        let ns = at.saturating_sub(self.phase_since);
        if let Some(work) = self.work() {
            work.ns += ns;
        }
        (self.phase, self.phase_since) = (phase, at);
    }

    /// What it does now, if that is measured.
    fn work(&mut self) -> Option<&mut Work> {
        match self.phase {
            Phase::Arming => Some(&mut self.arming),
            Phase::Cancelling => Some(&mut self.cancelling),
            Phase::Opening | Phase::Firing => None,
        }
    }

    /// A process has told something. `system_us` is the system's clock then.
    pub(crate) fn hear(&mut self, at: u64, system_us: i64, event: &Event) {
        match event {
            Event::Ready { open_us } => {
                (self.ready_us, self.open_us) = (Some(system_us), *open_us as i64);
                self.begin(Phase::Arming, at);
                if self.life > 1 {
                    self.reopens.late(0, open_us * 1_000);
                }
            }
            Event::Armed { .. } | Event::Answer { .. } => {
                if let Some(work) = self.work() {
                    work.operations += 1;
                }
            }
            Event::Took { is_arm, us } => {
                let answers = match is_arm {
                    true => &mut self.arm_answers,
                    false => &mut self.cancel_answers,
                };
                answers.late(0, us * 1_000);
            }
            Event::Begins(phase) => self.begin(*phase, at),
            Event::Commits(commits) => self.life_commits = commits.clone(),
            _ => {}
        }
    }

    /// A timer was handled for the first time.
    pub(crate) fn handled(&mut self, due_ms: i64, us: i64) {
        let second = us / 1_000_000;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        self.second.1 += 1;
        self.handled_per_s_max = self.handled_per_s_max.max(self.second.1);
        let is_across = self
            .ready_us
            .is_none_or(|ready_us| due_ms * 1_000 < ready_us);
        if is_across && self.life > 1 {
            self.first_overdue_us.get_or_insert(us);
        }
        let lateness = match is_across {
            true => &mut self.lateness_across,
            false => &mut self.lateness,
        };
        lateness.late(due_ms as u64 * 1_000_000, us as u64 * 1_000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_of_the_phase_in_which_the_process_was() {
        let mut pace = Pace::default();
        pace.begin_life(1);
        let armed = Event::Armed { number: 1, id: 1 };
        let (call, is_done) = (1, true);
        let answer = Event::Answer { call, is_done };
        let commits = |commits, written_bytes| {
            let histogram = vec![(100, commits)];
            Event::Commits(Commits {
                commits,
                histogram,
                written_bytes,
            })
        };
        for (at, event) in [
            (1_000, Event::Ready { open_us: 5 }),
            (1_010, armed),
            (1_020, answer.clone()),
            (1_100, Event::Begins(Phase::Cancelling)),
            (1_110, answer),
            // The last one counts.
            (1_120, commits(1, 3)),
            (1_130, commits(2, 7)),
        ] {
            pace.hear(at, at as i64, &event);
        }
        pace.end_life(1_150);
        assert_eq!((pace.arming.operations, pace.arming.ns), (2, 100));
        assert_eq!((pace.cancelling.operations, pace.cancelling.ns), (1, 50));
        assert_eq!((pace.commits.commits, pace.commits.written_bytes), (2, 7));
        assert_eq!(pace.commit_us.get(&100), Some(&2));
    }

    #[test]
    fn what_fell_due_before_a_process_was_ready_was_late_across_a_kill() {
        let mut pace = Pace::default();
        pace.begin_life(2);
        pace.hear(0, 5_000_000, &Event::Ready { open_us: 1_000 });
        pace.handled(4_000, 5_001_000);
        pace.handled(5_000, 5_002_000);
        pace.end_life(1);
        let counts = [&pace.lateness_across, &pace.lateness].map(Lateness::count);
        assert_eq!((counts, pace.handled_per_s_max), ([1, 1], 2));
        assert_eq!(pace.reopens.count(), 1);
        let first_ms = pace.first_overdue.quantile_ns(1.0) as f64 / 1e6;
        assert!((1.9..2.1).contains(&first_ms), "{first_ms}");
    }
}
