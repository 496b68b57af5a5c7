//! Promise: a kernel that stops to offer `membarrier` loses nothing: a service whose shards may not
//! call it (a seccomp filter, installed after the first service has started) goes on with plain
//! fences.
//!
//! A program of its own: the filter stays.

#![cfg(all(target_os = "linux", not(wheelwork_no_linux)))]

use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use wheelwork::TimerService;

const MS: Duration = Duration::from_millis(1);

/// Long enough to mean that something hangs.
const HANGS: Duration = Duration::from_secs(60);

/// Makes `membarrier` fail in the calling thread and those that it starts.
fn forbid_membarrier() {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        // The number of the call lies at 0.
        step(LOAD_WORD, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 1, libc::SYS_membarrier as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: integers, as the call takes them.
    let no_new_privileges =
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1usize, 0usize, 0usize, 0usize) };
    // SAFETY: the program outlives the call, which copies it.
    let filtered = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    assert_eq!(
        (no_new_privileges, filtered),
        (0, 0),
        "the kernel takes no filter"
    );
    // SAFETY: takes two integers.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, 0, 0) };
    assert_eq!(result, -1, "the filter works");
}

#[test]
fn a_service_goes_on_without_membarrier() {
    let before = TimerService::builder().start().unwrap();
    forbid_membarrier();
    let service = TimerService::builder().start().unwrap();
    for round in 0..20 {
        // Long enough for the shard to sleep, announced.
        thread::sleep(MS * 5);
        for service in [&before, &service] {
            let (send, receive) = mpsc::channel();
            service
                .schedule(MS * (round % 3), move || send.send(()).unwrap())
                .unwrap();
            receive.recv_timeout(HANGS).expect("it fires");
        }
    }
    let far = service
        .schedule(HANGS, || unreachable!("cancelled"))
        .unwrap();
    assert!(service.cancel(far));
    service
        .schedule(HANGS, || unreachable!("handed back"))
        .unwrap();
    assert_eq!(service.stop().len(), 1);
    assert!(before.stop().is_empty());
}
