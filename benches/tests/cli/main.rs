//! The command lines: what the programs print, what they write, how they exit. Figures are no
//! matter of these tests.

#![cfg_attr(
    not(all(feature = "durable", feature = "rivals", feature = "server")),
    allow(dead_code, reason = "the tests of these programs are not built")
)]

#[cfg(feature = "durable")]
mod durable;
mod million;
#[cfg(feature = "rivals")]
mod rivals;
#[cfg(feature = "server")]
mod server;
mod soak;
mod window;

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// What a program said, and its exit code.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn call(program: &str, words: &str) -> Said {
    let mut command = Command::new(program);
    let output = command.args(words.split_whitespace()).output();
    let output = output.expect("the binary was built");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    Said {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

impl Said {
    /// Of a run that went well, the output, which is that of a pipe.
    fn out(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        assert!(!self.out.contains('\u{1b}'), "terminal codes: {}", self.out);
        self.out
    }
}

/// Each is one line of its own, and exit code 2.
fn assert_wrong(name: &str, program: impl Fn(&str) -> Said, wrong: &[&str]) {
    for words in wrong {
        let Said { code, err, .. } = program(words);
        assert_eq!((code, err.lines().count()), (Some(2), 1), "{words}: {err}");
        let says_why = err.starts_with(&format!("{name}: ")) && err.len() > 30;
        assert!(says_why, "{words}: {err}");
    }
}

/// What is only for the processes of measurements is in no help.
fn assert_help_is_for_users(program: impl Fn(&str) -> Said, words: &str, inner: &[&str]) {
    let help = program(words).out();
    for inner in inner {
        assert!(!help.contains(inner), "{inner} in {help}");
    }
}

fn assert_numbers(line: &Value, names: &[&str]) {
    for name in names {
        assert!(line[*name].is_number(), "{name} in {line}");
    }
}

/// A place in the folder of temporary files, which is cleared at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let name = format!("wheelwork-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).expect("the file was written")
    }

    /// An object in each line.
    fn json_lines(&self) -> Vec<Value> {
        let object = |line| serde_json::from_str(line).expect("it is JSON");
        self.text().lines().map(object).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
