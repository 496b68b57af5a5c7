//! Scales: where a figure is between the ends of an axis, and what stands along it.

/// An axis. Places on it go from 0 to 1.
pub(crate) struct Scale {
    least: f64,
    most: f64,
    is_log: bool,
    ticks: Vec<f64>,
}

impl Scale {
    /// From zero to `most` or a little more.
    pub(crate) fn linear(most: f64) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        let raw = most / 6.0;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0]
            .map(|step| step * power)
            .into_iter()
            .find(|&step| step >= raw)
            .unwrap_or(10.0 * power);
        let steps = (most / step).ceil();
        Self {
            least: 0.0,
            most: steps * step,
            is_log: false,
            ticks: (0..=steps as u32)
                .map(|tick| f64::from(tick) * step)
                .collect(),
        }
    }

    /// Logarithmic. Both are above zero.
    pub(crate) fn log(least: f64, most: f64) -> Self {
        let steps: &[f64] = if most / least > 1_000.0 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let exponents = least.log10().floor() as i32..=most.log10().ceil() as i32;
        let ticks = exponents
            .flat_map(|exponent| steps.iter().map(move |step| step * 10f64.powi(exponent)));
        // What is meant to be an end of the axis may miss it by a last digit.
        let is_inside = |tick: &f64| *tick > least * (1.0 - 1e-9) && *tick < most * (1.0 + 1e-9);
        Self {
            least,
            most,
            is_log: true,
            ticks: ticks.filter(is_inside).collect(),
        }
    }

    /// What lies outside is at the nearer end.
    pub(crate) fn place(&self, figure: f64) -> f64 {
        let part = if self.is_log {
            let from_least = |figure: f64| (figure / self.least).log10();
            from_least(figure.max(self.least)) / from_least(self.most)
        } else {
            figure / self.most
        };
        part.clamp(0.0, 1.0)
    }

    pub(crate) fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        self.ticks
            .iter()
            .map(|&tick| (self.place(tick), number(tick, 9)))
    }
}

/// Three digits that count, and commas.
pub(crate) fn short(figure: f64) -> String {
    if figure == 0.0 {
        return "0".to_string();
    }
    let digits = 2 - figure.abs().log10().floor() as i32;
    number(figure, digits.clamp(0, 9) as usize)
}

/// At most this number of digits after the point, and commas before it.
fn number(figure: f64, digits: usize) -> String {
    let text = format!("{:.digits$}", figure.abs());
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let sign = if figure < 0.0 { "-" } else { "" };
    let part = match part.trim_end_matches('0') {
        "" => String::new(),
        part => format!(".{part}"),
    };
    format!("{sign}{}{part}", commas(whole))
}

/// 1234567 as 1,234,567.
pub(crate) fn commas(whole: &str) -> String {
    let mut text = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(scale: &Scale) -> Vec<String> {
        scale.ticks().map(|(_, name)| name).collect()
    }

    #[test]
    fn linear_scales_go_up_in_round_steps() {
        let scale = Scale::linear(59.6);
        assert_eq!(names(&scale), ["0", "10", "20", "30", "40", "50", "60"]);
        assert_eq!((scale.place(0.0), scale.place(30.0)), (0.0, 0.5));
        assert_eq!((scale.place(-1.0), scale.place(100.0)), (0.0, 1.0));
        assert_eq!(
            names(&Scale::linear(0.11)),
            ["0", "0.02", "0.04", "0.06", "0.08", "0.1", "0.12"]
        );
        assert_eq!(names(&Scale::linear(0.0)).len(), 6);
    }

    #[test]
    fn logarithmic_scales_have_decades() {
        let scale = Scale::log(0.01, 2_000.0);
        assert_eq!(names(&scale), ["0.01", "0.1", "1", "10", "100", "1,000"]);
        let scale = Scale::log(1.0, 100.0);
        assert_eq!(names(&scale), ["1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!((scale.place(10.0), scale.place(0.0)), (0.5, 0.0));
    }

    #[test]
    fn figures_have_three_digits() {
        let figures = [0.0, 0.02987, 1.5741, 59.567, 909.25, 12_345.6, -0.05];
        let texts = ["0", "0.0299", "1.57", "59.6", "909", "12,346", "-0.05"];
        assert_eq!(figures.map(short), texts);
    }
}
