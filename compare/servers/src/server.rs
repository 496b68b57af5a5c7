//! A server's process, seen by its clients: it ends with this.

use crate::limits::Limits;
use crate::name::Name;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::campaign::{end_with_us, itself};
use wheelwork_kit::program;

/// Between two looks at what it has.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

pub(crate) struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub(crate) addresses: Vec<SocketAddr>,
}

/// What it has used so far.
pub(crate) struct Told {
    /// Of all its threads, user and system.
    pub(crate) cpu_s: f64,
    pub(crate) resident_bytes: f64,
    /// Timers, if it counts them.
    pub(crate) armed: Option<f64>,
    /// Connections.
    pub(crate) open: usize,
    /// Those that it has taken since its start.
    pub(crate) taken: usize,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts one, with an address for each of these limits.
    pub(crate) fn start(
        subject: Name,
        threads: usize,
        limits: impl IntoIterator<Item = Limits>,
    ) -> Result<Self, String> {
        let mut command = itself()?;
        command
            .args(["serve", "--subject", &program::name(&subject)])
            .args(["--threads", &threads.to_string()]);
        for limits in limits {
            command.args(["--limits", &limits.to_text()]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        end_with_us(&mut command);
        let mut child = command
            .spawn()
            .map_err(|error| format!("no server: {error}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, output) = input.zip(output).ok_or("a process without pipes")?;
        let mut server = Self {
            child,
            input,
            output: BufReader::new(output),
            addresses: Vec::new(),
        };
        let first = server.answer()?;
        let addresses = first["addresses"].as_array().into_iter().flatten();
        let addresses = addresses.filter_map(|address| address.as_str()?.parse().ok());
        server.addresses = addresses.collect();
        Ok(server)
    }

    fn answer(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.map_err(|error| format!("the server: {error}"))?;
        serde_json::from_str(&line).map_err(|_| "the server has ended".to_string())
    }

    pub(crate) fn ask(&mut self) -> Result<Told, String> {
        let asked = writeln!(self.input).and_then(|()| self.input.flush());
        asked.map_err(|error| format!("the server: {error}"))?;
        let answer = self.answer()?;
        let number = |name: &str| answer[name].as_f64().unwrap_or(0.0);
        Ok(Told {
            cpu_s: number("cpu_s"),
            resident_bytes: number("resident_bytes"),
            armed: answer["armed"].as_f64(),
            open: number("open") as usize,
            taken: number("taken") as usize,
        })
    }

    /// Waits until it has this number of connections, of this number that it has taken since its
    /// start. Returns whether that is so before patience ends.
    pub(crate) fn wait_until_open(
        &mut self,
        open: usize,
        taken: usize,
        patience: Duration,
    ) -> Result<bool, String> {
        let start = Instant::now();
        loop {
            let told = self.ask()?;
            if (told.open, told.taken) == (open, taken) {
                return Ok(true);
            }
            if start.elapsed() > patience {
                return Ok(false);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}
