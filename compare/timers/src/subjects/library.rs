//! Timers of a library in C or C++, whose calls are those of `compare/native/timers.h`. The library
//! is the one that the environment names. Each thread has timers of its own.

use super::{Producer, Subject};
use crate::ledger;
use crate::name::Name;
use std::env;
use std::ffi::{CString, c_void};
use std::process;
use std::sync::OnceLock;
use std::time::Duration;

/// Its file.
const VARIABLE: &str = "TIMERS_LIBRARY";

/// As in `timers.h`.
#[repr(C)]
pub(crate) struct Calls {
    enter: unsafe extern "C" fn() -> *mut c_void,
    arm: unsafe extern "C" fn(*mut c_void, u64, u64) -> *mut c_void,
    cancel: unsafe extern "C" fn(*mut c_void, *mut c_void),
    rearm: unsafe extern "C" fn(*mut c_void, *mut c_void, u64),
    settle: unsafe extern "C" fn(*mut c_void),
    serve: unsafe extern "C" fn(*mut c_void),
}

type Open = unsafe extern "C" fn(extern "C" fn(u64)) -> Option<&'static Calls>;

extern "C" fn fired(due_ns: u64) {
    ledger::fired(due_ns);
}

/// Opens the library, and begins.
fn open() -> Result<&'static Calls, String> {
    let file = env::var(VARIABLE).map_err(|_| format!("{VARIABLE} names no library"))?;
    let failed = || format!("{file} is no library of timers");
    let path = CString::new(file.as_str()).map_err(|_| failed())?;
    // SAFETY: the path ends with a zero byte. What a library does when it is opened is its own.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return Err(failed());
    }
    // SAFETY: the library is open, and stays so; the name ends with a zero byte.
    let symbol = unsafe { libc::dlsym(library, c"timers_open".as_ptr()) };
    if symbol.is_null() {
        return Err(failed());
    }
    // SAFETY: a function of this name has this type, by `timers.h`.
    let open = unsafe { std::mem::transmute::<*mut c_void, Open>(symbol) };
    // SAFETY: it is called once, with a function that any thread may call at any time.
    let calls = unsafe { open(fired) };
    calls.ok_or_else(|| format!("{file} does not begin"))
}

/// The calls of the library, which is opened once.
pub(crate) fn begin() -> &'static Calls {
    static CALLS: OnceLock<&'static Calls> = OnceLock::new();
    CALLS.get_or_init(|| {
        open().unwrap_or_else(|why| {
            eprintln!("{why}");
            process::exit(1)
        })
    })
}

pub(crate) struct Library(&'static Calls);

impl Subject for Library {
    const SHARED: bool = false;

    type Producer = Owner;

    fn start(_: Name) -> Self {
        Self(begin())
    }

    fn within(&self, work: impl FnOnce(&mut Owner) + Send) {
        let calls = self.0;
        // SAFETY: the library has begun.
        let own = unsafe { (calls.enter)() };
        work(&mut Owner { calls, own });
    }
}

/// A thread's timers.
pub(crate) struct Owner {
    calls: &'static Calls,
    /// Of this thread, from `enter`.
    own: *mut c_void,
}

/// A timer, to the thread that armed it.
pub(crate) struct Armed(*mut c_void);

// SAFETY: it is a number to all but the thread that armed the timer: the harness gives it back to
// that one. No workload is measured in which another thread cancels.
unsafe impl Send for Armed {}

fn ns(delay: Duration) -> u64 {
    delay.as_nanos() as u64
}

impl Producer for Owner {
    type Handle = Armed;

    fn arm(&mut self, delay: Duration, due_ns: u64) -> Armed {
        // SAFETY: the timers are those of this thread.
        Armed(unsafe { (self.calls.arm)(self.own, ns(delay), due_ns) })
    }

    fn cancel(&mut self, handle: Armed) {
        // SAFETY: this thread armed it, and the handle is gone after this.
        unsafe { (self.calls.cancel)(self.own, handle.0) }
    }

    fn rearm(&mut self, handle: &mut Armed, delay: Duration) {
        // SAFETY: this thread armed it, and it has not been cancelled.
        unsafe { (self.calls.rearm)(self.own, handle.0, ns(delay)) }
    }

    fn serve(&mut self) {
        // SAFETY: the timers are those of this thread.
        unsafe { (self.calls.serve)(self.own) }
    }

    fn settle(&mut self) {
        // SAFETY: the timers are those of this thread.
        unsafe { (self.calls.settle)(self.own) }
    }
}
