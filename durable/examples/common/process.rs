//! Process: this program once more, to talk to by lines, and to kill; and a folder for its file.

use std::io::{self, BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A process. It is killed when this is dropped.
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts it. Its first line is to be `open`.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut process = Self {
            input: child.stdin.take(),
            lines: BufReader::new(output).lines(),
            child,
        };
        process.hear("open")?;
        Ok(process)
    }

    /// Sends it a line.
    pub fn say(&mut self, line: &str) -> io::Result<()> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(input, "{line}")
    }

    /// Waits for a line of it. Returns those before.
    pub fn hear(&mut self, line: &str) -> io::Result<Vec<String>> {
        let mut before = Vec::new();
        for heard in self.lines.by_ref() {
            let heard = heard?;
            if heard == line {
                return Ok(before);
            }
            before.push(heard);
        }
        let why = format!("it ended without {line:?}, after {before:?}");
        Err(io::Error::other(why))
    }

    /// Waits for its next line.
    pub fn next(&mut self) -> io::Result<String> {
        let ended = || io::Error::other("it has ended");
        self.lines.next().ok_or_else(ended)?
    }

    /// Kills it, as `kill -9` does. Returns what it had said.
    pub fn kill(mut self) -> io::Result<Vec<String>> {
        self.child.kill()?;
        self.lines.by_ref().collect()
    }

    /// Closes its input, so that it ends by itself. Returns the rest of its lines.
    pub fn end(mut self) -> io::Result<Vec<String>> {
        self.input = None;
        let lines = self.lines.by_ref().collect();
        self.child.wait()?;
        lines
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder of this process's own, which is gone when this is dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> io::Result<Self> {
        let name = format!("wheelwork-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
