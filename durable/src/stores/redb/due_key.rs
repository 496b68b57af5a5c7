//! Where a row stands in the order of deadlines, as a key of the table `by_due`.

use crate::store::row::{DurableId, Position, StoreTime};

/// Deadline (6 bytes), first deadline (6), number (8), the highest byte first: so the order of the
/// bytes is that of [`Position`]s of partition 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DueKey([u8; 20]);

impl DueKey {
    /// Before all keys of rows.
    pub(crate) const MIN: Self = Self([0; 20]);

    pub(crate) fn new(due: StoreTime, first_due: StoreTime, number: u64) -> Self {
        let mut bytes = [0; 20];
        bytes[..6].copy_from_slice(&due.as_millis().to_be_bytes()[2..]);
        bytes[6..12].copy_from_slice(&first_due.as_millis().to_be_bytes()[2..]);
        bytes[12..].copy_from_slice(&number.to_be_bytes());
        Self(bytes)
    }

    /// The key of a row of partition 0.
    pub(crate) fn of(id: DurableId, due: StoreTime) -> Self {
        Self::new(due, id.first_due(), id.number())
    }

    /// The key at a position, or the last one before it, if it is in a later partition.
    pub(crate) fn at(position: Position) -> Self {
        if position.id.partition() == 0 {
            Self::of(position.id, position.due)
        } else {
            Self::end_of(position.due)
        }
    }

    /// After all keys of a deadline.
    pub(crate) fn end_of(due: StoreTime) -> Self {
        Self::new(due, StoreTime::MAX, u64::MAX)
    }

    pub(crate) fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8; 20] {
        &self.0
    }

    pub(crate) fn due(&self) -> StoreTime {
        self.time_at(0)
    }

    pub(crate) fn first_due(&self) -> StoreTime {
        self.time_at(6)
    }

    pub(crate) fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[12..]);
        u64::from_be_bytes(bytes)
    }

    pub(crate) fn id(&self) -> DurableId {
        DurableId::new(0, self.first_due(), self.number())
    }

    pub(crate) fn position(self) -> Position {
        Position {
            due: self.due(),
            id: self.id(),
        }
    }

    /// Whether the row was moved from its first deadline.
    pub(crate) fn is_moved(&self) -> bool {
        self.0[..6] != self.0[6..12]
    }

    fn time_at(&self, begin: usize) -> StoreTime {
        let mut bytes = [0; 8];
        bytes[2..].copy_from_slice(&self.0[begin..begin + 6]);
        StoreTime::from_millis(u64::from_be_bytes(bytes))
    }
}
