//! Users: transactions that cancel, move and arm timers of a fleet, and stay open while time
//! passes. What a user was told holds once the transaction commits; if it is rolled back, or its
//! user dies, nothing has happened.
//!
//! Their chances have a source of their own, so seeds without users are as they were before.

use super::super::shared_memory::{SharedPlace, Told};
use super::ledger::Made;
use super::scene::KEYS;
use super::world::MS;
use super::{Backing, Simulation};
use fastrand::Rng;
use std::time::{Duration, SystemTime};
use wheelwork_durable::contract::{Outcome, Target, Write};
use wheelwork_durable::{DurableId, Row, StoreTime};

/// How many transactions are open at most.
const OPEN_MAX: usize = 3;

/// So long after the end of a transaction a change may wait that it was in the way of.
const AFTER: Duration = Duration::from_secs(2);

/// The ledger's name for writes that no node has made.
const NO_NODE: usize = usize::MAX;

/// A transaction that is open.
struct Open {
    user: u64,
    has_snapshot: bool,
    until: SystemTime,
    held: Vec<Target>,
    /// The node that is asked for changes of what is locked.
    node: usize,
}

pub struct Users {
    rng: Rng,
    is_there: bool,
    open: Vec<Open>,
    ever: u64,
    /// What was locked, and until when changes of it may wait.
    held: Vec<(Target, SystemTime)>,
    /// Changes that users were told of and that were committed; transactions with a conflict.
    pub told_so: u64,
    pub conflicts: u64,
}

impl Users {
    pub fn new(seed: u64, is_fleet: bool) -> Self {
        let mut rng = Rng::with_seed(!seed);
        Self {
            is_there: is_fleet && rng.bool(),
            rng,
            open: Vec::new(),
            ever: 0,
            held: Vec::new(),
            told_so: 0,
            conflicts: 0,
        }
    }

    pub fn is_held(&mut self, target: &Target, now: SystemTime) -> bool {
        self.held.retain(|(_, until)| now < *until);
        let mut open = self.open.iter().flat_map(|open| &open.held);
        let mut over = self.held.iter().map(|(held, _)| held);
        open.any(|held| held == target) || over.any(|held| held == target)
    }

    pub fn may_wait(&mut self, now: SystemTime) -> bool {
        self.held.retain(|(_, until)| now < *until);
        !self.open.is_empty() || !self.held.is_empty()
    }
}

/// The rows of these names.
fn ids_of(held: &[Target]) -> impl Iterator<Item = DurableId> {
    held.iter().filter_map(|target| match target {
        Target::Id(id) => Some(*id),
        Target::Key(_) => None,
    })
}

/// The key of a name.
fn key_of(held: &[Target]) -> Option<&'static str> {
    let mut keys = held.iter().filter_map(|target| match target {
        Target::Key(key) => KEYS.into_iter().find(|of| **of == **key),
        Target::Id(_) => None,
    });
    keys.next()
}

impl Simulation {
    fn place(&self) -> &SharedPlace {
        match &self.backing {
            Backing::Shared(place) => place,
            Backing::Alone(_) => unreachable!("a process has no users"),
        }
    }

    /// Users begin transactions, change something in them, and end them.
    pub fn users_act(&mut self) {
        let (over, acts, begins) = {
            let mut world = self.shared.lock();
            let now = world.base;
            let users = &mut world.users;
            if !users.is_there {
                return;
            }
            let over = users.open.iter().filter(|open| open.until <= now);
            let over: Vec<u64> = over.map(|open| open.user).collect();
            let begins = users.open.len() < OPEN_MAX && users.rng.u8(..5) == 0;
            (over, users.rng.u8(..3), begins)
        };
        for user in over {
            let commits = self.shared.lock().users.rng.u8(..5) > 1;
            self.end_user(user, commits);
        }
        if begins {
            self.begin_user();
        }
        for _ in 0..acts {
            self.user_acts();
        }
    }

    fn begin_user(&mut self) {
        let mut world = self.shared.lock();
        let (now, awake) = (world.base, world.awake());
        let users = &mut world.users;
        users.ever += 1;
        let lasts = [20, 300, 2_000, 12_000][users.rng.usize(..4)];
        let open = Open {
            user: users.ever,
            has_snapshot: users.rng.bool(),
            until: now + MS * users.rng.u32(1..lasts),
            held: Vec::new(),
            node: users.rng.choice(awake).unwrap_or_default(),
        };
        let (user, has_snapshot) = (open.user, open.has_snapshot);
        users.open.push(open);
        self.place().begin(user, has_snapshot);
        world.note(format_args!("user {user} begins, snapshot: {has_snapshot}"));
    }

    /// A change that a user makes.
    fn some_change(&mut self) -> Option<Write> {
        let mut world = self.shared.lock();
        let now = StoreTime::reading(world.base);
        let mut rng = world.users.rng.fork();
        let key = rng.choice(KEYS).filter(|_| rng.bool());
        let later = [30, 3_000, 30_000][rng.usize(..3)];
        let due = now.after(MS * rng.u32(..later));
        let target = match key {
            Some(key) => Target::Key(key.into()),
            None => Target::Id(
                world
                    .ledger
                    .stored_row(&mut rng, StoreTime::from_millis(0))?
                    .id,
            ),
        };
        // (A suspect's handler waits for the store before it begins, and nothing else is done.)
        let row = world.ledger.find(&target).map(|timer| &timer.row);
        if row.is_some_and(|row| row.suspect || row.crashes > 0) {
            return None;
        }
        match rng.u8(..8) {
            0..4 => Some(Write::Cancel(target)),
            4..6 => Some(Write::Move(target, due)),
            _ => {
                let payload = format!("{} of a user", world.next_token());
                let kind = rng.choice(["steady", "batch", "lasting"]).unwrap();
                let id = self.place().user_id(key, due);
                let mut row = Row::new(id, due, kind.into(), payload.into_bytes().into());
                row.key = key.map(Into::into);
                Some(Write::Arm(row))
            }
        }
    }

    /// A user changes something, and is told what has become of it.
    fn user_acts(&mut self) {
        let Some(write) = self.some_change() else {
            return;
        };
        let (user, has_snapshot) = {
            let mut world = self.shared.lock();
            let users = &mut world.users;
            let Some(open) = users.rng.choice(&users.open) else {
                return;
            };
            (open.user, open.has_snapshot)
        };
        let told = self.place().change(user, write.clone());
        {
            let mut world = self.shared.lock();
            world.note(format_args!("user {user}: {write:?}: {told:?}"));
            if let (Told::No, Write::Cancel(target) | Write::Move(target, _)) = (&told, &write)
                && !has_snapshot
                && let Some(timer) = world.ledger.find(target)
            {
                let row = timer.row.clone();
                let is_right = row.superseded || world.ledger.is_claimed(&row);
                world
                    .ledger
                    .demand(is_right, || format!("a user is told false of {row:?}"));
            }
        }
        match told {
            Told::No | Told::Waits => {}
            Told::Conflict => {
                self.shared.lock().users.conflicts += 1;
                self.end_user(user, false);
            }
            Told::Yes(names) => {
                let asked_for = {
                    let mut world = self.shared.lock();
                    world.ledger.held.extend(ids_of(&names));
                    let users = &mut world.users;
                    let open = users.open.iter_mut().find(|open| open.user == user);
                    let open = open.unwrap();
                    open.held.extend(names.iter().cloned());
                    let key = key_of(&names).filter(|_| users.rng.bool());
                    key.map(|key| (open.node, key))
                };
                self.ask_for(asked_for);
            }
        }
    }

    /// A node is asked for a timer with a key that is locked, or was.
    fn ask_for(&self, asked_for: Option<(usize, &'static str)>) {
        let Some((node, key)) = asked_for else { return };
        let handle = {
            let world = self.shared.lock();
            let is_awake = world.awake().contains(&node);
            world.nodes[node].handle.clone().filter(|_| is_awake)
        };
        if let Some(handle) = handle {
            self.shared.schedule_ticket(node, &handle, Some(key));
        }
    }

    /// A user's transaction ends.
    fn end_user(&mut self, user: u64, commits: bool) {
        let made = self.place().end(user, commits);
        let asked_for = {
            let mut world = self.shared.lock();
            let now = world.base;
            let what = if commits { "commits" } else { "rolls back" };
            world.note(format_args!("user {user} {what}"));
            for (write, outcome) in &made {
                let gone = match outcome {
                    Outcome::Cancelled(gone) => *gone,
                    _ => None,
                };
                let is_made = match outcome {
                    Outcome::Armed(_) => true,
                    Outcome::Moved(row) => row.is_some(),
                    _ => gone.is_some(),
                };
                if !is_made {
                    world
                        .ledger
                        .wrong(format_args!("{write:?} is told as made: {outcome:?}"));
                }
                let struck = gone.filter(|&id| self.place().has(id));
                let made = Made {
                    node: NO_NODE,
                    now,
                    shows: now,
                    struck: struck.as_slice(),
                };
                world.ledger.wrote(write, outcome, made);
            }
            let users = &mut world.users;
            users.told_so += made.len() as u64;
            let at = users.open.iter().position(|open| open.user == user);
            let open = users.open.swap_remove(at.unwrap());
            let over = open.held.iter().cloned();
            users.held.extend(over.map(|target| (target, now + AFTER)));
            let key = key_of(&open.held).filter(|_| users.rng.bool());
            world.ledger.released(ids_of(&open.held), now);
            key.map(|key| (open.node, key))
        };
        self.ask_for(asked_for);
    }

    /// All transactions end, and what they were in the way of is made. `false`: something is wrong.
    pub fn end_users(&mut self) -> bool {
        let open = {
            let mut world = self.shared.lock();
            let now = world.base;
            if !world.users.may_wait(now) {
                return true;
            }
            let open = world.users.open.iter();
            open.map(|open| open.user).collect::<Vec<_>>()
        };
        for user in open {
            self.end_user(user, true);
        }
        self.pass(300 * MS);
        self.look()
    }
}
