//! Figures: what a report of `million` has beside those of other programs.

use crate::ledger::Balance;
use crate::phases::Cost;
use serde_json::json;
use wheelwork_kit::program::say;
use wheelwork_kit::report::{Report, rounded};

pub(crate) trait Figures {
    /// A phase: rate, time of a thread for an operation, CPU of all threads for a million.
    fn cost(&mut self, what: &str, name: &str, cost: &Cost, threads: usize);

    /// What has become of the timers.
    fn balance(&mut self, balance: &Balance);
}

impl Figures for Report {
    fn cost(&mut self, what: &str, name: &str, cost: &Cost, threads: usize) {
        let (mops, ns, cpu) = (cost.mops(), cost.ns_per_op(threads), cost.cpu_s_per_mop());
        say(format_args!(
            "  {what:<28} {mops:>8.2} M/s {ns:>9.1} ns/op {cpu:>8.3} CPU s/M"
        ));
        self.insert(&format!("{name}_mops"), rounded(mops, 1e3));
        self.insert(&format!("{name}_ns"), rounded(ns, 10.0));
        self.insert(&format!("{name}_cpu_s_per_mop"), rounded(cpu, 1e6));
    }

    fn balance(&mut self, balance: &Balance) {
        let counts = balance.counts();
        let [armed, fired, cancelled, handed_back, early, lost, doubled] = counts.map(|(_, n)| n);
        say(format_args!(
            "  armed {armed} = fired {fired} + cancelled {cancelled} + handed back {handed_back}"
        ));
        say(format_args!(
            "  early {early}, lost {lost}, doubled {doubled}"
        ));
        for (name, count) in counts {
            self.insert(name, json!(count));
        }
    }
}
