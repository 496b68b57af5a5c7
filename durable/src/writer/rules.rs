//! Rules: the writer follows the rules of the store.
//!
//! The steps are RulesRead and RulesFollow of the README. A row that a rule pauses is held as one
//! without a handler is (`hold.rs`), and is released when no rule pauses it any more.

use super::turn::Writer;
use crate::queue::pauses::{PauseNews, Paused};
use crate::queue::ticket::Teller;
use crate::store::contract::StoreError;
use crate::store::fault::{DurableFault, is_broken};
use crate::store::rule::Rule;

impl Writer {
    /// RulesRead: reads the rules, if they may be others than they were. From now on no thread of
    /// this process hands out what they pause.
    pub(super) fn read_rules(&mut self) -> Result<(), StoreError> {
        if !self.core.store.has_news_of_rules() {
            return Ok(());
        }
        let rules = self.core.store.rules()?;
        self.take_rules(&rules);
        Ok(())
    }

    /// A call reads the rules.
    pub(super) fn look_at_rules(&mut self, teller: Teller<Vec<Rule>>) -> Result<(), StoreError> {
        let rules = self.core.store.rules();
        if let Ok(rules) = &rules {
            self.take_rules(rules);
        }
        self.answer(teller, rules)
    }

    /// The rules were read. No caller is told of them yet.
    fn take_rules(&mut self, rules: &[Rule]) {
        self.limit(rules);
        if is_broken(DurableFault::PauseIgnored) {
            return;
        }
        let news = self.core.shared.pauses.set(Paused::by(rules));
        self.pauses.pauses |= news.pauses;
        self.pauses.resumes |= news.resumes;
    }

    /// RulesFollow: what is paused leaves the window, and what is paused no more is released. All
    /// rows that were not handed out are loaded anew, since the window does not know their kinds
    /// and keys. So are those that were about to be held.
    pub(super) fn follow_rules(&mut self) {
        let PauseNews { pauses, resumes } = std::mem::take(&mut self.pauses);
        if self.core.is_stopping {
            return;
        }
        if pauses || resumes {
            // (They are filled anew, without what is paused.)
            self.core.queues.forget();
        }
        if pauses || resumes && self.core.held.is_holding() {
            self.core.load_anew();
        }
        if resumes && !is_broken(DurableFault::ResumeForgotten) {
            self.core.held.scan_soon();
        }
    }
}
