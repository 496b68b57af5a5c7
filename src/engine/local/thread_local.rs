//! Thread-local: finds the calling thread's [`Local`] of a service.
//!
//! A thread has a list of its locals, and remembers the one that it used last. Both belong to the
//! thread alone. A local is made at the thread's first call to a service. It is dropped when the
//! thread ends, or when the thread makes another local after the service has stopped.
//!
//! Ground rules:
//!
//! - No user code runs inside [`with`], and no call of `with` is inside another one of the thread.
//! - A thread whose thread-locals are gone (a call from the destructor of one) makes a local for
//!   one call, and drops it at once.

use super::Local;
use crate::engine::shared::Shared;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;

const NOBODY: (*const Shared, *mut Local) = (ptr::null(), ptr::null_mut());

/// The locals of a thread, each with the service to which it belongs. The list is short: a thread
/// rarely uses more than one service. The shared pool's threads use all that share it: they find
/// one of a thousand without a look at each local.
struct Locals(Vec<(*const Shared, *mut Local)>);

thread_local! {
    /// The service that the thread used last, and its local. Without a destructor, so it is there
    /// as long as the thread is.
    static LAST: Cell<(*const Shared, *mut Local)> = const { Cell::new(NOBODY) };

    static LOCALS: RefCell<Locals> = const { RefCell::new(Locals(Vec::new())) };
}

impl Drop for Locals {
    fn drop(&mut self) {
        LAST.set(NOBODY);
        for (_, local) in self.0.drain(..) {
            // SAFETY: 1. `find` boxed it; 2. `LAST` names it no more; 3. no call is in progress in
            // this thread.
            drop(unsafe { Box::from_raw(local) });
        }
    }
}

/// Has the thread's next call look for its local, in a process that was forked off: it learns there
/// that it is in another process.
pub(in crate::engine) extern "C" fn forget_last() {
    LAST.set(NOBODY);
}

/// Gives `f` the calling thread's local of a service. `f` runs no user code, and does not call
/// `with` again.
#[inline]
pub(crate) fn with<R>(shared: &Arc<Shared>, f: impl FnOnce(&mut Local) -> R) -> R {
    if cfg!(loom) {
        return with_lent(shared, f);
    }
    // (A closure of its own, not `LAST.get()`, nor one for all calls of `with`: optimized for size,
    // those would be calls.)
    let (last, mut local) = LAST.with(|last| last.get());
    if !ptr::eq(last, Arc::as_ptr(shared)) {
        local = find_another(shared);
    }
    // SAFETY: 1. the local was boxed in this thread: by `find`, and it is not freed while `LAST`
    // names it, or for this call. 2. It belongs to `shared`: the local keeps that alive, so no
    // other service has its address. 3. `f` does not come here again.
    let result = f(unsafe { &mut *local });
    // The local says it, not `find_another`: the compiler would make a copy of `f` for each answer,
    // and call them. What `f` captures would go through memory.
    // SAFETY: as above.
    if unsafe { (*local).is_temporary } {
        // SAFETY: it was boxed for this call, and nobody else knows it.
        return give_back(unsafe { Box::from_raw(local) }, result);
    }
    result
}

#[cfg(loom)]
crate::sync::per_thread! {
    /// The local that the calling thread uses, in a model that lends one.
    static LENT: Cell<*mut Local> = const { Cell::new(ptr::null_mut()) };
}

/// Has the calls in `f` use this local, in a model.
#[cfg(loom)]
pub(crate) fn lend<R>(local: &mut Local, f: impl FnOnce() -> R) -> R {
    LENT.with(|lent| lent.set(local));
    let result = f();
    LENT.with(|lent| lent.set(ptr::null_mut()));
    result
}

/// Gives `f` the local that a model lends the thread, or a local for this call. All threads of a
/// model would be one thread to `LAST`.
fn with_lent<R>(shared: &Arc<Shared>, f: impl FnOnce(&mut Local) -> R) -> R {
    #[cfg(loom)]
    if let lent = LENT.with(Cell::get)
        && !lent.is_null()
    {
        // SAFETY: 1. `lend` has it mutably, for this thread, as long as it is set; 2. `f` does not
        // come here again.
        return f(unsafe { &mut *lent });
    }
    f(&mut Local::attach(shared))
}

/// The thread's local of a service that it did not use last. If its thread-locals are gone: a local
/// for one call, which the caller frees.
#[cold]
#[inline(never)]
fn find_another(shared: &Arc<Shared>) -> *mut Local {
    shared.note_process();
    match LOCALS.try_with(|locals| find(&mut locals.borrow_mut(), shared)) {
        Ok(local) => {
            LAST.set((Arc::as_ptr(shared), local));
            local
        }
        Err(_) => {
            let mut local = Box::new(Local::attach(shared));
            local.is_temporary = true;
            Box::into_raw(local)
        }
    }
}

/// Drops a local that was for one call. (The result goes through it: the usual case then has no
/// call across which it would have to keep the result.)
#[cold]
#[inline(never)]
fn give_back<R>(local: Box<Local>, result: R) -> R {
    drop(local);
    result
}

/// The thread's local of a service. Makes one if there is none, and then first drops the locals of
/// services that have stopped.
fn find(locals: &mut Locals, shared: &Arc<Shared>) -> *mut Local {
    let owner = Arc::as_ptr(shared);
    if let Some(&(_, local)) = locals.0.iter().find(|(of, _)| ptr::eq(*of, owner)) {
        return local;
    }
    LAST.set(NOBODY);
    locals.0.retain(|&(_, local)| {
        // SAFETY: the pointers in the list are this thread's and alive. Between calls nobody has a
        // reference to a local.
        let keep = !unsafe { &(*local).shared }.is_stopped();
        if !keep {
            // SAFETY: it was boxed below, and leaves the list now; `LAST` was cleared.
            drop(unsafe { Box::from_raw(local) });
        }
        keep
    });
    let local = Box::into_raw(Box::new(Local::attach(shared)));
    locals.0.push((owner, local));
    local
}
