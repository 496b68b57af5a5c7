//! Lost: the keys of a table that could not be read.

/// Keys of a table that could not be read.
pub(super) struct Lost {
    pub(super) table: &'static str,
    /// After this key, in the order of bytes. Empty: before all.
    pub(super) after: Vec<u8>,
    pub(super) upto: Option<Vec<u8>>,
}

/// A key in the order of bytes: numbers are stored with the lowest byte first.
pub(super) fn ordered(table: &str, key: &[u8]) -> Vec<u8> {
    match table {
        "by_due" | "done" => key.to_vec(),
        _ => key.iter().rev().copied().collect(),
    }
}

impl Lost {
    pub(super) fn has(&self, table: &str, key: &[u8]) -> bool {
        let key = ordered(table, key);
        self.table == table
            && key > self.after
            && self.upto.as_ref().is_none_or(|upto| key <= *upto)
    }

    pub(super) fn line(&self) -> String {
        let millis = |key: &[u8]| {
            let mut bytes = [0; 8];
            bytes[2..].copy_from_slice(key.get(..6).unwrap_or(&[0; 6]));
            u64::from_be_bytes(bytes)
        };
        let table = self.table;
        match (&*self.after, &self.upto) {
            ([], None) => format!("{table}: all of it, or a part"),
            (after, upto) if table == "by_due" => {
                let from = millis(after);
                let upto = upto.as_ref().map(|upto| millis(upto));
                let upto = upto.map_or("the end".into(), |upto| upto.to_string());
                format!("by_due: timers due from {from} to {upto}, in milliseconds since 1970")
            }
            _ => format!("{table}: a page"),
        }
    }
}
