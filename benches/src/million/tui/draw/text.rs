//! Text: what frames, words, bars and numbers look like, so that they are read at a glance.

use ratatui::layout::Alignment;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType};
use std::time::Duration;

const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A frame with a title.
pub(super) fn block<'a>(title: impl Into<Line<'a>>) -> Block<'a> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(Style::new().fg(Color::DarkGray))
        .title_style(Style::new().fg(Color::Reset))
        .title(title)
}

/// Numbers and names that matter.
pub(super) fn strong(text: impl Into<String>) -> Span<'static> {
    Span::from(text.into()).bold()
}

/// What matters less.
pub(super) fn quiet(text: impl Into<String>) -> Span<'static> {
    Span::from(text.into()).fg(Color::DarkGray)
}

pub(super) fn at_the_right<'a>(text: impl Into<Line<'a>>) -> Line<'a> {
    text.into().alignment(Alignment::Right)
}

pub(super) fn took(duration: Duration) -> String {
    time(duration.as_secs_f64())
}

/// A bar of this width in columns, and the part of it that is full.
pub(super) fn bar(width: usize, part: f64) -> String {
    let eighths = (part.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// A number in at most 5 columns: `12.3k`.
pub(super) fn short(number: f64) -> String {
    let units = ["", "k", "M", "G", "T", "P", "E"];
    let mut unit = 0;
    let mut number = number;
    // What would be rounded to 1000 belongs to the next one.
    while number >= 999.5 && unit < units.len() - 1 {
        (number, unit) = (number / 1_000.0, unit + 1);
    }
    let digits = if unit == 0 || number >= 99.95 { 0 } else { 1 };
    format!("{number:.digits$}{}", units[unit])
}

/// A rate: `8.1M /s`.
pub(super) fn rate(number: f64) -> String {
    format!("{} /s", short(number))
}

/// A time in seconds, in at most 8 columns: `1.25 ms`, `4.66 h`.
pub(super) fn time(seconds: f64) -> String {
    const UNITS: [(f64, &str, f64); 6] = [
        (1e-6, "us", 1e-3),
        (1e-3, "ms", 1.0),
        (1.0, "s", 120.0),
        (60.0, "min", 7_200.0),
        (3_600.0, "h", 172_800.0),
        (86_400.0, "d", 86_400e3),
    ];
    const YEAR: (f64, &str, f64) = (31_557_600.0, "y", f64::INFINITY);
    let mut units = UNITS.into_iter();
    let suits = |&(_, _, end): &(f64, &str, f64)| seconds < end * 0.9995;
    let (unit, name, _) = units.find(suits).unwrap_or(YEAR);
    let number = seconds / unit;
    let digits = match number {
        9_999.5.. => return format!("{} {name}", short(number)),
        _ if number >= 99.5 || number == 0.0 || name == "us" => 0,
        9.95.. => 1,
        _ => 2,
    };
    format!("{number:.digits$} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_take_five_columns_at_most() {
        for (number, text) in [
            (0.0, "0"),
            (0.4, "0"),
            (999.4, "999"),
            (999.5, "1.0k"),
            (12_345.0, "12.3k"),
            (99_960.0, "100k"),
            (999_400.0, "999k"),
            (999_600.0, "1.0M"),
            (8.123e6, "8.1M"),
            (u64::MAX as f64, "18.4E"),
        ] {
            assert_eq!(short(number), text);
            assert!(text.len() <= 5);
        }
        assert_eq!(rate(31_900_000.0), "31.9M /s");
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        for (seconds, text) in [
            (0.0, "0 us"),
            (812e-6, "812 us"),
            (999.9e-6, "1.00 ms"),
            (1.024e-3, "1.02 ms"),
            (0.0249, "24.9 ms"),
            (0.256, "256 ms"),
            (1.0, "1.00 s"),
            (65.536, "65.5 s"),
            (130.0, "2.17 min"),
            (16_777.216, "4.66 h"),
            (4_294_967.296, "49.7 d"),
            (1_099_511_627.776, "34.8 y"),
            (281_474_976_710.656, "8919 y"),
            (3.7e14, "11.7M y"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }
}
