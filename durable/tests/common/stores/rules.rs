//! Demands of rules: what holds for all timers of a kind, or for all whose key begins alike.

use super::{Opened, Place, at};
use std::num::NonZeroU32;
use wheelwork_durable::contract::{Outcome, RuleChange, Write};
use wheelwork_durable::{Rate, Rule, RuleFor, StoreTime};

fn kind(kind: &str) -> RuleFor {
    RuleFor::Kind(kind.into())
}

fn keys(prefix: &str) -> RuleFor {
    RuleFor::Keys(prefix.into())
}

impl Opened {
    fn change(&mut self, of: &RuleFor, change: RuleChange) -> bool {
        match self.one(Write::Rule(of.clone(), change)) {
            Outcome::Ruled(is_changed) => is_changed,
            other => panic!("{other:?}"),
        }
    }

    fn pause(&mut self, of: &RuleFor, since: StoreTime) -> bool {
        self.change(of, RuleChange::Pause(since))
    }

    fn resume(&mut self, of: &RuleFor) -> bool {
        self.change(of, RuleChange::Resume)
    }

    fn rules(&mut self) -> Vec<Rule> {
        self.store.rules().unwrap()
    }

    /// What the rules are for, and since when each pauses.
    fn pauses(&mut self) -> Vec<(RuleFor, Option<StoreTime>)> {
        let rules = self.rules().into_iter();
        rules.map(|rule| (rule.of, rule.paused_since)).collect()
    }
}

pub fn rules_stay(place: &dyn Place) {
    let mut open = Opened::new(place);
    assert_eq!(open.rules(), []);
    let (mail, tenant) = (kind("mail"), keys("tenant-7/"));
    assert!(!open.resume(&mail), "it is not paused");
    assert!(open.pause(&tenant, at(5)));
    assert!(open.pause(&mail, at(6)));
    // (It is since then.)
    assert!(!open.pause(&mail, at(7)));
    let all = [(mail.clone(), Some(at(6))), (tenant.clone(), Some(at(5)))];
    assert_eq!(open.pauses(), all);
    // A kind and a beginning of keys of one text are two.
    assert!(open.pause(&kind("tenant-7/"), at(8)));
    assert!(open.resume(&kind("tenant-7/")));
    let mut open = open.crash(place);
    assert_eq!(open.pauses(), all);
    let mut open = {
        assert!(open.resume(&tenant));
        open.restart(place)
    };
    assert_eq!(open.pauses(), all[..1]);
    assert!(open.resume(&mail) && !open.resume(&mail));
    assert_eq!(open.rules(), []);
    assert_eq!(open.crash(place).rules(), []);
}

pub fn rules_have_parts(place: &dyn Place) {
    let mut open = Opened::new(place);
    let (mail, count) = (kind(""), NonZeroU32::new(7));
    let rate = Rate::new(0.1, NonZeroU32::MAX);
    assert!(rate.is_some());
    assert!(!open.change(&mail, RuleChange::Rate(None)));
    assert!(!open.change(&mail, RuleChange::Calls(None)));
    assert_eq!(open.rules(), []);
    assert!(open.change(&mail, RuleChange::Rate(rate)));
    assert!(!open.change(&mail, RuleChange::Rate(rate)));
    assert!(open.change(&mail, RuleChange::Calls(count)));
    assert!(open.pause(&mail, at(5)));
    let mut open = open.crash(place);
    let parts = |rule: &Rule| (rule.paused_since, rule.rate, rule.calls);
    let of = |open: &mut Opened| open.rules().iter().map(parts).collect::<Vec<_>>();
    assert_eq!(of(&mut open), [(Some(at(5)), rate, count)]);
    // Each part goes by itself, and the last one takes the rule along.
    assert!(open.resume(&mail));
    assert_eq!(of(&mut open), [(None, rate, count)]);
    assert!(open.change(&mail, RuleChange::Rate(None)));
    assert_eq!(of(&mut open), [(None, None, count)]);
    let mut open = open.crash(place);
    assert_eq!(of(&mut open), [(None, None, count)]);
    assert!(open.change(&mail, RuleChange::Calls(None)));
    assert_eq!(open.rules(), []);
}

pub fn rules_are_bounded(place: &dyn Place) {
    let mut open = Opened::new(place);
    let mut refused = |of: RuleFor| {
        let outcome = open.one(Write::Rule(of, RuleChange::Pause(at(1))));
        let Outcome::Refused(why) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(!why.contains('\n'), "{why}");
    };
    refused(keys(""));
    refused(kind(&"k".repeat(1_025)));
    refused(keys(&"k".repeat(1_025)));
    let longest = ["k", "é"].map(|text| text.repeat(1_024 / text.len()));
    let mut pauses = longest.iter().map(|text| kind(text)).collect::<Vec<_>>();
    pauses.extend(longest.iter().map(|text| keys(text)));
    pauses.extend((pauses.len()..1_000).map(|number| kind(&format!("kind-{number}"))));
    let pause = |of: &RuleFor| Write::Rule(of.clone(), RuleChange::Pause(at(1)));
    let outcomes = open.write(pauses.iter().map(pause));
    assert!(outcomes.iter().all(|made| *made == Outcome::Ruled(true)));
    assert_eq!(open.rules().len(), 1_000);
    let one_more = pause(&keys("one more"));
    assert!(matches!(open.one(one_more.clone()), Outcome::Refused(_)));
    // A rule that is there is changed, and another one comes in its place.
    let first = pauses.swap_remove(0);
    assert!(open.change(&first, RuleChange::Calls(NonZeroU32::new(1))));
    assert!(open.change(&first, RuleChange::Calls(None)) && open.resume(&first));
    assert_eq!(open.one(one_more), Outcome::Ruled(true));
    assert_eq!(open.crash(place).rules().len(), 1_000);
}

pub fn rules_are_news(place: &dyn Place) {
    let mut open = Opened::new(place);
    assert!(open.store.has_news_of_rules(), "nobody has asked yet");
    open.rules();
    assert!(!open.store.has_news_of_rules());
    open.arm_at([10, 20]);
    open.resume(&kind("mail"));
    assert!(!open.store.has_news_of_rules(), "none was changed");
    let row = open.row(30);
    let pause = Write::Rule(kind("mail"), RuleChange::Pause(at(5)));
    let outcomes = open.write([Write::Arm(row), pause]);
    assert_eq!(outcomes, [Outcome::Armed(None), Outcome::Ruled(true)]);
    assert!(open.store.has_news_of_rules());
    assert_eq!(open.rules().len(), 1);
    assert!(!open.store.has_news_of_rules());
    if open.store.can_reopen() {
        open.store.reopen().unwrap();
        assert!(open.store.has_news_of_rules());
        assert_eq!(open.rules().len(), 1);
    }
}
