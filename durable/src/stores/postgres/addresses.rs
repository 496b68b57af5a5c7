//! Addresses: the hosts of a connection string, and the addresses of their names, are tried one
//! after the other. Each has a limit for all that it takes to connect, so one that drops packets,
//! or accepts and says nothing, is not in the way of the next one.
//!
//! tokio-postgres tries them itself, but its `connect_timeout` ends when TCP is connected. So it
//! gets one address at a time here. `load_balance_hosts` is as it is there, and so is
//! `target_session_attrs`, by which an address is passed over.
//!
//! The order is that of the string, too, but the address that let in last comes first. A connection
//! that is lost has to be made anew before the node's leases have run out, and a dead host that
//! stands before that address in the string would take longer. If the address refuses, its server
//! may only be starting. So it is tried again while the others are tried.
//!
//! A server that can only be read is passed over, if there are others. An address that let in, and
//! was no good, comes after the others: its disk hangs, say, and it would let in again. If there
//! are several such addresses, the one that was found out last is the last one. So each gets its
//! turn.

use crate::random::random;
use futures_util::future::{Either, pending, select};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_postgres::config::{Host, LoadBalanceHosts, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Error, Socket};

/// What an address has to connect if it is the only one, unless the connection string says it.
const ONLY_MAX: Duration = Duration::from_secs(30);

/// The same if there are several: not longer than a lease lasts, unless that was set.
const SEVERAL_MAX: Duration = Duration::from_secs(10);

/// The address that let in last is tried again after so long, while others are tried.
const AGAIN: Duration = Duration::from_millis(250);

/// How many addresses that were no good are known at most. (If a name has new addresses each time,
/// the old ones need not be known.)
const AVOIDED_MAX: usize = 64;

/// The port of a host without one.
const PORT: u16 = 5_432;

/// What a connector makes.
type Made<T> = (
    Client,
    Connection<Socket, <T as MakeTlsConnect<Socket>>::Stream>,
);

/// What has become of addresses. All connections of a store share this.
#[derive(Clone, Default)]
pub(super) struct Addresses(Arc<Mutex<Known>>);

#[derive(Clone, Default)]
struct Known {
    /// It let in last.
    last: Option<Address>,
    /// They let in, and were no good. The one that was found out last is the last one.
    avoided: VecDeque<Config>,
}

/// The settings for a host alone, and for one of its addresses.
#[derive(Clone)]
struct Address {
    host: Config,
    own: Config,
}

/// The address of a connection.
#[derive(Clone)]
pub(super) struct LetIn {
    all: Addresses,
    own: Config,
}

impl Addresses {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This address has let in.
    fn note(&self, address: Address) -> LetIn {
        let own = address.own.clone();
        let mut known = self.lock();
        known.avoided.retain(|avoided| *avoided != own);
        known.last = Some(address);
        drop(known);
        LetIn {
            all: self.clone(),
            own,
        }
    }
}

impl LetIn {
    /// It is no good. The next connection tries the others first.
    pub(super) fn avoid(&self) {
        let own = &self.own;
        let mut known = self.all.lock();
        known.last.take_if(|last| last.own == *own);
        known.avoided.retain(|avoided| avoided != own);
        known.avoided.push_back(own.clone());
        if known.avoided.len() > AVOIDED_MAX {
            known.avoided.pop_front();
        }
    }
}

/// Connects to the first address that lets it. `each_max`: no address has longer than this. Returns
/// the last error, or `None` if no address has answered.
pub(super) async fn connect_first<T>(
    config: &Config,
    tls: &T,
    each_max: Duration,
    all: &Addresses,
) -> Option<Result<(Made<T>, LetIn), Error>>
where
    T: MakeTlsConnect<Socket> + Clone,
{
    let mut known = all.lock().clone();
    known.last.take_if(|_| is_random(config));
    let has_failed = Notify::new();
    let each = one_by_one(config, tls, each_max, &known, &has_failed);
    let again = async {
        let Some(last) = &known.last else {
            return pending().await;
        };
        has_failed.notified().await;
        let limit = limit(config, false, each_max);
        loop {
            sleep(AGAIN).await;
            if let Ok(Ok(made)) = timeout(limit, last.own.connect(tls.clone())).await {
                return (made, last.clone());
            }
        }
    };
    let connected = match select(pin!(each), pin!(again)).await {
        Either::Left((each, _)) => each?,
        Either::Right((again, _)) => Ok(again),
    };
    Some(connected.map(|(made, address)| (made, all.note(address))))
}

/// Tries each address once. Tells if the one that let in last fails.
async fn one_by_one<T>(
    config: &Config,
    tls: &T,
    each_max: Duration,
    known: &Known,
    has_failed: &Notify,
) -> Option<Result<(Made<T>, Address), Error>>
where
    T: MakeTlsConnect<Socket> + Clone,
{
    let last = known.last.as_ref();
    let mut error = None;
    let mut avoided = Vec::new();
    let hosts = in_order(hosts_of(config), config, last.map(|last| &last.host));
    for host in &hosts {
        let is_only = hosts.len() == 1;
        let looked_up = timeout(limit(config, is_only, each_max), addresses_of(host)).await;
        let Ok(mut addresses) = looked_up else {
            continue;
        };
        let is_only = is_only && addresses.len() == 1;
        if !is_only {
            addresses.iter_mut().for_each(want_changes);
        }
        let limit = limit(config, is_only, each_max);
        for own in in_order(addresses, config, last.map(|last| &last.own)) {
            let host = host.clone();
            let address = Address { host, own };
            if let Some(rank) = known.avoided.iter().position(|own| *own == address.own) {
                avoided.push((rank, address, limit));
                continue;
            }
            match timeout(limit, address.own.connect(tls.clone())).await {
                Ok(Ok(made)) => return Some(Ok((made, address))),
                Ok(Err(why)) => error = Some(why),
                Err(_) => {}
            }
            if last.is_some_and(|last| last.own == address.own) {
                has_failed.notify_one();
            }
        }
    }
    avoided.sort_by_key(|(rank, ..)| *rank);
    for (_, address, limit) in avoided {
        match timeout(limit, address.own.connect(tls.clone())).await {
            Ok(Ok(made)) => return Some(Ok((made, address))),
            Ok(Err(why)) => error = Some(why),
            Err(_) => {}
        }
    }
    error.map(Err)
}

/// Nothing is done with a server that can only be read. So it is passed over, if there are others.
fn want_changes(address: &mut Config) {
    if address.get_target_session_attrs() == TargetSessionAttrs::Any {
        address.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
}

/// How long an address, or the lookup of a name, may take.
fn limit(config: &Config, is_only: bool, each_max: Duration) -> Duration {
    let own = config.get_connect_timeout().copied();
    own.unwrap_or(if is_only { ONLY_MAX } else { SEVERAL_MAX })
        .min(each_max)
}

/// The settings for each host alone. If they make no sense together they stay together, and
/// tokio-postgres says so.
fn hosts_of(config: &Config) -> Vec<Config> {
    let (names, ips, ports) = (
        config.get_hosts(),
        config.get_hostaddrs(),
        config.get_ports(),
    );
    let count = names.len().max(ips.len());
    let is_right = |len: usize| len == 0 || len == count;
    if !is_right(names.len()) || !is_right(ips.len()) || ports.len() > 1 && !is_right(ports.len()) {
        return vec![config.clone()];
    }
    let host = |at: usize| {
        let port = ports.get(at).or(ports.first()).copied();
        only(
            config,
            names.get(at),
            ips.get(at).copied(),
            port.unwrap_or(PORT),
        )
    };
    (0..count).map(host).collect()
}

/// The settings for each address of a host. The name stays: TLS asks for it. If a name is not
/// found, tokio-postgres says so.
async fn addresses_of(host: &Config) -> Vec<Config> {
    let (&[Host::Tcp(ref name)], &[], &[port]) =
        (host.get_hosts(), host.get_hostaddrs(), host.get_ports())
    else {
        return vec![host.clone()];
    };
    let found = lookup_host((name.as_str(), port)).await;
    let found = found.into_iter().flatten();
    let name = host.get_hosts().first();
    let addresses: Vec<Config> = found
        .map(|address| only(host, name, Some(address.ip()), port))
        .collect();
    match addresses.is_empty() {
        true => vec![host.clone()],
        false => addresses,
    }
}

fn is_random(config: &Config) -> bool {
    config.get_load_balance_hosts() == LoadBalanceHosts::Random
}

/// In the order in which they are tried: the known one comes first, if it is among them still.
fn in_order(mut all: Vec<Config>, config: &Config, known: Option<&Config>) -> Vec<Config> {
    if is_random(config) {
        all.sort_by_cached_key(|_| random());
    } else if let Some(at) = all.iter().position(|one| known == Some(one)) {
        all[..=at].rotate_right(1);
    }
    all
}

/// All settings, for one host. (No call takes the hosts out of a `Config`.)
fn only(from: &Config, name: Option<&Host>, ip: Option<IpAddr>, port: u16) -> Config {
    let mut config = Config::new();
    match name {
        Some(Host::Tcp(name)) => _ = config.host(name),
        #[cfg(unix)]
        Some(Host::Unix(path)) => _ = config.host_path(path),
        None => {}
    }
    if let Some(ip) = ip {
        config.hostaddr(ip);
    }
    config.port(port);
    if let Some(user) = from.get_user() {
        config.user(user);
    }
    if let Some(password) = from.get_password() {
        config.password(password);
    }
    if let Some(name) = from.get_dbname() {
        config.dbname(name);
    }
    if let Some(options) = from.get_options() {
        config.options(options);
    }
    if let Some(name) = from.get_application_name() {
        config.application_name(name);
    }
    config.ssl_mode(from.get_ssl_mode());
    config.ssl_negotiation(from.get_ssl_negotiation());
    if let Some(&max) = from.get_connect_timeout() {
        config.connect_timeout(max);
    }
    if let Some(&max) = from.get_tcp_user_timeout() {
        config.tcp_user_timeout(max);
    }
    config.keepalives(from.get_keepalives());
    config.keepalives_idle(from.get_keepalives_idle());
    if let Some(interval) = from.get_keepalives_interval() {
        config.keepalives_interval(interval);
    }
    if let Some(retries) = from.get_keepalives_retries() {
        config.keepalives_retries(retries);
    }
    config.target_session_attrs(from.get_target_session_attrs());
    config.channel_binding(from.get_channel_binding());
    config.load_balance_hosts(from.get_load_balance_hosts());
    config
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ALL: &str = "user=shop password=secret dbname=shop options='-c jit=off' \
        application_name=app sslmode=require sslnegotiation=direct connect_timeout=3 \
        tcp_user_timeout=4 keepalives=0 keepalives_idle=5 keepalives_interval=6 \
        keepalives_retries=7 target_session_attrs=read-write channel_binding=require \
        load_balance_hosts=random";

    fn config(hosts: &str) -> Config {
        format!("{hosts} {ALL}").parse().unwrap()
    }

    #[test]
    fn a_host_alone_keeps_every_setting() {
        let hosts = [
            "host=db port=1",
            "host=/run/db port=1",
            "host=db hostaddr=127.0.0.1 port=1",
            "hostaddr=127.0.0.1 port=1",
        ];
        for hosts in hosts {
            assert_eq!(hosts_of(&config(hosts)), [config(hosts)], "{hosts}");
        }
    }

    #[test]
    fn hosts_have_their_own_addresses_and_ports() {
        let all = hosts_of(&config("host=a,b hostaddr=127.0.0.1,127.0.0.2 port=1,2"));
        let each = [
            "host=a hostaddr=127.0.0.1 port=1",
            "host=b hostaddr=127.0.0.2 port=2",
        ];
        assert_eq!(all, each.map(config));
        let each = ["host=a port=3", "host=b port=3"].map(config);
        assert_eq!(hosts_of(&config("host=a,b port=3")), each);
        let each = ["host=a port=5432", "host=b port=5432"].map(config);
        assert_eq!(hosts_of(&config("host=a,b")), each);
    }

    #[test]
    fn hosts_that_make_no_sense_together_stay_together() {
        for hosts in ["host=a,b hostaddr=127.0.0.1", "host=a,b port=1,2,3"] {
            assert_eq!(hosts_of(&config(hosts)), [config(hosts)], "{hosts}");
        }
    }

    #[test]
    fn the_known_one_comes_first_and_the_others_stay_in_their_order() {
        let [a, b, c] = ["host=a port=1", "host=b port=1", "host=c port=1"].map(|host| {
            let config: Config = host.parse().unwrap();
            config
        });
        let all = || vec![a.clone(), b.clone(), c.clone()];
        let order = |known: Option<&Config>| in_order(all(), &a, known);
        assert_eq!(order(Some(&c)), [c.clone(), a.clone(), b.clone()]);
        assert_eq!(order(Some(&a)), all());
        assert_eq!(order(None), all());
        assert_eq!(order(Some(&config("host=gone"))), all());
    }
}
