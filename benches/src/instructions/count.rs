//! Count: what is counted, and where the counting begins and ends.

/// Operations of one count: enough that a cost in each 64th or 255th of them has its share.
pub(crate) const OPERATIONS: usize = 10_000;

/// The function whose instructions are counted, with all that it calls.
pub(crate) const COUNTED: &str = "wheelwork_counted";

/// Something that is counted.
#[derive(Clone, Copy)]
pub(crate) struct Count {
    pub(crate) name: &'static str,
    pub(crate) operations: usize,
    /// Prepares, and calls [`counted`] once.
    pub(crate) run: fn(),
}

impl Count {
    pub(crate) const fn new(name: &'static str, run: fn()) -> Self {
        Self {
            name,
            operations: OPERATIONS,
            run,
        }
    }
}

/// Does what is to be counted: callgrind counts while this runs, and nothing else.
pub(crate) fn counted(mut work: impl FnMut()) {
    wheelwork_counted(&mut work);
}

// SAFETY: no other symbol of this program has this name. It is given to callgrind.
#[unsafe(no_mangle)]
#[inline(never)]
fn wheelwork_counted(work: &mut dyn FnMut()) {
    work();
}
