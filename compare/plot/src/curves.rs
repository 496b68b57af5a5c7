//! A chart of curves on a logarithmic scale. Their names stand at the right, each at the height
//! where its curve ends.

use crate::scale::Scale;
use crate::subject::{self, Look};
use crate::svg::{Anchor, LETTER, Stroke, Svg, TOP, WIDTH};

const HEIGHT: f64 = 480.0;
const LEFT: f64 = 70.0;
const BOTTOM: f64 = HEIGHT - 34.0;

/// Between two names.
const ROW: f64 = 18.0;

/// Between the last point and the names: a line from the one to the other.
const GAP: f64 = 36.0;

/// Points from left to right: their places from 0 to 1, and their figures.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Curves over places, each with what stands below it. What is not above zero is left out; nothing
/// where there is nothing else.
pub(crate) fn curves(
    title: &str,
    unit: &str,
    places: &[(f64, String)],
    curves: &[Curve],
) -> Option<String> {
    let above_zero = |curve: &Curve| {
        let points = curve.points.iter().copied();
        points.filter(|point| point.1 > 0.0).collect::<Vec<_>>()
    };
    let mut all: Vec<(&str, Vec<(f64, f64)>)> = curves
        .iter()
        .map(|curve| (curve.name.as_str(), above_zero(curve)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let figures = all
        .iter()
        .flat_map(|(_, points)| points)
        .map(|point| point.1);
    let (least, most) = figures.fold((f64::INFINITY, 0.0f64), |(least, most), figure| {
        (least.min(figure), most.max(figure))
    });
    if all.is_empty() {
        return None;
    }
    let letters = all.iter().map(|(name, _)| name.chars().count()).max()?;
    let right = WIDTH - letters as f64 * LETTER - GAP - 12.0;
    let scale = Scale::log(least * 0.8, most * 1.25);
    let at = |(place, figure): (f64, f64)| {
        (
            LEFT + 20.0 + (right - LEFT - 20.0) * place,
            BOTTOM - (BOTTOM - TOP) * scale.place(figure),
        )
    };
    let mut svg = Svg::new(HEIGHT, title, &format!("{unit}; logarithmic"));
    for (place, name) in scale.ticks() {
        let y = BOTTOM - (BOTTOM - TOP) * place;
        svg.grid((LEFT, y), (right, y));
        svg.words((LEFT - 8.0, y + 4.5), Anchor::End, false, &name);
    }
    for (place, name) in places {
        let x = at((*place, least)).0;
        svg.grid((x, TOP), (x, BOTTOM));
        svg.words((x, BOTTOM + 20.0), Anchor::Middle, false, name);
    }
    // From the top down; wheelwork's over the others.
    let end = |points: &[(f64, f64)]| points.last().map_or(BOTTOM, |&point| at(point).1);
    all.sort_by(|one, other| end(&one.1).total_cmp(&end(&other.1)));
    let mut heights: Vec<f64> = all.iter().map(|(_, points)| end(points)).collect();
    spread(&mut heights, BOTTOM);
    let mut named: Vec<_> = all.into_iter().zip(heights).collect();
    named.sort_by_key(|((name, _), _)| subject::is_ours(name));
    for ((name, points), height) in named {
        let Look { color, dashes } = subject::look(name);
        let is_ours = subject::is_ours(name);
        let stroke = Stroke {
            color,
            width: if is_ours { 3.0 } else { 1.8 },
            dashes,
        };
        let points: Vec<_> = points.into_iter().map(at).collect();
        svg.line(&points, stroke);
        points.iter().for_each(|&point| svg.dot(point, color));
        let name_at = right + GAP;
        // A curve that ends before the right edge is told by its line alone.
        let from = points.last().filter(|last| last.0 > right - 1.0);
        let from = from.map_or((right + 14.0, height), |&(x, y)| (x + 6.0, y));
        svg.line(
            &[from, (right + 14.0, height), (name_at - 4.0, height)],
            Stroke {
                width: 1.8,
                ..stroke
            },
        );
        svg.words((name_at, height + 4.5), Anchor::Start, is_ours, name);
    }
    Some(svg.finish())
}

/// Moves heights, which are sorted, so far apart that names fit between them, and above the bottom.
fn spread(heights: &mut [f64], bottom: f64) {
    // Names that would touch share their mean: each with its own row, counted from the first one.
    let mut touching: Vec<(f64, usize)> = Vec::new();
    for (number, height) in heights.iter().enumerate() {
        let mut group = (height - number as f64 * ROW, 1);
        while let Some((sum, count)) =
            touching.pop_if(|(sum, count)| *sum / *count as f64 > group.0 / group.1 as f64)
        {
            group = (group.0 + sum, group.1 + count);
        }
        touching.push(group);
    }
    let means = touching
        .iter()
        .flat_map(|&(sum, count)| std::iter::repeat_n(sum / count as f64, count));
    let last = heights.len() as f64 * ROW - ROW;
    for (number, (height, mean)) in heights.iter_mut().zip(means).enumerate() {
        *height = mean.clamp(TOP, (bottom - last).max(TOP)) + number as f64 * ROW;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, points: &[(f64, f64)]) -> Curve {
        Curve {
            name: name.to_string(),
            points: points.to_vec(),
        }
    }

    #[test]
    fn curves_have_names_and_places() {
        let places = [(0.0, "p50".to_string()), (1.0, "max".to_string())];
        let all = [
            curve("heap", &[(0.0, 0.1), (1.0, 20.0)]),
            curve("wheelwork", &[(0.0, 0.1)]),
            curve("btree", &[(0.0, 0.0)]),
        ];
        let svg = curves("W5", "ms: less is better", &places, &all).expect("there are figures");
        for text in [
            ">heap<",
            ">wheelwork<",
            ">p50<",
            ">max<",
            "; logarithmic<",
            ">0.1<",
        ] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        assert!(!svg.contains("btree"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
        assert!(curves("W5", "ms", &places, &all[2..]).is_none());
    }

    #[test]
    fn names_do_not_overlap() {
        let mut heights = [100.0, 106.0, 200.0, 298.0, 299.0];
        spread(&mut heights, 300.0);
        assert_eq!(heights, [94.0, 112.0, 200.0, 282.0, 300.0]);
    }
}
