//! A chart of bars: names at the left, figures at the right, bars between them.

use crate::row::Figure;
use crate::scale::{Scale, short};
use crate::subject;
use crate::svg::{Anchor, GROUND, INK, LETTER, Stroke, Svg, TOP, WIDTH};

const ROW: f64 = 24.0;
const BAR: f64 = 15.0;

/// What the figures at the right take.
const FIGURES: f64 = 200.0;

/// Bars shorter than this part of the longest one are hard to tell apart.
const SHORT: f64 = 1.0 / 20.0;

/// Whether a few bars hide the rest: every second one would be short.
pub(crate) fn hide_each_other(rows: &[(&str, Figure)]) -> bool {
    let mut medians: Vec<f64> = rows
        .iter()
        .map(|(_, figure)| figure.median)
        .filter(|&median| median > 0.0)
        .collect();
    medians.sort_by(f64::total_cmp);
    medians.len() > 1 && medians[(medians.len() - 1) / 2] < medians[medians.len() - 1] * SHORT
}

/// A bar for each subject, from the top down, with a line from the least to the most.
pub(crate) fn bars(title: &str, unit: &str, rows: &[(&str, Figure)], is_log: bool) -> String {
    let bottom = TOP + rows.len() as f64 * ROW;
    let unit = if is_log {
        format!("{unit}; logarithmic")
    } else {
        unit.to_string()
    };
    let mut svg = Svg::new(bottom + 30.0, title, &unit);
    let letters = rows.iter().map(|(name, _)| name.chars().count()).max();
    let left = letters.unwrap_or(0) as f64 * LETTER + 24.0;
    let right = WIDTH - FIGURES;
    let scale = scale(rows, is_log);
    let x = |figure| left + (right - left) * scale.place(figure);
    for (place, name) in scale.ticks() {
        let x = left + (right - left) * place;
        svg.grid((x, TOP - 4.0), (x, bottom));
        svg.words((x, bottom + 18.0), Anchor::Middle, false, &name);
    }
    for (number, (name, figure)) in rows.iter().enumerate() {
        let top = TOP + number as f64 * ROW;
        let middle = top + ROW / 2.0;
        let is_ours = subject::is_ours(name);
        svg.words((left - 10.0, middle + 4.5), Anchor::End, is_ours, name);
        let length = x(figure.median) - left;
        svg.rectangle(
            (left, middle - BAR / 2.0),
            (length, BAR),
            subject::look(name).color,
        );
        let range = [(x(figure.min), middle), (x(figure.max), middle)];
        svg.line(&range, Stroke::solid(GROUND, 4.0));
        svg.line(&range, Stroke::solid(INK, 1.5));
        let Figure { median, min, max } = figure;
        let text = format!("{}  ({} to {})", short(*median), short(*min), short(*max));
        svg.words((right + 14.0, middle + 4.5), Anchor::Start, false, &text);
    }
    svg.finish()
}

fn scale(rows: &[(&str, Figure)], is_log: bool) -> Scale {
    let most = rows
        .iter()
        .map(|(_, figure)| figure.max)
        .fold(0.0, f64::max);
    let least = rows
        .iter()
        .map(|(_, figure)| figure.min.min(figure.median))
        .filter(|&least| least > 0.0)
        .fold(most, f64::min);
    if is_log && least > 0.0 {
        // The least bar is a bar too.
        let decade = 10f64.powf((least * 0.8).log10().floor());
        Scale::log(decade, most * 1.1)
    } else {
        Scale::linear(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows<const N: usize>(medians: [f64; N]) -> [(&'static str, Figure); N] {
        medians.map(|median| {
            let (min, max) = (median * 0.5, median * 2.0);
            ("heap", Figure { median, min, max })
        })
    }

    /// The attribute of each bar, whose color is the heap's.
    fn attributes(svg: &str, name: &str) -> Vec<f64> {
        let color = subject::look("heap").color;
        svg.lines()
            .filter(|line| line.starts_with("<rect") && line.contains(color))
            .filter_map(|line| line.split_once(&format!(" {name}=\""))?.1.split('"').next())
            .map(|value| value.parse().expect("a number"))
            .collect()
    }

    #[test]
    fn bars_have_names_figures_and_lengths() {
        let svg = bars("W3", "ms: less is better", &rows([10.0, 5.0]), false);
        assert!(
            svg.contains(">heap<") && svg.contains(">10  (5 to 20)<"),
            "{svg}"
        );
        let lengths = attributes(&svg, "width");
        assert!((lengths[0] / lengths[1] - 2.0).abs() < 0.01, "{lengths:?}");
        assert!(!svg.contains("logarithmic"), "{svg}");
    }

    #[test]
    fn no_text_crosses_a_bar() {
        let svg = bars("W3", "ms", &rows([1_000.0, 0.01, 0.0]), true);
        assert!(svg.contains("; logarithmic"), "{svg}");
        let (starts, widths) = (attributes(&svg, "x"), attributes(&svg, "width"));
        assert_eq!(starts.len(), 3);
        assert!(widths[1] > 1.0 && widths[2] == 0.0, "{widths:?}");
        let figures = WIDTH - FIGURES;
        for (start, width) in starts.iter().zip(widths) {
            assert!(*start > 4.0 * LETTER && start + width < figures + 0.1);
        }
    }

    #[test]
    fn a_scale_is_logarithmic_where_a_bar_hides_the_rest() {
        assert!(hide_each_other(&rows([150.0, 4.0, 2.0])));
        assert!(!hide_each_other(&rows([60.0, 15.0, 2.0])));
        assert!(!hide_each_other(&rows([900.0, 0.0, 0.0])));
        assert!(!hide_each_other(&[]));
    }
}
