//! Minutes: how long a run takes, as its command line has it.

use std::time::Duration;

/// A week.
const MINUTES_MAX: f64 = 10_080.0;

/// Reads a time in minutes.
pub(crate) fn read(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if !(0.01..=MINUTES_MAX).contains(&minutes) {
        return Err("at least 0.01, at most 10,080".to_string());
    }
    Ok(Duration::from_secs_f64(60.0 * minutes))
}
