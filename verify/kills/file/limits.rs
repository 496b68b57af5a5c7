//! Limits: what a life of the process does to its timers with `--limits`. Some are put off, all are
//! held back by other limits in each life, and each run that is done leaves a record.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::Duration;
use wheelwork_durable::{
    Delivery, DoneQuery, DurableClient, DurableId, HandlerResult, Later, Rate, Ruled,
};
use wheelwork_kit::lock::lock;

/// How long records are kept: longer than a job lasts.
pub(crate) const KEPT: Duration = Duration::from_secs(3_600);

/// Timers in a second, at once, and under way at one time.
const PER_SECOND: f64 = 20_000.0;
const BURST: u32 = 1_000;
const CALLS: u32 = 100;

/// One timer in 32 is put off, once in each life, by this.
const PUT_OFF: u64 = 32;
const PUT_OFF_BY: Duration = Duration::from_millis(50);

pub(crate) struct Limits {
    life: u32,
    put_off: Mutex<HashSet<DurableId>>,
    /// Those whose handler has said `Ok` in this life.
    done: Mutex<HashSet<DurableId>>,
}

impl Limits {
    pub(crate) fn new(life: u32) -> Self {
        Self {
            life,
            put_off: Mutex::default(),
            done: Mutex::default(),
        }
    }

    /// Sets the limits of this life, while timers fire. What an earlier life has held is there.
    pub(crate) fn set(&self, ruled: &Ruled<'_>) -> Result<(), String> {
        let rate = NonZeroU32::new(BURST).and_then(|burst| Rate::new(PER_SECOND, burst));
        let rate = rate.filter(|_| self.life % 2 == 1);
        let rated = match rate {
            Some(rate) => ruled.set_rate(rate),
            None => ruled.clear_rate(),
        };
        let calls = NonZeroU32::new(CALLS).filter(|_| self.life % 4 >= 2);
        let called = match calls {
            Some(calls) => ruled.set_calls(calls),
            None => ruled.clear_calls(),
        };
        rated
            .and(called)
            .map(drop)
            .map_err(|error| format!("setting limits: {error}"))
    }

    /// Handles those that are not put off.
    pub(crate) fn handle(
        &self,
        batch: &[Delivery],
        handle: impl Fn(&[&Delivery]) -> Result<(), String>,
    ) -> Vec<HandlerResult> {
        let is_put_off = |timer: &Delivery| {
            let number = timer.id().to_bits() as u64;
            number.is_multiple_of(PUT_OFF) && lock(&self.put_off).insert(timer.id())
        };
        let put_off: Vec<bool> = batch.iter().map(is_put_off).collect();
        let kept = batch.iter().zip(&put_off).filter(|(_, is_off)| !**is_off);
        let kept: Vec<&Delivery> = kept.map(|(timer, _)| timer).collect();
        let done = match kept.is_empty() {
            true => Ok(()),
            false => handle(&kept),
        };
        if done.is_ok() {
            lock(&self.done).extend(kept.iter().map(|timer| timer.id()));
        }
        let said = |is_off: &bool| -> HandlerResult {
            match is_off {
                true => Err(Later::after(PUT_OFF_BY).into()),
                false => Ok(done.clone()?),
            }
        };
        put_off.iter().map(said).collect()
    }

    /// Whether each timer that was handled in this life has one record, and none has two.
    pub(crate) fn check_records(&self, timers: &DurableClient) -> Result<(), String> {
        let (mut found, mut query) = (HashSet::new(), DoneQuery::new().limit(10_000));
        loop {
            let page = timers.done_page(&query);
            let page = page.map_err(|error| format!("looking for records: {error}"))?;
            for record in page.done {
                if !found.insert(record.id) {
                    return Err(format!("{} has two records", record.id));
                }
            }
            match page.next {
                Some(cursor) => query = query.after(cursor),
                None => break,
            }
        }
        match lock(&self.done).difference(&found).next() {
            Some(id) => Err(format!("{id} was handled, and has no record")),
            None => Ok(()),
        }
    }
}
