//! Sample: what two looks at a service's stats say of the time between them.

use super::snapshot::{EVENTS, Sample};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;
use wheelwork::{LatenessHistogram, Stats};

/// The number of frames that a rate is taken over.
const SMOOTHED: usize = 8;

/// Frames whose lateness is kept: more than a terminal is wide.
const FRAMES_KEPT: usize = 512;

/// Takes samples, one after the other.
#[derive(Default)]
pub(super) struct Sampler {
    /// The last totals of the service at work, and when that was.
    totals: VecDeque<(Duration, [u64; EVENTS.len()])>,
    lateness: Option<LatenessHistogram>,
    sample: Sample,
}

impl Sampler {
    /// Another service is at work now, or none.
    pub(super) fn forget_last(&mut self) {
        self.totals.clear();
        self.lateness = None;
    }

    pub(super) fn last(&self) -> &Sample {
        &self.sample
    }

    /// Takes in the stats of the service at work, as of `now`.
    pub(super) fn sample(&mut self, now: Duration, stats: Option<Stats>) {
        let sample = &mut self.sample;
        if sample.lateness.len() == FRAMES_KEPT {
            sample.lateness.remove(0);
        }
        let Some(stats) = stats else {
            sample.lateness.push(None);
            (sample.rates, sample.shards) = (Default::default(), Vec::new());
            return;
        };
        let all = &stats.lateness;
        let before = self.lateness.replace(all.clone());
        let p99 = before.and_then(|before| quantile_between(before.buckets(), all.buckets(), 0.99));
        sample.lateness.push(p99.map(|p99| p99.min(all.max())));
        sample.lateness_of_all =
            (all.count() > 0).then(|| [all.quantile(0.5), all.quantile(0.99), all.max()]);
        sample.totals = EVENTS.map(|(_, counter)| stats.sum(counter));
        let (then, totals) = *self.totals.front().unwrap_or(&(now, sample.totals));
        sample.rates = rates(&totals, &sample.totals, now.saturating_sub(then));
        if self.totals.len() == SMOOTHED {
            self.totals.pop_front();
        }
        self.totals.push_back((now, sample.totals));
        let counts = stats.shards.iter().flat_map(|shard| {
            shard
                .machinery
                .levels
                .into_iter()
                .chain([shard.machinery.due])
        });
        sample.peak = counts.max().unwrap_or(0).max(sample.peak);
        sample.shards = stats.shards;
    }
}

/// What happened, a second.
fn rates(
    before: &[u64; EVENTS.len()],
    now: &[u64; EVENTS.len()],
    over: Duration,
) -> [f64; EVENTS.len()] {
    let seconds = over.as_secs_f64().max(1e-6);
    std::array::from_fn(|event| now[event].saturating_sub(before[event]) as f64 / seconds)
}

/// A quantile of what was added to a histogram between two looks: the end of its bucket, or its
/// beginning if it has none. `None`: nothing was added.
fn quantile_between(
    before: impl Iterator<Item = (Range<Duration>, u64)>,
    now: impl Iterator<Item = (Range<Duration>, u64)>,
    part: f64,
) -> Option<Duration> {
    let mut before = before.peekable();
    let mut added = Vec::new();
    for (range, count) in now {
        // Those with nothing in them are left out, and none loses what was in it.
        let old = before
            .next_if(|(old, _)| old.start == range.start)
            .map_or(0, |(_, old)| old);
        added.push((range, count.saturating_sub(old)));
    }
    let rank = (added.iter().map(|(_, count)| count).sum::<u64>() as f64 * part).ceil() as u64;
    let mut below = 0;
    let (range, _) = added.into_iter().find(|(_, count)| {
        below += count;
        *count > 0 && below >= rank
    })?;
    Some(if range.end == Duration::MAX {
        range.start
    } else {
        range.end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn bucket(ms: u32, count: u64) -> (Range<Duration>, u64) {
        (MS * ms..MS * (ms + 1), count)
    }

    #[test]
    fn lateness_is_that_of_what_fired_between() {
        let between = |before: &[_], now: &[_], part| {
            quantile_between(before.iter().cloned(), now.iter().cloned(), part)
        };
        let before = [bucket(1, 1_000), bucket(5, 10), bucket(9, 3)];
        assert_eq!(between(&before, &before, 0.99), None);
        assert_eq!(between(&[], &[], 0.99), None);
        // 98 in a bucket that was empty, one each in an old one and behind all.
        let (old, new) = (
            [bucket(1, 1_000), bucket(3, 98)],
            [bucket(5, 11), bucket(9, 3)],
        );
        let now = [&old[..], &new, &[bucket(20, 1)]].concat();
        for (part, ms) in [(0.0, 4), (0.5, 4), (0.98, 4), (0.99, 6), (1.0, 21)] {
            assert_eq!(between(&before, &now, part), Some(MS * ms), "{part}");
        }
        let endless = [(MS * 7..Duration::MAX, 1)];
        assert_eq!(between(&[], &endless, 0.99), Some(MS * 7));
    }

    fn stats(armed: u64, level: u64) -> Stats {
        let mut shard = wheelwork::ShardStats::default();
        shard.timers.armed = armed;
        shard.machinery.levels[1] = level;
        let mut stats = Stats::default();
        stats.shards = vec![shard; 2];
        stats
    }

    #[test]
    fn rates_are_of_a_second_and_smoothed_over_some_frames() {
        let mut sampler = Sampler::default();
        // 1,000 armed a frame in each of two shards, then none.
        for frame in 0..40 {
            let armed = u64::from(frame.min(20)) * 1_000;
            sampler.sample(MS * 50 * frame, Some(stats(armed, 1)));
            let rate = sampler.last().rates[0];
            let expected = match frame {
                0 => 0.0,
                1..=20 => 40_000.0,
                _ => (40_000.0 - 5_000.0 * f64::from(frame - 20)).max(0.0),
            };
            assert!((rate - expected).abs() < 1e-6, "{rate} in frame {frame}");
        }
        // A service that began anew, and two looks at one time.
        let none = [0.0; EVENTS.len()];
        let [fewer, more] = [[0; EVENTS.len()], [7; EVENTS.len()]];
        assert_eq!(rates(&more, &fewer, MS), none);
        assert_eq!(rates(&more, &more, Duration::ZERO), none);
    }

    #[test]
    fn another_service_begins_at_nothing() {
        let mut sampler = Sampler::default();
        sampler.sample(Duration::ZERO, Some(stats(1_000, 500)));
        sampler.sample(MS * 50, Some(stats(2_000, 900)));
        let Sample { rates, totals, .. } = sampler.last();
        assert_eq!((rates[0], totals[0]), (40_000.0, 4_000));
        sampler.forget_last();
        sampler.sample(MS * 100, None);
        let Sample { rates, shards, .. } = sampler.last();
        assert_eq!((rates, shards.len()), (&[0.0; EVENTS.len()], 0));
        sampler.sample(MS * 150, Some(stats(5, 3)));
        let Sample {
            rates,
            totals,
            peak,
            ..
        } = sampler.last();
        assert_eq!((rates[0], totals[0], *peak), (0.0, 10, 900));
        assert_eq!(sampler.last().lateness, [None; 4]);
    }

    /// With a service, on a clock that is never late.
    #[test]
    fn the_lateness_of_each_frame_is_told_and_so_many_frames_are_kept() {
        let clock = wheelwork::ManualClock::new();
        let builder = wheelwork::TimerService::builder().clock(clock.clone());
        let service = builder.start().expect("it starts");
        let mut sampler = Sampler::default();
        for frame in 0..4 {
            if frame % 2 == 1 {
                service.schedule(MS, || ()).expect("it runs");
                clock.advance(MS);
            }
            sampler.sample(MS * 50 * frame, Some(service.stats()));
        }
        let (none, zero) = (None, Some(Duration::ZERO));
        assert_eq!(sampler.last().lateness, [none, zero, none, zero]);
        assert_eq!(sampler.last().lateness_of_all, Some([Duration::ZERO; 3]));
        (0..FRAMES_KEPT as u32).for_each(|frame| sampler.sample(MS * frame, None));
        assert_eq!(sampler.last().lateness, [None; FRAMES_KEPT]);
    }
}
