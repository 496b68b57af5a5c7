//! Redis: a sorted set of numbers by deadline, and a hash of payloads. A server of its own on a
//! loopback port, with `appendonly yes`, `appendfsync always` and no snapshots. A commit is one
//! transaction of at most four commands, each with all its rows.

use super::engine::{Change, Engine, Key, Reader, Row, Span, failed, payload};
use crate::ledger::Ledger;
use redis::{Client, Connection, RedisResult};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use wheelwork_kit::campaign::end_with_us;

/// A server that reads a log of 10 M timers takes less.
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

const BY_DUE: &str = "due";
const PAYLOADS: &str = "payloads";

pub(crate) struct Redis {
    server: Server,
    client: Client,
    connection: Connection,
}

pub(crate) struct Rows(Connection);

/// Ends with this, whatever happens.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that nobody has: the server takes it a moment later.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    let address = address.map_err(|error| failed("no port")(&error))?;
    Ok(address.port())
}

fn start(folder: &Path, port: u16) -> Result<Server, String> {
    let mut command = Command::new("redis-server");
    command
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(["--appendonly", "yes", "--appendfsync", "always"])
        .args(["--save", "", "--daemonize", "no", "--dir"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    end_with_us(&mut command);
    let server = command.spawn();
    let server = server.map_err(|error| failed("redis-server")(&error))?;
    Ok(Server(server))
}

/// Waits until it answers: it refuses commands while it reads its log.
fn connect(client: &Client, server: &mut Server) -> Result<Connection, String> {
    let start = Instant::now();
    loop {
        let pinged: RedisResult<Connection> = client.get_connection().and_then(|mut connection| {
            redis::cmd("PING").exec(&mut connection)?;
            Ok(connection)
        });
        match pinged {
            Ok(connection) => return Ok(connection),
            Err(error) if start.elapsed() > PATIENCE => return Err(failed("redis")(&error)),
            Err(_) if matches!(server.0.try_wait(), Ok(Some(_))) => {
                return Err("redis-server has ended".to_string());
            }
            Err(_) => thread::sleep(LOOK_AGAIN),
        }
    }
}

impl Engine for Redis {
    type Reader = Rows;

    fn open(folder: &Path, _: &Arc<Ledger>) -> Result<Self, String> {
        let port = free_port()?;
        let mut server = start(folder, port)?;
        let client = Client::open(format!("redis://127.0.0.1:{port}/"));
        let client = client.map_err(|error| failed("redis")(&error))?;
        let connection = connect(&client, &mut server)?;
        Ok(Self {
            server,
            client,
            connection,
        })
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), String> {
        let command = |name: &str, key: &str| {
            let mut command = redis::cmd(name);
            command.arg(key);
            command
        };
        let mut add = command("ZADD", BY_DUE);
        let mut set = command("HSET", PAYLOADS);
        let mut remove = command("ZREM", BY_DUE);
        let mut forget = command("HDEL", PAYLOADS);
        let (mut armed, mut deleted) = (0, 0);
        // No number comes back after its delete: so arms may be done before deletes.
        for change in changes {
            match change {
                Change::Arm(key, payload) => {
                    add.arg(key.due).arg(key.number);
                    set.arg(key.number).arg(&payload[..]);
                    armed += 1;
                }
                Change::Delete(key) => {
                    remove.arg(key.number);
                    forget.arg(key.number);
                    deleted += 1;
                }
            }
        }
        let mut pipe = redis::pipe();
        pipe.atomic();
        for (count, command) in [
            (armed, add),
            (armed, set),
            (deleted, remove),
            (deleted, forget),
        ] {
            if count > 0 {
                pipe.add_command(command).ignore();
            }
        }
        pipe.exec(&mut self.connection)
            .map_err(|error| failed("redis")(&error))
    }

    fn reader(&self) -> Result<Option<Rows>, String> {
        let connection = self.client.get_connection();
        let connection = connection.map_err(|error| failed("redis")(&error))?;
        Ok(Some(Rows(connection)))
    }

    fn server(&self) -> Option<u32> {
        Some(self.server.0.id())
    }

    fn close(mut self) -> Result<(), String> {
        // It answers by closing the connection.
        let _ = redis::cmd("SHUTDOWN").exec(&mut self.connection);
        let ended = self.server.0.wait();
        ended.map_err(|error| failed("redis-server")(&error))?;
        Ok(())
    }
}

impl Reader for Rows {
    fn due(&mut self, span: Span, limit: usize, rows: &mut Vec<Row>) -> Result<(), String> {
        let mut range = redis::cmd("ZRANGE");
        let (from, until) = span.into_inner();
        range.arg(BY_DUE).arg(from).arg(until).arg("BYSCORE");
        range.arg("LIMIT").arg(0).arg(limit).arg("WITHSCORES");
        let found: RedisResult<Vec<(u64, f64)>> = range.query(&mut self.0);
        let found = found.map_err(|error| failed("redis")(&error))?;
        if found.is_empty() {
            return Ok(());
        }
        let mut get = redis::cmd("HMGET");
        get.arg(PAYLOADS);
        found.iter().for_each(|(number, _)| _ = get.arg(*number));
        let payloads: RedisResult<Vec<Vec<u8>>> = get.query(&mut self.0);
        let payloads = payloads.map_err(|error| failed("redis")(&error))?;
        for ((number, due), bytes) in found.into_iter().zip(&payloads) {
            let key = Key {
                due: due as u64,
                number,
            };
            rows.push((key, payload(bytes)?));
        }
        Ok(())
    }
}
