//! Random: numbers that nobody foresees.

use std::hash::{BuildHasher, RandomState};
use std::process;
use std::time::SystemTime;

/// 64 bits that nobody foresees.
///
/// std has random keys from the system, once for each thread. A fork copies them, and the children
/// of one process would all have the same numbers. So the process and the time count, too.
pub(crate) fn random() -> u64 {
    // (Where there are no processes, std has no number for one.)
    let process = cfg!(any(unix, windows)).then(process::id);
    RandomState::new().hash_one((process, SystemTime::now()))
}

#[cfg(all(test, unix, feature = "redb"))]
mod tests {
    use super::*;
    use std::io::{Read, pipe};
    use std::os::fd::AsRawFd;

    /// What a child that is forked off has next.
    fn in_a_child() -> u64 {
        let (mut from_child, to_parent) = pipe().unwrap();
        // SAFETY: the child makes system calls, reads its thread's own keys, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let bytes = random().to_ne_bytes();
            let to_parent = to_parent.as_raw_fd();
            // SAFETY: the bytes of a local.
            unsafe { libc::write(to_parent, bytes.as_ptr().cast(), bytes.len()) };
            // SAFETY: the end of the child.
            unsafe { libc::_exit(0) }
        }
        drop(to_parent);
        let mut bytes = [0; 8];
        from_child.read_exact(&mut bytes).unwrap();
        // SAFETY: waits for that child.
        let ended = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        assert_eq!(ended, child);
        u64::from_ne_bytes(bytes)
    }

    #[test]
    fn children_of_one_process_have_numbers_of_their_own() {
        // From here on the thread has its keys.
        let own = random();
        let numbers = [own, in_a_child(), in_a_child(), random()];
        for (index, number) in numbers.iter().enumerate() {
            assert!(!numbers[..index].contains(number), "{numbers:x?}");
        }
    }
}
