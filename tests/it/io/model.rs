//! Random traffic against a model: the first limit that is over, to the millisecond.

use super::{MS, over, scripted};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use wheelwork::future::sleep;
use wheelwork::io::{ElapsedLimit, Limits};
use wheelwork::testing::{block_on, spawn};

/// What the other side does: after a pause it sends a byte, or takes one.
struct Act {
    pause: u32,
    sends: bool,
}

/// When the reader and the writer fail, and by which limit. The reader waits all the time, and so
/// does the writer.
fn model(acts: &[Act], [read, write, idle, age]: [u32; 4]) -> [(ElapsedLimit, u32); 2] {
    let (mut now, mut read_at, mut wrote_at) = (0, 0, 0);
    let mut found = [None; 2];
    let first =
        |limits: [(u32, ElapsedLimit); 3]| *limits.iter().min_by_key(|limit| limit.0).unwrap();
    let ends = acts.iter().map(Some).chain([None]);
    for act in ends {
        // Until this act nothing happens.
        now = act.map_or(u32::MAX, |act| now + act.pause);
        let moved = read_at.max(wrote_at);
        let common = [(moved + idle, ElapsedLimit::Idle), (age, ElapsedLimit::Age)];
        let of = |since, which| first([(since, which), common[0], common[1]]);
        let ways = [
            of(read_at + read, ElapsedLimit::Read),
            of(wrote_at + write, ElapsedLimit::Write),
        ];
        for (found, (at, which)) in found.iter_mut().zip(ways) {
            if found.is_none() && at <= now {
                *found = Some((which, at));
            }
        }
        match act {
            Some(act) if act.sends && found[0].is_none() => read_at = now,
            Some(act) if !act.sends && found[1].is_none() => wrote_at = now,
            _ => {}
        }
    }
    found.map(Option::unwrap)
}

#[test]
fn the_first_limit_that_is_over_is_told() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        // No two times are equal: those of acts are odd, and limits are even and far apart.
        let acts: Vec<_> = (0..random.u32(1..60))
            .map(|_| Act {
                pause: 2 * random.u32(1..500) * u32::from(random.u8(..) > 3)
                    + 2_000 * u32::from(random.u8(..) < 3)
                    + 2,
                sends: random.bool(),
            })
            .collect();
        let mut limit = |least, most| 2 * random.u32(least..most) + 1;
        let limits = [
            limit(300, 1_500),
            limit(300, 1_500),
            limit(300, 900),
            limit(2_000, 9_000),
        ];
        let expected = model(&acts, limits);
        let [read, write, idle, age] = limits.map(|limit| limit * MS);
        let limits = Limits::new()
            .read(read)
            .write(write)
            .idle(idle)
            .max_age(age);
        let found = block_on(async move {
            let (stream, peer) = scripted(limits);
            let (mut reader, mut writer) = split(stream);
            let reads = spawn(async move {
                loop {
                    let read = reader.read_u8().await;
                    if read.is_err() {
                        return over(read);
                    }
                }
            });
            let writes = spawn(async move {
                loop {
                    let write = writer.write_u8(0).await;
                    if write.is_err() {
                        return over(write);
                    }
                }
            });
            let _acts = spawn(async move {
                for act in acts {
                    sleep(act.pause * MS).await;
                    if act.sends {
                        peer.send(b"x");
                    } else {
                        peer.accept(1);
                    }
                }
            });
            [reads.await, writes.await]
        });
        let found: [(ElapsedLimit, Duration); 2] = found;
        let expected = expected.map(|(which, at)| (which, at * MS));
        assert_eq!(found, expected, "seed {seed}");
    }
}
