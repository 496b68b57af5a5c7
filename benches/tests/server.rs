//! `server` without a load generator: each of its servers answers, gives up what takes too long, and
//! closes what is idle; its command line. Figures are no matter of these tests.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

const ALL: [&str; 4] = ["none", "tokio", "pingora", "wheelwork"];

/// Those that fire.
const TIMERS: [&str; 3] = ["tokio", "pingora", "wheelwork"];

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_server"))
}

fn server(args: &[&str]) -> Output {
    program().args(args).output().expect("the binary was built")
}

/// A server of its own, which ends with this.
struct Server {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
    port: u16,
}

impl Server {
    fn start(timers: &str, args: &[&str]) -> Self {
        let mut command = program();
        command.args(["serve", "--timers", timers, "--threads", "2", "--connections", "100"]).args(args);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary was built");
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut port = String::new();
        output.read_line(&mut port).expect("it says its port");
        let port = port.trim().parse().expect("it is a number");
        Self { process, output, port }
    }

    fn connect(&self) -> Client {
        Client(BufReader::new(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens")))
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
        self.0.get_mut().write_all(request.as_bytes()).expect("it is open");
        let line = |client: &mut Self| {
            let mut line = String::new();
            client.0.read_line(&mut line).expect("it is open");
            line.trim().to_string()
        };
        let status = line(self).split(' ').nth(1).and_then(|status| status.parse().ok()).expect("it has a status");
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
        self.0.read_to_end(&mut Vec::new()).expect("it is closed in peace")
    }
}

#[test]
fn every_server_answers() {
    for timers in ALL {
        for answer_after in ["0s", "1ms"] {
            let mut server = Server::start(timers, &["--answer-after", answer_after, "--timeout", "1h", "--idle", "2h"]);
            let mut clients = [server.connect(), server.connect()];
            for _ in 0..50 {
                for client in &mut clients {
                    assert_eq!(client.get("/"), (200, "here you are\n".to_string()), "{timers} {answer_after}");
                }
            }
            let figures = server.figures();
            assert_eq!(figures["open"], 2.0, "{timers}: {figures}");
            assert!(figures["cpu_s"].as_f64().is_some_and(|cpu_s| cpu_s > 0.0), "{timers}: {figures}");
        }
    }
}

#[test]
fn what_takes_too_long_is_given_up() {
    for timers in TIMERS {
        let server = Server::start(timers, &["--timeout", "20ms", "--idle", "2h"]);
        let mut client = server.connect();
        for _ in 0..3 {
            assert_eq!(client.get("/never"), (504, "too late\n".to_string()), "{timers}");
        }
    }
}

#[test]
fn what_is_idle_is_closed() {
    for timers in TIMERS {
        let server = Server::start(timers, &["--timeout", "1h", "--idle", "20ms"]);
        let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
        assert!(clients.iter_mut().all(|client| client.rest() == 0), "{timers}");
    }
}

#[test]
fn a_server_ends_when_nobody_asks_any_more() {
    let mut server = Server::start("tokio", &[]);
    drop(server.process.stdin.take());
    assert!(server.process.wait().expect("it ends").success());
}

#[test]
fn resets_print_tables_and_write_lines() {
    let json: PathBuf = std::env::temp_dir().join(format!("wheelwork-{}-server.json", std::process::id()));
    let json_text = json.to_str().expect("a plain path");
    let output = server(&["resets", "resets-paced", "--quick", "--deadlines", "1000", "--threads", "2", "--json", json_text]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1000 deadlines of 60 s; 2 worker threads") && text.contains("/ tokio"), "{text}");
    assert!(!text.contains('\u{1b}'), "no terminal codes in a pipe: {text}");

    let lines = std::fs::read_to_string(&json).expect("the file was written");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    assert!(lines[0]["machine"].as_str().is_some_and(|machine| machine.contains("hyper")), "{}", lines[0]);
    assert_eq!(lines[1..].len(), 2 * 5);
    for line in &lines[1..] {
        assert_eq!((&line["reps"], &line["n"], &line["threads"]), (&Value::from(1), &Value::from(1_000), &Value::from(2)), "{line}");
        for name in ["messages", "ns_per_reset", "ns_per_reset_max", "cpu_us_per_reset", "cpu_percent", "bytes_per_deadline"] {
            assert!(line[name].is_number(), "{name} in {line}");
        }
    }
    std::fs::remove_file(&json).expect("the file is ours");
}

#[test]
fn wrong_arguments_are_one_line_and_exit_code_2() {
    let wrong: &[&[&str]] = &[
        &["--no-such-flag"],
        &["nothing"],
        &["requests", "--timers", "nobody"],
        &["requests", "--timers", "wheelwork-ids"],
        &["--threads", "0"],
        &["--reps", "0"],
        &["--connections", "26k"],
        &["--deadlines", "5"],
        &["--requests", "many"],
        &["--messages", "0"],
        &["--seconds", "60"],
        &["--timeout", "1ms"],
        &["resets", "--quick", "--json", "/no/such/folder/figures.json"],
    ];
    for args in wrong {
        let output = server(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
        assert!(error.starts_with("server: ") && error.len() > 30, "{args:?}: {error}");
    }
}

#[test]
fn without_a_load_generator_it_says_which() {
    for (workload, package) in [("requests", "wrk"), ("requests-paced", "nghttp2-client")] {
        let output = program().args([workload, "--quick"]).env("PATH", "/no/such/folder").output().expect("the binary was built");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(package) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn help_names_every_option_and_no_inner_one() {
    let output = server(&["--help"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    let options =
        ["--timers", "--threads", "--connections", "--deadlines", "--requests", "--messages", "--seconds", "--reps", "--quick", "--json"];
    for option in options {
        assert!(text.contains(option), "{option} in {text}");
    }
    for inner in ["--answer-after", "Commands", "serve --"] {
        assert!(!text.contains(inner), "{inner} in {text}");
    }
}
