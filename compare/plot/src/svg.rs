//! A drawing as SVG text. It brings its own light ground, so it is read on light pages and on dark
//! ones.

use std::fmt::Write;

pub(crate) const WIDTH: f64 = 860.0;

/// What is below the title and the line under it.
pub(crate) const TOP: f64 = 62.0;

/// Of a letter, at the most that fonts without serifs take on average.
pub(crate) const LETTER: f64 = 8.4;

pub(crate) const GROUND: &str = "#ffffff";
pub(crate) const INK: &str = "#1f2328";
const GRID: &str = "#d8dee4";

/// Which end of a text is where it is said to be.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn text(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// How a line is drawn.
#[derive(Clone, Copy)]
pub(crate) struct Stroke<'a> {
    pub(crate) color: &'a str,
    pub(crate) width: f64,
    /// Lengths of its dashes and gaps; none if it is empty.
    pub(crate) dashes: &'a str,
}

impl<'a> Stroke<'a> {
    pub(crate) fn solid(color: &'a str, width: f64) -> Self {
        Self {
            color,
            width,
            dashes: "",
        }
    }
}

pub(crate) struct Svg(String);

impl Svg {
    /// An empty one with its title, and below it what is drawn in which unit.
    pub(crate) fn new(height: f64, title: &str, unit: &str) -> Self {
        let label = escape(title);
        let mut svg = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"13\" \
             fill=\"{INK}\" role=\"img\" aria-label=\"{label}\">\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"{GROUND}\"/>\n"
        ));
        svg.words((12.0, 22.0), Anchor::Start, true, title);
        svg.words((12.0, 42.0), Anchor::Start, false, unit);
        svg
    }

    pub(crate) fn words(&mut self, (x, y): (f64, f64), anchor: Anchor, is_bold: bool, text: &str) {
        let weight = if is_bold { " font-weight=\"bold\"" } else { "" };
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\"{weight}>{}</text>",
            anchor.text(),
            escape(text)
        ));
    }

    pub(crate) fn rectangle(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        fill: &str,
    ) {
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{fill}\"/>"
        ));
    }

    pub(crate) fn dot(&mut self, (x, y): (f64, f64), fill: &str) {
        self.add(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\" fill=\"{fill}\"/>"
        ));
    }

    pub(crate) fn line(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        let points: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let dashes = if stroke.dashes.is_empty() {
            String::new()
        } else {
            format!(" stroke-dasharray=\"{}\"", stroke.dashes)
        };
        self.add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{dashes}/>",
            points.join(" "),
            stroke.color,
            stroke.width
        ));
    }

    /// A line of the grid.
    pub(crate) fn grid(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.line(&[from, to], Stroke::solid(GRID, 1.0));
    }

    pub(crate) fn finish(self) -> String {
        self.0 + "</svg>\n"
    }

    fn add(&mut self, element: std::fmt::Arguments) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{element}");
    }
}

/// Text for XML and HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_has_its_own_ground_and_names_that_are_text() {
        let mut svg = Svg::new(100.0, "a < \"b\"", "ms");
        svg.words((1.0, 2.0), Anchor::End, true, "R&D");
        let svg = svg.finish();
        assert!(
            svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
            "{svg}"
        );
        assert!(
            svg.lines()
                .nth(1)
                .is_some_and(|line| line.starts_with("<rect") && line.contains(GROUND)),
            "{svg}"
        );
        assert!(
            svg.contains("a &lt; &quot;b&quot;") && svg.contains(">R&amp;D<"),
            "{svg}"
        );
    }
}
