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
use std::process::{Command, Stdio};
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
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/with-postgres");
    let mut server = Command::new(script)
        .args(["--installed", "sh", "-c"])
        .arg("echo \"$WHEELWORK_POSTGRES\"; exec cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("scripts/with-postgres: {error}"))?;
    let mut database = String::new();
    let said = BufReader::new(server.stdout.take().unwrap()).read_line(&mut database);
    if said.is_ok() && !database.trim().is_empty() {
        // The input stays open until this process ends, however it ends.
        std::mem::forget(server);
        return Ok(database.trim().to_string());
    }
    let mut why = String::new();
    let _ = server.stderr.take().unwrap().read_to_string(&mut why);
    let _ = server.wait();
    Err(why.lines().last().unwrap_or("it did not start").to_string())
}
