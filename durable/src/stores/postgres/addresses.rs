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

use crate::random::random;
use futures_util::future::{Either, pending, select};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Error, Socket};

/// What an address has to connect if it is the only one, unless the connection string says it.
const ONLY_MAX: Duration = Duration::from_secs(30);

/// The same if there are several: not longer than a lease lasts, unless that was set.
const SEVERAL_MAX: Duration = Duration::from_secs(10);

/// The address that let in last is tried again after so long, while others are tried.
const AGAIN: Duration = Duration::from_millis(250);

/// The port of a host without one.
const PORT: u16 = 5_432;

/// What a connector makes.
type Made<T> = (
    Client,
    Connection<Socket, <T as MakeTlsConnect<Socket>>::Stream>,
);

/// Which address let in last. All connections of a store share this.
#[derive(Clone, Default)]
pub(super) struct LastAddress(Arc<Mutex<Option<Address>>>);

/// The settings for a host alone, and for one of its addresses.
#[derive(Clone)]
struct Address {
    host: Config,
    own: Config,
}

impl LastAddress {
    fn lock(&self) -> MutexGuard<'_, Option<Address>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It lets in, and is no good. The next connection goes by the order of the string.
    pub(super) fn forget(&self) {
        *self.lock() = None;
    }
}

/// Connects to the first address that lets it. `each_max`: no address has longer than this. Returns
/// the last error, or `None` if no address has answered.
pub(super) async fn connect_first<T>(
    config: &Config,
    tls: &T,
    each_max: Duration,
    last: &LastAddress,
) -> Option<Result<Made<T>, Error>>
where
    T: MakeTlsConnect<Socket> + Clone,
{
    let known = last.lock().clone();
    let known = known.filter(|_| !is_random(config));
    let has_failed = Notify::new();
    let all = one_by_one(config, tls, each_max, known.as_ref(), &has_failed);
    let again = async {
        let Some(known) = &known else {
            return pending().await;
        };
        has_failed.notified().await;
        let limit = limit(config, false, each_max);
        loop {
            sleep(AGAIN).await;
            if let Ok(Ok(made)) = timeout(limit, known.own.connect(tls.clone())).await {
                return (made, known.clone());
            }
        }
    };
    let connected = match select(pin!(all), pin!(again)).await {
        Either::Left((all, _)) => all?,
        Either::Right((again, _)) => Ok(again),
    };
    Some(connected.map(|(made, address)| {
        *last.lock() = Some(address);
        made
    }))
}

/// Tries each address once. Tells if the known one fails.
async fn one_by_one<T>(
    config: &Config,
    tls: &T,
    each_max: Duration,
    known: Option<&Address>,
    has_failed: &Notify,
) -> Option<Result<(Made<T>, Address), Error>>
where
    T: MakeTlsConnect<Socket> + Clone,
{
    let hosts = in_order(hosts_of(config), config, known.map(|known| &known.host));
    let mut last = None;
    for host in &hosts {
        let is_only = hosts.len() == 1;
        let looked_up = timeout(limit(config, is_only, each_max), addresses_of(host)).await;
        let Ok(addresses) = looked_up else {
            continue;
        };
        let limit = limit(config, is_only && addresses.len() == 1, each_max);
        for own in in_order(addresses, config, known.map(|known| &known.own)) {
            match timeout(limit, own.connect(tls.clone())).await {
                Ok(Ok(made)) => {
                    let host = host.clone();
                    return Some(Ok((made, Address { host, own })));
                }
                Ok(Err(error)) => last = Some(Err(error)),
                Err(_) => {}
            }
            if known.is_some_and(|known| known.own == own) {
                has_failed.notify_one();
            }
        }
    }
    last
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
