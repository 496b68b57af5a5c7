//! CPU time of other processes, where /proc tells it.

use std::time::Duration;

/// What `/proc/PID/stat` says: the parent, and CPU time of itself and of its children that have
/// ended.
struct Stat {
    parent: u32,
    own: Duration,
    ended: Duration,
}

/// Times are in hundredths of a second, behind the name in brackets.
fn stat_of(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let number = |place: usize| words.get(place)?.parse::<u64>().ok();
    let time = |place| {
        Some(Duration::from_millis(
            10 * (number(place)? + number(place + 1)?),
        ))
    };
    Some(Stat {
        parent: number(1)? as u32,
        own: time(11)?,
        ended: time(13)?,
    })
}

fn stat(process: u32) -> Option<Stat> {
    stat_of(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

pub(crate) fn parent(process: u32) -> Option<u32> {
    stat(process).map(|stat| stat.parent)
}

/// CPU time of a process, user and system.
pub(crate) fn cpu_time(process: u32) -> Duration {
    stat(process).map_or(Duration::ZERO, |stat| stat.own)
}

/// The same with that of its children, also of those that have ended.
pub(crate) fn family_cpu_time(process: u32) -> Duration {
    let Some(first) = stat(process) else {
        return Duration::ZERO;
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let children = ids.filter_map(stat).filter(|stat| stat.parent == process);
    first.own + first.ended + children.map(|stat| stat.own).sum::<Duration>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_is_read() {
        let text = "7 (a (b) c) S 3 7 7 0 -1 4 100 0 0 0 250 50 10 20 20 0 4 0 1 2 3";
        let stat = stat_of(text).expect("it is one");
        assert_eq!(stat.parent, 3);
        assert_eq!(stat.own, Duration::from_secs(3));
        assert_eq!(stat.ended, Duration::from_millis(300));
        assert!(stat_of("nothing").is_none());
    }
}
