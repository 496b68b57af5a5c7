//! `server` without a load generator: each of its servers answers, gives up what takes too long,
//! and closes what is idle.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use wheelwork_kit::said::{
    Place, Said, assert_help_is_for_users, assert_numbers, assert_wrong, call,
};

const ALL: [&str; 4] = ["none", "tokio", "pingora", "wheelwork"];

/// Those that fire.
const TIMERS: [&str; 3] = ["tokio", "pingora", "wheelwork"];

fn server(words: &str) -> Said {
    call(env!("CARGO_BIN_EXE_server"), words)
}

/// A server of its own, which ends with this.
struct Server {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
    port: u16,
}

impl Server {
    fn start(timers: &str, more: &str) -> Self {
        let words = format!("serve --timers {timers} --threads 2 --connections 100 {more}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_server"));
        let mut process = command
            .args(words.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut port = String::new();
        output.read_line(&mut port).expect("it says its port");
        let port = port.trim().parse().expect("it is a number");
        Self {
            process,
            output,
            port,
        }
    }

    fn connect(&self) -> Client {
        Client(BufReader::new(
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens"),
        ))
    }

    /// What it says of itself.
    fn figures(&mut self) -> Value {
        writeln!(self.process.stdin.as_ref().expect("it is piped")).expect("it reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).expect("it is JSON")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    /// The status and the text of an answer.
    fn get(&mut self, path: &str) -> (u16, String) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.0
            .get_mut()
            .write_all(request.as_bytes())
            .expect("it is open");
        let line = |client: &mut Self| {
            let mut line = String::new();
            client.0.read_line(&mut line).expect("it is open");
            line.trim().to_string()
        };
        let status = line(self)
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .expect("it has a status");
        let mut text = Vec::new();
        loop {
            let line = line(self);
            if let Some(length) = line.strip_prefix("content-length: ") {
                text = vec![0; length.parse().expect("it is a number")];
            }
            if line.is_empty() {
                break;
            }
        }
        self.0.read_exact(&mut text).expect("it is open");
        (status, String::from_utf8(text).expect("it is text"))
    }

    /// How many more bytes there are until the server closes the connection.
    fn rest(&mut self) -> usize {
        self.0
            .read_to_end(&mut Vec::new())
            .expect("it is closed in peace")
    }
}

#[test]
fn every_server_answers() {
    for timers in ALL {
        for answer_after in ["0s", "1ms"] {
            let far = format!("--answer-after {answer_after} --timeout 1h --idle 2h");
            let mut server = Server::start(timers, &far);
            let mut clients = [server.connect(), server.connect()];
            for _ in 0..50 {
                for client in &mut clients {
                    let answer = (200, "here you are\n".to_string());
                    assert_eq!(client.get("/"), answer, "{timers} {answer_after}");
                }
            }
            let figures = server.figures();
            assert_eq!(figures["open"], 2.0, "{timers}: {figures}");
            assert!(
                figures["cpu_s"].as_f64().is_some_and(|cpu_s| cpu_s > 0.0),
                "{timers}: {figures}"
            );
        }
    }
}

#[test]
fn what_takes_too_long_is_given_up() {
    for timers in TIMERS {
        let server = Server::start(timers, "--timeout 20ms --idle 2h");
        let mut client = server.connect();
        for _ in 0..3 {
            let answer = (504, "too late\n".to_string());
            assert_eq!(client.get("/never"), answer, "{timers}");
        }
    }
}

#[test]
fn what_is_idle_is_closed() {
    for timers in TIMERS {
        let server = Server::start(timers, "--timeout 1h --idle 20ms");
        let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
        assert!(
            clients.iter_mut().all(|client| client.rest() == 0),
            "{timers}"
        );
    }
}

#[test]
fn a_server_ends_when_nobody_asks_any_more() {
    let mut server = Server::start("tokio", "");
    drop(server.process.stdin.take());
    assert!(server.process.wait().expect("it ends").success());
}

#[test]
fn resets_print_tables_and_write_lines() {
    let json = Place::new("server.json");
    let small = "resets resets-paced --quick --deadlines 1000 --threads 2";
    let out = server(&format!("{small} --json {}", json.path())).out();
    for told in ["1000 deadlines of 60 s; 2 worker threads", "/ tokio"] {
        assert!(out.contains(told), "{told} in {out}");
    }
    let lines = json.json_lines();
    let machine = lines[0]["machine"].as_str().expect("it is told");
    assert!(machine.contains("hyper"), "{machine}");
    assert_eq!(lines[1..].len(), 2 * 5);
    for line in &lines[1..] {
        let [reps, n, threads] = ["reps", "n", "threads"].map(|name| line[name].as_u64());
        assert_eq!(
            (reps, n, threads),
            (Some(1), Some(1_000), Some(2)),
            "{line}"
        );
        assert_numbers(line, &["messages", "ns_per_reset", "ns_per_reset_max"]);
        assert_numbers(
            line,
            &["cpu_us_per_reset", "cpu_percent", "bytes_per_deadline"],
        );
    }
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    let wrong = [
        "--no-such-flag",
        "nothing",
        "requests --timers nobody",
        "requests --timers wheelwork-ids",
        "--threads 0",
        "--reps 0",
        "--connections 26k",
        "--deadlines 5",
        "--requests many",
        "--messages 0",
        "--seconds 60",
        "--timeout 1ms",
        "resets --quick --json /no/such/folder/figures.json",
    ];
    assert_wrong("server", server, &wrong);
}

#[test]
fn without_a_load_generator_it_says_which() {
    for (workload, package) in [("requests", "wrk"), ("requests-paced", "nghttp2-client")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_server"));
        command
            .args([workload, "--quick"])
            .env("PATH", "/no/such/folder");
        let output = command.output().expect("the binary was built");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        let is_told = error.contains(package) && error.lines().count() == 1;
        assert!(is_told, "{error}");
    }
}

#[test]
fn help_has_no_inner_commands() {
    assert_help_is_for_users(
        server,
        "--help",
        &["--answer-after", "Commands", "serve --"],
    );
}
