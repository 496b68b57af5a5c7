//! A file of timers, for an operator: what is in it, whether it is sound, and what to do if not.
//!
//! No program may have the file open. Of a program that runs, read a backup.
//!
//! ```text
//! cargo run --example file -- timers.redb check
//! cargo run --example file -- timers.redb salvage saved.redb
//! cargo run --example file -- timers.redb compact
//! cargo run --example file -- timers.redb list
//! cargo run --example file -- timers.redb dead
//! ```
//!
//! `list` and `dead` read a copy, so that nothing is handed out and the file stays as it is. Times
//! are in milliseconds since 1970. Without words it says how it is used. The process ends with 1 if
//! `check` has found a flaw, or if `salvage`, `list` or `dead` could not read a part of the file.
//! It ends with 2 if the file could not be read at all, if a command failed otherwise (`compact`
//! does so if a part of the file is damaged), or if the words are wrong.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;
use std::{env, fs};
use wheelwork::ManualClock;
use wheelwork_durable::{Durable, Redb};

const USAGE: &str = "usage: file FILE check | salvage NEW | compact | list | dead";

/// Runs a command. Returns whether the file is sound, as far as the command has seen it.
fn run(words: &[String], say: &mut dyn FnMut(String)) -> Result<bool, Box<dyn Error>> {
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] | ["--help"] => {
            say(USAGE.into());
            Ok(true)
        }
        [file, "check"] => {
            let report = Redb::check(file)?;
            let (rows, dead, bytes) = (report.rows, report.dead, report.bytes);
            say(format!("{rows} timers, {dead} dead letters, {bytes} bytes"));
            let program = report.program.as_deref().unwrap_or("an early version");
            say(match report.format {
                0 => "the format could not be read".to_owned(),
                format => format!("format {format}, by {program}"),
            });
            report.flaws.iter().cloned().for_each(&mut *say);
            say(if report.is_sound() {
                "it is sound"
            } else {
                "it has flaws"
            }
            .into());
            Ok(report.is_sound())
        }
        [file, "salvage", new] => {
            let report = Redb::salvage(file, new)?;
            let (rows, dead, doubtful) = (report.rows, report.dead, report.doubtful);
            say(format!("{rows} timers, {dead} dead letters"));
            say(format!(
                "{doubtful} doubtful ones, which are dead letters now"
            ));
            for part in &report.lost {
                say(format!("not read: {part}"));
            }
            Ok(report.lost.is_empty())
        }
        [file, "compact"] => {
            let (before, after) = Redb::compact(file)?;
            say(format!("{before} bytes before, {after} now"));
            Ok(true)
        }
        [file, what @ ("list" | "dead")] => {
            let copy = format!("{file}.list-{}", std::process::id());
            let saved = Redb::salvage(file, &copy)?;
            let listed = list(copy.as_ref(), what, say);
            fs::remove_file(&copy)?;
            listed?;
            Ok(saved.lost.is_empty())
        }
        [_] => Err(format!("there is no command; {USAGE}").into()),
        [_, "check" | "salvage" | "compact" | "list" | "dead", ..] => {
            Err(format!("too few words, or too many; {USAGE}").into())
        }
        [_, word, ..] => Err(format!("unknown command {word:?}; {USAGE}").into()),
    }
}

/// Lists the timers, or the dead letters, of a file that nobody else needs.
fn list(file: &Path, what: &str, say: &mut dyn FnMut(String)) -> Result<(), Box<dyn Error>> {
    // By this clock nothing is due, so nothing fires.
    let clock = ManualClock::new();
    clock.set_system_time(SystemTime::UNIX_EPOCH);
    let store = Redb::builder().must_exist(true).open(file)?;
    let timers = Durable::builder(store).clock(clock).start()?;
    if what == "list" {
        for row in timers.list(.., usize::MAX)? {
            let (id, due) = (row.id, row.due.as_millis());
            let key = row.key.as_deref().unwrap_or_default();
            let bytes = row.payload.len();
            say(format!(
                "{id} due {due} {:?} key {key:?}, {bytes} bytes",
                row.kind
            ));
        }
        return Ok(());
    }
    for letter in timers.dead_letters(None, usize::MAX)? {
        let (id, kind, cause) = (letter.row.id, &letter.row.kind, &letter.cause);
        say(format!("{id} {kind:?} {cause:?}"));
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<_> = env::args().skip(1).collect();
    match run(&words, &mut |line| println!("{line}")) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// What a command says, with whether the file is sound.
    fn said(words: &[&str]) -> Result<(bool, String), String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_string()).collect();
        let mut lines = Vec::new();
        let sound = run(&words, &mut |line| lines.push(line));
        let sound = sound.map_err(|error| error.to_string())?;
        Ok((sound, lines.join("\n")))
    }

    #[test]
    fn an_operator_sees_what_a_file_has() {
        let folder = env::temp_dir().join(format!("wheelwork-file-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("timers.redb");
        let timers = Durable::builder(Redb::open(&path).unwrap())
            .start()
            .unwrap();
        let hour = Duration::from_secs(3_600);
        timers
            .key("order-1")
            .schedule("mail", hour, "hello")
            .unwrap();
        timers.schedule("mail", hour, "goodbye").unwrap();
        timers.stop().unwrap();
        let file = path.to_str().unwrap();
        let (sound, check) = said(&[file, "check"]).unwrap();
        assert!(
            sound && check.starts_with("2 timers, 0 dead letters, "),
            "{check}"
        );
        let before = fs::read(&path).unwrap();
        let (sound, list) = said(&[file, "list"]).unwrap();
        assert!(sound && list.lines().count() == 2, "{list}");
        assert!(list.contains("\"mail\" key \"order-1\", 5 bytes"), "{list}");
        assert!(fs::read(&path).unwrap() == before, "it was changed");
        assert!(said(&[file, "compact"]).unwrap().0);
        let saved = folder.join("saved.redb");
        let saved = saved.to_str().unwrap();
        // Damaged: nothing of it is certain any more.
        let mut bytes = fs::read(&path).unwrap();
        bytes[..4_096].fill(0);
        fs::write(&path, bytes).unwrap();
        assert!(said(&[file, "check"]).is_err());
        let (sound, salvage) = said(&[file, "salvage", saved]).unwrap();
        assert!(!sound && salvage.contains("2 doubtful ones"), "{salvage}");
        let (_, dead) = said(&[saved, "dead"]).unwrap();
        assert_eq!(
            dead.matches("salvaged from a damaged file").count(),
            2,
            "{dead}"
        );
        for (words, why) in [
            (&[file][..], "there is no command"),
            (&[file, "chek"], "unknown command \"chek\""),
            (&[file, "salvage"], "too few words, or too many"),
        ] {
            assert_eq!(said(words).unwrap_err(), format!("{why}; {USAGE}"));
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
