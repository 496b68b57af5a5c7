//! Nodes: the processes, as the parent has them.

use super::node::DATABASE;
use super::server::signal;
use crate::process::{Child, Orders, Process, Told, again, again_as, read_from};
use crate::wire::{Kind, Order};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
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
pub(crate) type AllOrders = Arc<Mutex<BTreeMap<u32, Orders>>>;

struct Node {
    process: Process,
    /// Seconds by which its clock is off.
    off: i32,
}

pub(crate) struct Nodes {
    offset_ns: i64,
    database: String,
    /// The program of an earlier version.
    old: Option<PathBuf>,
    sender: SyncSender<Told>,
    pub(crate) orders: AllOrders,
    nodes: BTreeMap<u32, Node>,
    next: u32,
    /// Nodes that were started of the earlier version.
    pub(crate) of_old: u32,
    /// Nodes that were started with a clock that is off.
    pub(crate) with_other_clock: u32,
    pub(crate) is_quiet: bool,
    /// Nodes that are started now lack this kind. (Those of the earlier version lack none.)
    pub(crate) without: Option<Kind>,
    /// How long timers wait for a handler at nodes that are started now.
    pub(crate) bury_after: Duration,
}

/// Whether clocks of nodes can be set.
pub(crate) fn can_fake() -> bool {
    Path::new(FAKE).exists()
}

impl Nodes {
    /// From the common clock to the server's; the connection string; the program of an earlier
    /// version; where nodes are heard.
    pub(crate) fn new(
        offset_ns: i64,
        database: String,
        old: Option<PathBuf>,
        sender: SyncSender<Told>,
    ) -> Self {
        Self {
            offset_ns,
            database,
            old,
            sender,
            orders: AllOrders::default(),
            nodes: BTreeMap::new(),
            next: 1,
            of_old: 0,
            with_other_clock: 0,
            is_quiet: false,
            without: None,
            bury_after: Duration::from_secs(2),
        }
    }

    /// Starts a node, with a clock that is off by `off` seconds.
    pub(crate) fn start(&mut self, off: i32) -> Result<u32, String> {
        let generation = self.next;
        self.next += 1;
        // (The first one is of the earlier version, and makes its tables.)
        let mut command = match &self.old {
            Some(old) if self.is_old(generation) => {
                self.of_old += 1;
                again_as(old)
            }
            _ => {
                let mut command = again()?;
                let seconds = self.bury_after.as_secs().to_string();
                command.args(["--bury-after", &seconds]);
                if let Some(kind) = self.without {
                    command.args(["--without", kind.name()]);
                }
                command
            }
        };
        command.arg("--node").arg(generation.to_string());
        command.arg("--offset-ns").arg(self.offset_ns.to_string());
        if self.is_quiet {
            command.arg("--quiet");
        }
        command.env(DATABASE, &self.database);
        if off != 0 {
            let off = format!("{off:+}s");
            command.env("LD_PRELOAD", FAKE).env("FAKETIME", off);
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            command.env("FAKETIME_NO_CACHE", "1");
            self.with_other_clock += 1;
        }
        let mut process = Process::start(&mut command)?;
        let (orders, events) = process.pipes();
        lock(&self.orders).insert(generation, Orders::new(orders));
        read_from(generation, events, self.sender.clone());
        self.nodes.insert(generation, Node { process, off });
        Ok(generation)
    }

    /// Seconds by which a node's clock is to be off: 0 for half of the nodes, and for all of them
    /// where clocks cannot be set. It takes the same numbers of `random` there.
    pub(crate) fn random_off(random: &mut fastrand::Rng) -> i32 {
        let off = if random.bool() {
            0
        } else {
            random.i32(-OFF_MAX..=OFF_MAX)
        };
        if can_fake() { off } else { 0 }
    }

    /// Whether a node is, or will be, of the earlier version: each second one, if there is one.
    fn is_old(&self, node: u32) -> bool {
        self.old.is_some() && node % 2 == 1
    }

    /// The nodes of the earlier version that run.
    pub(crate) fn old(&self) -> Vec<u32> {
        let nodes = self.nodes.keys().copied();
        nodes.filter(|&node| self.is_old(node)).collect()
    }

    /// How many were started so far.
    pub(crate) fn started(&self) -> u32 {
        self.next - 1
    }

    pub(crate) fn alive(&self) -> Vec<u32> {
        self.nodes.keys().copied().collect()
    }

    pub(crate) fn off(&self, node: u32) -> i32 {
        self.nodes.get(&node).map_or(0, |node| node.off)
    }

    pub(crate) fn signal(&self, node: u32, number: i32) {
        if let Some(node) = self.nodes.get(&node) {
            signal(node.process.0.id(), number);
        }
    }

    /// Kills one, and waits for its end.
    pub(crate) fn kill(&mut self, node: u32) {
        lock(&self.orders).remove(&node);
        if let Some(Node { mut process, .. }) = self.nodes.remove(&node) {
            process.kill();
            process.wait();
        }
    }

    pub(crate) fn order(&self, node: u32, order: Order) {
        if let Some(orders) = lock(&self.orders).get(&node) {
            orders.give(&[order]);
        }
    }

    /// Tells one to stop, and waits for its end. An error: it did not end so, or not in time.
    pub(crate) fn stop(&mut self, node: u32, patience: Duration) -> Result<(), String> {
        self.order(node, Order::Stop);
        lock(&self.orders).remove(&node);
        let Some(Node { mut process, .. }) = self.nodes.remove(&node) else {
            return Ok(());
        };
        let begun = Instant::now();
        while begun.elapsed() < patience {
            match process.0.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("node {node} ended: {status}")),
                _ => thread::sleep(Duration::from_millis(10)),
            }
        }
        process.kill();
        process.wait();
        let seconds = patience.as_secs();
        Err(format!(
            "node {node} was told to stop, and has not for {seconds} s"
        ))
    }

    /// Those that have ended and were not told to.
    pub(crate) fn ended(&mut self) -> Vec<(u32, ExitStatus)> {
        let mut ended = Vec::new();
        for (&number, node) in &mut self.nodes {
            if let Ok(Some(status)) = node.process.0.try_wait() {
                ended.push((number, status));
            }
        }
        for (node, _) in &ended {
            lock(&self.orders).remove(node);
            self.nodes.remove(node);
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
