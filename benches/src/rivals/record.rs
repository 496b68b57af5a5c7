//! Record: where the figures go that are to be kept, one JSON object a line.

use crate::line::Line;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The file of `--json`, if there is one.
pub(crate) struct Record(Option<File>);

impl Record {
    /// Makes the file: before the measurements, not after them.
    pub(crate) fn create(path: Option<&Path>) -> Result<Self, String> {
        let create = |path: &Path| File::create(path).map_err(|error| format!("--json {}: {error}", path.display()));
        path.map(create).transpose().map(Self)
    }

    pub(crate) fn add(&mut self, lines: &[Line]) -> Result<(), String> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        let text: String = lines.iter().map(|line| line.to_json() + "\n").collect();
        file.write_all(text.as_bytes()).map_err(|error| format!("--json: {error}"))
    }
}
