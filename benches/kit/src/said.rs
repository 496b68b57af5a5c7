//! What a program said: for tests of command lines. Figures are no matter of these.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a program said, and its exit code.
#[derive(Debug)]
pub struct Said {
    /// `None`: it was ended by a signal.
    pub code: Option<i32>,
    /// On standard output.
    pub out: String,
    /// On standard error.
    pub err: String,
}

/// Runs a program with these words as its arguments.
///
/// # Panics
///
/// If it is not there, or says what is no text.
pub fn call(program: &str, words: &str) -> Said {
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
    ///
    /// # Panics
    ///
    /// If it did not go well.
    pub fn out(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        assert!(!self.out.contains('\u{1b}'), "terminal codes: {}", self.out);
        self.out
    }
}

/// Each is one line of its own, and exit code 2.
///
/// # Panics
///
/// If one is not.
pub fn assert_wrong(name: &str, program: impl Fn(&str) -> Said, wrong: &[&str]) {
    for words in wrong {
        let Said { code, err, .. } = program(words);
        assert_eq!((code, err.lines().count()), (Some(2), 1), "{words}: {err}");
        let says_why = err.starts_with(&format!("{name}: ")) && err.len() > 30;
        assert!(says_why, "{words}: {err}");
    }
}

/// As `million | head -1` does, and a full disk.
///
/// # Panics
///
/// If it says more than one line then.
#[cfg(target_os = "linux")]
pub fn assert_ends_without_a_panic(program: &str, name: &str, args: &[&str]) {
    let run = |stdout: Stdio| {
        let mut command = Command::new(program);
        command.args(args).stdout(stdout);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8(output.stderr).expect("it is text");
        (output.status.code(), text)
    };
    let closed = run(Stdio::piped());
    assert_eq!(closed, (Some(2), String::new()), "{name}");
    let full = std::fs::File::options().write(true).open("/dev/full");
    let (code, text) = run(full.expect("Linux has it").into());
    let start = format!("{name}: standard output: ");
    let is_told = text.starts_with(&start) && text.lines().count() == 1;
    assert!(code == Some(2) && is_told, "{name}: {code:?} {text}");
}

/// What is only for the processes of measurements is in no help.
///
/// # Panics
///
/// If it is.
pub fn assert_help_is_for_users(program: impl Fn(&str) -> Said, words: &str, inner: &[&str]) {
    let help = program(words).out();
    for inner in inner {
        assert!(!help.contains(inner), "{inner} in {help}");
    }
}

/// A line of figures has numbers under these names.
///
/// # Panics
///
/// If one is missing.
pub fn assert_numbers(line: &Value, names: &[&str]) {
    for name in names {
        assert!(line[*name].is_number(), "{name} in {line}");
    }
}

/// A place in the folder of temporary files, which is cleared at the end.
#[derive(Debug)]
pub struct Place(pub PathBuf);

impl Place {
    /// Of this process.
    pub fn new(name: &str) -> Self {
        let name = format!("wheelwork-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// As an argument.
    ///
    /// # Panics
    ///
    /// If it is no text.
    pub fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }

    /// What a program has written there.
    ///
    /// # Panics
    ///
    /// If it has not.
    pub fn text(&self) -> String {
        std::fs::read_to_string(&self.0).expect("the file was written")
    }

    /// An object in each line.
    ///
    /// # Panics
    ///
    /// If there is another line.
    pub fn json_lines(&self) -> Vec<Value> {
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
