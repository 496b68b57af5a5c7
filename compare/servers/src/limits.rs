//! Limits: how long what may take in a server.

use clap::ValueEnum;
use std::str::FromStr;
use std::time::Duration;

/// In the order of their times on a command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Limit {
    /// From the end of a request to the end of the next one's head
    Header,
    /// Between two pieces of a request's body
    Body,
    /// A call, up to the head of its response
    Request,
    /// Until the client takes more bytes
    Write,
    /// Without a call
    Idle,
    /// A connection
    Age,
    /// A connection that is to end, for the rest of its requests and responses
    Grace,
}

/// All of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Limits {
    pub(crate) header: Duration,
    pub(crate) body: Duration,
    pub(crate) request: Duration,
    pub(crate) write: Duration,
    pub(crate) idle: Duration,
    /// Connections end earlier, by up to a tenth of it.
    pub(crate) age: Duration,
    pub(crate) grace: Duration,
}

/// No measurement takes so long.
const HOUR: Duration = Duration::from_secs(3_600);

impl Limits {
    /// Those of a server that closes connections after this time without a call. The limit of a
    /// head also runs between calls, so it is longer.
    pub(crate) fn of_idle(idle: Duration) -> Self {
        Self {
            header: idle * 3 / 2,
            body: idle,
            request: idle,
            write: idle,
            idle,
            age: HOUR,
            grace: idle,
        }
    }

    /// This one is so short, and the others an hour.
    pub(crate) fn only(limit: Limit, short: Duration) -> Self {
        let of = |this| if this == limit { short } else { HOUR };
        Self {
            header: of(Limit::Header),
            body: of(Limit::Body),
            request: of(Limit::Request),
            write: of(Limit::Write),
            idle: of(Limit::Idle),
            // The grace time begins at the end of the age.
            age: of(Limit::Age).min(of(Limit::Grace)),
            grace: of(Limit::Grace),
        }
    }

    /// On a command line: milliseconds.
    pub(crate) fn to_text(self) -> String {
        let times = [
            self.header,
            self.body,
            self.request,
            self.write,
            self.idle,
            self.age,
            self.grace,
        ];
        times.map(|time| time.as_millis().to_string()).join(",")
    }

    /// The age of a connection: a part of the limit that is left to chance, so that those which
    /// began together do not end together.
    pub(crate) fn jitter(&self) -> Duration {
        self.age / 10
    }
}

impl FromStr for Limits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let times: Result<Vec<u64>, _> = text.split(',').map(u64::from_str).collect();
        let times = times.map_err(|_| "no milliseconds".to_string())?;
        let &[header, body, request, write, idle, age, grace] = &times[..] else {
            return Err(format!("{} times are not seven", times.len()));
        };
        let ms = Duration::from_millis;
        Ok(Self {
            header: ms(header),
            body: ms(body),
            request: ms(request),
            write: ms(write),
            idle: ms(idle),
            age: ms(age),
            grace: ms(grace),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_they_are_written() {
        let second = Duration::from_secs(1);
        let all = Limit::value_variants().iter();
        let short = all.map(|&limit| Limits::only(limit, second));
        for limits in short.chain([Limits::of_idle(second)]) {
            assert_eq!(limits.to_text().parse(), Ok(limits));
        }
        assert!("1,2".parse::<Limits>().is_err() && "1,2,3,4,5,6,x".parse::<Limits>().is_err());
    }

    #[test]
    fn one_limit_is_short() {
        let second = Duration::from_secs(1);
        let text = Limits::only(Limit::Body, second).to_text();
        assert_eq!(text, "3600000,1000,3600000,3600000,3600000,3600000,3600000");
        let grace = Limits::only(Limit::Grace, second);
        assert_eq!((grace.age, grace.grace, grace.idle), (second, second, HOUR));
        assert_eq!(Limits::only(Limit::Age, second).grace, HOUR);
    }

    #[test]
    fn a_head_has_more_time_than_an_idle_connection() {
        let limits = Limits::of_idle(Duration::from_millis(5));
        assert!(limits.header > limits.idle);
    }
}
