//! The PostgreSQL of the tests that need one.
//!
//! - The variable `WHEELWORK_POSTGRES` names a server, as `scripts/with-postgres` sets it.
//! - If it is not set and PostgreSQL is installed, the first test that needs a server starts one,
//!   which ends with this process.
//! - If there is no server, or the variable is `none`, these tests are left out. A line on the
//!   terminal says so, though the test harness captures what tests print.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// What connects to the server. `None`: there is none.
pub fn database() -> Option<&'static str> {
    static DATABASE: OnceLock<Option<String>> = OnceLock::new();
    let database = DATABASE.get_or_init(|| {
        let found = match env::var("WHEELWORK_POSTGRES") {
            Ok(none) if none == "none" => Err("WHEELWORK_POSTGRES is `none`".to_string()),
            Ok(database) => Ok(database),
            Err(_) => start(),
        };
        found.inspect_err(|why| say_left_out(why)).ok()
    });
    if database.is_none() {
        println!("left out: there is no PostgreSQL");
    }
    database.as_deref()
}

fn say_left_out(why: &str) {
    let line = format!(
        "\nLEFT OUT, for there is no PostgreSQL: the tests that need one ({why}). To run them: \
         scripts/with-postgres cargo test\n"
    );
    // What the macros print is captured, and this is not.
    io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Starts a server, which ends when this process does: the script waits for the end of its input.
/// It installs nothing.
fn start() -> Result<String, String> {
    let ([database, ..], server) = start_apart()?;
    // The input stays open until this process ends, however it ends.
    std::mem::forget(server);
    Ok(database)
}

/// The same. Returns what connects to it, its folder, and that of its programs.
fn start_apart() -> Result<([String; 3], Child), String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/with-postgres");
    let said = "printf '%s\\n' \"$WHEELWORK_POSTGRES\" \"$WHEELWORK_POSTGRES_DIR\" \
        \"$WHEELWORK_POSTGRES_BIN\"; exec cat";
    let mut server = Command::new(script)
        .args(["--installed", "sh", "-c", said])
        .env_remove("WHEELWORK_POSTGRES")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("scripts/with-postgres: {error}"))?;
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut line = || lines.next()?.ok().filter(|line| !line.is_empty());
    if let (Some(database), Some(folder), Some(bin)) = (line(), line(), line()) {
        return Ok(([database, folder, bin], server));
    }
    let mut why = String::new();
    let _ = server.stderr.take().unwrap().read_to_string(&mut why);
    let _ = server.wait();
    Err(why.lines().last().unwrap_or("it did not start").to_string())
}

/// A server of a test's own, which it may kill. It ends with the test.
pub struct OwnServer {
    pub database: String,
    folder: String,
    bin: String,
    script: Child,
}

impl OwnServer {
    /// `None`: there are to be none, or PostgreSQL is not installed.
    pub fn start() -> Option<Self> {
        database()?;
        match start_apart() {
            Ok(([database, folder, bin], script)) => Some(Self {
                database,
                folder,
                bin,
                script,
            }),
            Err(why) => {
                say_left_out(&why);
                None
            }
        }
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(&self) {
        let pid = format!("{}/data/postmaster.pid", self.folder);
        let pid = std::fs::read_to_string(pid).unwrap();
        let pid = pid.lines().next().unwrap();
        let killed = Command::new("kill").args(["-9", pid]).status().unwrap();
        assert!(killed.success(), "kill -9 {pid}");
    }

    /// Starts it again. It takes connections when this returns.
    pub fn start_again(&mut self) {
        let port = self.database.split("port=").nth(1).unwrap();
        let port = port.split(' ').next().unwrap();
        let start = format!(
            "cd {folder}; as=; [ $(id -u) -ne 0 ] || as='setpriv --reuid=postgres \
             --regid=postgres --clear-groups env HOME=/tmp'
            for _ in $(seq 300); do
                if {bin}/pg_isready -q -h 127.0.0.1 -p {port}; then exit 0; fi
                $as {bin}/pg_ctl -D {folder}/data -W -l {folder}/again.log -o '-p {port} -k \
                    {folder} -c listen_addresses=127.0.0.1 -c max_connections=200' start
                sleep 0.2
            done
            exit 1",
            folder = self.folder,
            bin = self.bin,
        );
        let started = Command::new("sh").args(["-c", &start]).output().unwrap();
        assert!(started.status.success(), "{started:?}");
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // (The end of its input. Then the script ends the server.)
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}
