//! Charts as SVG text.

use crate::row::Figure;
use plotters::prelude::*;
use std::error::Error;

const WIDTH: u32 = 860;
const BAR_HEIGHT: u32 = 26;
const CURVES_HEIGHT: u32 = 420;

/// Curves of others.
const OTHERS: [RGBColor; 11] = [
    RGBColor(0xd6, 0x27, 0x28),
    RGBColor(0x1f, 0x77, 0xb4),
    RGBColor(0xff, 0x7f, 0x0e),
    RGBColor(0x94, 0x67, 0xbd),
    RGBColor(0x8c, 0x56, 0x4b),
    RGBColor(0xe3, 0x77, 0xc2),
    RGBColor(0x17, 0xbe, 0xcf),
    RGBColor(0x7f, 0x7f, 0x7f),
    RGBColor(0xb8, 0x86, 0x0b),
    RGBColor(0x00, 0x33, 0x66),
    RGBColor(0x8b, 0x00, 0x00),
];

const OURS: RGBColor = RGBColor(0x2b, 0x7a, 0x4b);
const THEIRS: RGBColor = RGBColor(0x9a, 0xa5, 0xb1);
const TEXT: (&str, u32) = ("sans-serif", 13);

type Result = std::result::Result<String, Box<dyn Error>>;

/// A line of a chart: points from left to right.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

fn is_ours(subject: &str) -> bool {
    subject.starts_with("wheelwork")
}

/// A bar for each subject, with a line from the least to the most.
pub(crate) fn bars(unit: &str, rows: &[(&str, Figure)]) -> Result {
    let mut svg = String::new();
    let height = rows.len() as u32 * BAR_HEIGHT + 60;
    let most = rows.iter().map(|(_, figure)| figure.max).fold(0.0, f64::max).max(1e-9);
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let mut chart =
            ChartBuilder::on(&area).margin(8).x_label_area_size(40).build_cartesian_2d(0.0..most * 1.25, rows.len() as f64..0.0)?;
        chart.configure_mesh().disable_y_axis().disable_y_mesh().max_light_lines(0).x_desc(unit).label_style(TEXT).draw()?;
        for (place, (subject, figure)) in rows.iter().enumerate() {
            let (top, middle) = (place as f64, place as f64 + 0.5);
            let color = if is_ours(subject) { OURS } else { THEIRS };
            let bar = Rectangle::new([(0.0, top + 0.12), (figure.median, top + 0.88)], color.mix(0.55).filled());
            let range = PathElement::new([(figure.min, middle), (figure.max, middle)], color.stroke_width(2));
            let label = format!("{subject}  {}", short(figure.median));
            let text = EmptyElement::at((0.0, top + 0.25)) + Text::new(label, (6, 0), TEXT);
            chart.draw_series([bar])?;
            chart.draw_series([range])?;
            chart.draw_series([text])?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// What stands below a chart from left to right, and where.
pub(crate) enum Places {
    /// Names, at 0, 1, and so on.
    Named(Vec<String>),
    /// Powers of ten, at their exponents, within these bounds.
    Decades(f64, f64),
}

impl Places {
    fn bounds(&self) -> (f64, f64) {
        match self {
            Self::Named(names) => (0.0, names.len() as f64 - 1.0),
            &Self::Decades(least, most) => (least, most),
        }
    }

    fn name(&self, place: f64) -> String {
        let whole = place.round();
        if (place - whole).abs() > 1e-6 || whole < 0.0 {
            return String::new();
        }
        match self {
            Self::Named(names) => names.get(whole as usize).cloned().unwrap_or_default(),
            Self::Decades(..) => match whole as u32 {
                exponent @ 6.. => format!("{} M", 10u64.pow(exponent - 6)),
                exponent @ 3.. => format!("{} k", 10u64.pow(exponent - 3)),
                exponent => 10u64.pow(exponent).to_string(),
            },
        }
    }
}

/// Curves over places, on a logarithmic scale. What is not above zero is left out.
pub(crate) fn curves(unit: &str, places: &Places, curves: &[Curve]) -> Result {
    let mut svg = String::new();
    let heights = || curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).filter(|&height| height > 0.0);
    let (least, most) = (heights().fold(f64::INFINITY, f64::min), heights().fold(0.0, f64::max));
    if most <= 0.0 {
        return Err("nothing to draw".into());
    }
    let (left, right) = places.bounds();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, CURVES_HEIGHT)).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d(left - 0.2..right + 0.8, (least * 0.8..most * 1.25).log_scale())?;
        let name = |place: &f64| places.name(*place);
        let height = |height: &f64| short(*height);
        chart
            .configure_mesh()
            .max_light_lines(0)
            .x_labels((right - left) as usize + 2)
            .x_label_formatter(&name)
            .y_label_formatter(&height)
            .y_desc(unit)
            .label_style(TEXT)
            .draw()?;
        for (number, curve) in curves.iter().enumerate() {
            let (color, width) = if is_ours(&curve.name) { (OURS, 4) } else { (OTHERS[number % OTHERS.len()], 1) };
            let style = color.stroke_width(width);
            let points: Vec<_> = curve.points.iter().copied().filter(|point| point.1 > 0.0).collect();
            chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, color.filled())))?;
            let line = chart.draw_series(LineSeries::new(points, style))?;
            line.label(&curve.name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .label_font(TEXT)
            .draw()?;
        area.present()?;
    }
    Ok(svg)
}

/// Three digits or so.
pub(crate) fn short(number: f64) -> String {
    let digits = if number >= 100.0 || number == 0.0 {
        0
    } else if number >= 1.0 {
        2
    } else {
        3
    };
    format!("{number:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_svg() {
        let figure = Figure { median: 2.0, min: 1.0, max: 3.0 };
        let svg = bars("M op/s", &[("wheelwork", figure), ("a<b", figure)]).expect("it can be drawn");
        assert!(svg.starts_with("<svg") && svg.contains("</svg>"), "{svg}");
        assert!(svg.contains("wheelwork  2.00") && !svg.contains("a<b"), "{svg}");
    }

    #[test]
    fn curves_are_svg() {
        let places = Places::Named(vec!["p50".to_string(), "max".to_string()]);
        let curve = |points: Vec<_>| [Curve { name: "heap".to_string(), points }];
        let svg = curves("ms", &places, &curve(vec![(0.0, 0.1), (1.0, 20.0)])).expect("it can be drawn");
        assert!(svg.contains("heap") && svg.contains("p50") && svg.contains("</svg>"), "{svg}");
        assert!(curves("ms", &places, &curve(vec![(0.0, 0.0)])).is_err());
        let svg = curves("ns/op", &Places::Decades(1.0, 4.3), &curve(vec![(1.0, 7.0), (4.3, 9.0)])).expect("it can be drawn");
        assert!(["10", "100", "1 k", "10 k"].iter().all(|decade| svg.lines().any(|line| line.trim() == *decade)), "{svg}");
    }
}
