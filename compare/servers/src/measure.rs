//! One measurement: starts a server, connects the clients, and reads what the server has used while
//! they ask.

use crate::job::Job;
use crate::load::Load;
use crate::server::Server;
use std::time::Instant;
use wheelwork_kit::line::Figures;
use wheelwork_kit::system;

/// Connections of an address. Each needs a port of the client's, of which there are some more.
const PER_ADDRESS: usize = 20_000;

/// Connections that may wait for the server to take them.
const AT_A_TIME: usize = 500;

pub(crate) fn measure(job: &Job) -> Result<Figures, String> {
    let addresses = job.count.div_ceil(PER_ADDRESS);
    let limits = std::iter::repeat_n(job.limits(), addresses);
    let mut server = Server::start(job.subject, job.threads, limits)?;
    let empty = server.ask()?;
    let mut load = Load::new(&server.addresses, job.mix(), job.seed)?;
    connect(job, &mut server, &mut load)?;
    load.run(job.warm_up())?;

    let (before, cpu_before, start) = (server.ask()?, system::cpu_time(), Instant::now());
    let tally = load.run(job.time())?;
    let (after, took_s) = (server.ask()?, start.elapsed().as_secs_f64());
    let load_cpu_s = (system::cpu_time() - cpu_before).as_secs_f64();
    let failed = tally.failed + load.finish()?;

    let cpu_s = after.cpu_s - before.cpu_s;
    let answered = tally.answered as f64;
    if answered == 0.0 {
        return Err("no request was answered".to_string());
    }
    let us = |part| tally.response_times.quantile_ns(part) as f64 / 1e3;
    let own_bytes = after.resident_bytes - empty.resident_bytes;
    let mut figures = Figures::from([
        ("cpu_s_per_million_requests", cpu_s / answered * 1e6),
        ("cpu_percent", cpu_s / took_s * 100.0),
        ("requests", answered),
        ("requests_per_s", answered / took_s),
        ("failed", failed as f64),
        ("response_us_p50", us(0.5)),
        ("response_us_p99", us(0.99)),
        ("response_us_max", us(1.0)),
        ("resident_bytes", after.resident_bytes),
        ("bytes_per_connection", own_bytes / job.count as f64),
        ("load_cpu_percent", load_cpu_s / took_s * 100.0),
    ]);
    if job.rude_clients() > 0 {
        figures.extend([("cut_off_per_s", tally.cut_off as f64 / took_s)]);
    }
    let armed = after.armed.zip(before.armed);
    figures.extend(armed.map(|(after, before)| ("armed_per_s", (after - before) / took_s)));
    Ok(figures)
}

/// Connects all clients. Those that behave are idle until all of them are there.
fn connect(job: &Job, server: &mut Server, load: &mut Load) -> Result<(), String> {
    let (start, idle) = (Instant::now(), job.limits().idle);
    let mut connected = 0;
    while connected < job.clients() {
        let more = AT_A_TIME.min(job.clients() - connected);
        load.connect(more)?;
        connected += more;
        let all_are_there = server.wait_until_open(connected, connected, idle / 2)?;
        if !all_are_there || start.elapsed() > idle / 2 {
            return Err(format!(
                "{connected} connections take longer than half of --idle; give it more"
            ));
        }
    }
    load.connect_rude(job.rude_clients())
}
