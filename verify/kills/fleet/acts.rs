//! Acts: the trouble that the parent makes.

use super::parent::Run;
use crate::clock::now_ns;
use crate::trouble::{Happened, PAUSED, Trouble};
use crate::wire::Kind;
use postgres::Client;
use std::thread;
use std::time::Duration;
use wheelwork_kit::lock::lock;

/// How long a snapshot is held at the most, in milliseconds.
const SNAPSHOT_MAX_MS: u64 = 60_000;

/// Nodes at the most, beyond those of the beginning.
const MORE_NODES: usize = 2;

impl Run<'_> {
    pub(super) fn trouble(&mut self, what: Trouble) -> Result<(), String> {
        match what {
            Trouble::Kill => self.kill()?,
            Trouble::PauseLong => {
                let wait = self.options.ttl() + self.random_ms(300..2_500);
                self.pause(what, wait);
            }
            Trouble::PauseShort => {
                let part = 0.9 * self.plan.random.f64();
                self.pause(what, self.options.ttl().mul_f64(part));
            }
            Trouble::Add => {
                if self.nodes.alive().len() < self.options.nodes as usize + MORE_NODES {
                    let from = now_ns();
                    let (node, off) = self.start_node()?;
                    self.say(&format!("node {node} added, clock off by {off} s"));
                    self.wait_ready()?;
                    self.common.note(from, what, Some(node));
                }
            }
            Trouble::Stop => {
                if self.nodes.alive().len() > 2
                    && let Some(node) = self.some_node()
                {
                    self.say(&format!("node {node} is told to stop"));
                    let from = now_ns();
                    self.stop_node(node);
                    self.common.note(from, what, Some(node));
                }
            }
            Trouble::ServerKilled | Trouble::ServerEnded => {
                let ttl_ms = u64::from(self.options.ttl) * 1_000;
                let down = match self.plan.random.u32(..3) {
                    0 => self.random_ms(ttl_ms..6_000.max(ttl_ms * 3 / 2)),
                    _ => self.random_ms(0..1_500),
                };
                self.say(&format!("{}, for {} ms", what.name(), down.as_millis()));
                let from = now_ns();
                self.server.kill(what == Trouble::ServerKilled)?;
                self.wait(down);
                self.server.start()?;
                self.common.note(from, what, None);
            }
            Trouble::Snapshot => self.hold_snapshot(),
            Trouble::Deploy => self.deploy()?,
            Trouble::KindPaused => self.pause_kind()?,
            Trouble::Promote | Trouble::Stall => {}
        }
        Ok(())
    }

    fn kill(&mut self) -> Result<(), String> {
        let Some(node) = self.some_node() else {
            return Ok(());
        };
        let mut client = self.server.connect().ok();
        let (from, off) = (now_ns(), self.nodes.off(node));
        self.nodes.kill(node);
        let partitions = client.as_mut().and_then(|client| owned(client, node));
        let kill = Happened {
            partitions: partitions.unwrap_or_default(),
            ..Happened::since(from, Trouble::Kill, Some(node))
        };
        let count = kill.partitions.len();
        lock(&self.common.happened).push(kill);
        self.say(&format!(
            "node {node} killed, of {count} partitions, its clock off by {off} s"
        ));
        // The next one comes before the leases have run out, or after.
        let wait = self.random_ms(0..2_000 * u64::from(self.options.ttl));
        self.wait(wait);
        self.start_node().map(drop)
    }

    fn pause(&mut self, what: Trouble, wait: Duration) {
        let Some(node) = self.some_node() else {
            return;
        };
        self.say(&format!("node {node} paused for {} ms", wait.as_millis()));
        let mut client = self.server.connect().ok();
        let from = now_ns();
        self.nodes.signal(node, libc::SIGSTOP);
        let partitions = client.as_mut().and_then(|client| owned(client, node));
        let before = wait.min(self.options.ttl() + Duration::from_millis(250));
        self.wait(before);
        for waits in client.as_mut().map(waiting).unwrap_or_default() {
            self.say(&waits);
        }
        self.wait(wait - before);
        self.nodes.signal(node, libc::SIGCONT);
        lock(&self.common.happened).push(Happened {
            partitions: partitions.unwrap_or_default(),
            ..Happened::since(from, what, Some(node))
        });
    }

    /// Nodes but one are replaced by such without a kind, one after the other, and those by such
    /// with it.
    fn deploy(&mut self) -> Result<(), String> {
        let Some(stays) = self.some_node() else {
            return Ok(());
        };
        let kind = Kind::Batch;
        self.say(&format!("deploy without {}", kind.name()));
        let from = now_ns();
        for without in [Some(kind), None] {
            self.nodes.without = without;
            for node in self.nodes.alive() {
                if node != stays {
                    self.replace(node)?;
                }
            }
            let wait = self.random_ms(0..5_000);
            self.wait(wait);
        }
        self.say("deploy taken back");
        self.common.note(from, Trouble::Deploy, None);
        Ok(())
    }

    /// A node is told to stop when another one has come for it.
    pub(super) fn replace(&mut self, node: u32) -> Result<(), String> {
        self.start_node()?;
        self.wait_ready()?;
        self.stop_node(node);
        Ok(())
    }

    /// Pauses a kind for a moment. (Not in a fleet of two versions, whose floor is not to rise.)
    fn pause_kind(&mut self) -> Result<(), String> {
        let client = self.server.connect().ok();
        let Some(mut client) = client.filter(|_| self.options.old.is_none()) else {
            return Ok(());
        };
        let (wait, kind) = (self.random_ms(500..4_000), PAUSED.name());
        self.say(&format!("{kind} is paused for {} ms", wait.as_millis()));
        let mut call = |function: &str| {
            let called = client.batch_execute(&format!("SELECT wheelwork.wheelwork_{function}"));
            called.map_err(|error| format!("{function}: {error}"))
        };
        call("close(5, 'check')")?;
        call(&format!("pause('{kind}')"))?;
        let from = now_ns();
        self.wait(wait);
        self.common.note(from, Trouble::KindPaused, None);
        call(&format!("resume('{kind}')"))
    }

    /// Holds a snapshot, while other trouble goes on.
    fn hold_snapshot(&mut self) {
        let left = u64::from(self.options.minutes) * 60_000;
        let wait = self.random_ms(5_000..SNAPSHOT_MAX_MS.min(left / 2));
        self.hold_snapshot_for(wait);
    }

    /// A transaction that has read timers lasts so long.
    pub(super) fn hold_snapshot_for(&mut self, wait: Duration) {
        self.say(&format!("snapshot held for {} ms", wait.as_millis()));
        let from = now_ns();
        let Ok(mut client) = self.server.connect() else {
            return;
        };
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM wheelwork.timer";
        let _ = client.batch_execute(begin);
        self.common.note(from, Trouble::Snapshot, None);
        thread::spawn(move || {
            thread::sleep(wait);
            let _ = client.batch_execute("COMMIT");
        });
    }

    pub(super) fn promote(&mut self) -> Result<(), String> {
        // (After a restart the standby has to have caught up: what the primary has, and it has not,
        // is lost to it, though others may have read it.)
        let is_synchronous = |run: &Self| run.server.has_synchronous_standby();
        self.wait_until("the standby is not synchronous", is_synchronous)?;
        self.wait(Duration::from_secs(2));
        self.say("the primary killed, the standby promoted");
        let from = now_ns();
        self.server.promote()?;
        self.common.note(from, Trouble::Promote, None);
        self.wait(self.options.ttl() + Duration::from_secs(4));
        Ok(())
    }

    /// Nodes of the earlier version go, as at the end of an update: they leave alone what waits for
    /// a handler in their partitions.
    pub(super) fn end_update(&mut self) -> Result<(), String> {
        if self.nodes.old().is_empty() {
            return Ok(());
        }
        while self.nodes.old().len() == self.nodes.alive().len() {
            self.nodes.start(0)?;
        }
        self.wait_ready()?;
        for node in self.nodes.old() {
            let from = now_ns();
            self.stop_node(node);
            self.common.note(from, Trouble::Stop, Some(node));
        }
        Ok(())
    }
}

/// The partitions of a node, by its name.
fn owned(client: &mut Client, node: u32) -> Option<Vec<u16>> {
    let sql = "SELECT part FROM wheelwork.lease l JOIN wheelwork.node n ON n.node = l.owner
        WHERE n.name = $1 AND n.until > now() AND NOT n.dead";
    let rows = client.query(sql, &[&format!("node-{node}")]).ok()?;
    Some(rows.iter().map(|row| row.get::<_, i16>(0) as u16).collect())
}

/// Statements that wait for another connection, and what that one does.
fn waiting(client: &mut Client) -> Vec<String> {
    let sql = "SELECT left(regexp_replace(w.query, '\\s+', ' ', 'g'), 60), b.state,
            left(regexp_replace(b.query, '\\s+', ' ', 'g'), 60), count(*)
        FROM pg_stat_activity w CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) u (pid)
            JOIN pg_stat_activity b ON b.pid = u.pid
        WHERE b.state LIKE 'idle in transaction%' GROUP BY 1, 2, 3";
    let rows = client.query(sql, &[]).unwrap_or_default();
    let text = |row: &postgres::Row, at| row.get::<_, Option<String>>(at).unwrap_or_default();
    let line = |row: &postgres::Row| {
        let [waits, state, after] = [0, 1, 2].map(|at| text(row, at));
        format!("waits: '{waits}', for one that is {state}, after '{after}'")
    };
    rows.iter().map(line).collect()
}
