//! Arrivals: which messages came lately, and so how long a shard naps when nothing is due.
//!
//! A nap ends when something is due, or when somebody rings. A thread rings if it arms a timer that
//! is due before the nap's end. So a long nap costs rings where timers are short. After a ring the
//! shard naps for a short time, and then longer and longer.

/// The shortest nap, unless the tick is longer.
pub(super) const NAP_MIN_NS: u64 = 1_000_000;

/// A nap lasts at most this part of the time since the last ring, or since the shard was busy. So
/// the shard is rung for at most about 60 times a second, whatever timers are armed that are due in
/// a shortest nap or later.
const NAP_SHARE: u64 = 16;

/// The longest nap while messages come.
const NAP_MAX_NS: u64 = 1_000_000_000;

/// Messages that may come during a nap. A lane rings at twice as many.
const NAP_MESSAGES: u64 = 16_384;

/// With this many messages in a millisecond, a shard is busy. Its naps are short then, for two
/// reasons: a lane would ring; and during an announced sleep no timers share a reading of the
/// clock.
const BUSY_PER_MS: u64 = 4_096;

/// After the last message a shard naps for this long. Then it sleeps without an end. No nap is
/// longer, unless the tick is.
pub(crate) const LINGER_NS: u64 = 2_000_000_000;

/// What a shard's thread knows of its messages. All times are since the clock's origin.
pub(super) struct Arrivals {
    last_turn_ns: u64,
    last_message_ns: u64,
    /// When the last ring came, or when the shard was last busy.
    last_haste_ns: u64,
    /// Rings that the doorbell has counted.
    rings: u64,
    /// Messages that the last turn found.
    messages: u64,
    /// The time from the turn before it to the last turn.
    elapsed_ns: u64,
    /// Messages since this time, which is at most a shortest nap before the last turn.
    since_ns: u64,
    since_messages: u64,
    /// Messages in the time of a shortest nap, before that.
    per_nap: u64,
}

impl Arrivals {
    pub(super) const fn new(now_ns: u64) -> Self {
        Self {
            last_turn_ns: now_ns,
            last_message_ns: 0,
            last_haste_ns: now_ns,
            rings: 0,
            messages: 0,
            elapsed_ns: 1,
            since_ns: now_ns,
            since_messages: 0,
            per_nap: 0,
        }
    }

    /// Notes a turn: its time, the messages that it and the sleep before it found, and the rings
    /// that the doorbell has counted so far.
    pub(super) fn note(&mut self, now_ns: u64, messages: u64, rings: u64) {
        // After a clock that has stepped back these would lie in the future, and the shard would
        // count as busy until they are over.
        for at_ns in [
            &mut self.last_message_ns,
            &mut self.last_haste_ns,
            &mut self.since_ns,
        ] {
            *at_ns = now_ns.min(*at_ns);
        }
        if messages > 0 {
            self.last_message_ns = now_ns;
        }
        (self.messages, self.elapsed_ns) =
            (messages, now_ns.saturating_sub(self.last_turn_ns).max(1));
        self.last_turn_ns = now_ns;
        self.since_messages += messages;
        let since_ns = now_ns.saturating_sub(self.since_ns);
        if since_ns >= NAP_MIN_NS {
            self.per_nap = self.since_messages.saturating_mul(NAP_MIN_NS) / since_ns;
            (self.since_ns, self.since_messages) = (now_ns, 0);
        }
        if rings != self.rings || self.is_busy() {
            (self.rings, self.last_haste_ns) = (rings, now_ns);
        }
    }

    /// Whether more than `BUSY_PER_MS` messages came in the last millisecond or two.
    pub(super) fn is_busy(&self) -> bool {
        self.since_messages.max(self.per_nap) > BUSY_PER_MS
    }

    /// How long a nap may be, if nothing is due. `None`: it is quiet, and the sleep has no end.
    pub(super) fn nap_ns(&self, now_ns: u64, tick_ns: u64) -> Option<u64> {
        // (The clock may have stepped back since the turn.)
        let quiet_ns = now_ns.saturating_sub(self.last_message_ns);
        if quiet_ns >= LINGER_NS.max(tick_ns) {
            return None;
        }
        let leisure_ns = now_ns.saturating_sub(self.last_haste_ns);
        let long_ns = (leisure_ns / NAP_SHARE)
            .min(NAP_MAX_NS)
            .min(self.time_of(NAP_MESSAGES));
        Some(quiet_ns.max(long_ns).max(NAP_MIN_NS).max(tick_ns))
    }

    /// The time in which this number of messages comes, at the present rate.
    fn time_of(&self, messages: u64) -> u64 {
        // 128 bits, since hours may pass between two turns.
        let time_ns =
            u128::from(messages) * u128::from(self.elapsed_ns) / u128::from(self.messages.max(1));
        u64::try_from(time_ns).unwrap_or(u64::MAX)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;

    /// Runs a shard for `seconds`. `per_ms` messages come in each millisecond, and one of them is
    /// due after `due_ns`. Returns its naps, and how often it was rung for.
    fn naps(per_ms: u64, due_ns: u64, seconds: u64) -> (Vec<u64>, u64) {
        let (mut now_ns, mut rings, mut naps) = (10 * S, 0, Vec::new());
        let mut arrivals = Arrivals::new(now_ns);
        let mut elapsed_ns = MS;
        while now_ns < (10 + seconds) * S {
            arrivals.note(now_ns, per_ms * elapsed_ns / MS, rings);
            let nap_ns = arrivals.nap_ns(now_ns, MS).expect("it is not quiet");
            // Somebody arms a timer in each millisecond.
            rings += u64::from(nap_ns > due_ns + MS);
            elapsed_ns = if nap_ns > due_ns + MS { MS } else { nap_ns };
            now_ns += elapsed_ns;
            naps.push(nap_ns);
        }
        (naps, rings)
    }

    /// A fault of the machine, or a checkpoint that was restored.
    #[test]
    fn a_shard_becomes_quiet_after_a_clock_that_stepped_back() {
        let mut arrivals = Arrivals::new(1_000 * S);
        arrivals.note(1_001 * S, 1, 0);
        assert_eq!(arrivals.nap_ns(5 * S, MS), Some(MS), "it stepped just now");
        arrivals.note(5 * S, 0, 0);
        let (mut now_ns, mut naps) = (5 * S, 0);
        while let Some(nap_ns) = arrivals.nap_ns(now_ns, MS) {
            now_ns += nap_ns;
            naps += 1;
            arrivals.note(now_ns, 0, 0);
        }
        assert!(now_ns < 10 * S && naps < 100, "{now_ns} ns, {naps} naps");

        let mut arrivals = Arrivals::new(1_001 * S);
        arrivals.note(5 * S, 5_000, 0);
        arrivals.note(65 * S, 0, 0);
        assert!(!arrivals.is_busy());
    }

    #[test]
    fn naps_grow_while_nobody_rings() {
        let (naps, rings) = naps(1, 30 * S, 20);
        assert_eq!(rings, 0);
        assert!(
            naps.is_sorted() && naps[0] == MS && naps.last() == Some(&S),
            "{naps:?}"
        );
        assert!(naps.len() < 150, "{} wake-ups in 20 s", naps.len());
    }

    #[test]
    fn whatever_is_armed_rings_are_few() {
        for due_ms in [0, 1, 2, 5, 10, 50, 500] {
            let (_, rings) = naps(10, due_ms * MS, 10);
            assert!(rings <= 10 * 62, "{due_ms} ms: {rings} rings in 10 s");
        }
    }

    #[test]
    fn a_nap_gathers_some_thousand_messages() {
        for per_ms in [1, 10, 100, 1_000] {
            let (naps, _) = naps(per_ms, 30 * S, 60);
            assert!(
                naps.iter()
                    .all(|nap_ns| nap_ns * per_ms / MS <= NAP_MESSAGES),
                "{per_ms}: {naps:?}"
            );
        }
        let (naps, _) = naps(5_000, 30 * S, 1);
        assert!(
            naps.iter().all(|&nap_ns| nap_ns == MS),
            "timers share readings"
        );
    }

    /// Turns may follow each other at once. A few messages in a short time are no rate.
    #[test]
    fn a_shard_is_busy_by_the_messages_of_a_millisecond() {
        const US: u64 = 1_000;
        let mut arrivals = Arrivals::new(S);
        let mut is_busy = |us, messages| {
            arrivals.note(S + us * US, messages, 0);
            arrivals.is_busy()
        };
        assert!(!is_busy(10, 41) && !is_busy(200, 820) && !is_busy(400, 1_000));
        assert!(is_busy(500, 3_000), "in less than a millisecond");
        assert!(
            is_busy(510, 0) && is_busy(1_000, 0),
            "and so in the last one"
        );
        assert!(is_busy(1_010, 1) && is_busy(1_990, 0));
        assert!(!is_busy(2_000, 0) && !is_busy(9_000, 4_096));
        assert!(is_busy(10_000, 4_097) && is_busy(10_001, 0));
        assert!(!is_busy(15_000, 9_000), "in five milliseconds");
    }

    #[test]
    fn a_quiet_shard_naps_longer_and_longer_and_sleeps_then() {
        let mut arrivals = Arrivals::new(0);
        arrivals.note(S, 1, 1);
        let mut now_ns = S;
        let mut naps = 0;
        while let Some(nap_ns) = arrivals.nap_ns(now_ns, MS) {
            (now_ns, naps) = (now_ns + nap_ns, naps + 1);
            arrivals.note(now_ns, 0, 1);
        }
        assert!(
            (3 * S..5 * S).contains(&now_ns) && naps <= 13,
            "{naps} naps until {now_ns}"
        );
        assert_eq!(
            arrivals.nap_ns(now_ns, 10 * S),
            Some(10 * S),
            "with a tick of ten seconds it is too soon"
        );
        assert_eq!(Arrivals::new(0).nap_ns(u64::MAX / 2, MS), None);
    }
}
