//! Tests of what a process has once: each runs as a process of its own.

use std::env;
use std::process::Command;

const PART: &str = "WHEELWORK_TEST_PART";

/// Runs a part as a process of its own; in that process, the part itself. The test is named with
/// its modules.
pub fn apart(test: &str, part: fn()) {
    if env::var(PART).is_ok_and(|name| name == test) {
        return part();
    }
    let output = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(PART, test)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
