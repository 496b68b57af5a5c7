//! Doubtful: looks through all pages of a damaged file for what its lost pages may have had.

use super::codec::{self, Names};
use super::due_key::DueKey;
use super::pages::{Node, PAGE, Widths};
use super::salvage::Salvage;
use super::tables::{BY_DUE, DEAD, RECENT, recent_row, row_by_due};
use crate::store::id_map::IdMap;
use crate::store::row::{Cause, DeadLetter};
use redb::TableHandle;
use std::collections::BTreeMap;

/// Why a doubtful row is a dead letter.
const DOUBTFUL: &str = "salvaged from a damaged file: it may have fired, or was cancelled";

/// Up to this number of pairs, a page may be larger than others, because one of its pairs is large.
const PAIRS_OF_LARGE_MAX: usize = 8;

impl Salvage<'_> {
    /// Looks all pages through for what the lost ones may have had. Returns dead letters by id.
    pub(super) fn doubtful(&mut self) -> BTreeMap<u128, Vec<u8>> {
        let tables = [RECENT.name(), BY_DUE.name(), DEAD.name()];
        let mut letters = BTreeMap::new();
        if !self.lost.iter().any(|lost| tables.contains(&lost.table)) {
            return letters;
        }
        let (mut rows, mut names) = (IdMap::default(), Names::default());
        for at in (1..self.pages.len() / PAGE).map(|page| page * PAGE) {
            if self.pages.is_known(at) {
                continue;
            }
            for width in [8, 20, 16] {
                self.look_through(at, width, &mut rows, &mut letters, &mut names);
            }
        }
        for (_, (_, letter)) in rows {
            let letter: DeadLetter = letter;
            letters.insert(letter.row.id.to_bits(), codec::encode_dead(&letter));
        }
        letters
    }

    /// Looks a page through as if it had entries whose keys have this width. Each value shows by
    /// its checksum whether it is one.
    fn look_through(
        &mut self,
        at: u64,
        width: usize,
        rows: &mut IdMap<u64, (u64, DeadLetter)>,
        letters: &mut BTreeMap<u128, Vec<u8>>,
        names: &mut Names,
    ) {
        let widths = Widths {
            key: Some(width),
            value: None,
        };
        let Some(mut page) = self.pages.bytes(at, PAGE) else {
            return;
        };
        let Some(node @ Node::Leaf { pairs, .. }) = Node::read(&page, widths) else {
            return;
        };
        if let Some(used) = node.used(&page)
            && used as u64 > PAGE
            && pairs <= PAIRS_OF_LARGE_MAX
            && let Some(large) = self.pages.bytes(at, used as u64)
        {
            page = large;
        }
        for number in 0..pairs {
            let Some((key, value)) = node.pair(&page, number) else {
                continue;
            };
            match width {
                8 => {
                    let number = u64::from_le_bytes(*key.first_chunk().unwrap_or(&[0; 8]));
                    let has_ended = self
                        .ended
                        .as_ref()
                        .is_some_and(|ended| ended.contains(number));
                    if !has_ended
                        && self.is_lost(RECENT.name(), key)
                        && let Ok(row) = recent_row(number, value)
                    {
                        self.note_doubtful(number, &row, rows, names);
                    }
                }
                20 => {
                    if self.is_lost(BY_DUE.name(), key)
                        && let Some(bytes) = key.first_chunk()
                        && let key = DueKey::from_bytes(*bytes)
                        && let Ok(row) = row_by_due(key, value)
                    {
                        self.note_doubtful(key.number(), &row, rows, names);
                    }
                }
                _ => {
                    let id = u128::from_le_bytes(*key.first_chunk().unwrap_or(&[0; 16]));
                    if self.is_lost(DEAD.name(), key)
                        && let Ok(letter) = codec::decode_dead(id, value, names)
                        && !self.certain.contains(&letter.row.id.number())
                    {
                        self.format = self.format.max(codec::format_of_dead(&letter));
                        self.seen(letter.row.id.number(), 0);
                        letters.insert(id, value.to_vec());
                    }
                }
            }
        }
    }

    fn note_doubtful(
        &mut self,
        number: u64,
        view: &codec::RowView<'_>,
        rows: &mut IdMap<u64, (u64, DeadLetter)>,
        names: &mut Names,
    ) {
        self.seen(number, view.epoch);
        let is_newer = rows
            .get(&number)
            .is_none_or(|&(epoch, _)| epoch <= view.epoch);
        if view.superseded || self.certain.contains(&number) || !is_newer {
            return;
        }
        let mut row = view.row(number, names);
        row.suspect = false;
        row.set_due(row.wanted());
        let letter = DeadLetter::new(row, Cause::Failed(DOUBTFUL.into()), self.now);
        self.format = self.format.max(codec::format_of_dead(&letter));
        rows.insert(number, (view.epoch, letter));
    }

    fn is_lost(&self, table: &str, key: &[u8]) -> bool {
        self.lost.iter().any(|lost| lost.has(table, key))
    }
}
