//! An inbox and its lanes, used by one thread.

use super::super::segment::RECENT;
use super::super::tests::segments;
use super::*;

/// Takes the messages of a drain.
struct Taken<F>(F);

impl<F: FnMut(i32, Arrival)> Taker<i32> for Taken<F> {
    fn take(&mut self, message: i32, arrival: Arrival) {
        (self.0)(message, arrival);
    }

    fn present(&self) -> Present {
        Present {
            now: 0,
            pace: 1,
            patience: 1,
            dead: 0,
        }
    }
}

/// Gives back what threads have left, to the end.
fn give_back_all<M: Copy>(drain: &mut Drain<M>) {
    drain.begin_look();
    while drain.give_back() {}
}

/// Drains all that is there.
fn drain_all(drain: &mut Drain<i32>, f: impl FnMut(i32, Arrival)) -> Drained {
    let mut taken = Taken(f);
    let mut sum = drain.drain(&mut taken);
    while drain.has_more() {
        sum.add(drain.drain(&mut taken));
    }
    sum
}

#[test]
fn a_lane_goes_from_thread_to_thread() {
    let (inbox, mut drain) = Inbox::new();
    let mut first = inbox.attach();
    let mut second = inbox.attach();
    (0..300).for_each(|message| _ = first.push(message));
    second.push(1_000);
    assert_eq!(
        (inbox.depth(), inbox.lane_count(), drain.has_messages()),
        (301, 2, true)
    );
    drop(first);
    let mut third = inbox.attach();
    third.push(300);
    assert_eq!((inbox.depth(), inbox.lane_count()), (302, 2));
    let mut came = Vec::new();
    assert_eq!(
        drain_all(&mut drain, |message, _| came.push(message)).messages,
        302
    );
    came.sort_unstable();
    assert!(came.into_iter().eq((0..=300).chain([1_000])));
    assert_eq!((inbox.depth(), drain.has_messages()), (0, false));
}

#[test]
fn what_lanes_keep_is_given_back_when_asked_for() {
    let (inbox, mut drain) = Inbox::new();
    let mut lanes = [inbox.attach(), inbox.attach()];
    for lane in &mut lanes {
        (0..10_000).for_each(|message| _ = lane.push(message));
    }
    let segments = |inbox: &Inbox<i32>| {
        let of_lanes = |lanes: Lanes<'_, i32>| lanes.map(|lane| segments(&lane.express)).collect();
        inbox.lanes.walk::<Vec<_>>(of_lanes)
    };
    assert_eq!(drain_all(&mut drain, |_, _| {}).messages, 20_000);
    assert!(segments(&inbox).iter().all(|&segments| segments > 30));
    drain.trim();
    assert_eq!(segments(&inbox), [RECENT; 2], "for the next messages");
}

#[test]
fn messages_are_recalled_after_the_drain_that_follows() {
    let (inbox, mut drain) = Inbox::new();
    let mut lanes = [inbox.attach(), inbox.attach()];
    let mut round = |may_recall: bool| {
        drain.let_recall(may_recall);
        let recalled = lanes.each_mut().map(|lane| {
            let position = lane.push(1).position;
            lane.recall(position, 1)
        });
        assert!(recalled[0] == recalled[1]);
        let drained = drain_all(&mut drain, |message, arrival| {
            assert!((message, arrival) == (1, Arrival::Came) && !recalled[0]);
        });
        assert_eq!(
            (drained.messages, drained.recalled),
            (2, if recalled[0] { 2 } else { 0 })
        );
        assert_eq!(drain_all(&mut drain, |_, _| {}), Drained::default());
        recalled[0]
    };
    assert_eq!(
        [true, true, false, false, true, true].map(&mut round),
        [false, true, true, false, false, true]
    );
}

/// A shard, as far as its lanes see it: a present, cancels that it has heard of, and what has come.
struct Shard {
    drain: Drain<u64>,
    now: u64,
    dead: Vec<u64>,
    came: Vec<(u64, Arrival)>,
}

impl Shard {
    fn new() -> (Self, Sender<u64>) {
        let (inbox, drain) = Inbox::new();
        let shard = Self {
            drain,
            now: 1_000,
            dead: Vec::new(),
            came: Vec::new(),
        };
        (shard, inbox.attach())
    }

    fn present(&self) -> Present {
        Present {
            now: self.now,
            pace: 1_000,
            patience: 10,
            dead: 0,
        }
    }

    /// A shard and a lane of which messages wait, from the key 1,004 on.
    fn open() -> (Self, Sender<u64>) {
        let (mut shard, mut lane) = Self::new();
        (0..LEN as u64).for_each(|_| _ = lane.push(0));
        shard.drain_once();
        shard.drain.defer(shard.present());
        shard.came.clear();
        (shard, lane)
    }

    fn drain_once(&mut self) -> Drained {
        let mut drain = std::mem::replace(&mut self.drain, Inbox::new().1);
        let drained = drain.drain(self);
        self.drain = drain;
        drained
    }

    /// Drains, and returns the messages that have come.
    fn drained(&mut self) -> Vec<u64> {
        self.drain_once();
        while self.drain.has_more() {
            self.drain_once();
        }
        let came = std::mem::take(&mut self.came);
        came.into_iter().map(|(message, _)| message).collect()
    }
}

impl Taker<u64> for Shard {
    fn take(&mut self, message: u64, arrival: Arrival) {
        self.came.push((message, arrival));
    }

    fn lateness(&self, word: u64) -> u64 {
        self.now.saturating_sub(word)
    }

    fn is_dead(&mut self, message: u64) -> bool {
        self.dead.contains(&message)
    }

    fn present(&self) -> Present {
        Self::present(self)
    }
}

const FAR: u64 = 1_000_000;

const NOTHING: [u64; 0] = [];

#[test]
fn far_messages_wait_and_near_ones_do_not() {
    let (mut shard, mut lane) = Shard::open();
    lane.push_by_key(1, FAR);
    lane.push_by_key(2, 1_003);
    lane.push_by_key(3, FAR);
    lane.push(4);
    assert_eq!(shard.drained(), [2, 4]);
    assert!(!shard.drain.has_messages(), "it has seen the others");
    assert_eq!(shard.drain.inbox.depth(), 2);
    assert_eq!(shard.drained(), NOTHING);
    // Traffic goes on, but not in this lane.
    shard.now += 9;
    assert_eq!(shard.drained(), NOTHING);
    shard.now += 1;
    assert_eq!(shard.drained(), [1, 3]);
    assert_eq!(
        (shard.drain.waiting.open, shard.drain.inbox.depth()),
        (0, 0)
    );
    lane.push_by_key(5, FAR);
    assert_eq!(shard.drained(), [5], "none waits");
}

/// What is due brings all before it, and leaves what comes after its segment.
#[test]
fn messages_are_taken_before_they_are_due() {
    let (mut shard, mut lane) = Shard::open();
    let segment = LEN as u64;
    (0..segment).for_each(|message| _ = lane.push_by_key(message, FAR));
    assert_eq!(shard.drained(), NOTHING);
    (segment..2 * segment).for_each(|message| _ = lane.push_by_key(message, FAR));
    lane.push_by_key(2 * segment, 1_500);
    assert_eq!(shard.drained(), NOTHING);
    (0..2 * segment).for_each(|message| _ = lane.push_by_key(1_000 + message, FAR - 5));
    // It takes a part of the time until one more tick to take all these.
    assert_eq!(shard.drain.wants_at(), Some(1_499));
    while shard.drain.wants_at().is_some_and(|at| at > shard.now + 9) {
        shard.now += 7;
        lane.push_by_key(7, FAR);
        assert_eq!(shard.drained(), NOTHING, "at {}", shard.now);
    }
    let wants_at = shard.drain.wants_at().expect("one message will be due");
    assert!((1_495..1_499).contains(&wants_at), "{wants_at}");
    shard.now = wants_at;
    let came = shard.drained();
    assert!(came.len() as u64 > 2 * segment && came[2 * segment as usize] == 2 * segment);
    assert!(came.len() as u64 <= 3 * segment, "one segment more at most");
    assert!(shard.drain.wants_at().is_some_and(|at| at > FAR - 100));
}

#[test]
fn what_is_recalled_while_it_waits_is_passed_over() {
    let (mut shard, mut lane) = Shard::open();
    let segment = LEN as u64;
    let positions: Vec<_> = (0..10 * segment)
        .map(|message| lane.push_by_key(message, FAR).position)
        .collect();
    assert_eq!(shard.drained(), NOTHING);
    // All but one of the first half, from the newest to the oldest.
    let kept = 2 * segment + 77;
    for message in (0..5 * segment).rev().filter(|&message| message != kept) {
        assert!(
            lane.recall(positions[message as usize], message),
            "{message}"
        );
    }
    assert!(
        !lane.recall(positions[3] & (DEFERRED - 1), 3),
        "another track"
    );
    let drained = shard.drain_once();
    assert_eq!((drained.messages, drained.recalled), (kept, kept));
    assert_eq!(shard.drain.inbox.depth(), 10 * segment - kept);
    assert!(lane.recall(positions[kept as usize], kept));
    let drained = shard.drain_once();
    assert_eq!(drained.recalled, 5 * segment - kept);
    assert_eq!(drained.came, 0);
    // The segments that were given back are used again.
    let chain = |shard: &Shard| {
        let of_lanes = |lanes: Lanes<'_, u64>| lanes.map(|lane| segments(&lane.deferred)).sum();
        shard.drain.inbox.lanes.walk::<usize>(of_lanes)
    };
    let before = chain(&shard);
    (0..4 * segment).for_each(|message| _ = lane.push_by_key(message, FAR));
    assert_eq!(chain(&shard), before);
}

/// Another thread cancels: the shard hears of it by a tombstone.
#[test]
fn what_the_shard_knows_to_be_dead_is_passed_over() {
    let (mut shard, mut lane) = Shard::open();
    (0..500).for_each(|message| _ = lane.push_by_key(message, FAR));
    shard.dead.extend((0..100).chain(101..300));
    let drained = shard.drain_once();
    assert_eq!(
        (drained.messages, drained.recalled, drained.came),
        (100, 100, 500)
    );
    shard.dead.push(100);
    assert_eq!(shard.drain_once().recalled, 200);
    shard.dead.push(400);
    shard.now += 10;
    assert!(shard.drained().into_iter().eq((300..400).chain(401..500)));
}

/// A message in doubt is late by what the shard said when it saw it, however long it waits.
#[test]
fn a_doubt_is_settled_when_the_message_is_seen() {
    let (mut shard, mut lane) = Shard::open();
    for (message, word) in [(1, 990), (2, 1_000), (3, 997), (4, 1_001)] {
        lane.settle_doubts(false);
        lane.push_in_doubt(message, FAR, word);
        // In a group of its own.
        (0..63).for_each(|_| _ = lane.push_by_key(9, FAR));
    }
    lane.settle_doubts(false);
    lane.push_in_doubt(5, FAR, 900);
    assert!(
        lane.settle_doubts(true),
        "vouched for before the shard sees it"
    );
    shard.drain_once();
    assert!(!lane.settle_doubts(false), "it has seen all");
    shard.now += 10;
    shard.drain_once();
    shard.came.retain(|&(message, _)| message != 9);
    let late = |by| {
        if by == 0 {
            Arrival::Came
        } else {
            Arrival::Late(by)
        }
    };
    assert_eq!(
        shard.came,
        [
            (1, late(10)),
            (2, late(0)),
            (3, late(3)),
            (4, late(0)),
            (5, late(0))
        ]
    );
}

/// What the shard notes of late messages goes with them, though they die.
#[test]
fn nothing_is_left_of_doubts_that_died() {
    let (mut shard, mut lane) = Shard::open();
    for _ in 0..1_000 {
        lane.settle_doubts(false);
        let position = lane.push_in_doubt(1, FAR, 900).position;
        shard.drain_once();
        assert!(lane.recall(position, 1));
        shard.drain_once();
    }
    shard.drain.inbox.lanes.walk(|lanes| {
        for lane in lanes {
            // SAFETY: there is one thread.
            let noted = unsafe { lane.with_book(|book| book.outlook.noted()) };
            assert_eq!(noted, 0);
        }
    });
}

/// If most messages live until there are too many, the lane stops to wait, for longer each time.
#[test]
fn a_wait_in_vain_ends() {
    const MESSAGES: u64 = 40_000;
    let (mut shard, mut lane) = Shard::open();
    let (mut opened, mut most) = (vec![0], 0);
    for round in 1..800 {
        (0..MESSAGES).for_each(|_| _ = lane.push_by_key(1, FAR));
        shard.drained();
        shard.now += 1;
        most = most.max(shard.drain.inbox.depth());
        let before = shard.drain.waiting.open;
        shard.drain.defer(shard.present());
        if shard.drain.waiting.open > before {
            opened.push(round);
        }
    }
    let gaps: Vec<_> = opened.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        gaps.len() == 2 && gaps[0] > 160 && gaps[1] > 320,
        "opened at {opened:?}"
    );
    let bound = 1 << 21;
    assert!(
        (bound..bound + 2 * MESSAGES).contains(&most),
        "{most} waited"
    );
}

/// A lane whose messages die in order stays open, and takes none.
#[test]
fn a_wait_that_pays_goes_on() {
    let (mut shard, mut lane) = Shard::open();
    let mut positions = std::collections::VecDeque::new();
    for _ in 0..500 {
        for message in 0..1_000 {
            positions.push_back((
                message,
                lane.push_by_key(message, shard.now + 30_000).position,
            ));
            if positions.len() > 5_000
                && let Some((message, position)) = positions.pop_front()
            {
                assert!(lane.recall(position, message));
            }
        }
        assert_eq!(shard.drained(), NOTHING);
        shard.now += 1;
    }
    assert_eq!(
        (shard.drain.waiting.open, shard.drain.inbox.depth()),
        (1, 5_000)
    );
    let of_lanes = |lanes: Lanes<'_, u64>| lanes.map(|lane| segments(&lane.deferred)).sum();
    let segments: usize = shard.drain.inbox.lanes.walk(of_lanes);
    assert!(segments <= 30, "{segments} segments for 5,000 messages");
}

/// Nor does it where cancels come in random order, over many messages.
#[test]
fn a_wait_for_scattered_cancels_ends() {
    for (scattered, open) in [(true, 0), (false, 1)] {
        let (mut shard, mut lane) = Shard::open();
        let positions: Vec<_> = (0..200_000)
            .map(|message| lane.push_by_key(message, FAR).position)
            .collect();
        assert_eq!(shard.drained(), NOTHING);
        for recalled in 0..20_000 {
            let message = if scattered {
                7 * recalled + 3
            } else {
                recalled
            };
            assert!(lane.recall(positions[message as usize], message));
        }
        let taken = shard.drained();
        assert_eq!(shard.drain.waiting.open, open);
        assert_eq!(taken.len(), if scattered { 180_000 } else { 0 });
        shard.drain.defer(shard.present());
        assert_eq!(shard.drain.waiting.open, open, "it rests");
    }
}

#[test]
fn a_drain_is_bounded_and_shared() {
    let (inbox, mut drain) = Inbox::new();
    let mut lanes = [inbox.attach(), inbox.attach()];
    (0..200_000).for_each(|message| _ = lanes[0].push(message));
    lanes[1].push(-1);
    let mut came = Vec::new();
    let drained = drain.drain(&mut Taken(|message, _| came.push(message)));
    assert_eq!(drained.messages, DRAINED_MAX / 2 + 1);
    assert!(drain.has_more() && drain.has_messages() && came.contains(&-1));
    // Segments are given back meanwhile.
    let chain = || {
        let of_lanes = |lanes: Lanes<'_, i32>| lanes.map(|lane| segments(&lane.express)).sum();
        inbox.lanes.walk::<usize>(of_lanes)
    };
    let before = chain();
    (0..10_000).for_each(|message| _ = lanes[0].push(message));
    assert_eq!(chain(), before);
    drain_all(&mut drain, |message, _| came.push(message));
    assert_eq!(came.len(), 210_001);
}

#[test]
fn tracks_keep_what_was_sent_lately_while_others_are_busy() {
    let (inbox, mut drain) = Inbox::new();
    let mut lanes = [inbox.attach(), inbox.attach()];
    (0..10_000).for_each(|message| _ = lanes[0].push(message));
    drain_all(&mut drain, |_, _| ());
    let chains = || {
        let of_lanes = |lanes: Lanes<'_, i32>| lanes.map(|lane| segments(&lane.express)).collect();
        inbox.lanes.walk::<Vec<_>>(of_lanes)
    };
    assert!(chains()[1] > 30);
    for _ in 0..3 {
        (0..20_000).for_each(|message| _ = lanes[1].push(message));
        lanes[0].push(1);
        drain_all(&mut drain, |_, _| ());
        drain.trim_unused();
    }
    assert!(
        chains()[1] <= RECENT + 1 && chains()[0] > 30,
        "{:?}",
        chains()
    );
    // What was kept goes with the next trim, though nothing is sent.
    assert!(drain.keeps_segments() && chains()[0] > 30);
    drain.trim_unused();
    assert!(!drain.keeps_segments() && chains()[0] <= RECENT + 1);
}

/// A thread that goes on at a low rate keeps nothing of its spike, though its messages wait.
#[test]
fn an_open_track_keeps_what_was_sent_lately() {
    let (mut shard, mut lane) = Shard::open();
    let positions: Vec<_> = (0..100_000)
        .map(|message| lane.push_by_key(message, FAR).position)
        .collect();
    assert_eq!(shard.drained(), NOTHING);
    shard.drain.trim_unused();
    for (message, &position) in (0..).zip(&positions) {
        assert!(lane.recall(position, message));
    }
    let mut chain = |message| {
        lane.push_by_key(message, FAR);
        assert_eq!(shard.drained(), NOTHING);
        shard.drain.trim_unused();
        assert_eq!(shard.drain.waiting.open, 1);
        let of_lanes = |lanes: Lanes<'_, u64>| lanes.map(|lane| segments(&lane.deferred)).sum();
        shard.drain.inbox.lanes.walk::<usize>(of_lanes)
    };
    assert!(chain(100_000) <= RECENT + 2);
    assert!(chain(100_001) <= RECENT + 2);
}

#[test]
fn a_backlog_beyond_the_allowance_is_told() {
    let (inbox, mut drain) = Inbox::new();
    let mut lane = inbox.attach();
    let mut backlog = |messages: u64| {
        let sent = (0..messages).map(|_| lane.push(1).backlog);
        sent.max().unwrap_or_default()
    };
    assert_eq!(backlog(LEN as u64 - 1), Backlog::NONE);
    assert!(backlog(1).is_above(100) && backlog(255) == Backlog::NONE);
    assert!(!backlog(1).is_above(1_000));
    drain_all(&mut drain, |_, _| ());
    let overload = backlog(3 * allowance::MAX);
    assert!(overload.is_above(u64::from(u32::MAX)) && overload.overload() == 3);
    drain_all(&mut drain, |_, _| ());
    assert!(!backlog(LEN as u64).is_above(1_000));
}

/// Many threads may come at one time, before the shard has counted them.
#[test]
fn a_new_lane_has_the_least_allowance_until_it_is_counted() {
    let (inbox, mut drain) = Inbox::new();
    let mut lane = inbox.attach();
    let mut overload = || {
        let sent = (0..2 * allowance::MIN).map(|_| lane.push(1).backlog);
        sent.max().map(Backlog::overload)
    };
    assert_eq!(overload(), Some(2));
    drain_all(&mut drain, |_, _| ());
    assert_eq!(overload(), Some(0));
}

/// Threads that share a core run one after the other, and the shard drains in between. The
/// allowance is shared by those that ran lately.
#[test]
fn the_allowance_is_shared_by_lanes_that_were_active_lately() {
    let (inbox, mut drain) = Inbox::new();
    let mut lanes: Vec<_> = (0..8).map(|_| inbox.attach()).collect();
    for round in 0..4 {
        for lane in &mut lanes {
            (0..1_000).for_each(|message| _ = lane.push(message));
            drain_all(&mut drain, |_, _| ());
            let of_lanes = |lanes: Lanes<'_, i32>| {
                // Ordering: Relaxed. This thread wrote it, as the shard.
                let advice = |lane: &Lane<i32>| lane.advice.allowance.load(Ordering::Relaxed);
                lanes.map(advice).collect::<Vec<_>>()
            };
            let told = inbox.lanes.walk(of_lanes);
            assert!(
                round == 0 || told == [2 * allowance::MAX / 8; 8],
                "{told:?}"
            );
        }
    }
    for _ in 0..100 {
        (0..1_000).for_each(|message| _ = lanes[0].push(message));
        drain_all(&mut drain, |_, _| ());
    }
    let sent =
        (0..(2 * allowance::MAX) as i32 + LEN as i32).map(|message| lanes[0].push(message).backlog);
    assert_eq!(sent.max().map(Backlog::overload), Some(2));
    // Of a shard that is slow each has less.
    lanes[1..].iter_mut().for_each(|lane| {
        (0..1_000).for_each(|message| _ = lane.push(message));
    });
    drain.note_time(10_000, 10_000_000);
    drain_all(&mut drain, |_, _| ());
    let sent =
        (0..4 * allowance::MIN as i32 + LEN as i32).map(|message| lanes[0].push(message).backlog);
    assert_eq!(sent.max().map(Backlog::overload), Some(4));
}

/// A few messages that live hold up the dead ones behind them. So the oldest are taken, and the
/// lane has about as much memory as it needs.
#[test]
fn messages_that_live_hold_up_few_dead_ones() {
    let (mut shard, mut lane) = Shard::open();
    for _ in 0..400 {
        for message in 0..1_000 {
            let position = lane.push_by_key(message, FAR).position;
            assert!(message == 7 || lane.recall(position, message));
        }
        shard.drained();
        shard.now += 1;
        let of_lanes = |lanes: Lanes<'_, u64>| lanes.map(|lane| segments(&lane.deferred)).sum();
        let inbox = &shard.drain.inbox;
        let (depth, segments) = (inbox.depth(), inbox.lanes.walk::<usize>(of_lanes));
        assert!(
            depth < 7_000 && segments < 60,
            "{depth} wait in {segments} segments"
        );
    }
    assert_eq!(shard.drain.waiting.open, 1);
}

#[test]
fn lanes_that_many_threads_have_left_are_freed() {
    let (inbox, mut drain) = Inbox::<i32>::new();
    let mut stays = inbox.attach();
    let mut senders: Vec<_> = (0..2_000).map(|_| inbox.attach()).collect();
    for (message, sender) in (0..).zip(&mut senders) {
        sender.push(message);
    }
    // Two lanes stay before and behind others.
    let mut others = [senders.swap_remove(1_000), senders.pop().unwrap()];
    assert_eq!(drain_all(&mut drain, |_, _| ()).messages, 2_000);
    senders[7].push(-1);
    drop(senders);
    assert!(inbox.wants_ring() && !inbox.wants_ring(), "once");
    assert!(drain.wants_look());
    give_back_all(&mut drain);
    assert_eq!(inbox.lane_count(), 3 + SPARE_LANES + 1);
    let mut came = Vec::new();
    assert_eq!(inbox.depth(), 1, "its lane has a message, and stays");
    assert!(drain.wants_look() && !inbox.wants_ring(), "later");
    drain_all(&mut drain, |message, _| came.push(message));
    assert_eq!(came, [-1]);
    give_back_all(&mut drain);
    assert_eq!(inbox.lane_count(), 3 + SPARE_LANES);
    assert!(!drain.wants_look() && !inbox.wants_ring());
    // Spare lanes are used again, and those that stay are as before.
    let mut new: Vec<_> = (0..SPARE_LANES).map(|_| inbox.attach()).collect();
    assert_eq!(inbox.lane_count(), 3 + SPARE_LANES);
    let senders = new.iter_mut().chain(&mut others).chain([&mut stays]);
    (0..)
        .zip(senders)
        .for_each(|(message, sender)| _ = sender.push(message));
    came.clear();
    drain_all(&mut drain, |message, _| came.push(message));
    came.sort_unstable();
    assert!(came.into_iter().eq(0..SPARE_LANES as i32 + 3));
}

/// One who walks the list, for statistics, is in a lane that leaves it.
#[test]
fn lanes_outlive_those_who_walk_them() {
    let (inbox, mut drain) = Inbox::<i32>::new();
    drop(
        (0..2 * SPARE_LANES)
            .map(|_| inbox.attach())
            .collect::<Vec<_>>(),
    );
    inbox.lanes.walk(|mut lanes| {
        lanes.next();
        give_back_all(&mut drain);
        assert!(drain.wants_look() && !drain.give_back(), "not at once");
        assert_eq!(inbox.lane_count(), SPARE_LANES);
        assert!(lanes.count() >= SPARE_LANES - 1);
    });
    give_back_all(&mut drain);
    assert!(!drain.wants_look());
}

/// A lane whose messages wait stays until they are taken.
#[test]
fn a_lane_of_which_messages_wait_is_not_freed() {
    let (mut shard, mut lane) = Shard::open();
    let inbox = shard.drain.inbox.clone();
    let others: Vec<_> = (0..SPARE_LANES).map(|_| inbox.attach()).collect();
    lane.push_by_key(1, FAR);
    shard.drain_once();
    assert_eq!(inbox.depth(), 1, "it waits");
    drop(lane);
    drop(others);
    give_back_all(&mut shard.drain);
    assert!(shard.drain.wants_look(), "later");
    assert_eq!(inbox.lane_count(), SPARE_LANES + 1);
    shard.now += 10;
    shard.drained();
    assert_eq!(inbox.depth(), 0);
    give_back_all(&mut shard.drain);
    assert_eq!(inbox.lane_count(), SPARE_LANES);
}
