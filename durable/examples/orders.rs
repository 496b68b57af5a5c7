//! Orders that are cancelled if nobody pays in time, though the program is killed meanwhile:
//! `cargo run -p wheelwork-durable --example orders`.
//!
//! It starts itself as a shop, kills that, and starts it again.

#[path = "common/process.rs"]
mod process;

use process::{Folder, Process};
use std::error::Error;
use std::io::stdin;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use wheelwork_durable::{Delivery, Durable, DurableError, Redb};

/// A shop, whose timers are in a file.
struct Shop {
    timers: Durable,
}

impl Shop {
    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let timers = Durable::builder(Redb::open(path)?)
            .on("order.unpaid", |order: &Delivery| {
                // (A shop of yours cancels it in its database: an order that is cancelled already
                // stays so. Then it matters not if this runs twice.)
                println!("cancelled {}", order.payload_text());
                Ok(())
            })
            .start()?;
        Ok(Self { timers })
    }

    /// Takes an order, to be paid in time. It will be cancelled otherwise, whatever happens.
    fn order(&self, number: u64, patience: Duration) -> Result<(), DurableError> {
        let order = key(number);
        let timer = self.timers.key(&order);
        timer.schedule("order.unpaid", patience, number.to_string())?;
        Ok(())
    }

    /// It is paid. `false`: too late.
    fn pay(&self, number: u64) -> Result<bool, DurableError> {
        self.timers.key(&key(number)).cancel()
    }
}

fn key(number: u64) -> String {
    format!("order-{number}")
}

/// Serves customers: lines such as `order 4711 60000` (in ms) and `pay 4711`.
fn serve(path: &Path) -> Result<(), Box<dyn Error>> {
    let shop = Shop::open(path)?;
    println!("\nopen");
    for line in stdin().lines() {
        let line = line?;
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["order", number, millis] => {
                shop.order(number.parse()?, Duration::from_millis(millis.parse()?))?;
                println!("ordered {number}");
            }
            ["pay", number] if shop.pay(number.parse()?)? => println!("paid {number}"),
            ["pay", number] => println!("too late for {number}"),
            _ => println!("what?"),
        }
    }
    Ok(shop.timers.stop()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().collect();
    if let [_, shop, path] = &arguments[..]
        && shop == "shop"
    {
        return serve(Path::new(path));
    }
    let folder = Folder::new("orders")?;
    let program = std::env::current_exe()?;
    let start = || {
        let mut command = Command::new(&program);
        command.arg("shop").arg(folder.file("timers.redb"));
        Process::start(command)
    };

    let mut shop = start()?;
    shop.say("order 1 300")?;
    shop.hear("ordered 1")?;
    shop.say("order 2 60000")?;
    shop.hear("ordered 2")?;
    println!("two orders, to be paid in 0.3 s and in a minute");
    shop.kill()?;
    println!("the shop was killed");

    let mut shop = start()?;
    println!("it is open again");
    shop.say("pay 2")?;
    let mut lines = shop.hear("paid 2")?;
    println!("order 2 is paid");
    while !lines.contains(&"cancelled 1".to_string()) {
        lines.push(shop.next()?);
    }
    println!("order 1 was cancelled, in time");
    shop.end()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// In which file a process of these tests has its timers.
    const FILE: &str = "WHEELWORK_ORDERS";

    fn start(folder: &Folder) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["tests::a_shop_of_its_own", "--exact", "--nocapture"])
            .env(FILE, folder.file("timers.redb"));
        Process::start(command).unwrap()
    }

    /// The shop that the other tests start as a process.
    #[test]
    fn a_shop_of_its_own() {
        if let Ok(path) = std::env::var(FILE) {
            serve(Path::new(&path)).unwrap();
        }
    }

    /// The orders that were cancelled, by these lines.
    fn cancelled(lines: &[String]) -> BTreeSet<u64> {
        let numbers = lines
            .iter()
            .filter_map(|line| line.strip_prefix("cancelled "));
        numbers.map(|number| number.parse().unwrap()).collect()
    }

    #[test]
    fn unpaid_orders_are_cancelled_though_the_shop_is_killed() {
        let folder = Folder::new("orders-once").unwrap();
        let mut shop = start(&folder);
        for order in ["order 1 3600000", "order 2 1", "order 3 3600000"] {
            shop.say(order).unwrap();
        }
        let mut lines = shop.hear("ordered 3").unwrap();
        shop.say("pay 1").unwrap();
        lines.extend(shop.hear("paid 1").unwrap());
        lines.extend(shop.kill().unwrap());

        let mut shop = start(&folder);
        shop.say("pay 1").unwrap();
        lines.extend(shop.hear("too late for 1").unwrap());
        shop.say("pay 3").unwrap();
        lines.extend(shop.hear("paid 3").unwrap());
        while !cancelled(&lines).contains(&2) {
            lines.push(shop.next().unwrap());
        }
        lines.extend(shop.end().unwrap());
        assert_eq!(cancelled(&lines), BTreeSet::from([2]));
    }

    #[test]
    fn no_order_is_forgotten_however_often_the_shop_is_killed() {
        let folder = Folder::new("orders-often").unwrap();
        let (mut lines, mut taken) = (Vec::new(), BTreeSet::new());
        for round in 0..8 {
            let mut shop = start(&folder);
            for number in round * 10..round * 10 + 10 {
                // Some are due before the shop is killed, some while none is open, some later.
                let millis = number % 5 * 10;
                shop.say(&format!("order {number} {millis}")).unwrap();
                lines.extend(shop.hear(&format!("ordered {number}")).unwrap());
                taken.insert(number);
            }
            lines.extend(shop.kill().unwrap());
        }
        let mut shop = start(&folder);
        while !cancelled(&lines).is_superset(&taken) {
            lines.push(shop.next().unwrap());
        }
        lines.extend(shop.end().unwrap());
        assert_eq!(cancelled(&lines), taken);
    }
}
