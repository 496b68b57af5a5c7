//! Panics of tests, on purpose: they are not printed. The hook that sees to it stays, for other
//! tests of the program may panic at the same time.

use std::panic::{panic_any, set_hook, take_hook};
use std::sync::Once;

/// What such a panic carries.
struct OnPurpose;

pub fn panic_on_purpose() -> ! {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let hook = take_hook();
        set_hook(Box::new(move |info| {
            if !info.payload().is::<OnPurpose>() {
                hook(info);
            }
        }));
    });
    panic_any(OnPurpose)
}
