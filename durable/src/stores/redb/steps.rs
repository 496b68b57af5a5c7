//! Steps: the formats of a file, and how it gets from one to the next.
//!
//! A file has two numbers. Its *step* is the format that it has reached: each step is one
//! transaction, which ends by writing its number. Its *floor* is the lowest format that a program
//! has to know to work with it. A step raises the step alone. The floor rises when something is
//! written that a program of an earlier format could not read. So after a step a file can be opened
//! by the program before, until a new feature is used.
//!
//! Two rules follow.
//!
//! - **A step derives nothing from rows.** A program of the floor may write after it, and a step is
//!   not made twice. An index, a count or a table that a step has filled from rows would be wrong
//!   then, and nothing would show it. A step that does so raises the floor in its transaction.
//! - **A step makes no table that nobody writes.** redb keeps the type of a table's key from then
//!   on. The first write makes the table ([`WriteTransaction::open_table`]), and a reader takes a
//!   table that is missing for an empty one (`rules.rs` has such a table).

use super::bytes::Flaw;
use super::state;
use super::tables::{FLOOR, IDENTITY, META, STEP, STEP_BY, damaged};
use crate::random::random;
use redb::{Database, Error, ReadTransaction, ReadableTable, Table, WriteTransaction};

pub(super) use super::tables::FLOOR_BY;

/// The table `meta` of a transaction.
type Meta<'txn> = Table<'txn, &'static str, &'static [u8]>;

/// The format that this program reads and writes: the last step.
pub(super) const FORMAT: u64 = 4;

/// The floor of a new file: the first format that was released. A file with a lower one is from
/// before that.
pub(super) const FLOOR_MIN: u64 = 3;

/// A file that has no step has this format.
const STEP_MIN: u64 = 3;

/// What this program calls itself in a file.
const PROGRAM: &str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));

/// The longest name of a program that is shown, in characters.
const PROGRAM_MAX: usize = 80;

/// Takes a file to the format `to`, in one transaction.
///
/// A step whose work does not fit into one transaction, because it writes rows anew, has to do that
/// in slices before, and to note in `meta` how far it has come.
struct Step {
    to: u64,
    make: fn(&WriteTransaction) -> Result<(), Error>,
}

/// All steps, in their order.
const STEPS: [Step; 1] = [Step {
    to: 4,
    make: step_4,
}];

const _: () = assert!(STEPS[STEPS.len() - 1].to == FORMAT);

/// A name for the store.
fn step_4(transaction: &WriteTransaction) -> Result<(), Error> {
    let identity = [random(), random()].map(u64::to_le_bytes);
    let mut meta = transaction.open_table(META)?;
    meta.insert(IDENTITY, &*state::encode_part(identity.as_flattened()))?;
    Ok(())
}

/// The numbers of a file.
pub(super) struct Numbers {
    pub(super) floor: u64,
    /// Above [`FORMAT`], if a later program has had the file.
    pub(super) step: u64,
}

impl Numbers {
    /// `None`: this is not our file.
    pub(super) fn read(transaction: &ReadTransaction) -> Result<Option<Self>, Error> {
        let Some(floor) = number(transaction, FLOOR)? else {
            return Ok(None);
        };
        let step = number(transaction, STEP)?.unwrap_or(STEP_MIN);
        Ok(Some(Self { floor, step }))
    }
}

/// What is in `meta` under a name.
fn part<T>(
    transaction: &ReadTransaction,
    name: &str,
    decode: impl FnOnce(&[u8]) -> Result<T, Flaw>,
) -> Result<Option<T>, Error> {
    let meta = match transaction.open_table(META) {
        Ok(meta) => meta,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some(value) = ReadableTable::get(&meta, name)? else {
        return Ok(None);
    };
    let decoded = decode(value.value()).map_err(|flaw| damaged("meta", 0, flaw))?;
    Ok(Some(decoded))
}

fn number(transaction: &ReadTransaction, name: &str) -> Result<Option<u64>, Error> {
    part(transaction, name, state::decode_version)
}

/// The program whose name is in `meta` under `name`, for an error of one line.
pub(super) fn program(transaction: &ReadTransaction, name: &str) -> Result<Option<String>, Error> {
    part(transaction, name, |bytes| {
        let program = String::from_utf8_lossy(state::decode_part(bytes)?);
        let shown = program.chars().take(PROGRAM_MAX);
        Ok(shown
            .map(|char| if char.is_control() { '\u{fffd}' } else { char })
            .collect())
    })
}

/// Makes the steps that a file lacks.
pub(super) fn take(database: &Database, from: u64) -> Result<(), Error> {
    for step in STEPS.iter().filter(|step| step.to > from) {
        let transaction = database.begin_write()?;
        (step.make)(&transaction)?;
        note(&transaction, step.to)?;
        transaction.commit()?;
    }
    Ok(())
}

/// Makes all steps of a new file, in the transaction that makes its tables.
pub(super) fn make_all(transaction: &WriteTransaction) -> Result<(), Error> {
    for step in &STEPS {
        (step.make)(transaction)?;
    }
    raise_floor(&mut transaction.open_table(META)?, FLOOR_MIN)?;
    note(transaction, FORMAT)
}

/// Raises the floor, in the transaction that writes what an earlier program would not read.
pub(super) fn raise_floor(meta: &mut Meta<'_>, to: u64) -> Result<(), Error> {
    meta.insert(FLOOR, &*state::encode_version(to))?;
    meta.insert(FLOOR_BY, &*state::encode_part(PROGRAM.as_bytes()))?;
    Ok(())
}

/// What `meta` has of a file that is made of another one's rows, but for the state.
pub(super) fn meta_of_new(floor: u64) -> Vec<(&'static str, Vec<u8>)> {
    let program = state::encode_part(PROGRAM.as_bytes());
    let identity = [random(), random()].map(u64::to_le_bytes);
    vec![
        (FLOOR, state::encode_version(floor)),
        (FLOOR_BY, program.clone()),
        (STEP, state::encode_version(FORMAT)),
        (STEP_BY, program),
        (IDENTITY, state::encode_part(identity.as_flattened())),
    ]
}

/// Ends a step.
fn note(transaction: &WriteTransaction, to: u64) -> Result<(), Error> {
    let mut meta = transaction.open_table(META)?;
    meta.insert(STEP, &*state::encode_version(to))?;
    meta.insert(STEP_BY, &*state::encode_part(PROGRAM.as_bytes()))?;
    Ok(())
}
