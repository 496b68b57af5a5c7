//! Open files: each end of a connection is one, and a process has a limit of them.

/// What is open besides the connections: standard streams, the runtime's own, pipes.
const OTHERS: usize = 200;

/// Lets this process have `connections` connections. An error, in one line, if the system does not.
pub(crate) fn allow(connections: usize) -> Result<(), String> {
    let needed = (connections + OTHERS) as libc::rlim_t;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is valid for the call.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0;
    assert!(!failed, "getrlimit cannot fail for RLIMIT_NOFILE");
    if limit.rlim_cur >= needed {
        return Ok(());
    }
    let raised = libc::rlimit {
        rlim_cur: needed,
        rlim_max: limit.rlim_max.max(needed),
    };
    // SAFETY: the pointer is valid for the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
        return Ok(());
    }
    Err(format!(
        "{connections} connections take {needed} open files, {} are allowed (ulimit -Hn): try fewer --connections",
        limit.rlim_max
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_system_has_are_one_line() {
        assert_eq!(allow(1), Ok(()));
        // More than any kernel lets anybody have.
        let why = allow(1 << 40).expect_err("no system has that many");
        assert!(
            why.contains("1099511627776 connections") && why.lines().count() == 1,
            "{why}"
        );
    }
}
