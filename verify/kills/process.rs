//! Process: one that is killed, as its parent has it; and what its parent hears.

use crate::wire::{Decoder, Event, Order, Teller, frames};
use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child as Spawned, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::{env, io, thread};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 18;

/// A process that works, or what stands for it.
pub(crate) trait Child {
    /// Its orders, and what it tells.
    fn pipes(&mut self) -> (Box<dyn Write + Send>, Box<dyn Read + Send>);

    /// Ends it at once. It tells nothing after this.
    fn kill(&mut self);

    /// Waits until it has ended, and says how.
    fn wait(&mut self) -> String;
}

/// This program, started anew.
pub(crate) struct Process(pub(crate) Spawned);

/// This program, to be started anew with the arguments of this one, and more.
pub(crate) fn again() -> Result<Command, String> {
    let program = env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1));
    Ok(command)
}

/// A program of an earlier version, to be started with the arguments of this one: those but `--old`
/// and `--only`, which it does not know, or has other values for.
#[cfg(feature = "fleet")]
pub(crate) fn again_as(program: &std::path::Path) -> Command {
    let mut command = Command::new(program);
    let mut arguments = env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let argument = argument.to_string_lossy();
        let is_one = |name: &&&str| argument.starts_with(**name);
        match ["--old", "--only"].iter().find(is_one) {
            Some(name) if argument == *name => _ = arguments.next(),
            Some(_) => {}
            None => _ = command.arg(&*argument),
        }
    }
    command
}

/// Has a process work, and tell why it cannot go on.
pub(crate) fn tell_of(
    events: impl Write + Send + 'static,
    work: impl FnOnce(&Arc<Teller>) -> Result<(), String>,
) -> Result<(), String> {
    let teller = Arc::new(Teller::new(events));
    work(&teller).inspect_err(|why| {
        // If nobody reads, nobody asks why.
        let _ = teller.tell(&Event::Failed(why.clone()));
    })
}

/// Is such a process. It tells its parent by standard output, without a buffer.
pub(crate) fn serve(work: impl FnOnce(&Arc<Teller>) -> Result<(), String>) -> ExitCode {
    let Ok(events) = io::stdout().as_fd().try_clone_to_owned() else {
        return ExitCode::from(2);
    };
    ExitCode::from(u8::from(tell_of(File::from(events), work).is_err()))
}

impl Process {
    /// The command is made with its own pipes. A panic of the child's is to be seen.
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn();
        child
            .map(Self)
            .map_err(|error| format!("a process cannot be started: {error}"))
    }
}

impl Child for Process {
    fn pipes(&mut self) -> (Box<dyn Write + Send>, Box<dyn Read + Send>) {
        let orders = self.0.stdin.take().expect("it was asked for");
        let events = self.0.stdout.take().expect("it was asked for");
        (Box::new(orders), Box::new(events))
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

/// Bytes of a process: whose, and what it has told.
pub(crate) type Told = (u32, Vec<u8>);

/// Sends what a process tells, until nobody writes any more.
pub(crate) fn read_from(node: u32, mut pipe: Box<dyn Read + Send>, sender: SyncSender<Told>) {
    thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let told = match pipe.read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => return,
                Ok(length) => sender.send((node, chunk[..length].to_vec())),
            };
            if told.is_err() {
                return;
            }
        }
    });
}

/// Where orders to a process go. It is never waited for, though it may not read.
#[derive(Clone)]
pub(crate) struct Orders(Sender<Vec<u8>>);

impl Orders {
    pub(crate) fn new(mut pipe: Box<dyn Write + Send>) -> Self {
        let (send, orders) = mpsc::channel::<Vec<u8>>();
        thread::spawn(move || {
            let mut orders = orders.into_iter();
            orders.try_for_each(|bytes| pipe.write_all(&bytes).and_then(|()| pipe.flush()))
        });
        Self(send)
    }

    /// It fails if the process has gone, which is seen soon.
    pub(crate) fn give(&self, orders: &[Order]) {
        let _ = self.0.send(frames(0, orders));
    }
}

/// Reads orders as they come.
pub(crate) struct OrderReader<R> {
    pipe: R,
    decoder: Decoder,
}

impl<R: Read> OrderReader<R> {
    pub(crate) fn new(pipe: R) -> Self {
        let decoder = Decoder::default();
        Self { pipe, decoder }
    }

    /// The next one. An error: nobody gives orders any more.
    pub(crate) fn next(&mut self) -> Result<Order, String> {
        let mut chunk = [0; 1 << 16];
        loop {
            if let Some((_, order)) = self.decoder.next()? {
                return Ok(order);
            }
            let length = self.pipe.read(&mut chunk);
            match length.map_err(|error| format!("orders: {error}"))? {
                0 => return Err("the parent has gone".to_string()),
                length => self.decoder.push(&chunk[..length]),
            }
        }
    }
}

/// Makes events of what processes tell.
#[derive(Default)]
pub(crate) struct Listener(HashMap<u32, Decoder>);

impl Listener {
    /// Hears the events in some bytes of a process, each with its time. An error: no process of
    /// this program tells that. (What was cut off by a kill counts for nothing.)
    pub(crate) fn hear(
        &mut self,
        (node, bytes): &Told,
        mut hear: impl FnMut(u64, Event) -> Result<(), String>,
    ) -> Result<(), String> {
        let decoder = self.0.entry(*node).or_default();
        decoder.push(bytes);
        while let Some((at, event)) = decoder.next()? {
            hear(at, event)?;
        }
        Ok(())
    }
}
