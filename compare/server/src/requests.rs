//! A server under load: its process, connections that are idle, and others that are not.

use crate::job::Job;
use crate::workload::Workload;
use crate::{idlers, load};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;
use wheelwork_kit::campaign::{end_with_us, itself};
use wheelwork_kit::line::Figures;
use wheelwork_kit::program;

/// Before a measurement.
const WARM_UP: Duration = Duration::from_secs(1);

/// Answers of the paced load.
const ANSWER_AFTER: &str = "5ms";

pub(crate) fn measure(job: &Job) -> Result<Figures, String> {
    let mut server = Server::start(job)?;
    let idle = idlers::open(server.port, job.connections)?;
    if !job.quick {
        run(job, server.port, WARM_UP)?;
    }
    let before = server.figures()?;
    let mut figures = run(job, server.port, job.time())?;
    let after = server.figures()?;
    if after.0["open"] < idle.len() as f64 {
        return Err(format!(
            "only {} of {} idle connections are still open",
            after.0["open"],
            idle.len()
        ));
    }
    let cpu_us = (after.0["cpu_s"] - before.0["cpu_s"]) * 1e6;
    figures.extend([("cpu_us_per_request", cpu_us / figures.0["requests"])]);
    Ok(figures)
}

fn run(job: &Job, port: u16, time: Duration) -> Result<Figures, String> {
    if job.workload == Workload::RequestsPaced {
        load::paced(port, job.rate, time)
    } else {
        load::full(port, time)
    }
}

/// A server, in a process of its own. It ends with this.
struct Server {
    process: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
    port: u16,
}

impl Server {
    fn start(job: &Job) -> Result<Self, String> {
        let mut command = itself()?;
        command.args([
            "serve",
            "--timers",
            &program::name(&job.timers),
            "--threads",
            &job.threads.to_string(),
        ]);
        command.args([
            "--connections",
            &(job.connections + load::ACTIVE_MAX).to_string(),
        ]);
        if job.workload == Workload::RequestsPaced {
            command.args(["--answer-after", ANSWER_AFTER]);
        }
        end_with_us(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let mut process = command
            .spawn()
            .map_err(|error| format!("no server: {error}"))?;
        let (asks, answers) = process
            .stdin
            .take()
            .zip(process.stdout.take())
            .ok_or("no pipes")?;
        let mut server = Self {
            process,
            asks,
            answers: BufReader::new(answers),
            port: 0,
        };
        server.port = server
            .line()?
            .trim()
            .parse()
            .map_err(|_| "the server did not start")?;
        Ok(server)
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .map_err(|error| format!("the server: {error}"))?;
        Ok(line)
    }

    /// What it says of itself now.
    fn figures(&mut self) -> Result<Figures, String> {
        self.asks
            .write_all(b"\n")
            .map_err(|error| format!("the server is gone: {error}"))?;
        Figures::from_json(&self.line()?).ok_or("no figures of the server".to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which is all the same.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
