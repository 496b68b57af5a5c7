//! Spread: a part of a time that depends on a key alone; and a number for a part by chance.

use std::hash::{BuildHasher, RandomState};
use std::process;
use std::time::Duration;

/// A part of `window`, from zero up to but not including it, that depends on the key alone: the
/// same for the same key, in each run of each program, on each machine and in each later version.
/// Keys that differ are spread evenly over the window.
///
/// It is for timers that would all be due at one instant: the first runs of the periodic timers of
/// a fleet that starts together, or of ten thousand sessions that begin with their server. Unlike a
/// random delay it can be foreseen, and a restart does not change it.
///
/// - A periodic timer: `service.every(period).first(spread(period, "node-7"))`. A
///   `future::Interval` has `first`, too.
/// - A calendar: `calendar.offset(spread(window, key))`.
///
/// The algorithm: 64-bit FNV-1a of the bytes of the key (by Fowler, Noll and Vo), then the
/// finalizer of 64-bit MurmurHash3 (`fmix64`, by Appleby, in the public domain), which spreads
/// short keys over all bits. The result is multiplied by the window, and the upper 64 bits of the
/// product are the nanoseconds. The hash has no secret: if clients choose the keys, they can let
/// their timers meet.
///
/// Two keys may come close to each other, as two random delays may: of 10,000 keys in an hour,
/// some thirty meet another one in the same millisecond. A number is a key by its bytes:
/// `7_u64.to_le_bytes()`. A window of zero gives zero. One of more than 584 years counts as one of
/// 584 years. Cost: some nanoseconds.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use wheelwork::spread;
///
/// let hour = Duration::from_secs(3_600);
/// let first = spread(hour, "node-7");
/// assert!(first < hour && first == spread(hour, "node-7"));
/// assert_ne!(first, spread(hour, "node-8"));
///
/// let service = wheelwork::TimerService::builder().start()?;
/// // Each node reports once an hour, at a time that its name decides.
/// service.every(hour).first(first).start(|| println!("a report"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn spread(window: Duration, key: impl AsRef<[u8]>) -> Duration {
    let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    let hash = fmix64(fnv_1a(key.as_ref()));
    let product = u128::from(window_ns) * u128::from(hash);
    Duration::from_nanos((product >> u64::BITS) as u64)
}

/// 64-bit FNV-1a.
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The finalizer of 64-bit MurmurHash3.
fn fmix64(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

/// A number that nobody foresees. std has random keys once for each thread, and a fork copies them:
/// so that the children of one process differ, the process counts, too.
pub(crate) fn random() -> u64 {
    // (Where there are no processes, std has no number for one.)
    let process = cfg!(any(unix, windows)).then(process::id);
    RandomState::new().hash_one(process)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        // From the authors' test suite.
        for (key, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(fnv_1a(key.as_bytes()), hash, "{key:?}");
        }
        assert_eq!(fmix64(0), 0);
    }

    #[test]
    fn keys_are_spread_evenly() {
        const PARTS: usize = 20;
        const KEYS: usize = 20_000;
        let window = Duration::from_secs(20);
        type Name = fn(usize) -> String;
        let names: [Name; 3] = [
            |number| number.to_string(),
            |number| format!("node-{number:06}"),
            |number| format!("{number}.example.org"),
        ];
        for name in names {
            let mut parts = [0_usize; PARTS];
            for number in 0..KEYS {
                parts[spread(window, name(number)).as_secs() as usize] += 1;
            }
            let fair = KEYS / PARTS;
            // Six times the standard deviation.
            let most = fair + 6 * fair.isqrt();
            let least = fair - 6 * fair.isqrt();
            assert!(
                parts.iter().all(|part| (least..=most).contains(part)),
                "{parts:?}"
            );
        }
    }

    #[test]
    fn a_spread_is_below_its_window_and_grows_with_it() {
        for key in ["", "a", "node-7"] {
            assert_eq!(spread(Duration::ZERO, key), Duration::ZERO);
            assert_eq!(spread(Duration::from_nanos(1), key), Duration::ZERO);
            let [short, long] = [1, 2].map(|hours| spread(Duration::from_secs(3_600 * hours), key));
            assert!(
                short < Duration::from_secs(3_600) && long.as_nanos() - 2 * short.as_nanos() <= 1
            );
            let longest = spread(Duration::MAX, key);
            assert!(longest < Duration::from_nanos(u64::MAX));
        }
    }
}
