//! Tests of what a database is not needed for: its clock between two readings, and settings. And
//! what writes the golden file of the statements.

use super::clock::ClockBounds;
use super::connect::{idle_of, notice_dead};
use super::migrations::schema;
use super::migrations::steps::STEPS;
use proptest::prelude::*;
use std::time::Duration;
use tokio_postgres::{Config, NoTls};

/// How much chrony slews a clock at most, unless it is told otherwise.
const SLEW_MAX: f64 = 0.083_333;

/// The database's time when the node's clock shows zero, in seconds.
const BEGIN: f64 = 1.7e9;

/// Two clocks. The database's time less the node's changes at rates that change from time to time.
struct Clocks {
    /// When a rate begins, by the node's clock, and the rate.
    rates: Vec<(f64, f64)>,
}

impl Clocks {
    /// What the database's clock shows.
    fn time(&self, at: f64) -> f64 {
        let ends = self.rates.iter().skip(1).map(|&(begin, _)| begin);
        let ends = ends.chain([f64::INFINITY]);
        let parts = self.rates.iter().zip(ends);
        let offset: f64 = parts
            .map(|(&(begin, rate), end)| (at.min(end) - begin).max(0.0) * rate)
            .sum();
        BEGIN + at + offset
    }

    /// A reading that takes so long. The database looks at its clock on the way.
    fn read(&self, bounds: ClockBounds, sent: f64, took: f64, way: f64) -> ClockBounds {
        bounds.with(sent, sent + took, self.time(sent + took * way))
    }
}

/// Rates, and when they begin.
fn rates(max: f64) -> impl Strategy<Value = Vec<(f64, f64)>> {
    let rate = prop_oneof![Just(-max), Just(0.0), Just(max), -max..max];
    let rates = prop::collection::vec((0.01..2.0, rate), 1..8);
    rates.prop_map(|rates| {
        let mut at = 0.0;
        let begins = rates.into_iter().map(|(lasts, rate)| {
            let begin = at;
            at += lasts;
            (begin, rate)
        });
        begins.collect()
    })
}

/// Readings: the pause before each, how long it takes, and when on its way the clock is looked at.
fn readings(pause_max: f64) -> impl Strategy<Value = Vec<(f64, f64, f64)>> {
    prop::collection::vec((0.0..pause_max, 1e-4..0.02, 0.0..1.0), 2..60)
}

proptest! {
    /// While something may be handed out, the lower bound is one, whatever is slewed, and however
    /// rarely the clock is read.
    #[test]
    fn nothing_is_early_while_clocks_are_slewed(
        rates in rates(SLEW_MAX), readings in readings(1.5), looks in prop::collection::vec(0.0..1.0, 8)
    ) {
        let clocks = Clocks { rates };
        let (mut bounds, mut at) = (ClockBounds::UNKNOWN, 0.0);
        for (pause, took, way) in readings {
            for look in &looks {
                let now = at + pause * look;
                let lowest = bounds.at_least(now, f64::INFINITY);
                prop_assert!(lowest <= clocks.time(now), "{lowest} > {}", clocks.time(now));
            }
            at += pause;
            bounds = clocks.read(bounds, at, took, way);
            at += took;
        }
    }

    /// What was claimed stays so: nothing that is due by then is early.
    #[test]
    fn nothing_that_was_claimed_is_early(
        rates in rates(SLEW_MAX), readings in readings(0.2), soon in 0.0..0.2_f64
    ) {
        let clocks = Clocks { rates };
        let (mut bounds, mut at) = (ClockBounds::UNKNOWN, 0.0);
        for (pause, took, way) in readings {
            let until = clocks.time(at) + soon;
            for step in 0..50 {
                let now = at + pause * f64::from(step) / 50.0;
                let lowest = bounds.at_least(now, until);
                prop_assert!(lowest.min(until) <= clocks.time(now));
            }
            at += pause;
            bounds = clocks.read(bounds, at, took, way);
            at += took;
        }
    }

    /// Readings each 10 ms that take a millisecond keep the lower bound within 3 ms.
    #[test]
    fn fresh_readings_keep_the_bound_tight(rates in rates(SLEW_MAX), ways in prop::collection::vec(0.0..1.0, 100)) {
        let clocks = Clocks { rates };
        let (mut bounds, mut at) = (ClockBounds::UNKNOWN, 0.0);
        for way in ways {
            bounds = clocks.read(bounds, at, 1e-3, way);
            at += 11e-3;
            let late = clocks.time(at) - bounds.at_least(at, f64::INFINITY);
            prop_assert!((0.0..4e-3).contains(&late), "{late}");
        }
    }

    /// Both bounds hold between clocks that drift, and nothing else.
    #[test]
    fn both_bounds_hold_between_clocks_that_drift(
        rates in rates(450e-6), readings in readings(1.5)
    ) {
        let clocks = Clocks { rates };
        let (mut bounds, mut at) = (ClockBounds::UNKNOWN, 0.0);
        for (pause, took, way) in readings {
            at += pause;
            prop_assert!(bounds.at_least(at, 0.0) <= clocks.time(at));
            prop_assert!(bounds.at_most(at) >= clocks.time(at));
            bounds = clocks.read(bounds, at, took, way);
            at += took;
            let apart = bounds.at_most(at) - bounds.at_least(at, 0.0);
            prop_assert!(apart <= took * 1.2 + 2e-3, "{apart}");
        }
    }

    /// They hold while a clock is slewed steadily, as soon as two readings have shown it.
    #[test]
    fn both_bounds_hold_while_a_clock_is_slewed_steadily(
        rate in -SLEW_MAX..SLEW_MAX, ways in prop::collection::vec(0.0..1.0, 20)
    ) {
        let clocks = Clocks { rates: vec![(0.0, rate)] };
        let (mut bounds, mut at) = (ClockBounds::UNKNOWN, 0.0);
        for (number, way) in ways.into_iter().enumerate() {
            if number > 2 {
                // (A millisecond is what the readings cannot tell.)
                prop_assert!(bounds.at_least(at, 0.0) <= clocks.time(at) + 1.5e-3);
                prop_assert!(bounds.at_most(at) >= clocks.time(at) - 1.5e-3);
            }
            bounds = clocks.read(bounds, at, 5e-4, way);
            at += 1.0;
        }
    }
}

/// A bound that allows for a drift alone is early by what a slew makes of a reading's age.
#[test]
fn the_bound_that_plans_is_early_when_a_slew_begins() {
    let clocks = Clocks {
        rates: vec![(0.0, 0.0), (1.0, -SLEW_MAX)],
    };
    let bounds = clocks.read(ClockBounds::UNKNOWN, 1.0, 1e-3, 0.5);
    let early = |soon_until| bounds.at_least(1.5, soon_until) - clocks.time(1.5);
    assert!(early(0.0) > 0.03, "{}", early(0.0));
    assert!(early(f64::INFINITY) <= 0.0, "{}", early(f64::INFINITY));
}

#[test]
fn a_clock_that_is_set_is_followed() {
    let bounds = ClockBounds::UNKNOWN.with(1.0, 1.001, BEGIN);
    let bounds = bounds.with(2.0, 2.001, BEGIN + 3_600.0);
    let apart = bounds.at_most(2.001) - bounds.at_least(2.001, f64::INFINITY);
    assert!(apart < 0.004, "{apart}");
    // An answer that comes late says little, and spoils nothing.
    let late = bounds.with(1.5, 2.5, BEGIN + 3_600.0);
    let lost = bounds.at_least(2.5, f64::INFINITY) - late.at_least(2.5, f64::INFINITY);
    assert!(lost < 0.0011, "{lost}");
}

#[test]
fn dead_connections_are_noticed_unless_the_string_says_otherwise() {
    let config_of = |text: &str| {
        let mut config: Config = text.parse().unwrap();
        notice_dead(&mut config);
        config
    };
    let config = config_of("host=db");
    assert_eq!(config.get_keepalives_idle(), Duration::from_secs(15));
    assert_eq!(
        config.get_keepalives_interval(),
        Some(Duration::from_secs(5))
    );
    assert_eq!(config.get_keepalives_retries(), Some(3));
    let half_a_minute = Some(&Duration::from_secs(30));
    assert_eq!(config.get_tcp_user_timeout(), half_a_minute);
    let config = config_of("host=db keepalives_idle=60 connect_timeout=3 tcp_user_timeout=9");
    assert_eq!(config.get_keepalives_idle(), Duration::from_secs(60));
    assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(3)));
    assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_secs(9)));
}

#[test]
fn a_transaction_of_a_dead_connection_is_rolled_back_before_patience_ends() {
    let hour = Duration::from_secs(3_600);
    for patience in [1, 20, 300, 3_600].map(Duration::from_secs) {
        for lease in [Duration::from_secs(1), Duration::from_secs(60), hour] {
            let idle = idle_of(lease, patience);
            assert!(idle <= patience / 4 && idle <= lease / 2, "{idle:?}");
            assert!(idle >= Duration::from_millis(100), "{idle:?}");
        }
    }
}

/// On a busy machine it would be rolled back although its node lives.
#[test]
fn without_patience_a_transaction_may_stand_for_half_a_lease() {
    let idle = |lease| idle_of(Duration::from_secs(lease), Duration::ZERO).as_millis();
    assert_eq!([1, 15, 60].map(idle), [500, 7_500, 10_000]);
}

/// Writes the golden file of this version's statements, each with the types of its parameters and
/// of its columns: `tests/golden/README.md` says when.
#[test]
#[ignore = "it writes a file, once for a version of the schema"]
fn write_the_statements() {
    let database = std::env::var("WHEELWORK_POSTGRES").expect("scripts/with-postgres sets it");
    let number = schema::number_of(STEPS);
    // (A schema of this name is in no text otherwise.)
    let name = "golden";
    drop(super::Postgres::builder(&database).schema(name).connect());
    let mut texts: Vec<String> = super::statements::texts(name).values().cloned().collect();
    texts.extend(super::outbox::texts(name));
    texts.sort();
    let mut client = postgres::Client::connect(&database, NoTls).unwrap();
    let written: Vec<String> = texts
        .iter()
        .map(|text| {
            let prepared = client.prepare(text).unwrap();
            let takes: Vec<&str> = prepared.params().iter().map(|ty| ty.name()).collect();
            let columns = prepared.columns().iter();
            let gives: Vec<&str> = columns.map(|column| column.type_().name()).collect();
            let (takes, gives) = (takes.join(" "), gives.join(" "));
            format!("-- takes: {takes}; gives: {gives}\n{}\n", text.trim())
        })
        .collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    let file = format!("{folder}/statements-{number}.txt");
    std::fs::write(file, written.join("\n")).unwrap();
    let drop = format!("DROP SCHEMA {name} CASCADE");
    client.batch_execute(&drop).unwrap();
}
