//! The disk: which file system, bytes written, bytes of files.

use std::path::{Path, PathBuf};
use std::time::Duration;
use wheelwork_kit::system;

/// The file system of a folder, and its device.
pub(crate) fn file_system(folder: &Path) -> Result<String, String> {
    let folder = folder
        .canonicalize()
        .map_err(|error| format!("--dir {}: {error}", folder.display()))?;
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    Ok(mount_of(&mounts, &folder).unwrap_or_else(|| "an unknown file system".to_string()))
}

/// The last of the longest mounts above it is the one that counts.
fn mount_of(mounts: &str, folder: &Path) -> Option<String> {
    let mut best: Option<(usize, String)> = None;
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (device, point, kind) = (words.next()?, words.next()?, words.next()?);
        let is_longer = best
            .as_ref()
            .is_none_or(|(length, _)| *length <= point.len());
        if folder.starts_with(point) && is_longer {
            best = Some((point.len(), format!("{kind} ({device})")));
        }
    }
    best.map(|(_, mount)| mount)
}

/// Bytes that a process has caused to be written to storage so far, where /proc says it.
pub(crate) fn written_bytes(process: Option<u32>) -> u64 {
    let io = std::fs::read_to_string(file_of(process, "io")).unwrap_or_default();
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes:"));
    line.and_then(|bytes| bytes.trim().parse().ok())
        .unwrap_or(0)
}

/// Resident bytes of a process.
pub(crate) fn resident_bytes(process: Option<u32>) -> u64 {
    if process.is_none() {
        return system::resident_bytes();
    }
    let status = std::fs::read_to_string(file_of(process, "status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|kib| kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// CPU time of this process, and of the other one if there is one.
pub(crate) fn cpu_time(process: Option<u32>) -> Duration {
    let other = process.map_or(Duration::ZERO, |_| {
        let stat = std::fs::read_to_string(file_of(process, "stat")).unwrap_or_default();
        cpu_of(&stat).unwrap_or_default()
    });
    system::cpu_time() + other
}

/// User and system time, behind the name in brackets, in hundredths of a second.
fn cpu_of(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace().skip(11);
    let mut ticks = || words.next()?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks()? + ticks()?)))
}

fn file_of(process: Option<u32>, name: &str) -> String {
    match process {
        Some(process) => format!("/proc/{process}/{name}"),
        None => format!("/proc/self/{name}"),
    }
}

/// Bytes of all files below a folder, as the disk has them.
pub(crate) fn file_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(what) if what.is_dir() => file_bytes(&entry.path()),
            Ok(what) => what.blocks() * 512,
            // It is gone: an engine has cleared up.
            Err(_) => 0,
        })
        .sum()
}

/// A folder for the files of a measurement, which is deleted at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(dir: &Path) -> Result<Self, String> {
        let path = dir.join(format!("wheelwork-durable-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_counts() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/x xfs rw 0 0\n";
        let of = |folder: &str| mount_of(mounts, Path::new(folder));
        assert_eq!(of("/tmp/y").as_deref(), Some("tmpfs (tmpfs)"));
        assert_eq!(of("/tmp/x/y").as_deref(), Some("xfs (/dev/b)"));
        assert_eq!(of("/var").as_deref(), Some("ext4 (/dev/a)"));
        assert_eq!(mount_of("", Path::new("/")), None);
    }

    #[test]
    fn cpu_time_of_another_process() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4 100 0 0 0 250 50 0 0 20 0 4 0 1 2 3";
        assert_eq!(cpu_of(stat), Some(Duration::from_secs(3)));
        assert_eq!(cpu_of("nothing"), None);
    }

    #[test]
    fn a_folder_is_measured_and_goes() {
        let folder = Folder::new(&std::env::temp_dir()).expect("it is ours");
        let path = folder.path().to_path_buf();
        std::fs::create_dir(path.join("inner")).expect("it is ours");
        std::fs::write(path.join("inner/file"), [1; 10_000]).expect("it is ours");
        assert!(file_bytes(&path) >= 10_000);
        drop(folder);
        assert!(!path.exists());
    }
}
