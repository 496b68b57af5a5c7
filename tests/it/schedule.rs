//! Promise: timers with slack fire within it, at few ticks; timers for a time of day follow the
//! wall clock when it is set.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};
use wheelwork::{Batch, Dispatch, ManualClock, ScheduleError, TimerId, TimerService};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Arms timers of 30 to 60 s in one minute, spread evenly, with this slack. Returns on how many
/// ticks they fired, and how many entries were cascaded.
fn ticks_and_cascades(slack: Duration) -> (usize, u64) {
    const TIMERS: u64 = 20_000;
    let clock = ManualClock::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (sink, time) = (log.clone(), clock.clone());
    let service = TimerService::builder()
        .clock(clock.clone())
        .on_expire(move |batch: &mut Batch<'_, Duration>| {
            sink.lock()
                .unwrap()
                .extend(batch.map(|earliest| (time.elapsed(), earliest)))
        })
        .start()
        .unwrap();
    for timer in 0..TIMERS {
        // Spread evenly, in a scattered order.
        clock.advance(Duration::from_nanos(60_000_000_000 / TIMERS));
        let delay = SECOND * 30 + MS * (timer * 7_919 % 30_000) as u32;
        service
            .schedule_within(delay..=delay + slack, clock.elapsed() + delay)
            .unwrap();
    }
    clock.advance(SECOND * 200);
    let fired = log.lock().unwrap();
    assert_eq!(fired.len() as u64, TIMERS);
    for &(at, earliest) in &*fired {
        assert!(
            at >= earliest && at <= earliest + slack.max(MS),
            "at {at:?}, not within {earliest:?} and {slack:?} more"
        );
    }
    let mut ticks: Vec<_> = fired.iter().map(|&(at, _)| at).collect();
    ticks.dedup();
    (
        ticks.len(),
        service
            .stats()
            .sum(|shard| shard.machinery.figure("cascaded").unwrap()),
    )
}

#[test]
fn slack_makes_for_fewer_ticks() {
    let (exact_ticks, exact_cascades) = ticks_and_cascades(Duration::ZERO);
    let (some_ticks, some_cascades) = ticks_and_cascades(MS * 100);
    let (few_ticks, few_cascades) = ticks_and_cascades(SECOND * 3);
    println!(
        "slack none, 100 ms, 3 s: ticks {exact_ticks}, {some_ticks}, {few_ticks}; cascaded {exact_cascades}, {some_cascades}, {few_cascades}"
    );
    assert!(some_ticks < exact_ticks / 10 && few_ticks < some_ticks / 10);
    // Each is moved down once or twice, slack or no slack.
    assert!(
        [exact_cascades, some_cascades, few_cascades]
            .iter()
            .all(|cascades| (20_000..40_000).contains(cascades))
    );
}

#[test]
fn odd_slack_is_a_delay() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .tick(Duration::from_millis(1))
        .clock(clock.clone())
        .start()
        .unwrap();
    let first_of = |delays| {
        let id = service.schedule_within(delays, || ()).unwrap();
        service.remaining(id).unwrap()
    };
    let reversed = first_of(MS * 9..=MS * 3);
    assert_eq!(reversed, MS * 9);
    assert_eq!(first_of(MS / 4..=MS / 2), MS, "no whole tick between them");
    assert_eq!(first_of(Duration::ZERO..=Duration::ZERO), MS);
    assert!(first_of(Duration::MAX..=Duration::MAX) > Duration::from_secs(1 << 33));
    assert!(
        first_of(MS..=Duration::MAX) > Duration::from_secs(1 << 32),
        "the coarsest of all"
    );
}

fn at_time(
    clock: &ManualClock,
    service: &TimerService,
    log: &Arc<Mutex<Vec<SystemTime>>>,
    at: SystemTime,
) -> wheelwork::TimerId {
    let (time, log) = (clock.clone(), log.clone());
    service
        .schedule_at_system_time(at, move || log.lock().unwrap().push(time.system_time()))
        .unwrap()
}

#[test]
fn a_time_of_day_is_followed_when_the_clock_is_set() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .start()
        .unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let noon = SystemTime::UNIX_EPOCH + SECOND * 43_200;
    clock.set_system_time(noon - SECOND * 3_600);
    at_time(&clock, &service, &log, noon);
    clock.advance(SECOND * 1_800);
    assert!(log.lock().unwrap().is_empty());
    // An hour back, for winter: it is not noon for another hour and a half.
    clock.set_system_time(noon - SECOND * 5_400);
    clock.advance(SECOND * 5_400 - MS);
    assert!(
        log.lock().unwrap().is_empty(),
        "too early by the clock on the wall"
    );
    clock.advance(MS);
    assert_eq!(*log.lock().unwrap(), [noon]);

    // Forward, over the time: noticed within a minute.
    let evening = noon + SECOND * 21_600;
    at_time(&clock, &service, &log, evening);
    clock.advance(SECOND * 600 + MS * 7);
    clock.set_system_time(evening + SECOND * 3);
    clock.advance(SECOND * 60);
    let at = log.lock().unwrap()[1];
    assert!(at >= evening && at <= evening + SECOND * 63, "{at:?}");

    // A time that has passed is now; one that nobody lives to see can be cancelled.
    at_time(&clock, &service, &log, SystemTime::UNIX_EPOCH);
    clock.advance(MS);
    assert_eq!(log.lock().unwrap().len(), 3);
    let far = at_time(&clock, &service, &log, noon + Duration::from_secs(1 << 40));
    clock.advance(SECOND * 1_000);
    assert!(service.is_pending(far) && service.take(far).is_none() && service.cancel(far));
    service.stop();
    assert_eq!(Arc::strong_count(&log), 1);
    assert!(matches!(
        service.schedule_at_system_time(noon, || ()),
        Err(ScheduleError::Stopped(()))
    ));
}

/// As other timers do, it has fired once its closure begins: no call ends it then.
#[test]
fn a_time_of_day_has_fired_when_its_closure_runs() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .dispatch(Dispatch::Inline)
        .start()
        .unwrap();
    let (handle, own) = (service.handle(), Arc::<OnceLock<TimerId>>::default());
    let (log, of_run) = (Arc::new(Mutex::new(Vec::new())), own.clone());
    let noted = log.clone();
    let in_run = move || {
        let id = *of_run.get().unwrap();
        let found = [handle.is_pending(id), handle.pause(id), handle.cancel(id)];
        noted.lock().unwrap().push(found);
    };
    let id = service.schedule_at_system_time(SystemTime::UNIX_EPOCH, in_run);
    let id = id.unwrap();
    own.set(id).unwrap();
    clock.advance(MS);
    assert_eq!(*log.lock().unwrap(), [[false; 3]]);
    let timers = service.stats().timers;
    assert_eq!((timers.runs, timers.ended, timers.cancelled), (1, 1, 0));
}

#[test]
fn a_time_of_day_on_the_real_clock() {
    let service = TimerService::builder().start().unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let at = SystemTime::now() + MS * 20;
    service
        .schedule_at_system_time(at, move || send.send(SystemTime::now()).unwrap())
        .unwrap();
    let fired = receive.recv_timeout(SECOND * 60).expect("it fires");
    assert!(fired >= at, "early by {:?}", at.duration_since(fired));
}

#[test]
fn what_is_for_a_time_of_day_can_be_moved() {
    let clock = ManualClock::new();
    let service = TimerService::builder()
        .clock(clock.clone())
        .start()
        .unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let [sooner, later] = [3_600, 1].map(|seconds| {
        at_time(
            &clock,
            &service,
            &log,
            clock.system_time() + SECOND * seconds,
        )
    });
    let start = clock.system_time();
    assert!(service.reschedule(sooner, MS * 5) && service.reschedule(later, SECOND * 7));
    clock.advance(SECOND * 6);
    assert_eq!(*log.lock().unwrap(), [start + MS * 5]);
    clock.advance(SECOND * 4_000);
    assert_eq!(*log.lock().unwrap(), [start + MS * 5, start + SECOND * 7]);
}
