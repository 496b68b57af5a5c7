//! Disk: what std cannot ask of the system about a file.

use std::fs::File;

/// Whether this system can be told to forget what it has cached of a file.
pub(crate) const DROPS_PAGES: bool = cfg!(all(target_os = "linux", not(wheelwork_no_linux)));

/// Has the system write what is dirty of a file, and forget what it has cached of it: what is read
/// next comes from the disk. Takes as long as a sync.
///
/// After a write that has failed, Linux marks the pages as clean and keeps them. So they can be
/// read, and are not on the disk. Errors of the sync are passed over: the pages that have failed
/// are clean then, and go. Pages stay that are dirty, that a process has mapped, or whose file
/// system has no disk.
pub(crate) fn drop_pages(file: &File) {
    if DROPS_PAGES {
        let _ = file.sync_all();
        forget(file);
    }
}

#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
fn forget(file: &File) {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open as long as `file`, and no memory is involved.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
fn forget(_: &File) {}
