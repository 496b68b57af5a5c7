//! Tenure: whether a pinned shard stays on its core.
//!
//! A decision from numbers, which asks no system: how often the shard's thread has woken up late,
//! how often it had to leave its core to another thread, and whether a thread that sends it much
//! has the same core. The thread asks some thirty times a second while it is awake.
//!
//!  - Others keep the core busy: the thread lets go. The system then finds it a core.
//!  - It has the core of a thread that sends it much, while another core has none: the thread moves
//!    there. It is the other thread that waits, since a shard that has slept comes first; so the
//!    shard is late for nothing, and the system leaves both where they are. It moves again after a
//!    rest's length at the soonest.
//!  - It is pinned again when it has rested, and is late no more: to the core that has the fewest
//!    shards, and among several of these to the one where it runs then (`cores.rs`).
//!  - If others keep the core busy again at once, the next rest is twice as long. A shard on a
//!    machine that is always busy is hardly ever pinned.
//!  - Time on a core that others leave alone makes rests shorter again: as much as a rest takes
//!    halves the next one. So bursts some seconds apart come to cost a rest of a second each.
//!
//! Limit: late is late, whoever the reason is. A virtual machine that its host does not run makes
//! threads late, too; then letting go is of no use, and does no harm.

use crate::shard::wakes::Wakes;

/// A core is busy if at least this number of a thread's wake-ups were late, and at least one in
/// `LATE_PART`.
const LATE_MIN: u64 = 4;
const LATE_PART: u64 = 8;

/// How the thread wakes up is looked at over this time at least.
const WAKES_NS: u64 = 1_000_000_000;

/// A core is also busy if, since the last call, the thread had to leave it at least
/// `PREEMPTIONS_MIN` times, and more than `PREEMPTIONS_PER_S` times a second. (A thread that has
/// too much to do never sleeps, and so does not wake up.)
const PREEMPTIONS_MIN: u64 = 4;
const PREEMPTIONS_PER_S: u64 = 50;

/// The thread moves if at this number of calls, one after the other, a thread that sends much had
/// its core, too. (At one if the core is busy besides.)
const IN_COMPANY: u32 = 2;

/// A core is not busy after this number of wake-ups, or after this time, without four that were
/// late.
const WAKES_MIN: u64 = 16;
const TELLS_AFTER_NS: u64 = 64_000_000_000;

/// The first rest. The eleventh is the longest one: 17 minutes.
const REST_NS: u64 = 1_000_000_000;
const RESTS_MAX: u32 = 11;

/// What the thread is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    LetGo,
    /// To a core without a thread that sends much.
    Move,
    PinAgain,
}

/// What is known of a thread and its core.
#[derive(Debug, Default)]
pub(super) struct Tenure {
    /// Since this time, and these counts, nothing was decided.
    since_ns: u64,
    wakes: Wakes,
    preemptions: u64,
    /// When `step` was last called, and the count then.
    called_ns: u64,
    called_preemptions: u64,
    /// How many calls ago the thread had a core for itself.
    in_company: u32,
    /// It does not move before this time.
    moves_at_ns: u64,
    /// The thread is not pinned before this time. `None`: it is pinned.
    rests_until_ns: Option<u64>,
    /// When it was last pinned.
    pinned_ns: u64,
    /// How long the last rest was: 1 for the shortest, each further one twice as long. 0: there was
    /// none.
    rests: u32,
    /// Time on a core that others left alone, since the length of rests was changed by it.
    good_ns: u64,
}

impl Tenure {
    /// All counts are since the thread began. `in_company`: since the last call a thread that sends
    /// much was on the same core, and there was a core without one.
    pub(super) fn step(
        &mut self,
        now_ns: u64,
        wakes: Wakes,
        preemptions: u64,
        in_company: bool,
    ) -> Step {
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        let (timed, late) = (wakes.timed - self.wakes.timed, wakes.late - self.wakes.late);
        let is_crowded = self.is_crowded(now_ns, preemptions);
        let is_late = passed_ns >= WAKES_NS && late >= LATE_MIN && late * LATE_PART >= timed;
        // Where more than two threads share the core, few of these times fall into one call.
        let preempted = preemptions.saturating_sub(self.preemptions);
        let is_left = passed_ns >= WAKES_NS && preempted > Self::allowed(passed_ns);
        self.in_company = if in_company { self.in_company + 1 } else { 0 };
        let is_joined = self.in_company >= IN_COMPANY || in_company && is_crowded;
        if is_joined && now_ns >= self.moves_at_ns {
            self.moves_at_ns = now_ns.saturating_add(Self::length_ns(self.rests.max(1)));
            self.begin_anew(now_ns, wakes, preemptions);
            self.rests_until_ns = None;
            self.pinned_ns = now_ns;
            return Step::Move;
        }
        let is_busy = is_late || is_left || is_crowded;
        let has_told = timed >= WAKES_MIN && passed_ns >= WAKES_NS || passed_ns >= TELLS_AFTER_NS;
        if !is_busy && !has_told {
            return Step::Stay;
        }
        let told_ns = self.since_ns;
        self.begin_anew(now_ns, wakes, preemptions);
        match (self.rests_until_ns, is_busy) {
            (None, false) => Step::Stay,
            (None, true) => {
                self.choose_rest(told_ns.saturating_sub(self.pinned_ns));
                self.rests_until_ns = Some(now_ns.saturating_add(Self::length_ns(self.rests)));
                Step::LetGo
            }
            // All cores are busy. It is not pinned before that has passed.
            (Some(until_ns), true) => {
                self.rests_until_ns = Some(until_ns.max(now_ns.saturating_add(REST_NS)));
                Step::Stay
            }
            (Some(until_ns), false) if now_ns < until_ns => Step::Stay,
            (Some(_), false) => {
                self.rests_until_ns = None;
                self.pinned_ns = now_ns;
                Step::PinAgain
            }
        }
    }

    /// Something was decided: what was counted so far does not matter any more.
    fn begin_anew(&mut self, now_ns: u64, wakes: Wakes, preemptions: u64) {
        self.since_ns = now_ns;
        (self.wakes, self.preemptions) = (wakes, preemptions);
        self.in_company = 0;
    }

    /// Whether the thread had to leave its core often since the last call.
    fn is_crowded(&mut self, now_ns: u64, preemptions: u64) -> bool {
        let passed_ns = now_ns.saturating_sub(self.called_ns);
        let preempted = preemptions.saturating_sub(self.called_preemptions);
        (self.called_ns, self.called_preemptions) = (now_ns, preemptions);
        preempted >= PREEMPTIONS_MIN && preempted > Self::allowed(passed_ns)
    }

    /// How often a thread may have to leave its core in this time.
    fn allowed(time_ns: u64) -> u64 {
        let allowed = u128::from(time_ns) * u128::from(PREEMPTIONS_PER_S) / 1_000_000_000;
        u64::try_from(allowed).unwrap_or(u64::MAX)
    }

    /// Chooses the next rest, after this time on a core that others left alone.
    fn choose_rest(&mut self, good_ns: u64) {
        if good_ns == 0 || self.rests == 0 {
            self.rests = RESTS_MAX.min(self.rests + 1);
            return;
        }
        self.good_ns += good_ns;
        while self.rests > 1 && self.good_ns >= Self::length_ns(self.rests) {
            self.good_ns -= Self::length_ns(self.rests);
            self.rests -= 1;
        }
    }

    fn length_ns(rests: u32) -> u64 {
        REST_NS << (rests - 1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// A thread that wakes up `timed` times a second.
    struct Thread {
        tenure: Tenure,
        now_ns: u64,
        wakes: Wakes,
        preemptions: u64,
    }

    impl Thread {
        fn new() -> Self {
            Self {
                tenure: Tenure::default(),
                now_ns: 0,
                wakes: Wakes::default(),
                preemptions: 0,
            }
        }

        /// A second with `timed` wake-ups, of which `late` are late, and with `preemptions`.
        fn second(&mut self, timed: u64, late: u64, preemptions: u64) -> Step {
            self.time(S, timed, late, preemptions)
        }

        /// The same for another time.
        fn time(&mut self, time_ns: u64, timed: u64, late: u64, preemptions: u64) -> Step {
            self.wakes.timed += timed;
            self.wakes.late += late;
            self.preemptions += preemptions;
            self.step(time_ns, false)
        }

        fn step(&mut self, time_ns: u64, in_company: bool) -> Step {
            self.now_ns += time_ns;
            self.tenure
                .step(self.now_ns, self.wakes, self.preemptions, in_company)
        }
    }

    #[test]
    fn a_thread_stays_on_a_core_that_it_has_in_time() {
        let mut thread = Thread::new();
        // Idle; busy with its own; late now and then; now and then held up for long.
        for (timed, late, preemptions) in [
            (0, 0, 0),
            (1, 0, 0),
            (1_000, 100, 40),
            (3, 3, 0),
            (1_000, 0, 0),
            (0, 0, 50),
        ] {
            for _ in 0..100 {
                thread = Thread::new();
                assert_eq!(thread.second(timed, late, preemptions), Step::Stay);
            }
        }
        for _ in 0..1_000 {
            assert_eq!(thread.second(30, 3, 20), Step::Stay);
        }
    }

    #[test]
    fn a_thread_lets_go_of_a_core_that_others_keep_busy() {
        // Late at most wake-ups; at each eighth; at its few ones; preempted, and never asleep.
        assert_eq!(Thread::new().second(100, 80, 0), Step::LetGo);
        assert_eq!(Thread::new().second(800, 100, 0), Step::LetGo);
        assert_eq!(Thread::new().second(4, 4, 0), Step::LetGo);
        assert_eq!(Thread::new().second(0, 0, 51), Step::LetGo);
        // One that wakes up once a second is noticed, too.
        let mut thread = Thread::new();
        let steps: Vec<_> = (0..4).map(|_| thread.second(1, 1, 0)).collect();
        assert_eq!(steps, [Step::Stay, Step::Stay, Step::Stay, Step::LetGo]);
    }

    /// A thread that arms timers at full speed has the same core. That is noticed within 0.1 s.
    #[test]
    fn a_thread_lets_go_soon_of_a_core_that_it_has_to_share() {
        let mut thread = Thread::new();
        assert_eq!(thread.time(REVIEW, 0, 0, 3), Step::Stay);
        assert_eq!(thread.time(REVIEW, 0, 0, 4), Step::LetGo);
        // After a quiet hour, too.
        let mut thread = Thread::new();
        assert_eq!(thread.time(3_600 * S, 20, 0, 30), Step::Stay);
        assert_eq!(thread.time(REVIEW, 0, 0, 4), Step::LetGo);
        // It shares the core with more than one, and has it more seldom.
        let mut thread = Thread::new();
        let steps: Vec<_> = (0..33).map(|_| thread.time(REVIEW, 0, 0, 2)).collect();
        assert!(steps.contains(&Step::LetGo));
        // Some wake-ups that are late tell nothing in so short a time.
        let mut thread = Thread::new();
        let steps: Vec<_> = (0..32).map(|_| thread.time(REVIEW, 16, 4, 1)).collect();
        assert_eq!(steps[30..], [Step::Stay, Step::LetGo]);
    }

    const REVIEW: u64 = S / 32;

    /// The shard comes first on the core, and is never late.
    #[test]
    fn a_thread_leaves_the_core_of_one_that_sends_much() {
        let mut thread = Thread::new();
        let steps = [true, false, true, true].map(|company| thread.step(REVIEW, company));
        assert_eq!(steps, [Step::Stay, Step::Stay, Step::Stay, Step::Move]);
        // It is pinned there, and not moved again for a second.
        let steps: Vec<_> = (0..34).map(|_| thread.step(REVIEW, true)).collect();
        let moved = steps.iter().position(|&step| step == Step::Move);
        assert_eq!(moved, Some(31));
        // A core that is busy, too, is left at once. So is one on which it rests.
        let mut thread = Thread::new();
        thread.preemptions += 4;
        assert_eq!(thread.step(REVIEW, true), Step::Move);
        let mut thread = Thread::new();
        thread.preemptions += 4;
        let steps = [false, true, true].map(|company| thread.step(REVIEW, company));
        assert_eq!(steps, [Step::LetGo, Step::Stay, Step::Move]);
        assert_eq!(thread.second(20, 0, 0), Step::Stay, "it is pinned");
    }

    /// One core has a thread that sends much, the other one another program.
    #[test]
    fn it_moves_ever_more_seldom_to_a_core_that_others_keep_busy() {
        let mut thread = Thread::new();
        let mut moved = Vec::new();
        let mut is_away = false;
        for review in 1..=128 * 32_u32 {
            // The system runs it beside the thread again as soon as it has let go.
            let preemptions = if is_away { 4 } else { 0 };
            thread.preemptions += preemptions;
            match thread.step(REVIEW, !is_away) {
                Step::Move => {
                    moved.push(review / 32);
                    is_away = true;
                }
                Step::LetGo => is_away = false,
                Step::Stay | Step::PinAgain => {}
            }
        }
        assert_eq!(moved, [0, 1, 2, 4, 8, 16, 32, 64]);
    }

    #[test]
    fn it_is_pinned_again_when_it_is_late_no_more() {
        let mut thread = Thread::new();
        assert_eq!(thread.second(100, 80, 0), Step::LetGo);
        for _ in 0..100 {
            assert_eq!(thread.second(100, 20, 0), Step::Stay, "all cores are busy");
        }
        assert_eq!(thread.second(100, 0, 0), Step::PinAgain);
        assert_eq!(thread.second(100, 0, 0), Step::Stay);
    }

    #[test]
    fn each_rest_is_twice_as_long() {
        let mut thread = Thread::new();
        for rest in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 1_024] {
            assert_eq!(thread.second(100, 80, 0), Step::LetGo);
            for _ in 1..rest {
                assert_eq!(thread.second(100, 0, 0), Step::Stay);
            }
            assert_eq!(thread.second(100, 0, 0), Step::PinAgain);
        }
    }

    /// Bursts that come ten seconds apart.
    #[test]
    fn bursts_leave_it_pinned_for_most_of_the_time() {
        // At first its core was busy for 0, 10 or 100 s.
        for busy in [0, 10, 100] {
            let mut thread = Thread::new();
            let mut is_pinned = true;
            let mut step = |late| {
                match thread.second(100, late, 0) {
                    Step::Stay => {}
                    Step::LetGo => is_pinned = false,
                    Step::Move | Step::PinAgain => is_pinned = true,
                }
                is_pinned
            };
            for _ in 0..busy {
                let late = if step(0) { 80 } else { 0 };
                step(late);
            }
            let mut burst = |second| step(if second % 10 == 0 { 80 } else { 0 });
            (0..1_000).for_each(|second| _ = burst(second));
            let pinned = (0..1_000).filter(|&second| burst(second)).count();
            assert!(pinned >= 800, "pinned for {pinned} s of 1,000 s");
        }
    }

    #[test]
    fn a_quiet_time_makes_rests_short_again() {
        for (quiet, rest) in [
            (0, 1_024),
            (1_023, 1_024),
            (1_024, 512),
            (1_535, 512),
            (1_536, 256),
            (2_045, 2),
            (2_046, 1),
            (100_000, 1),
        ] {
            let mut thread = Thread::new();
            for _ in 0..11 {
                assert_eq!(thread.second(100, 80, 0), Step::LetGo);
                while thread.second(100, 0, 0) != Step::PinAgain {}
            }
            (0..quiet).for_each(|_| assert_eq!(thread.second(100, 0, 0), Step::Stay));
            assert_eq!(thread.second(100, 80, 0), Step::LetGo);
            let rested = (1..).find(|_| thread.second(100, 0, 0) == Step::PinAgain);
            assert_eq!(rested, Some(rest), "after {quiet} s");
        }
    }
}
