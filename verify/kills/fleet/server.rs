//! Server: the private PostgreSQL of a run, which is killed and started again; and its standby.

use postgres::{Client, NoTls};
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

/// Set by scripts/with-postgres.
const VARIABLES: [&str; 3] = [
    "WHEELWORK_POSTGRES",
    "WHEELWORK_POSTGRES_DIR",
    "WHEELWORK_POSTGRES_BIN",
];

const PATIENCE: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(20);

/// A server that this process may kill and start.
pub(crate) struct Server {
    folder: PathBuf,
    bin: PathBuf,
    data: PathBuf,
    port: u16,
    /// The options that it was started with first.
    options: Vec<String>,
    log: PathBuf,
    /// The one that is to be promoted.
    standby: Option<Standby>,
    /// Servers that this process has started.
    children: Vec<Child>,
}

struct Standby {
    data: PathBuf,
    port: u16,
}

/// Sends a signal to a process.
pub(crate) fn signal(process: u32, signal: i32) {
    // SAFETY: the call has no memory in it. The process is one that this program has started, or
    // the server of its own folder.
    unsafe { libc::kill(process as libc::pid_t, signal) };
}

/// As in `/proc`: `T` if it is stopped, `Z` if it has ended. `None`: there is no such process.
fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn is_alive(process: u32) -> bool {
    state(process).is_some_and(|state| state != 'Z')
}

fn children_of(process: u32) -> Vec<u32> {
    let parent_of = |id: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.split(' ').nth(1)?.parse().ok()
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|&id| parent_of(id) == Some(process)).collect()
}

/// The options that a server was started with.
fn options(data: &Path) -> Result<Vec<String>, String> {
    let started = fs::read_to_string(data.join("postmaster.opts"));
    let started = started.map_err(|error| format!("postmaster.opts: {error}"))?;
    // The program, and each option in quotes.
    let options = started.split('"').skip(1).step_by(2);
    Ok(options.map(ToOwned::to_owned).collect())
}

/// Waits until something is so.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > PATIENCE {
            return Err(format!("{what}: not within {} s", PATIENCE.as_secs()));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

impl Server {
    /// The one that scripts/with-postgres has started.
    pub(crate) fn of_environment() -> Result<Self, String> {
        let [text, folder, bin] = VARIABLES.map(|name| {
            env::var(name).map_err(|_| format!("{name} is not set: use scripts/check fleet"))
        });
        let text = text?;
        let port = text.split(' ').find_map(|word| word.strip_prefix("port="));
        let port = port.and_then(|port| port.parse().ok());
        let folder = PathBuf::from(folder?);
        let data = folder.join("data");
        Ok(Self {
            log: folder.join("server.log"),
            folder,
            bin: PathBuf::from(bin?),
            options: options(&data)?,
            data,
            port: port.ok_or("no port in the connection string")?,
            standby: None,
            children: Vec::new(),
        })
    }

    /// For nodes: with the standby's port, if there is one.
    pub(crate) fn connection(&self) -> String {
        let rest = "user=postgres dbname=postgres connect_timeout=5";
        match &self.standby {
            None => format!("host=127.0.0.1 port={} {rest}", self.port),
            Some(standby) => format!(
                "host=127.0.0.1,127.0.0.1 port={},{} {rest} target_session_attrs=read-write",
                self.port, standby.port
            ),
        }
    }

    /// A connection to the one that takes writes.
    pub(crate) fn connect(&self) -> Result<Client, String> {
        let port = self.port;
        let text = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
        Client::connect(&text, NoTls).map_err(|error| format!("PostgreSQL: {error}"))
    }

    /// The logs, and the folder that they are in.
    pub(crate) fn logs(&self) -> Vec<PathBuf> {
        ["server.log", "standby.log"]
            .map(|name| self.folder.join(name))
            .into()
    }

    /// A command that runs as the user who owns the data, and is asked to end with this program.
    fn command(&self, name: &str) -> Command {
        let program = self.bin.join(name);
        // SAFETY: the call has no memory in it.
        let is_root = unsafe { libc::geteuid() } == 0;
        let mut command = Command::new("setpriv");
        if is_root {
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        }
        command.args(["--pdeathsig", "QUIT"]).arg(program);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    fn log_to(&self, log: &Path) -> Result<File, String> {
        let file = OpenOptions::new().create(true).append(true).open(log);
        file.map_err(|error| format!("{}: {error}", log.display()))
    }

    fn run(&self, name: &str, arguments: &[&str]) -> Result<(), String> {
        let output = self.command(name).args(arguments).output();
        let output = output.map_err(|error| format!("{name}: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "{name}: {}",
            said.lines().next_back().unwrap_or_default()
        ))
    }

    fn postmaster(&self) -> Option<u32> {
        let file = fs::read_to_string(self.data.join("postmaster.pid")).ok()?;
        file.lines().next()?.trim().parse().ok()
    }

    /// Ends it at once: with SIGKILL for it and its children, or by SIGQUIT, as `pg_ctl stop -m
    /// immediate` does.
    pub(crate) fn kill(&mut self, is_sigkill: bool) -> Result<(), String> {
        let postmaster = self.postmaster().ok_or("the server has no pid")?;
        if is_sigkill {
            // A child that it starts after the look would live on, and keep the memory that the
            // next server has to take over.
            signal(postmaster, libc::SIGSTOP);
            wait_for("the stop of the server", || {
                matches!(state(postmaster), None | Some('T' | 'Z'))
            })?;
        }
        let children = children_of(postmaster);
        if is_sigkill {
            signal(postmaster, libc::SIGKILL);
            for &child in &children {
                signal(child, libc::SIGKILL);
            }
        } else {
            signal(postmaster, libc::SIGQUIT);
        }
        for child in &mut self.children {
            if child.id() == postmaster {
                let _ = child.wait();
            }
        }
        self.children.retain(|child| child.id() != postmaster);
        let all = || children.iter().any(|&child| is_alive(child)) || is_alive(postmaster);
        wait_for("the end of the server", || !all())
    }

    /// Starts it again, and returns when it takes writes.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let (data, log) = (self.data.clone(), self.log.clone());
        let options = self.options.clone();
        self.spawn(&data, &log, &options)?;
        wait_for("the start of the server", || self.connect().is_ok())
    }

    fn spawn(&mut self, data: &Path, log: &Path, options: &[String]) -> Result<(), String> {
        let log = self.log_to(log)?;
        let other = log.try_clone().map_err(|error| error.to_string())?;
        let mut command = self.command("postgres");
        command.args(options).stdout(log).stderr(other);
        let child = command.spawn();
        let child = child.map_err(|error| format!("{}: {error}", data.display()))?;
        self.children.push(child);
        Ok(())
    }

    /// Makes a standby to which each commit goes before it is answered.
    pub(crate) fn add_standby(&mut self) -> Result<(), String> {
        let data = self.folder.join("standby");
        let free = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = free.local_addr().map_err(|error| error.to_string())?.port();
        drop(free);
        let (own_port, path) = (self.port.to_string(), data.display().to_string());
        let from = ["-h", "127.0.0.1", "-p", &own_port, "-U", "postgres"];
        let how = ["-D", &path, "-R", "-X", "stream", "-c", "fast"];
        self.run("pg_basebackup", &[&from[..], &how[..]].concat())?;
        let swap = |option: &String| match option {
            _ if Path::new(option) == self.data => path.clone(),
            _ if *option == own_port => port.to_string(),
            _ => option.clone(),
        };
        let mut options: Vec<String> = self.options.iter().map(swap).collect();
        // It is not to wait for the next try when the primary is back.
        options.extend(["-c", "wal_retrieve_retry_interval=100ms"].map(str::to_owned));
        let log = self.folder.join("standby.log");
        self.spawn(&data, &log, &options)?;
        let mut client = self.connect()?;
        for statement in [
            "ALTER SYSTEM SET synchronous_standby_names = '*'",
            "SELECT pg_reload_conf()",
        ] {
            let done = client.batch_execute(statement);
            done.map_err(|error| format!("{statement}: {error}"))?;
        }
        self.standby = Some(Standby { data, port });
        wait_for("the standby", || self.has_synchronous_standby())
    }

    /// Whether there is a standby to be promoted, and it has all.
    pub(crate) fn has_synchronous_standby(&self) -> bool {
        let look = "SELECT count(*) FROM pg_stat_replication
            WHERE sync_state = 'sync' AND state = 'streaming'";
        let count = self.connect().ok().and_then(|mut client| {
            let row = client.query_one(look, &[]).ok()?;
            Some(row.get::<_, i64>(0))
        });
        count == Some(1)
    }

    /// Kills the primary for ever, and promotes its standby.
    pub(crate) fn promote(&mut self) -> Result<(), String> {
        let standby = self.standby.as_ref().ok_or("there is no standby")?;
        let (data, port) = (standby.data.clone(), standby.port);
        self.kill(true)?;
        // (Nobody shall take another process for it.)
        let _ = fs::remove_file(self.data.join("postmaster.pid"));
        let path = data.display().to_string();
        self.run("pg_ctl", &["promote", "-D", &path, "-w", "-t", "60"])?;
        self.options = options(&data)?;
        self.log = self.folder.join("standby.log");
        (self.data, self.port) = (data, port);
        wait_for("the promoted standby", || self.connect().is_ok())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in &mut self.children {
            signal(child.id(), libc::SIGQUIT);
            // If it was stopped, to be killed.
            signal(child.id(), libc::SIGCONT);
            let _ = child.wait();
        }
    }
}
