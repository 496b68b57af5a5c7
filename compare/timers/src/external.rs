//! External subjects: a timer in another language, behind the command line of a measurement.

use crate::name::Name;
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
        let (name, program) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty() && !name.contains(char::is_whitespace))
            .ok_or("not NAME=PROGRAM")?;
        if Name::from_str(name, false).is_ok() {
            return Err(format!("{name} is a subject already"));
        }
        let program = PathBuf::from(program);
        if !program.is_file() {
            return Err(format!("no program {}", program.display()));
        }
        let name = name.to_string();
        Ok(Self { name, program })
    }
}
