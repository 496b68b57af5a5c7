//! Addresses: the hosts of a connection string, and the addresses of their names, are tried one
//! after the other. Each has a limit for all that it takes to connect, so one that drops packets,
//! or accepts and says nothing, is not in the way of the next one.
//!
//! tokio-postgres tries them itself, but its `connect_timeout` ends when TCP is connected. So it
//! gets one address at a time here. All else is as it is there: the order, `load_balance_hosts`,
//! and `target_session_attrs`, by which an address is passed over.

use crate::random::random;
use std::net::IpAddr;
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Error, Socket};

/// What an address has to connect if it is the only one, unless the connection string says it.
const ONLY_MAX: Duration = Duration::from_secs(30);

/// The same if there are several: not longer than a lease lasts, unless that was set.
const SEVERAL_MAX: Duration = Duration::from_secs(10);

/// The port of a host without one.
const PORT: u16 = 5_432;

/// Connects to the first address that lets it. `each_max`: no address has longer than this. Returns
/// the last error, or `None` if no address has answered.
pub(super) async fn connect_first<T>(
    config: &Config,
    tls: &T,
    each_max: Duration,
) -> Option<Result<(Client, Connection<Socket, T::Stream>), Error>>
where
    T: MakeTlsConnect<Socket> + Clone,
{
    let hosts = in_order(hosts_of(config), config);
    let mut last = None;
    for host in &hosts {
        let limit = |is_only| {
            let own = config.get_connect_timeout().copied();
            own.unwrap_or(if is_only { ONLY_MAX } else { SEVERAL_MAX })
                .min(each_max)
        };
        let looked_up = timeout(limit(hosts.len() == 1), addresses_of(host)).await;
        let Ok(addresses) = looked_up else {
            continue;
        };
        let limit = limit(hosts.len() == 1 && addresses.len() == 1);
        for address in in_order(addresses, config) {
            match timeout(limit, address.connect(tls.clone())).await {
                Ok(Ok(connected)) => return Some(Ok(connected)),
                Ok(Err(error)) => last = Some(Err(error)),
                Err(_) => {}
            }
        }
    }
    last
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

/// In the order in which they are tried.
fn in_order(mut all: Vec<Config>, config: &Config) -> Vec<Config> {
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
        all.sort_by_cached_key(|_| random());
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
}
