//! Numbers on a command line, as people write them.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A count within these bounds; k and M are thousands and millions.
pub(crate) fn count(text: &str, allowed: RangeInclusive<usize>) -> Result<usize, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'M']) {
        Some(digits) if text.ends_with('k') => (digits, 1_000),
        Some(digits) => (digits, 1_000_000),
        None => (text, 1),
    };
    let number: usize = digits.replace('_', "").parse().map_err(|_| "not a whole number".to_string())?;
    let count = number.saturating_mul(unit);
    if allowed.contains(&count) {
        return Ok(count);
    }
    Err(format!("not between {} and {}", with_commas(*allowed.start()), with_commas(*allowed.end())))
}

pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    let timeout = humantime::parse_duration(text).map_err(|error| format!("{error} (say 30s or 5min)"))?;
    let allowed = Duration::from_secs(1)..=Duration::from_secs(3600);
    if allowed.contains(&timeout) { Ok(timeout) } else { Err("not between 1s and 1h".to_string()) }
}

fn with_commas(number: usize) -> String {
    indicatif::HumanCount(number as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        let count = |text| count(text, 1_000..=100_000_000);
        assert_eq!(count("20_000"), Ok(20_000));
        assert_eq!((count("10k"), count("2M")), (Ok(10_000), Ok(2_000_000)));
        assert_eq!(count("5"), Err("not between 1,000 and 100,000,000".to_string()));
        for wrong in ["", "k", "1", "999", "many", "101M", "99999999999999999999M", "-5k"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }
}
