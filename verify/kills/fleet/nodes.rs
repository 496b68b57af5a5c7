//! Nodes: the processes, as the parent has them.

use crate::node::DATABASE;
use crate::server::signal;
use crate::wire::Lines;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::lock::lock;

/// Debian's libfaketime, that sets a program's clock.
const FAKE: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// By how much clocks of nodes are off at the most, in seconds.
const OFF_MAX: i32 = 3_600;

/// Where orders to nodes go. A node that is gone, or stopped, has none.
pub(crate) type Orders = Arc<Mutex<BTreeMap<u32, ChildStdin>>>;

/// How nodes are started.
pub(crate) struct Setting {
    pub(crate) seed: u64,
    pub(crate) rate: u32,
    pub(crate) ttl_ms: u64,
    pub(crate) offset_ns: i64,
    pub(crate) database: String,
}

struct Process {
    child: Child,
    /// Seconds by which its clock is off.
    off: i32,
}

pub(crate) struct Nodes {
    setting: Setting,
    sender: SyncSender<Lines>,
    pub(crate) orders: Orders,
    processes: BTreeMap<u32, Process>,
    next: u32,
    /// Nodes that were started with a clock that is off.
    pub(crate) with_other_clock: u32,
    pub(crate) is_quiet: bool,
}

/// Whether clocks of nodes can be set.
pub(crate) fn can_fake() -> bool {
    Path::new(FAKE).exists()
}

impl Nodes {
    pub(crate) fn new(setting: Setting, sender: SyncSender<Lines>) -> Self {
        Self {
            setting,
            sender,
            orders: Orders::default(),
            processes: BTreeMap::new(),
            next: 1,
            with_other_clock: 0,
            is_quiet: false,
        }
    }

    /// Starts a node, with a clock that is off by `off` seconds.
    pub(crate) fn start(&mut self, off: i32) -> Result<u32, String> {
        let generation = self.next;
        self.next += 1;
        let setting = &self.setting;
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg("node");
        for (name, value) in [
            ("--generation", generation.to_string()),
            (
                "--seed",
                (setting.seed.wrapping_mul(1_000) + u64::from(generation)).to_string(),
            ),
            ("--rate", setting.rate.to_string()),
            ("--ttl-ms", setting.ttl_ms.to_string()),
            ("--offset-ns", setting.offset_ns.to_string()),
        ] {
            command.arg(name).arg(value);
        }
        if self.is_quiet {
            command.arg("--quiet");
        }
        command.env(DATABASE, &setting.database);
        if off != 0 && can_fake() {
            let off = format!("{off:+}s");
            command.env("LD_PRELOAD", FAKE).env("FAKETIME", off);
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            command.env("FAKETIME_NO_CACHE", "1");
            self.with_other_clock += 1;
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| format!("a node: {error}"))?;
        let (orders, lines) = (child.stdin.take(), child.stdout.take());
        let (orders, lines) = orders.zip(lines).ok_or("a node has no pipes")?;
        lock(&self.orders).insert(generation, orders);
        let sender = self.sender.clone();
        thread::spawn(move || {
            let mut lines = BufReader::with_capacity(1 << 16, lines);
            let mut line = String::new();
            // (Lines of a batch go together.)
            while let Ok(1..) = lines.read_line(&mut line) {
                let is_more = lines.buffer().contains(&b'\n');
                if !(is_more && line.len() < 1 << 15) {
                    let told = sender.send((generation, std::mem::take(&mut line)));
                    if told.is_err() {
                        return;
                    }
                }
            }
        });
        self.processes.insert(generation, Process { child, off });
        Ok(generation)
    }

    /// Seconds that a node's clock is to be off: of half of them.
    pub(crate) fn random_off(random: &mut fastrand::Rng) -> i32 {
        if random.bool() {
            0
        } else {
            random.i32(-OFF_MAX..=OFF_MAX)
        }
    }

    pub(crate) fn alive(&self) -> Vec<u32> {
        self.processes.keys().copied().collect()
    }

    pub(crate) fn off(&self, node: u32) -> i32 {
        self.processes.get(&node).map_or(0, |process| process.off)
    }

    pub(crate) fn signal(&self, node: u32, number: i32) {
        if let Some(process) = self.processes.get(&node) {
            signal(process.child.id(), number);
        }
    }

    /// Kills one, and waits for its end.
    pub(crate) fn kill(&mut self, node: u32) {
        lock(&self.orders).remove(&node);
        if let Some(mut process) = self.processes.remove(&node) {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }

    pub(crate) fn order(&self, node: u32, order: &str) {
        if let Some(orders) = lock(&self.orders).get_mut(&node) {
            let _ = orders.write_all(order.as_bytes());
        }
    }

    /// Tells one to stop, and waits for its end. An error: it did not end so, or not in time.
    pub(crate) fn stop(&mut self, node: u32, patience: Duration) -> Result<(), String> {
        self.order(node, "stop\n");
        lock(&self.orders).remove(&node);
        let Some(mut process) = self.processes.remove(&node) else {
            return Ok(());
        };
        let begun = Instant::now();
        while begun.elapsed() < patience {
            match process.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("node {node} ended: {status}")),
                _ => thread::sleep(Duration::from_millis(10)),
            }
        }
        let _ = process.child.kill();
        let _ = process.child.wait();
        let seconds = patience.as_secs();
        Err(format!(
            "node {node} was told to stop, and has not for {seconds} s"
        ))
    }

    /// Those that have ended and were not told to.
    pub(crate) fn ended(&mut self) -> Vec<(u32, ExitStatus)> {
        let mut ended = Vec::new();
        for (&node, process) in &mut self.processes {
            if let Ok(Some(status)) = process.child.try_wait() {
                ended.push((node, status));
            }
        }
        for (node, _) in &ended {
            lock(&self.orders).remove(node);
            self.processes.remove(node);
        }
        ended
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in self.alive() {
            self.kill(node);
        }
    }
}
