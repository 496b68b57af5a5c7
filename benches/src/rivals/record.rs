//! Record: where the figures go that are to be kept, one JSON object a line.

use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The file of `--json`, if there is one: the machine, then a line for each subject in each group, then the goals.
pub(crate) struct Record(Option<File>);

impl Record {
    /// Makes the file: before the measurements, not after them.
    pub(crate) fn create(path: Option<&Path>, machine: &str) -> Result<Self, String> {
        let create = |path: &Path| File::create(path).map_err(|error| format!("--json {}: {error}", path.display()));
        let mut record = path.map(create).transpose().map(Self)?;
        record.add([json!({ "machine": machine })])?;
        Ok(record)
    }

    /// Adds a line for each.
    pub(crate) fn add(&mut self, objects: impl IntoIterator<Item = Value>) -> Result<(), String> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        let text: String = objects.into_iter().map(|object| format!("{object}\n")).collect();
        file.write_all(text.as_bytes()).map_err(|error| format!("--json: {error}"))
    }
}
