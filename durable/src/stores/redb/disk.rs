//! Disk: what std cannot ask of the system about a file.

use std::fs::File;
use std::io;

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

/// The name by which Linux has the POSIX ACL of a file, and the most bytes that it has.
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
const ACL: (&std::ffi::CStr, usize) = (c"system.posix_acl_access", 1 << 16);

/// Whether a file may have a POSIX ACL. Its mode says little then: the rights of the group are the
/// most that the list gives to anybody it names, and others may have rights that one of these has
/// not. A file is taken to have one if the system does not say.
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
pub(crate) fn may_have_acl(file: &File) -> bool {
    !matches!(acl_of(file), Ok(None))
}

/// Gives a file the POSIX ACL of another one, if that has one. This sets its mode, too.
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
pub(crate) fn copy_acl(from: &File, to: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let Some(acl) = acl_of(from)? else {
        return Ok(());
    };
    let (to, name, bytes) = (to.as_raw_fd(), ACL.0.as_ptr(), acl.as_ptr().cast());
    // SAFETY: the descriptor is open as long as its file, the name ends with a zero, and the call
    // reads as many bytes as `acl` has.
    match unsafe { libc::fsetxattr(to, name, bytes, acl.len(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The POSIX ACL of a file, as the system has it.
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
fn acl_of(file: &File) -> io::Result<Option<Vec<u8>>> {
    use std::os::fd::AsRawFd;
    let mut acl = vec![0; ACL.1];
    let (file, name, bytes) = (file.as_raw_fd(), ACL.0.as_ptr(), acl.as_mut_ptr().cast());
    // SAFETY: the descriptor is open as long as its file, the name ends with a zero, and the call
    // writes as many bytes as `acl` has, at most.
    let len = unsafe { libc::fgetxattr(file, name, bytes, acl.len()) };
    if let Ok(len) = usize::try_from(len) {
        acl.truncate(len);
        return Ok(Some(acl));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENODATA | libc::EOPNOTSUPP) => Ok(None),
        _ => Err(error),
    }
}

/// Other systems are not asked.
#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
#[cfg_attr(not(unix), expect(dead_code))]
pub(crate) fn may_have_acl(_: &File) -> bool {
    false
}

/// Nor here.
#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
#[cfg_attr(not(unix), expect(dead_code))]
pub(crate) fn copy_acl(_: &File, _: &File) -> io::Result<()> {
    Ok(())
}

/// A reserve of room for a file: from where, beyond all that a file has, and up to how much. In
/// bytes.
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
const RESERVE: (u64, u64) = (1 << 41, 1 << 36);

/// Has the file system hold at least `bytes` for a file beyond its end. No other file gets them.
/// The length of the file stays.
///
/// # Errors
/// The disk is full (then it may hold a part), or the file system cannot do so.
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
pub(crate) fn hold_room(file: &File, bytes: u64) -> io::Result<()> {
    let bytes = bytes.min(RESERVE.1);
    // tmpfs and f2fs hold a reserve against the limit of a file's size, and the system then ends
    // the process.
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call writes to `limit`, which lives as long.
    let is_known = unsafe { libc::getrlimit64(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    if is_known && limit.rlim_cur < RESERVE.0 + bytes {
        return Err(io::ErrorKind::Unsupported.into());
    }
    fallocate(file, libc::FALLOC_FL_KEEP_SIZE, bytes)
}

/// Gives back what the file system holds for a file beyond its end. It syncs the file, since ext4
/// does not use blocks anew before that.
///
/// # Errors
/// Those of the system. If the sync has failed, what was written may be lost.
#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
pub(crate) fn let_room_go(file: &File) -> io::Result<()> {
    // ext4 cuts off what is beyond the end, and makes no holes there; others make holes.
    file.set_len(file.metadata()?.len())?;
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let _ = fallocate(file, mode, RESERVE.1);
    file.sync_all()
}

#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
fn fallocate(file: &File, mode: libc::c_int, bytes: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let [from, bytes] = [RESERVE.0, bytes].map(u64::cast_signed);
    loop {
        // SAFETY: the descriptor is open as long as `file`, and no memory is involved.
        if unsafe { libc::fallocate64(file.as_raw_fd(), mode, from, bytes) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Other systems have no such call.
///
/// # Errors
/// Always.
#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
pub(crate) fn hold_room(_: &File, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Nothing was held.
///
/// # Errors
/// None.
#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
pub(crate) fn let_room_go(_: &File) -> io::Result<()> {
    Ok(())
}
