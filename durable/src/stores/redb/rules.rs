//! Rules: the table of rules, and what the store keeps of it in memory.
//!
//! The first rule makes the table, and raises the floor: an earlier program would hand out what a
//! rule holds back. All rules are read when the file is opened. A transaction that changes one
//! writes its value, or deletes it.
//!
//! | value | bytes |
//! |---|---|
//! | the rule's name, as in its key: length and text | varint, text |
//! | flags: paused, has a rate, has a number of calls | varint |
//! | if it is paused: since when | 6 |
//! | its rate, in a second: the bits of a float of 64 bits; and how many at once | 8, varint |
//! | calls at one time | varint |
//! | checksum | 4 |
//!
//! **A part that is added raises the floor**, to the format that has it, in the transaction that
//! writes it ([`RULES_SINCE`] is that of the parts above). A program that does not know the part
//! would not obey it, and would delete a rule that has no other. The same holds in PostgreSQL
//! (`store/rule.rs`).

use super::bytes::{
    Flaw, LATER, number, put_number, put_text, put_time, seal, take, text, time, unseal,
};
use super::tables::damaged;
use crate::store::rule::{Rate, Rule, RuleChange, RuleFor, Rules};
use crate::store::write::Outcome;
use redb::{Error, ReadTransaction, ReadableTable, TableDefinition, TableError, WriteTransaction};
use std::num::NonZeroU32;

/// Rules by name. A file that never had one has no such table.
pub(super) const RULES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("rules");

/// The first format that has rules.
pub(super) const RULES_SINCE: u64 = 4;

/// It is paused.
const PAUSED: u64 = 1;
/// It has a rate.
const RATE: u64 = 2;
/// It has a number of calls.
const CALLS: u64 = 4;

fn encode(rule: &Rule) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(&mut out, &rule.of.name());
    let parts = [
        (PAUSED, rule.paused_since.is_some()),
        (RATE, rule.rate.is_some()),
        (CALLS, rule.calls.is_some()),
    ];
    let flags = parts.into_iter().filter(|(_, is_set)| *is_set);
    put_number(&mut out, flags.map(|(flag, _)| flag).sum());
    if let Some(since) = rule.paused_since {
        put_time(&mut out, since);
    }
    if let Some(rate) = rule.rate {
        out.extend_from_slice(&rate.per_second().to_bits().to_le_bytes());
        put_number(&mut out, rate.burst().get().into());
    }
    if let Some(calls) = rule.calls {
        put_number(&mut out, calls.get().into());
    }
    seal(0, &mut out, 0);
    out
}

/// The rule of this name.
pub(super) fn decode(name: &str, bytes: &[u8]) -> Result<Rule, Flaw> {
    let mut rest = unseal(0, bytes)?;
    if text(&mut rest)? != name {
        return Err("it is another rule's");
    }
    let of = RuleFor::from_name(name).ok_or(match name {
        "" | "*" => "there can be no such rule",
        // (It has another sign, or is longer.)
        _ => LATER,
    })?;
    let flags = number(&mut rest)?;
    if flags > PAUSED | RATE | CALLS {
        return Err(LATER);
    }
    let mut rule = Rule::none(of);
    if flags & PAUSED != 0 {
        rule.paused_since = Some(time(&mut rest)?);
    }
    if flags & RATE != 0 {
        let bits = take(&mut rest, 8)?.first_chunk().copied();
        let per_second = f64::from_bits(u64::from_le_bytes(bits.unwrap_or_default()));
        rule.rate = Rate::new(per_second, count(&mut rest)?);
        rule.rate.ok_or(match per_second > 0.0 {
            true => LATER,
            false => "its rate is none",
        })?;
    }
    if flags & CALLS != 0 {
        rule.calls = Some(count(&mut rest)?);
    }
    match rest.is_empty() && rule.is_some() {
        true => Ok(rule),
        false => Err("it is no rule"),
    }
}

fn count(rest: &mut &[u8]) -> Result<NonZeroU32, Flaw> {
    let count = u32::try_from(number(rest)?).map_err(|_| LATER)?;
    NonZeroU32::new(count).ok_or("a count is none")
}

/// A value of a rule that does not decode.
pub(super) fn damaged_rule(flaw: Flaw) -> Error {
    damaged("rules", 0, flaw)
}

/// What a store keeps of its rules in memory.
pub(super) struct FileRules {
    pub(super) rules: Rules,
    /// They were changed since they were asked for last.
    pub(super) has_news: bool,
}

impl FileRules {
    /// The rules of a file.
    pub(super) fn read(transaction: &ReadTransaction) -> Result<Self, Error> {
        let table = match transaction.open_table(RULES) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(Self::new(Rules::default())),
            Err(error) => return Err(error.into()),
        };
        let mut rules = Vec::new();
        for entry in table.iter()? {
            let (name, value) = entry?;
            rules.push(decode(name.value(), value.value()).map_err(damaged_rule)?);
        }
        Ok(Self::new(Rules::of(rules)))
    }

    /// These rules, for which nobody has asked yet.
    pub(super) const fn new(rules: Rules) -> Self {
        let has_news = true;
        Self { rules, has_news }
    }

    /// Changes a rule, in a transaction. (One that fails ends the store, so nobody reads these
    /// rules again.)
    pub(super) fn change(
        &mut self,
        transaction: &WriteTransaction,
        of: &RuleFor,
        change: RuleChange,
    ) -> Result<Outcome, Error> {
        match self.rules.change(of, change) {
            Err(why) => return Ok(Outcome::Refused(why.into())),
            Ok(false) => return Ok(Outcome::Ruled(false)),
            Ok(true) => {}
        }
        self.has_news = true;
        let mut table = transaction.open_table(RULES)?;
        let name = of.name();
        match self.rules.get(of) {
            Some(rule) => table.insert(&*name, &*encode(rule))?,
            None => table.remove(&*name)?,
        };
        Ok(Outcome::Ruled(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::row::StoreTime;

    /// Rules with each choice of parts.
    fn all() -> Vec<Rule> {
        let rate = |per_second| Rate::new(per_second, NonZeroU32::MAX);
        let each = (1..8).map(|bits| Rule {
            of: RuleFor::Kind(format!("kind-{bits}").into()),
            paused_since: (bits & 1 != 0).then(|| StoreTime::from_millis(77)),
            rate: (bits & 2 != 0).then(|| rate(0.1)).flatten(),
            calls: (bits & 4 != 0).then_some(NonZeroU32::MIN),
        });
        let last = Rule {
            of: RuleFor::Keys("=tenant/".into()),
            paused_since: Some(StoreTime::MAX),
            rate: rate(1e9),
            calls: Some(NonZeroU32::MAX),
        };
        each.chain([last]).collect()
    }

    #[test]
    fn a_rule_comes_back() {
        for rule in all() {
            let (name, bytes) = (rule.of.name(), encode(&rule));
            assert_eq!(decode(&name, &bytes), Ok(rule));
            assert_eq!(decode("=other", &bytes), Err("it is another rule's"));
        }
    }

    #[test]
    fn a_value_that_is_cut_off_or_changed_is_none() {
        for rule in all() {
            let (name, bytes) = (rule.of.name(), encode(&rule));
            for end in 0..bytes.len() {
                assert!(decode(&name, &bytes[..end]).is_err());
                let mut body = bytes[..end.min(bytes.len() - 4)].to_vec();
                if end < bytes.len() - 4 {
                    seal(0, &mut body, 0);
                    assert!(decode(&name, &body).is_err(), "{rule:?}, {end}");
                }
                let mut flipped = bytes.clone();
                flipped[end] ^= 1;
                assert!(decode(&name, &flipped).is_err());
            }
        }
    }

    /// A value of this name, with these bytes behind it.
    fn decoded(name: &str, rest: &[u8]) -> Result<Rule, Flaw> {
        let mut out = Vec::new();
        put_text(&mut out, name);
        out.extend_from_slice(rest);
        seal(0, &mut out, 0);
        decode(name, &out)
    }

    #[test]
    fn what_a_later_program_has_written_is_told_as_that() {
        // A part; a sign before the name, and a longer name; more calls, and a faster rate.
        assert_eq!(decoded("=mail", &[9]), Err(LATER));
        let calls = [4, 1];
        assert!(decoded("=mail", &calls).is_ok());
        let long = format!("={}", "x".repeat(1_025));
        for name in ["+mail", "mail", &long] {
            assert_eq!(decoded(name, &calls), Err(LATER));
        }
        assert_eq!(decoded("=mail", &[4, 255, 255, 255, 255, 16]), Err(LATER));
        let rate = |per_second: f64| {
            let bits = per_second.to_bits().to_le_bytes();
            decoded("=mail", &[&[2][..], &bits, &[1]].concat())
        };
        assert!(rate(1.0).is_ok());
        assert_eq!(rate(1e12), Err(LATER));
        // No program writes these.
        for rest in [&[0][..], &[4, 0], &[4, 1, 1]] {
            assert!(decoded("=mail", rest).is_err_and(|flaw| flaw != LATER));
        }
        for name in ["", "*"] {
            assert!(decoded(name, &calls).is_err_and(|flaw| flaw != LATER));
        }
        for per_second in [0.0, -1.0, f64::NAN] {
            assert!(rate(per_second).is_err_and(|flaw| flaw != LATER));
        }
    }
}
