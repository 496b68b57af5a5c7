//! Redis: a server of its own on a loopback port, with `appendonly yes`, `appendfsync always` and
//! no snapshots. What is asked of it here needs no client.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::campaign::end_with_us;

const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Ends with this, whatever happens, and so does its folder.
pub(crate) struct Server {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A port that nobody has: the server takes it a moment later.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address
        .map(|address| address.port())
        .map_err(|error| format!("no port: {error}"))
}

impl Server {
    pub(crate) fn start() -> Result<Self, String> {
        let folder = format!("wheelwork-fleet-redis-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--appendonly", "yes", "--appendfsync", "always"])
            .args(["--save", "", "--daemonize", "no", "--dir"])
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        end_with_us(&mut command);
        let child = command.spawn();
        let child = child.map_err(|error| format!("redis-server: {error}"))?;
        let server = Self {
            child,
            port,
            folder,
        };
        let start = Instant::now();
        while server.ask("PING\r\n").is_err() {
            if start.elapsed() > PATIENCE {
                return Err("redis-server does not answer".to_string());
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(server)
    }

    /// One command by a connection of its own, and the answer.
    fn ask(&self, command: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(command.as_bytes())?;
        stream.write_all(b"QUIT\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Commands so far, those of scripts included.
    pub(crate) fn commands(&self) -> Result<u64, String> {
        let stats = self.ask("INFO stats\r\n");
        let stats = stats.map_err(|error| format!("redis-server: {error}"))?;
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix("total_commands_processed:"));
        line.and_then(|count| count.trim().parse().ok())
            .ok_or_else(|| "redis-server tells no commands".to_string())
    }
}
