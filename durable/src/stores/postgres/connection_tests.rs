//! Tests of connections, with servers that the tests play: one that says nothing, one that refuses,
//! one that can only be read.

use super::blocking::HandlerDatabase;
use super::clock::DatabaseClock;
use super::connect::{connecting, notice_dead};
use super::listen::Listener;
use super::session::{ANSWER_MAX, Connect, Patience, Session};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

const HOUR: Duration = Duration::from_secs(3_600);

/// What a server does with a connection.
#[derive(Clone, Copy)]
enum Does {
    /// It lets it in, and answers. It has no keepalives, refuses a change, and does not end what is
    /// slow.
    Works,
    /// The same, and it says from the first that it can only be read.
    Reads,
    /// The same, from the second time on that it is asked.
    ReadsLater,
    /// It closes it.
    Ends,
    /// It takes it, and says nothing.
    Nothing,
}

/// A server that a test plays.
struct Server {
    port: u16,
    /// A line for each connection, and one for each statement.
    said: Receiver<String>,
}

impl Server {
    /// What was said since the last time.
    fn said(&self) -> Vec<String> {
        self.said.try_iter().collect()
    }

    /// How many connections have come since.
    fn connections(&self) -> usize {
        self.said().iter().filter(|said| *said == NEW).count()
    }
}

/// A connection has come.
const NEW: &str = "a connection";

/// A connection has ended.
const END: &str = "its end";

/// What each connection asks.
const READS: &str = "SHOW transaction_read_only";

/// Starts a server that does this with its connections, in their order. With all that come later it
/// does the last of these.
fn server(does: &'static [Does]) -> Server {
    let here = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = here.local_addr().unwrap().port();
    let (says, said) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for (number, client) in here.incoming().map_while(Result::ok).enumerate() {
            let says = says.clone();
            let _ = says.send(NEW.to_owned());
            let does = does[number.min(does.len() - 1)];
            match does {
                Does::Works | Does::Reads | Does::ReadsLater => drop(thread::spawn(move || {
                    let _ = serve(client, does, &says);
                    says.send(END.to_owned())
                })),
                Does::Ends => drop(client),
                Does::Nothing => kept.push(client),
            }
        }
    });
    Server { port, said }
}

/// Answers until the client is gone.
fn serve(mut client: TcpStream, does: Does, says: &Sender<String>) -> io::Result<()> {
    let_in(&mut client)?;
    let mut asked = 0;
    loop {
        let said = message(&mut client, 1)?;
        let said = String::from_utf8_lossy(&said).replace('\0', "");
        let answer = match &*said {
            "SELECT slow()" => Vec::new(),
            "SELECT changes()" => error("25006"),
            READS => {
                asked += 1;
                let only_reads = match does {
                    Does::ReadsLater => asked > 1,
                    does => matches!(does, Does::Reads),
                };
                row(if only_reads { "on" } else { "off" })
            }
            keepalive if keepalive.contains("keepalives") => error("XX000"),
            _ => b"C\0\0\0\x08SET\0".to_vec(),
        };
        let _ = says.send(said);
        if !answer.is_empty() {
            client.write_all(&answer)?;
            client.write_all(READY)?;
        }
    }
}

/// An error of this code.
fn error(code: &str) -> Vec<u8> {
    let fields = format!("SERROR\0VERROR\0C{code}\0Mno\0\0");
    said_by_server(b"E", fields.as_bytes())
}

/// An answer with one row, which has this text.
fn row(text: &str) -> Vec<u8> {
    // One column: its name, no table, the type `text`, which has any length, as text.
    let column = b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0";
    let len = u32::try_from(text.len()).unwrap().to_be_bytes();
    let value = [&b"\0\x01"[..], &len, text.as_bytes()].concat();
    let column = said_by_server(b"T", column);
    let end = said_by_server(b"C", b"SHOW\0");
    [column, said_by_server(b"D", &value), end].concat()
}

/// A message of a server.
fn said_by_server(kind: &[u8], rest: &[u8]) -> Vec<u8> {
    let len = u32::try_from(rest.len() + 4).unwrap();
    [kind, &len.to_be_bytes(), rest].concat()
}

/// Does this on a thread of its own. It must not hang.
fn in_time<T: Send + 'static>(does: impl FnOnce() -> T + Send + 'static) -> T {
    let (tells, told) = mpsc::channel();
    thread::spawn(move || tells.send(does()));
    told.recv_timeout(HANGS).expect("it hangs, or has failed")
}

/// The first messages of a client of a server that does not end one statement. Returns what the
/// client has asked for on its second connection.
fn serve_one_statement_for_ever(server: TcpListener) -> [u32; 3] {
    let (mut client, _) = server.accept().unwrap();
    let_in(&mut client).unwrap();
    while message(&mut client, 1).unwrap() != b"SELECT slow()\0" {
        client.write_all(b"C\0\0\0\x08SET\0").unwrap();
        client.write_all(READY).unwrap();
    }
    let (mut other, _) = server.accept().unwrap();
    let asked = message(&mut other, 0).unwrap();
    [0, 4, 8].map(|at| u32::from_be_bytes(asked[at..at + 4].try_into().unwrap()))
}

/// The server is ready for a statement.
const READY: &[u8] = b"Z\0\0\0\x05I";

/// A message of a client. `head`: the bytes before its length.
fn message(client: &mut TcpStream, head: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; head + 4];
    client.read_exact(&mut bytes)?;
    let len = u32::from_be_bytes(bytes[head..].try_into().unwrap()) as usize;
    let mut rest = vec![0; len - 4];
    client.read_exact(&mut rest)?;
    Ok(rest)
}

/// Lets a client in: it is authenticated, has the key for a cancel request, and the server is
/// ready.
fn let_in(client: &mut TcpStream) -> io::Result<()> {
    message(client, 0)?;
    client.write_all(b"R\0\0\0\x08\0\0\0\0")?;
    client.write_all(b"K\0\0\0\x0c\0\0\0\x07\0\0\0\x09")?;
    client.write_all(READY)
}

/// Settings of a client of servers on these ports.
fn client_of(ports: &[u16]) -> Config {
    let mut config = Config::new();
    config.user("shop").ssl_mode(SslMode::Disable);
    for &port in ports {
        config.host("127.0.0.1").port(port);
    }
    config
}

/// A session that has no connection yet.
fn session_of(config: Config) -> Session {
    let (connect, what) = (connecting(config, NoTls), "here".into());
    Session::new(connect, what, Arc::default(), HOUR, HOUR).unwrap()
}

/// A node whose first host is gone silently has to find the second one, which was promoted.
#[test]
fn a_host_that_accepts_and_says_nothing_is_passed_over() {
    let servers = [server(&[Does::Nothing]), server(&[Does::Works])];
    let mut config = client_of(&servers.each_ref().map(|server| server.port));
    config.connect_timeout(Duration::from_secs(1));
    let mut session = session_of(config);
    // (A second connection in vain, if this machine is very slow, is no mistake.)
    let mut patience = Patience::new(HANGS);
    session.ensure(false, &mut patience).unwrap();
}

/// The server may only be slow: each try would leave it another session.
#[test]
fn a_connection_that_could_not_be_set_up_is_closed() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = client_of(&[server.local_addr().unwrap().port()]);
    let server = thread::spawn(move || {
        let (mut client, _) = server.accept().unwrap();
        client.set_read_timeout(Some(HANGS)).unwrap();
        // It says nothing to what comes next.
        let_in(&mut client).and_then(|()| io::copy(&mut client, &mut io::sink()))
    });
    let mut session = session_of(config);
    session.answer_max = Duration::from_secs(1);
    let opened = session.ensure(false, &mut Patience::new(Duration::ZERO));
    assert!(opened.is_err());
    session.pause(Duration::from_millis(1));
    let ended = server.join().unwrap();
    let is_timeout = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
    assert!(!ended.as_ref().is_err_and(is_timeout), "{ended:?}");
}

#[test]
fn a_statement_without_an_answer_is_cancelled_before_it_is_sent_again() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let config = client_of(&[address.port()]);
    let server = thread::spawn(|| serve_one_statement_for_ever(server));
    let mut session = session_of(config);
    session.ensure(false, &mut Patience::new(HANGS)).unwrap();
    session.answer_max = Duration::from_millis(1);
    let answer = session.once(async |live| live.client.batch_execute("SELECT slow()").await);
    assert!(answer.is_none());
    // (The server gets a second connection in any case.)
    drop(TcpStream::connect(address));
    // The code of a cancel request, and the key.
    assert_eq!(server.join().unwrap(), [80_877_102, 7, 9]);
}

/// A session that gives each address an hour. It has its first connection.
fn patient(connect: &Connect) -> Session {
    let connect = connect.clone();
    let mut session = Session::new(connect, "here".into(), Arc::default(), HOUR, HOUR).unwrap();
    session.answer_max = HOUR;
    session.ensure(false, &mut Patience::new(HANGS)).unwrap();
    session
}

/// What connects to these two, and gives each an hour.
fn connect_to(servers: &[Server; 2]) -> Connect {
    let mut config = client_of(&servers.each_ref().map(|server| server.port));
    config.connect_timeout(HOUR);
    connecting(config, NoTls)
}

/// The first host is dead. Each connection would wait for it, longer than the leases last.
#[test]
fn the_address_that_let_in_last_is_tried_first() {
    let servers = [server(&[Does::Ends, Does::Nothing]), server(&[Does::Works])];
    let connect = connect_to(&servers);
    in_time(move || {
        let mut session = patient(&connect);
        session.forget();
        session.ensure(false, &mut Patience::new(HANGS)).unwrap();
        let handlers = HandlerDatabase::new(connect, Arc::default(), HOUR, HOUR);
        drop(handlers.connect(&|| true).unwrap());
    });
    let connections = servers.map(|server| server.connections());
    assert_eq!(connections, [1, 3]);
}

/// Its server starts anew, and refuses meanwhile.
#[test]
fn the_address_that_let_in_last_is_tried_again_while_others_say_nothing() {
    let servers = [
        server(&[Does::Ends, Does::Nothing]),
        server(&[Does::Works, Does::Ends, Does::Ends, Does::Works]),
    ];
    let connect = connect_to(&servers);
    in_time(move || {
        let mut session = patient(&connect);
        session.forget();
        session.ensure(false, &mut Patience::new(HANGS)).unwrap();
    });
    let [_, second] = servers.map(|server| server.connections());
    assert_eq!(second, 4);
}

/// A server that has become a standby lets in, and so does one whose disk hangs. The order is that
/// of the string then.
#[test]
fn an_address_that_is_no_good_is_not_the_first_one() {
    for statement in ["SELECT changes()", "SELECT slow()"] {
        let servers = [server(&[Does::Ends, Does::Works]), server(&[Does::Works])];
        let connect = connect_to(&servers);
        in_time(move || {
            let mut session = patient(&connect);
            if statement == "SELECT slow()" {
                session.answer_max = Duration::from_millis(1);
            }
            let answer = session.once(async |live| live.client.batch_execute(statement).await);
            session.answer_max = HOUR;
            let error = answer.and_then(Result::err);
            session.after(error, &mut Patience::new(HANGS)).unwrap();
            session.ensure(false, &mut Patience::new(HANGS)).unwrap();
        });
        let [first, _] = servers.map(|server| server.connections());
        assert_eq!(first, 2, "{statement}");
    }
}

/// Each would let in again.
#[test]
fn addresses_that_are_no_good_are_tried_in_turn() {
    const SLOW: &str = "SELECT slow()";
    let servers = [server(&[Does::Works]), server(&[Does::Works])];
    let connect = connect_to(&servers);
    in_time(move || {
        let mut session = patient(&connect);
        for _ in 0..4 {
            session.answer_max = Duration::from_millis(1);
            let answer = session.once(async |live| live.client.batch_execute(SLOW).await);
            assert!(answer.is_none());
            session.answer_max = HOUR;
            session.ensure(false, &mut Patience::new(HANGS)).unwrap();
        }
    });
    let slow = |server: Server| server.said().iter().filter(|said| *said == SLOW).count();
    assert_eq!(servers.map(slow), [2, 2]);
}

/// A standby lets in, and may be the first one, or its primary may be starting anew.
#[test]
fn a_server_that_can_only_be_read_is_passed_over() {
    let servers = [server(&[Does::Ends, Does::Works]), server(&[Does::Reads])];
    let connect = connect_to(&servers);
    in_time(move || drop(patient(&connect)));
    let connections = servers.map(|server| server.connections());
    assert_eq!(connections, [2, 1]);
    let servers = [
        server(&[Does::Reads]),
        server(&[Does::Works, Does::Ends, Does::Works]),
    ];
    let connect = connect_to(&servers);
    let handlers = HandlerDatabase::new(connect.clone(), Arc::default(), HOUR, HOUR);
    in_time(move || {
        let mut session = patient(&connect);
        // The second one refuses once.
        session.forget();
        session.ensure(false, &mut Patience::new(HANGS)).unwrap();
        drop(handlers.connect(&|| true).unwrap());
    });
    let connections = servers.map(|server| server.connections());
    assert_eq!(connections, [2, 4]);
}

/// With an error that says so, when patience is at its end.
#[test]
fn a_server_that_can_only_be_read_is_not_waited_for_for_ever() {
    let server = server(&[Does::Reads]);
    let mut session = session_of(client_of(&[server.port]));
    let error = session.ensure(false, &mut Patience::new(Duration::ZERO));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("only be read"), "{error}");
}

/// What a standby says may be old, and nobody tells news there.
#[test]
fn handlers_and_the_listener_do_without_a_server_that_can_only_be_read() {
    let server = server(&[Does::Reads]);
    let connect = connecting(client_of(&[server.port]), NoTls);
    let handlers = HandlerDatabase::new(connect.clone(), Arc::default(), HOUR, HOUR);
    let error = handlers.connect(&|| true).err().unwrap().to_string();
    assert!(error.contains("only be read"), "{error}");
    // (The call waits for a connection, and the test does not.)
    let (tells, told) = mpsc::channel();
    thread::spawn(move || {
        let clock = Arc::new(DatabaseClock::new());
        let _ = tells.send(Listener::start("here", connect, clock, Arc::new(|| {})));
    });
    let mut ends = 0;
    while ends < 2 {
        let said = server.said.recv_timeout(HANGS).expect("it hangs");
        assert!(!said.starts_with("LISTEN"), "{said}");
        ends += usize::from(said == END);
    }
    drop(told);
}

/// What a handler of such a server was to do has failed. The next one gets another connection.
#[test]
fn a_handlers_connection_to_a_server_that_can_only_be_read_is_no_good() {
    let servers = [server(&[Does::Works]), server(&[Does::ReadsLater])];
    let is_good = servers.each_ref().map(|server| {
        let connect = connecting(client_of(&[server.port]), NoTls);
        let handlers = HandlerDatabase::new(connect, Arc::default(), HOUR, HOUR);
        in_time(move || {
            let mut connection = handlers.connect(&|| true).unwrap();
            connection.begin(&|| true).unwrap().rollback();
            connection.end()
        })
    });
    assert_eq!(is_good, [true, false]);
}

/// An address that is dead leaves a handler time for others.
#[test]
fn handlers_give_an_address_no_longer_than_nodes_do() {
    let given = Arc::new(Mutex::new(None));
    let connect: Connect = {
        let given = given.clone();
        Arc::new(move |_, each_max| {
            *given.lock().unwrap() = Some(each_max);
            Box::pin(async { None })
        })
    };
    let handlers = HandlerDatabase::new(connect, Arc::default(), HOUR, HOUR);
    assert!(handlers.connect(&|| true).is_err());
    assert_eq!(*given.lock().unwrap(), Some(ANSWER_MAX));
}

/// A server keeps the sessions of a machine that is lost, until it notices that. One that does not
/// take the settings is as good as without them.
#[test]
fn servers_are_to_notice_clients_that_are_gone() {
    let servers = server(&[Does::Works]);
    let connect_by = |change: fn(&mut Config)| {
        let mut config = client_of(&[servers.port]);
        notice_dead(&mut config);
        change(&mut config);
        connecting(config, NoTls)
    };
    let keepalives = || {
        let said = servers.said();
        let keepalives = said.into_iter().filter(|said| said.contains("keepalives"));
        keepalives.collect::<Vec<_>>()
    };
    let wanted = |idle: u64| {
        vec![
            format!("SET tcp_keepalives_idle = {idle}"),
            "SET tcp_keepalives_interval = 5".to_owned(),
            "SET tcp_keepalives_count = 3".to_owned(),
        ]
    };
    let connect = connect_by(|_| {});
    drop(patient(&connect));
    assert_eq!(keepalives(), wanted(15));
    let handlers = HandlerDatabase::new(connect, Arc::default(), HOUR, HOUR);
    drop(handlers.connect(&|| true).unwrap());
    assert_eq!(keepalives(), wanted(15));
    // As for the client's end.
    let connect = connect_by(|config| _ = config.keepalives_idle(Duration::from_secs(60)));
    drop(patient(&connect));
    assert_eq!(keepalives(), wanted(60));
    drop(patient(&connect_by(|config| _ = config.keepalives(false))));
    assert!(keepalives().is_empty());
}
