//! Process: the child, as the parent has it.

use super::parent::Child;
use std::env;
use std::io::{Read, Write};
use std::process::{self, Command, Stdio};

/// This program, started anew.
pub(crate) struct Process(process::Child);

impl Process {
    /// With the arguments of this one.
    pub(crate) fn start() -> Result<Self, String> {
        let program = env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let mut command = Command::new(program);
        command.args(env::args_os().skip(1)).arg("--child");
        // A panic of the child's is to be seen.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn();
        child
            .map(Self)
            .map_err(|error| format!("the child cannot be started: {error}"))
    }
}

impl Child for Process {
    fn pipes(&mut self) -> (Box<dyn Write + Send>, Box<dyn Read + Send>) {
        let orders = self.0.stdin.take().expect("it was asked for");
        let records = self.0.stdout.take().expect("it was asked for");
        (Box::new(orders), Box::new(records))
    }

    fn kill(&mut self) {
        // An error: it has ended.
        let _ = self.0.kill();
    }

    fn wait(&mut self) -> String {
        match self.0.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }
}
