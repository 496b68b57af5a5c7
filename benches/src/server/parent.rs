//! Processes that this one starts: none outlives it, however it ends.

use std::process::Command;

/// Has the system end the process when the thread that starts it ends.
pub(crate) fn end_with_us(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt;
        let ask = || {
            // SAFETY: this call takes numbers, and says what the kernel does with this process.
            if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        };
        // SAFETY: between fork and exec only a system call is made; nothing is allocated or locked.
        unsafe { command.pre_exec(ask) };
    }
}
