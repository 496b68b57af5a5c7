//! Two shops on one PostgreSQL: orders that are cancelled exactly once if nobody pays in time,
//! though a shop is killed meanwhile:
//! `scripts/with-postgres cargo run -p wheelwork-durable --example shop --features postgres`.
//!
//! It starts itself as two shops, kills one, and looks what becomes of its orders. The database is
//! the one that the variable `WHEELWORK_POSTGRES` tells (`host=.. user=.. dbname=..`).

#[allow(dead_code, reason = "other examples use the rest")]
#[path = "common/process.rs"]
mod process;

use postgres::{Client, NoTls};
use process::Process;
use std::error::Error;
use std::io::stdin;
use std::process::Command;
use std::time::{Duration, Instant};
use wheelwork_durable::{Durable, Postgres, PostgresOutbox};

/// What tells the database.
const DATABASE: &str = "WHEELWORK_POSTGRES";

/// How long leases last: then other shops take over from one that was killed.
const LEASE: Duration = Duration::from_secs(1);

/// A shop. All shops have one database, with the orders and their timers.
struct Shop {
    schema: String,
    database: Client,
    outbox: PostgresOutbox,
    timers: Durable,
}

impl Shop {
    fn open(database: &str, schema: &str, name: &str) -> Result<Self, Box<dyn Error>> {
        let store = Postgres::builder(database)
            .schema(&format!("{schema}_timers"))
            .node_name(name)
            .lease(LEASE)
            .connect()?;
        let outbox = store.outbox();
        let cancel = format!(
            "UPDATE {schema}.orders SET state = 'cancelled' WHERE id = $1 AND state = 'open'"
        );
        let note = format!("INSERT INTO {schema}.cancellations (id, shop) VALUES ($1, $2)");
        let shop = name.to_string();
        let timers = Durable::builder(store)
            .on_in_transaction("order.unpaid", move |order, transaction| {
                let id: i64 = order.payload_text().parse()?;
                // An order that was paid meanwhile stays paid.
                if transaction.execute(&cancel, &[&id])? == 1 {
                    transaction.execute(&note, &[&id, &shop])?;
                }
                Ok(()) // Both are committed now, and the timer is done: or nothing of it.
            })
            .start()?;
        Ok(Self {
            schema: schema.to_string(),
            database: Client::connect(database, NoTls)?,
            outbox,
            timers,
        })
    }

    /// Takes an order, to be paid in time: the order and its timer, or neither.
    fn order(&mut self, id: i64, patience: Duration) -> Result<(), Box<dyn Error>> {
        let insert = format!(
            "INSERT INTO {}.orders (id, state) VALUES ($1, 'open')",
            self.schema
        );
        let (key, payload) = (key(id), id.to_string());
        let mut transaction = self.database.transaction()?;
        transaction.execute(&insert, &[&id])?;
        let mut timers = self.outbox.within(&mut transaction);
        timers
            .key(&key)
            .schedule("order.unpaid", patience, payload)?;
        Ok(transaction.commit()?)
    }

    /// It is paid, at any shop. `false`: too late.
    fn pay(&mut self, id: i64) -> Result<bool, Box<dyn Error>> {
        let pay = format!(
            "UPDATE {}.orders SET state = 'paid' WHERE id = $1 AND state = 'open'",
            self.schema
        );
        let mut transaction = self.database.transaction()?;
        let is_paid = transaction.execute(&pay, &[&id])? == 1;
        if is_paid {
            // (`false`: it fires just now, and finds that the order is paid.)
            self.outbox
                .within(&mut transaction)
                .key(&key(id))
                .cancel()?;
        }
        transaction.commit()?;
        Ok(is_paid)
    }
}

fn key(id: i64) -> String {
    format!("order-{id}")
}

/// Serves customers: lines such as `order 4711 60000` (in ms) and `pay 4711`.
fn serve(database: &str, schema: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let mut shop = Shop::open(database, schema, name)?;
    println!("\nopen");
    for line in stdin().lines() {
        let line = line?;
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["order", id, millis] => {
                shop.order(id.parse()?, Duration::from_millis(millis.parse()?))?;
                println!("ordered {id}");
            }
            ["pay", id] if shop.pay(id.parse()?)? => println!("paid {id}"),
            ["pay", id] => println!("too late for {id}"),
            ["shops"] => {
                let open = shop.timers.fleet()?.nodes.len();
                println!("{open} shops");
            }
            _ => println!("what?"),
        }
    }
    Ok(shop.timers.stop()?)
}

/// The tables of a run, which are gone when this is dropped.
struct Tables {
    database: Client,
    schema: String,
}

impl Tables {
    fn new(database: &str, name: &str) -> Result<Self, Box<dyn Error>> {
        let schema = format!("{name}_{}", std::process::id());
        let mut database = Client::connect(database, NoTls)?;
        // (`cancellations` has no key: an order that is cancelled twice is there twice.)
        database.batch_execute(&format!(
            "CREATE SCHEMA {schema};
             CREATE TABLE {schema}.orders (id bigint PRIMARY KEY, state text NOT NULL);
             CREATE TABLE {schema}.cancellations (id bigint NOT NULL, shop text NOT NULL)"
        ))?;
        Ok(Self { database, schema })
    }

    /// The orders that were cancelled, once for each time, and by whom.
    fn cancelled(&mut self) -> Result<Vec<(i64, String)>, postgres::Error> {
        let all = format!(
            "SELECT id, shop FROM {}.cancellations ORDER BY id",
            self.schema
        );
        let rows = self.database.query(&all, &[])?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Waits until `count` orders were cancelled.
    fn wait_for(&mut self, count: usize) -> Result<Vec<(i64, String)>, Box<dyn Error>> {
        let begun = Instant::now();
        loop {
            let cancelled = self.cancelled()?;
            if cancelled.len() >= count {
                return Ok(cancelled);
            }
            if begun.elapsed() > Duration::from_secs(60) {
                return Err(format!("{count} were to be cancelled: {cancelled:?}").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        let schema = &self.schema;
        let _ = self.database.batch_execute(&format!(
            "DROP SCHEMA IF EXISTS {schema}, {schema}_timers CASCADE"
        ));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let Ok(database) = std::env::var(DATABASE) else {
        println!("it needs a PostgreSQL: {DATABASE}='host=.. user=.. dbname=..' says which one");
        println!("scripts/with-postgres COMMAND starts one for a command");
        return Ok(());
    };
    let arguments: Vec<_> = std::env::args().collect();
    if let [_, shop, schema, name] = &arguments[..]
        && shop == "shop"
    {
        return serve(&database, schema, name);
    }
    let mut tables = Tables::new(&database, "shop_example")?;
    let program = std::env::current_exe()?;
    let start = |name: &str| {
        let mut command = Command::new(&program);
        command.args(["shop", &tables.schema, name]);
        Process::start(command)
    };
    let (mut north, mut south) = (start("north")?, start("south")?);
    println!("two shops are open: north and south");

    north.say("order 1 500")?;
    north.hear("ordered 1")?;
    north.say("order 2 60000")?;
    north.hear("ordered 2")?;
    println!("north has two orders, to be paid in 0.5 s and in a minute");
    north.kill()?;
    println!("north was killed");

    south.say("pay 2")?;
    south.hear("paid 2")?;
    println!("order 2 is paid, at south");
    for (id, shop) in tables.wait_for(1)? {
        println!("order {id} was cancelled, by {shop}");
    }
    south.end()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Which shop a process of these tests is: the schema and its name.
    const SHOP: &str = "WHEELWORK_SHOP";

    fn start(tables: &Tables, name: &str) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["tests::a_shop_of_its_own", "--exact", "--nocapture"])
            .env(SHOP, format!("{} {name}", tables.schema));
        Process::start(command).unwrap()
    }

    /// The database, if there is one.
    fn database() -> Option<String> {
        let database = std::env::var(DATABASE).ok();
        if database.is_none() {
            eprintln!("left out: there is no {DATABASE}");
        }
        database
    }

    /// A shop that the other test starts as a process.
    #[test]
    fn a_shop_of_its_own() {
        let (Ok(shop), Ok(database)) = (std::env::var(SHOP), std::env::var(DATABASE)) else {
            return;
        };
        let (schema, name) = shop.split_once(' ').unwrap();
        serve(&database, schema, name).unwrap();
    }

    /// Takes an order at a shop.
    fn order(shop: &mut Process, id: i64, millis: i64) {
        shop.say(&format!("order {id} {millis}")).unwrap();
        shop.hear(&format!("ordered {id}")).unwrap();
    }

    #[test]
    fn each_unpaid_order_is_cancelled_once_though_shops_are_killed() {
        let Some(database) = database() else { return };
        let mut tables = Tables::new(&database, "shop_test").unwrap();
        let mut north = start(&tables, "north");
        let mut south = start(&tables, "south");
        let mut unpaid = BTreeSet::new();
        for round in 0..3 {
            // A shop that was killed is missed by now.
            while {
                south.say("shops").unwrap();
                south.next().unwrap() != "2 shops"
            } {}
            for id in round * 40..round * 40 + 40 {
                let shop = if id % 2 == 0 { &mut north } else { &mut south };
                if id % 4 < 2 {
                    // Some are due before north is killed, some while its leases last, some later.
                    order(shop, id, id % 40 * 50);
                    unpaid.insert(id);
                } else {
                    order(shop, id, 3_600_000);
                }
            }
            north.kill().unwrap();
            for id in (round * 40..round * 40 + 40).filter(|id| id % 4 >= 2) {
                south.say(&format!("pay {id}")).unwrap();
                south.hear(&format!("paid {id}")).unwrap();
            }
            north = start(&tables, "north");
        }
        let cancelled = tables.wait_for(unpaid.len()).unwrap();
        let late = *unpaid.first().unwrap();
        south.say(&format!("pay {late}")).unwrap();
        south.hear(&format!("too late for {late}")).unwrap();
        north.end().unwrap();
        south.end().unwrap();

        // Each of them once, in time or after a shop was killed; and no other.
        let ids: Vec<_> = cancelled.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, unpaid.into_iter().collect::<Vec<_>>());
        assert_eq!(tables.cancelled().unwrap(), cancelled);
        let left = format!("SELECT count(*) FROM {}_timers.timer", tables.schema);
        let left: i64 = tables.database.query_one(&left, &[]).unwrap().get(0);
        assert_eq!(left, 0, "no timer is left");
    }
}
