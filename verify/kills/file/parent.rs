//! Parent: starts a child, kills it, starts it again, and keeps the ledger of what it writes.

use super::clock::now_us;
use super::ledger::Ledger;
use super::plan::mix;
use super::wire::{Decoder, Message, Order, Record};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// The parent looks at what is to be done this often, if nothing comes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A child tells something ten times a second. One that is silent for longer has hung.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// One kill in 5 hits a child that has just been started.
const OPENING: u64 = 5;

/// From the start of such a child to its kill, at the most.
const OPENING_US_MAX: u64 = 40_000;

/// From the progress at which a child is to be killed to its kill, at the most.
const JITTER_US_MAX: u64 = 10_000;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 18;

/// A process that works, or what stands for it.
pub(crate) trait Child {
    /// Its orders and its records.
    fn pipes(&mut self) -> (Box<dyn Write + Send>, Box<dyn Read + Send>);

    /// Ends it at once. Nothing is written after this.
    fn kill(&mut self);

    /// Waits until it has ended, and says how.
    fn wait(&mut self) -> String;
}

/// When a child is to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// So long after this number of steps.
    Progress(u64, Duration),
    /// So long after it was started.
    Opening(Duration),
}

/// The moments of this number of kills, spread over the job's steps.
pub(crate) fn moments(kills: u32, seed: u64, steps: u64) -> VecDeque<Moment> {
    let random = |kill: u32, part: u64| mix(mix(seed ^ part << 40) ^ u64::from(kill));
    let moment = |kill: u32| {
        if random(kill, 1).is_multiple_of(OPENING) {
            return Moment::Opening(Duration::from_micros(random(kill, 2) % OPENING_US_MAX));
        }
        // Somewhere in the kill's share of the steps. The last 3 % are nobody's.
        let part = (f64::from(kill) + (random(kill, 3) >> 11) as f64 / (1_u64 << 53) as f64)
            / f64::from(kills);
        let jitter = Duration::from_micros(random(kill, 4) % JITTER_US_MAX);
        Moment::Progress((steps as f64 * part * 0.97) as u64, jitter)
    };
    (0..kills).map(moment).collect()
}

/// Takes the job to its end, and notes all in the ledger. When all is due, and nothing has become
/// of any timer for as long as the patience lasts, nothing will. An error: a child could not be
/// started, or writes what no child of this program does.
pub(crate) fn run<C: Child>(
    ledger: &mut Ledger,
    mut moments: VecDeque<Moment>,
    patience: Duration,
    mut start: impl FnMut() -> Result<C, String>,
    mut show: impl FnMut(&Ledger),
) -> Result<(), String> {
    loop {
        let mut child = start()?;
        ledger.begin_life();
        let watched = watch(ledger, &mut moments, patience, &mut child, &mut show);
        if watched.is_err() {
            child.kill();
        }
        let how = child.wait();
        let end = watched?;
        ledger.end_life(now_us(), end == End::Killed);
        show(ledger);
        match end {
            End::Killed => {}
            End::Ended if ledger.is_done() => return Ok(()),
            End::Ended => {
                let why = ledger.fault().unwrap_or("it did not say why").to_string();
                ledger.complain(format!("the child ended by itself ({how}): {why}"));
                return Ok(());
            }
            End::Silent => {
                let seconds = SILENCE_MAX.as_secs();
                ledger.complain(format!("the child was silent for {seconds} s"));
                return Ok(());
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// By one of the moments.
    Killed,
    Ended,
    /// Killed, since it said nothing any more.
    Silent,
}

/// Notes what a child writes until it ends.
fn watch(
    ledger: &mut Ledger,
    moments: &mut VecDeque<Moment>,
    patience: Duration,
    child: &mut impl Child,
    show: &mut impl FnMut(&Ledger),
) -> Result<End, String> {
    let (orders, records) = child.pipes();
    let (orders, chunks) = (writer(orders), reader(records));
    let started = Instant::now();
    let (mut heard, mut moved) = (started, (started, ledger.progress()));
    let mut kill_at = match moments.front() {
        Some(Moment::Opening(after)) => Some(started + *after),
        _ => None,
    };
    let (mut end, mut is_finishing) = (End::Ended, false);
    let mut decoder = Decoder::default();
    loop {
        let wait = kill_at.map_or(LOOK_AGAIN, |at| {
            at.saturating_duration_since(Instant::now()).min(LOOK_AGAIN)
        });
        match chunks.recv_timeout(wait) {
            Ok(chunk) => {
                heard = Instant::now();
                decoder.push(&chunk);
                let now_us = now_us();
                while let Some(record) = decoder.next()? {
                    let is_ready = matches!(record, Record::Ready { .. });
                    ledger.note(record, now_us)?;
                    if is_ready {
                        // It fails if the child has gone, which is seen soon.
                        let _ = orders.send(ledger.orders());
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(end),
        }
        show(ledger);
        if end != End::Ended {
            continue;
        }
        let now = Instant::now();
        if moved.1 != ledger.progress() {
            moved = (now, ledger.progress());
        }
        if let (None, Some(Moment::Progress(steps, jitter))) = (kill_at, moments.front())
            && ledger.is_ready()
            && (ledger.progress() >= *steps || ledger.is_complete())
        {
            kill_at = Some(now + *jitter);
        }
        if kill_at.is_some_and(|at| at <= now) {
            moments.pop_front();
            child.kill();
            (end, kill_at) = (End::Killed, None);
        } else if now - heard > SILENCE_MAX {
            child.kill();
            end = End::Silent;
        } else if ledger.is_ready() && !is_finishing {
            let is_stuck = now - moved.0 > patience
                && now_us() > ledger.due_last_us() + patience.as_micros() as u64;
            if is_stuck || ledger.is_complete() && moments.is_empty() {
                is_finishing = true;
                if !ledger.is_complete() {
                    let left = (ledger.steps() - ledger.progress()).to_string();
                    let seconds = patience.as_secs_f64();
                    ledger.complain(format!(
                        "nothing came of the last {left} steps for {seconds} s"
                    ));
                }
                let _ = orders.send(Order::Finish.frame());
            }
        }
    }
}

/// Writes what it is sent, so that nobody waits for a child that does not read.
fn writer(mut pipe: Box<dyn Write + Send>) -> Sender<Vec<u8>> {
    let (send, orders) = mpsc::channel::<Vec<u8>>();
    thread::spawn(move || {
        orders
            .into_iter()
            .try_for_each(|bytes| pipe.write_all(&bytes))
    });
    send
}

/// Reads until nobody writes any more.
fn reader(mut pipe: Box<dyn Read + Send>) -> Receiver<Vec<u8>> {
    // Bounded: a parent that falls behind lets the child wait.
    let (send, chunks) = mpsc::sync_channel(16);
    thread::spawn(move || {
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            match pipe.read(&mut chunk) {
                Ok(0) => return,
                Ok(length) => chunk.truncate(length),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            }
            if send.send(chunk).is_err() {
                return;
            }
        }
    });
    chunks
}
