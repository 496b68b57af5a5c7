//! Rule: what holds for all timers of a kind, or for all whose key begins alike, until somebody
//! changes it.
//!
//! A store keeps the rules beside the rows. A change names one part of a rule, so two callers that
//! change two parts of it do not undo each other's change. A rule without a part is not stored.

use super::row::StoreTime;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The most rules of a store.
const RULES_MAX: usize = 1_000;

/// The longest kind or prefix of a rule, in bytes.
const TEXT_MAX: usize = 1_024;

/// The slowest rate, one in eleven days, and the fastest one.
const PER_SECOND_MIN: f64 = 1e-6;
const PER_SECOND_MAX: f64 = 1e9;

/// Which timers a [`Rule`] is for. Two rules may be for the same timer: both hold then.
///
/// # Example
/// ```
/// use wheelwork_durable::RuleFor;
///
/// let tenant = RuleFor::Keys("tenant-7/".into());
/// assert!(tenant.takes("mail", Some("tenant-7/order-1")));
/// assert!(!tenant.takes("mail", Some("tenant-70/order-1")));
/// assert!(!tenant.takes("mail", None));
/// assert!(RuleFor::Kind("mail".into()).takes("mail", None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RuleFor {
    /// All timers of this kind.
    Kind(Arc<str>),
    /// All timers whose key begins with this text, which is not empty.
    Keys(Arc<str>),
}

impl RuleFor {
    /// Whether the rule holds for a timer of this kind, with this key.
    ///
    /// # Example
    /// See [`RuleFor`].
    pub fn takes(&self, kind: &str, key: Option<&str>) -> bool {
        match self {
            Self::Kind(own) => **own == *kind,
            Self::Keys(prefix) => key.is_some_and(|key| key.starts_with(&**prefix)),
        }
    }

    /// The kind, or the beginning of keys.
    pub(crate) const fn text(&self) -> &Arc<str> {
        match self {
            Self::Kind(text) | Self::Keys(text) => text,
        }
    }

    /// Its name in a store: `=` and the kind, or `*` and the beginning of keys.
    #[cfg(any(feature = "redb", feature = "postgres"))]
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Kind(kind) => format!("={kind}"),
            Self::Keys(prefix) => format!("*{prefix}"),
        }
    }

    /// From its name in a store. `None`: it is none.
    #[cfg(any(feature = "redb", feature = "postgres"))]
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let of = match (name.strip_prefix('='), name.strip_prefix('*')) {
            (Some(kind), _) => Self::Kind(kind.into()),
            (_, Some(prefix)) => Self::Keys(prefix.into()),
            _ => return None,
        };
        of.flaw().is_none().then_some(of)
    }

    /// Why no store has a rule for this.
    fn flaw(&self) -> Option<&'static str> {
        match self {
            Self::Keys(prefix) if prefix.is_empty() => {
                Some("a rule for keys takes a beginning of keys that is not empty")
            }
            _ if self.text().len() > TEXT_MAX => {
                Some("a rule takes a kind, or a beginning of keys, of 1,024 bytes at most")
            }
            _ => None,
        }
    }
}

impl fmt::Display for RuleFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => write!(f, "kind {kind}"),
            Self::Keys(prefix) => write!(f, "keys with {prefix}"),
        }
    }
}

/// How fast timers are handed out: `per_second` in a second on average, and up to `burst` at once
/// after a time in which there were none.
///
/// # Example
/// ```
/// use std::num::NonZeroU32;
/// use wheelwork_durable::Rate;
///
/// let rate = Rate::new(2.5, NonZeroU32::MIN).unwrap();
/// assert_eq!((rate.per_second(), rate.burst().get()), (2.5, 1));
/// assert_eq!(Rate::new(f64::NAN, NonZeroU32::MIN), None);
/// assert_eq!(Rate::new(0.0, NonZeroU32::MIN), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    per_second: f64,
    burst: NonZeroU32,
}

/// (Its number is finite, so it equals itself.)
impl Eq for Rate {}

impl Rate {
    /// A rate of `per_second` timers in a second, and of up to `burst` at once. `None`:
    /// `per_second` is not between 0.000001 and 1,000,000,000.
    ///
    /// # Example
    /// See [`Rate`].
    pub fn new(per_second: f64, burst: NonZeroU32) -> Option<Self> {
        let is_rate = (PER_SECOND_MIN..=PER_SECOND_MAX).contains(&per_second);
        is_rate.then_some(Self { per_second, burst })
    }

    /// How many in a second, on average.
    ///
    /// # Example
    /// See [`Rate`].
    pub const fn per_second(self) -> f64 {
        self.per_second
    }

    /// How many at once.
    ///
    /// # Example
    /// See [`Rate`].
    pub const fn burst(self) -> NonZeroU32 {
        self.burst
    }
}

// A part that is added later raises the floor, in a file and in a schema, when it is first used.
// Nodes that do not know the part delete a rule which has no part that they know (`is_some`); so
// does `wheelwork_change_rule` of the schema. So the step that brings the part to the schema has to
// replace that function (`CHANGE_RULE`), and nodes before it must be gone when the part is used.
/// What holds for all timers of a kind, or for all whose key begins alike. It is stored with the
/// timers, and holds on each node of a fleet until somebody changes it.
///
/// # Example
/// ```
/// use wheelwork_durable::contract::{Gate, Outcome, RuleChange, Store, Write};
/// use wheelwork_durable::{DurableId, Memory, RuleFor, StoreTime};
///
/// struct AllMayGo;
/// impl Gate for AllMayGo {
///     fn let_go(&mut self, _: DurableId) -> bool {
///         true
///     }
/// }
///
/// let mut store = Memory::new();
/// store.acquire()?;
/// let mail = RuleFor::Kind("mail".into());
/// let now = StoreTime::from_millis(1_000);
/// let pause = Write::Rule(mail.clone(), RuleChange::Pause(now));
/// assert_eq!(store.commit(vec![pause], &mut AllMayGo)?, [Outcome::Ruled(true)]);
/// let rules = store.rules()?;
/// assert_eq!(rules.len(), 1);
/// assert_eq!((&rules[0].of, rules[0].paused_since), (&mail, Some(now)));
/// # Ok::<(), wheelwork_durable::StoreError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The timers that it is for.
    pub of: RuleFor,
    /// They are paused since then: none of them is handed out.
    pub paused_since: Option<StoreTime>,
    /// They are handed out no faster than this.
    pub rate: Option<Rate>,
    /// At most this many of them are handled at one time.
    pub calls: Option<NonZeroU32>,
}

impl Rule {
    /// A rule without a part.
    pub(crate) const fn none(of: RuleFor) -> Self {
        Self {
            of,
            paused_since: None,
            rate: None,
            calls: None,
        }
    }

    /// Whether there is a part.
    pub(crate) const fn is_some(&self) -> bool {
        self.paused_since.is_some() || self.rate.is_some() || self.calls.is_some()
    }

    /// Changes a part. Returns whether it was another one.
    fn change(&mut self, change: RuleChange) -> bool {
        match change {
            RuleChange::Pause(now) => {
                let is_new = self.paused_since.is_none();
                self.paused_since.get_or_insert(now);
                is_new
            }
            RuleChange::Resume => self.paused_since.take().is_some(),
            RuleChange::Rate(rate) => std::mem::replace(&mut self.rate, rate) != rate,
            RuleChange::Calls(calls) => std::mem::replace(&mut self.calls, calls) != calls,
        }
    }
}

/// A change of one part of a rule.
///
/// # Example
/// See [`Rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleChange {
    /// The timers are paused since now. If they are already, nothing changes.
    Pause(StoreTime),
    /// They are paused no more.
    Resume,
    /// Their rate is this one, or none.
    Rate(Option<Rate>),
    /// At most this many of them are handled at one time. `None`: any number.
    Calls(Option<NonZeroU32>),
}

impl RuleChange {
    /// Whether it makes a part that a program has to know. (A part that goes away is forgotten by
    /// others, too.)
    #[cfg(feature = "postgres")]
    pub(crate) const fn makes_part(&self) -> bool {
        matches!(
            self,
            Self::Pause(_) | Self::Rate(Some(_)) | Self::Calls(Some(_))
        )
    }
}

/// All rules of a store, in the order of what they are for. Each store makes changes of rules by
/// this.
///
/// # Example
/// ```
/// use wheelwork_durable::RuleFor;
/// use wheelwork_durable::contract::{RuleChange, Rules};
///
/// let (mut rules, mail) = (Rules::default(), RuleFor::Kind("mail".into()));
/// assert_eq!(rules.change(&mail, RuleChange::Resume), Ok(false));
/// assert_eq!(rules.change(&mail, RuleChange::Pause(Default::default())), Ok(true));
/// assert_eq!(rules.all().len(), 1);
/// assert_eq!(rules.change(&mail, RuleChange::Resume), Ok(true));
/// assert!(rules.all().is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(BTreeMap<RuleFor, Rule>);

impl Rules {
    /// These rules.
    #[cfg(any(feature = "redb", feature = "postgres"))]
    pub(crate) fn of(rules: impl IntoIterator<Item = Rule>) -> Self {
        let rules = rules.into_iter().filter(Rule::is_some);
        Self(rules.map(|rule| (rule.of.clone(), rule)).collect())
    }

    /// All of them.
    pub fn all(&self) -> Vec<Rule> {
        self.0.values().cloned().collect()
    }

    /// The rule for these timers.
    pub fn get(&self, of: &RuleFor) -> Option<&Rule> {
        self.0.get(of)
    }

    /// Changes one. Returns whether that has made a difference.
    ///
    /// # Errors
    /// The reason in one line: there can be no rule for this, or there are 1,000 already.
    pub fn change(&mut self, of: &RuleFor, change: RuleChange) -> Result<bool, &'static str> {
        if let Some(flaw) = of.flaw() {
            return Err(flaw);
        }
        let former = self.0.get(of).cloned();
        let is_new = former.is_none();
        let mut rule = former.unwrap_or_else(|| Rule::none(of.clone()));
        if !rule.change(change) {
            return Ok(false);
        }
        if !rule.is_some() {
            self.0.remove(of);
            return Ok(true);
        }
        if is_new && self.0.len() >= RULES_MAX {
            return Err("there are 1,000 rules already, and no store has more");
        }
        self.0.insert(of.clone(), rule);
        Ok(true)
    }
}
