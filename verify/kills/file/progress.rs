//! Progress: which steps of the job are over, and what the next life has to do, by the ledger.
//!
//! A timer has two steps: it is armed, and it ends. What had no answer when the process was killed
//! is in doubt. The store is asked for a timer with a key; one without a key has no more steps, and
//! is looked for at the end.

use super::plan::{Fate, Plan};
use crate::ledger::{Arming, Ledger, Timer};
use crate::wire::Order;

/// Cancels in one order.
const CANCELS: usize = 65_536;

const ARMED: u8 = 1;
const ENDED: u8 = 1 << 1;
/// Its process was killed before it had an answer.
const IN_DOUBT: u8 = 1 << 2;

pub(crate) struct Progress {
    plan: Plan,
    flags: Vec<u8>,
    /// Timers of each block that were asked for.
    asked: Vec<u32>,
    steps: u64,
}

/// Whether its arming had no answer when its process was killed. Lives before `life` are over.
fn is_in_doubt(timer: &Timer, life: u32) -> bool {
    timer.arming == Arming::Asked && timer.node < life
}

/// The steps of a timer that are over.
fn steps(timer: &Timer, life: u32) -> u8 {
    let was_handled = !timer.starts.is_empty();
    let is_unknown = is_in_doubt(timer, life) && (timer.ask.key.is_none() || was_handled);
    let is_absent = matches!(timer.arming, Arming::Absent(_));
    let is_armed = is_unknown || timer.arming != Arming::Asked;
    let has_said = |what| {
        let mut answers = timer.calls.iter().filter_map(|call| call.answer);
        answers.any(|(_, is_done)| is_done == what)
    };
    // A refused one ends when it is handled, unless an earlier cancel may have ended it.
    let mut calls = timer.calls.iter();
    let is_cancel_in_doubt = calls.any(|call| call.answer.is_none() && call.node < life);
    let is_cancelled = has_said(true) || is_cancel_in_doubt && has_said(false);
    let is_ended = was_handled || is_cancelled || is_absent || is_unknown;
    let flag = |is_so, flag| if is_so { flag } else { 0 };
    flag(is_armed, ARMED) | flag(is_ended, ENDED)
}

impl Progress {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            flags: vec![0; plan.timers as usize],
            asked: vec![0; plan.blocks() as usize],
            steps: 0,
            plan,
        }
    }

    /// All steps of the job.
    pub(crate) fn all(&self) -> u64 {
        2 * u64::from(self.plan.timers)
    }

    /// Those that are over.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether nothing more has to become of any timer.
    pub(crate) fn is_complete(&self) -> bool {
        self.steps == self.all()
    }

    /// Whether both steps of a timer are over. (There are millions: nobody looks at these.)
    fn is_over(&self, number: u64) -> bool {
        self.flags[number as usize] & (ARMED | ENDED) == ARMED | ENDED
    }

    /// A timer is about to be armed. An error: it is not to be.
    pub(crate) fn ask(&mut self, number: u64, ledger: &Ledger) -> Result<(), String> {
        if number >= u64::from(self.plan.timers) || ledger.timers.get(number).is_some() {
            return Err(format!("timer {number}, which is not to be armed"));
        }
        self.asked[self.plan.block_of(number as u32) as usize] += 1;
        Ok(())
    }

    /// Something was noted of a timer.
    pub(crate) fn look(&mut self, number: u64, ledger: &Ledger, life: u32) {
        let flags = self.flags.get_mut(number as usize);
        let (Some(flags), Some(timer)) = (flags, ledger.timers.get(number)) else {
            return;
        };
        let new = steps(timer, life) & !*flags;
        self.steps += u64::from(new.count_ones());
        *flags |= new;
    }

    /// A life is over, and all that it has told is noted.
    pub(crate) fn end_life(&mut self, ledger: &mut Ledger, life: u32) {
        for block in 0..self.plan.blocks() {
            let numbers = self.plan.numbers(block);
            let asked = &mut self.asked[block as usize];
            if *asked > 0 && (*asked as usize) < numbers.len() {
                // The asks were cut off, so nothing of the block was armed.
                *asked = 0;
                for number in numbers {
                    ledger.timers.remove(number.into());
                }
            }
        }
        for number in 0..u64::from(self.plan.timers) {
            if self.is_over(number) {
                continue;
            }
            let timer = ledger.timers.get(number);
            if timer.is_some_and(|timer| timer.node == life && is_in_doubt(timer, life + 1)) {
                self.flags[number as usize] |= IN_DOUBT;
                self.look(number, ledger, life + 1);
            }
        }
    }

    /// What a process is told when it is ready.
    pub(crate) fn orders(&self, ledger: &Ledger, life: u32) -> Vec<Order> {
        let is_unasked = |block: &u32| self.asked[*block as usize] == 0;
        let last = (0..self.plan.blocks())
            .rev()
            .find(|block| !is_unasked(block));
        let from = last.map_or(0, |last| last + 1);
        let blocks = (0..from).filter(is_unasked).collect();
        let (mut unresolved, mut cancels) = (Vec::new(), Vec::new());
        for number in 0..self.plan.timers {
            if self.is_over(number.into()) {
                continue;
            }
            let Some(timer) = ledger.timers.get(number.into()) else {
                continue;
            };
            if is_in_doubt(timer, life) && timer.ask.key.is_some() && timer.starts.is_empty() {
                unresolved.push(number);
            }
            let is_answered = timer.calls.iter().any(|call| call.answer.is_some());
            if matches!(timer.arming, Arming::Armed(_))
                && timer.starts.is_empty()
                && !is_answered
                && self.plan.fate(number) != Fate::Fires
            {
                cancels.push((u64::from(number), timer.id));
            }
        }
        let mut orders = vec![Order::Resolve(unresolved), Order::Arm { blocks, from }];
        let cancels = cancels.chunks(CANCELS).map(<[_]>::to_vec);
        orders.extend(cancels.map(Order::Take));
        orders.push(Order::Begin);
        orders
    }

    /// Armings without an answer when their process was killed; and those of them that turned out
    /// to have been done.
    pub(crate) fn in_doubt(&self, ledger: &Ledger) -> [u64; 2] {
        let in_doubt = (0_u64..).zip(&self.flags);
        let in_doubt: Vec<_> = in_doubt
            .filter(|(_, flags)| *flags & IN_DOUBT != 0)
            .collect();
        let is_done = |timer: &Timer| {
            let is_armed = matches!(timer.arming, Arming::Armed(_));
            is_armed || timer.found.is_some() || !timer.starts.is_empty()
        };
        let timers = in_doubt
            .iter()
            .filter_map(|(number, _)| ledger.timers.get(*number));
        [
            in_doubt.len() as u64,
            timers.filter(|timer| is_done(timer)).count() as u64,
        ]
    }

    /// What was never done, in words.
    pub(crate) fn complaint(&self) -> Option<String> {
        let unasked = self.asked.iter().filter(|asked| **asked == 0).count();
        let all = self.asked.len();
        (unasked > 0).then(|| format!("{unasked} of {all} blocks were never armed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::tests::tale::{Tale, id};

    /// A job in its first life, with one timer in each block.
    struct Job {
        tale: Tale,
        progress: Progress,
        life: u32,
    }

    impl Job {
        fn new(timers: u32, cancel_percent: u8) -> Self {
            Self {
                tale: Tale::default(),
                progress: Progress::new(Plan::new(timers, 1, cancel_percent, 1_000, 64)),
                life: 1,
            }
        }

        /// Its process tells this.
        fn tell(&mut self, text: &str) {
            let numbers = |tale: &Tale| -> Vec<u64> {
                tale.ledger
                    .timers
                    .iter()
                    .map(|(number, _)| number)
                    .collect()
            };
            let before = numbers(&self.tale);
            self.tale.tell_all(text);
            for number in numbers(&self.tale) {
                if !before.contains(&number) {
                    assert_eq!(self.progress.ask(number, &Ledger::default()), Ok(()));
                }
                self.progress.look(number, &self.tale.ledger, self.life);
            }
        }

        fn next_life(&mut self) {
            self.progress.end_life(&mut self.tale.ledger, self.life);
            self.life += 1;
        }

        fn orders(&self) -> Vec<Order> {
            self.progress.orders(&self.tale.ledger, self.life)
        }

        fn in_doubt(&self) -> [u64; 2] {
            self.progress.in_doubt(&self.tale.ledger)
        }
    }

    #[test]
    fn a_job_is_complete_when_all_are_handled_or_cancelled() {
        for (cancel_percent, end) in [(0, "A seals"), (100, "cancel")] {
            let mut job = Job::new(100, cancel_percent);
            for number in 0..100 {
                job.tell(&format!("arm {number} Sealed at 0 due 5"));
            }
            assert_eq!(job.progress.steps(), 100);
            for number in 0..100 {
                assert!(!job.progress.is_complete());
                job.tell(&format!("{end} {number} at 5"));
            }
            assert!(job.progress.is_complete() && job.progress.complaint().is_none());
        }
    }

    #[test]
    fn what_is_left_is_ordered() {
        let mut job = Job::new(100, 100);
        job.tell("arm 10 at 0 due 5; arm 11 at 0 due 5; arm 12 at 0 due 5");
        // The second one is to be handled now. Of the third one nobody knows whether that was done.
        job.tell("cancel 10 at 3; cancel 11 at 3 refused; cancel 12 at 3 unanswered");
        assert_eq!(job.progress.steps(), 4);
        job.next_life();
        let blocks = (0..10).collect();
        let arm = Order::Arm { blocks, from: 13 };
        let take = Order::Take(vec![(12, id(12))]);
        let resolve = Order::Resolve(vec![]);
        assert_eq!(job.orders(), [resolve, arm, take, Order::Begin]);
        // What an earlier cancel may have done has ended.
        job.tell("cancel 12 at 9 by B refused");
        assert_eq!(job.progress.steps(), 5);
        job.tell("B seals 11 at 9");
        assert_eq!(job.progress.steps(), 6);
        let complaint = job.progress.complaint().expect("there is one");
        assert_eq!(complaint, "97 of 100 blocks were never armed");
    }

    #[test]
    fn what_is_in_doubt_is_resolved_by_its_key() {
        for (told, steps, done, unresolved) in [
            ("", 2, 0, vec![16]),
            (
                "there 16 at 9; B seals 16 at 9; B seals 17 at 9",
                4,
                2,
                vec![],
            ),
            ("absent 16 at 9", 4, 0, vec![]),
            // Found at the end.
            ("found 17 at 9", 2, 1, vec![16]),
        ] {
            let mut job = Job::new(100, 0);
            job.tell("arm 16 key k at 0 due 5 unanswered; arm 17 at 0 due 5 unanswered");
            job.next_life();
            job.tell(told);
            assert_eq!((job.progress.steps(), job.in_doubt()), (steps, [2, done]));
            assert_eq!(job.orders()[0], Order::Resolve(unresolved));
        }
    }

    #[test]
    fn a_block_whose_asks_were_cut_off_was_not_armed() {
        let mut job = Job::new(256, 0);
        for number in 0..3 {
            job.tell(&format!("arm {number} at 0 due 5 unanswered"));
        }
        job.next_life();
        let timers = &job.tale.ledger.timers;
        assert!(timers.get(1).is_some() && timers.get(2).is_none());
        let blocks = Vec::new();
        assert_eq!(job.orders()[1], Order::Arm { blocks, from: 1 });
        job.tell("arm 2 at 9 due 9");
    }

    #[test]
    fn a_process_that_tells_of_what_it_was_not_asked_is_none_of_ours() {
        let mut job = Job::new(100, 0);
        job.tell("arm 17 at 0 due 5");
        for number in [17, 100] {
            let asked = job.progress.ask(number, &job.tale.ledger);
            assert!(asked.is_err(), "{number}");
        }
    }
}
