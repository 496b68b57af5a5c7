//! Affinity: on which cores the calling thread may run, on which one it does, and how often it had
//! to leave one.
//!
//! Linux tells all of these. Elsewhere `core_affinity` lists the cores, and pins a thread to one.
//! The rest is not known there, so a thread that is pinned stays where it is.

#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
use linux as imp;
#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
use other as imp;

pub(super) use imp::{
    Affinity, core_of_this_thread, cores_of_this_thread, pin_this_thread,
    preemptions_of_this_thread,
};

#[cfg(all(target_os = "linux", not(wheelwork_no_linux)))]
mod linux {
    use std::mem::MaybeUninit;

    /// The cores that a thread may use.
    pub(in crate::engine) struct Affinity(libc::cpu_set_t);

    impl Affinity {
        /// Those of the calling thread. `None` if the system does not tell, as with more cores than
        /// a set has room for.
        pub(in crate::engine) fn of_this_thread() -> Option<Self> {
            let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            // SAFETY: the pointer is to a local variable of the size that is given.
            let outcome = unsafe { libc::sched_getaffinity(0, size, set.as_mut_ptr()) };
            // SAFETY: zeros are a set of no cores, and the call wrote others over them.
            (outcome == 0).then(|| Self(unsafe { set.assume_init() }))
        }

        /// Lets the calling thread use these cores, and no others. Returns whether that worked.
        pub(in crate::engine) fn restore(&self) -> bool {
            let size = size_of::<libc::cpu_set_t>();
            // SAFETY: the pointer is to a set of the size that is given, which the call reads.
            unsafe { libc::sched_setaffinity(0, size, &raw const self.0) == 0 }
        }
    }

    /// The cores that the calling thread may use, in ascending order.
    pub(in crate::engine) fn cores_of_this_thread() -> Vec<usize> {
        let Some(Affinity(set)) = Affinity::of_this_thread() else {
            return Vec::new();
        };
        // SAFETY: the call reads a bit of the set, which has one for each of these numbers.
        let is_in = |&core: &usize| unsafe { libc::CPU_ISSET(core, &set) };
        (0..libc::CPU_SETSIZE as usize).filter(is_in).collect()
    }

    /// Has the calling thread run on this core alone. Returns whether that worked. Panics if a set
    /// of cores has no room for the number.
    pub(in crate::engine) fn pin_this_thread(core: usize) -> bool {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY: zeros are a set of no cores.
        let set = unsafe { set.assume_init_mut() };
        // SAFETY: the call sets a bit of the set, and checks that the set has the bit.
        unsafe { libc::CPU_SET(core, set) };
        Affinity(*set).restore()
    }

    /// The core on which the calling thread runs.
    pub(in crate::engine) fn core_of_this_thread() -> Option<usize> {
        // SAFETY: the call has no arguments.
        usize::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    /// How often the calling thread had to leave its core to another one, though it had work.
    pub(in crate::engine) fn preemptions_of_this_thread() -> u64 {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a local variable of the type that the call fills.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
        // SAFETY: zeros are a usage of nothing, which it stays if the call fails.
        let usage = unsafe { usage.assume_init() };
        u64::try_from(usage.ru_nivcsw).unwrap_or(0)
    }
}

#[cfg(not(all(target_os = "linux", not(wheelwork_no_linux))))]
mod other {
    /// The cores that a thread may use: not known.
    pub(in crate::engine) struct Affinity;

    #[expect(clippy::unused_self, reason = "it has the calls of Linux")]
    impl Affinity {
        pub(in crate::engine) fn of_this_thread() -> Option<Self> {
            None
        }

        pub(in crate::engine) fn restore(&self) -> bool {
            false
        }
    }

    pub(in crate::engine) use pinning::{cores_of_this_thread, pin_this_thread};

    // (On Linux, whose build has not the crate, only with the switch, and then for unit tests.)
    #[cfg(any(not(target_os = "linux"), test))]
    mod pinning {
        pub(in crate::engine) fn cores_of_this_thread() -> Vec<usize> {
            let cores = core_affinity::get_core_ids().unwrap_or_default();
            cores.into_iter().map(|core| core.id).collect()
        }

        pub(in crate::engine) fn pin_this_thread(core: usize) -> bool {
            core_affinity::set_for_current(core_affinity::CoreId { id: core })
        }
    }

    #[cfg(not(any(not(target_os = "linux"), test)))]
    mod pinning {
        pub(in crate::engine) fn cores_of_this_thread() -> Vec<usize> {
            Vec::new()
        }

        pub(in crate::engine) fn pin_this_thread(_: usize) -> bool {
            false
        }
    }

    pub(in crate::engine) fn core_of_this_thread() -> Option<usize> {
        None
    }

    pub(in crate::engine) fn preemptions_of_this_thread() -> u64 {
        0
    }
}
