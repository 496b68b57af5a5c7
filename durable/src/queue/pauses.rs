//! Pauses: which timers are paused, as the writer and the threads that call handlers see it.
//!
//! The writer sets them when it has read the rules of the store. A thread asks before it hands a
//! timer out.
//!
//! # Ground rules
//!  - While no rule pauses anything, a thread reads one word, and takes no lock.
//!  - A pause that comes while a thread hands a timer out is later than that: the handler's call
//!    has begun. The writer sets the pauses before it tells a caller of a pause.

use crate::store::row::Row;
use crate::store::rule::{Rule, RuleFor};
use crate::sync::{AtomicBool, Ordering};
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

/// The timers that are paused.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Paused {
    kinds: HashSet<Arc<str>>,
    /// Beginnings of keys, and the lengths that these have.
    prefixes: HashSet<Arc<str>>,
    lengths: BTreeSet<usize>,
}

impl Paused {
    /// Those that these rules pause.
    pub(crate) fn by(rules: &[Rule]) -> Self {
        let mut paused = Self::default();
        for rule in rules.iter().filter(|rule| rule.paused_since.is_some()) {
            match &rule.of {
                RuleFor::Kind(kind) => {
                    paused.kinds.insert(kind.clone());
                }
                RuleFor::Keys(prefix) => {
                    paused.lengths.insert(prefix.len());
                    paused.prefixes.insert(prefix.clone());
                }
            }
        }
        paused
    }

    fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.prefixes.is_empty()
    }

    fn has(&self, kind: &str, key: Option<&str>) -> bool {
        let begins = |key: &str| {
            let beginnings = self.lengths.iter().filter_map(|&length| key.get(..length));
            beginnings
                .into_iter()
                .any(|text| self.prefixes.contains(text))
        };
        self.kinds.contains(kind) || key.is_some_and(begins)
    }

    /// Whether something is paused here that was not paused there.
    fn has_more_than(&self, other: &Self) -> bool {
        !self.kinds.is_subset(&other.kinds) || !self.prefixes.is_subset(&other.prefixes)
    }
}

/// What a change of the pauses has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PauseNews {
    /// Timers are paused that were not.
    pub(crate) pauses: bool,
    /// Timers are paused no more.
    pub(crate) resumes: bool,
}

/// Which timers are paused.
#[derive(Default)]
pub(crate) struct Pauses {
    are_some: AtomicBool,
    paused: RwLock<Paused>,
}

impl Pauses {
    /// Whether this timer is paused.
    pub(crate) fn has(&self, row: &Row) -> bool {
        // Ordering: Relaxed. The lock publishes what is paused. A thread that does not see yet that
        // something is hands its timer out as if it had come before the pause.
        if !self.are_some.load(Ordering::Relaxed) {
            return false;
        }
        let paused = self.paused.read().unwrap_or_else(PoisonError::into_inner);
        paused.has(&row.kind, row.key.as_deref())
    }

    /// From now on these are paused, and no others. Only the writer calls this.
    pub(crate) fn set(&self, next: Paused) -> PauseNews {
        let mut paused = self.paused.write().unwrap_or_else(PoisonError::into_inner);
        let news = PauseNews {
            pauses: next.has_more_than(&paused),
            resumes: paused.has_more_than(&next),
        };
        // Ordering: Relaxed. As in `has`.
        self.are_some.store(!next.is_empty(), Ordering::Relaxed);
        let former = std::mem::replace(&mut *paused, next);
        drop(paused);
        drop(former);
        news
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::store::row::{DurableId, StoreTime};
    use crate::store::rule::{RuleChange, Rules};

    fn rules(of: &[RuleFor]) -> Vec<Rule> {
        let mut rules = Rules::default();
        for of in of {
            rules.change(of, RuleChange::Pause(StoreTime::MIN)).unwrap();
        }
        rules.all()
    }

    fn row(kind: &str, key: Option<&str>) -> Row {
        let id = DurableId::from_bits(1);
        let mut row = Row::new(id, StoreTime::MIN, kind.into(), [].into());
        row.key = key.map(Into::into);
        row
    }

    #[test]
    fn kinds_and_beginnings_of_keys() {
        let pauses = Pauses::default();
        let kind = |kind: &str| RuleFor::Kind(kind.into());
        let keys = |keys: &str| RuleFor::Keys(keys.into());
        assert!(!pauses.has(&row("mail", Some("a"))));
        let all = [
            kind("mail"),
            kind(""),
            keys("a/"),
            keys("clé"),
            keys("a/b/c"),
        ];
        pauses.set(Paused::by(&rules(&all)));
        let is_paused = |kind, key| pauses.has(&row(kind, key));
        assert!(is_paused("mail", None) && is_paused("", None));
        assert!(!is_paused("mai", None) && !is_paused("mail2", Some("a")));
        assert!(is_paused("x", Some("a/")) && is_paused("x", Some("a/b")));
        assert!(!is_paused("x", Some("a")) && !is_paused("x", Some("b/a/")));
        // (The third byte of this key is in the middle of a character.)
        assert!(!is_paused("x", Some("cl")) && is_paused("x", Some("cléo")));
        assert!(!is_paused("x", Some("aéé")));
    }

    #[test]
    fn it_says_what_is_new() {
        let pauses = Pauses::default();
        let set = |of: &[RuleFor]| pauses.set(Paused::by(&rules(of)));
        let (mail, keys) = (RuleFor::Kind("mail".into()), RuleFor::Keys("mail".into()));
        let news = |pauses, resumes| PauseNews { pauses, resumes };
        assert_eq!(set(&[]), news(false, false));
        assert_eq!(set(std::slice::from_ref(&mail)), news(true, false));
        assert_eq!(set(&[mail.clone(), keys.clone()]), news(true, false));
        assert_eq!(set(std::slice::from_ref(&mail)), news(false, true));
        assert_eq!(set(&[keys]), news(true, true));
        assert_eq!(set(&[]), news(false, true));
        assert!(!pauses.has(&row("mail", Some("mail"))));
    }
}
