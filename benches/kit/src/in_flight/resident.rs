//! Resident: the memory of the process before, during and after a flight.

/// In bytes.
#[derive(Clone, Debug, Default)]
pub struct Resident {
    /// Before the service started: with the threads of the harness, its rings and its handles.
    pub before: u64,
    /// When the service had started, and no timer was armed.
    pub empty: u64,
    /// At even intervals while timers were armed and cancelled.
    pub during: Vec<u64>,
    /// A second after the last timer was cancelled.
    pub after: u64,
}

impl Resident {
    /// The most that it was more than before the start.
    pub fn most(&self) -> u64 {
        let most = self.during.iter().max();
        self.beyond_start(most.copied().unwrap_or(self.before))
    }

    /// The medians of the middle third of the time and of the last one, beyond the start.
    pub fn thirds(&self) -> [u64; 2] {
        let third = self.during.len().div_ceil(3);
        [1, 2].map(|number| {
            let part = self.during.iter().skip(number * third).take(third);
            let mut part: Vec<u64> = part.copied().collect();
            part.sort_unstable();
            let median = part.get(part.len() / 2).or(self.during.last());
            self.beyond_start(median.copied().unwrap_or(self.before))
        })
    }

    /// What is left.
    pub fn left(&self) -> u64 {
        self.beyond_start(self.after)
    }

    /// Bytes of each of this many timers, in the last third.
    pub fn bytes_each(&self, timers: usize) -> f64 {
        let empty = self.beyond_start(self.empty);
        self.thirds()[1].saturating_sub(empty) as f64 / timers as f64
    }

    fn beyond_start(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirds_are_medians_beyond_the_start() {
        let resident = Resident {
            before: 100,
            empty: 110,
            during: vec![900, 105, 104, 150, 120, 130, 130, 140, 170],
            after: 101,
        };
        assert_eq!((resident.most(), resident.left()), (800, 1));
        assert_eq!(resident.thirds(), [30, 40]);
        assert!((resident.bytes_each(10) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn few_samples_do() {
        let mut resident = Resident::default();
        assert_eq!((resident.most(), resident.thirds()), (0, [0, 0]));
        resident.during.push(7);
        assert_eq!((resident.most(), resident.thirds()), (7, [7, 7]));
    }
}
