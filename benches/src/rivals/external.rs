//! External subjects: a timer in another language, behind the command line of a measurement.

use crate::args::Group;
use crate::line::Line;
use crate::subjects::Name;
use clap::ValueEnum;
use std::path::PathBuf;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct External {
    pub(crate) name: String,
    pub(crate) program: PathBuf,
}

impl External {
    /// `NAME=PROGRAM`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, program) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("not NAME=PROGRAM")?;
        if Name::from_str(name, false).is_ok() {
            return Err(format!("{name} is a subject already"));
        }
        let program = PathBuf::from(program);
        if !program.is_file() {
            return Err(format!("no program {}", program.display()));
        }
        Ok(Self { name: name.to_string(), program })
    }

    /// What is known before anything was measured.
    pub(crate) fn blank(&self, group: Group) -> Line {
        Line {
            subject: self.name.clone(),
            workload: group.workload.text(),
            threads: group.threads,
            timers: group.timers,
            ..Line::default()
        }
    }
}
