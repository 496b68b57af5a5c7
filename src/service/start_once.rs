//! Start once: a service that all of a process share, started at its first use.
//!
//! Any thread may use it. One thread at a time tries to start the service; others that need it wait
//! for that one. A start that fails leaves nothing behind: the next use tries again. What made it
//! fail, too many threads or too little memory, may be over by then.

use crate::error::StartError;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A service, or nothing yet.
pub(crate) struct StartOnce<T> {
    service: OnceLock<T>,
    /// Held while a thread starts the service, or sets it.
    starts: Mutex<()>,
}

impl<T> StartOnce<T> {
    pub(crate) const fn new() -> Self {
        Self {
            service: OnceLock::new(),
            starts: Mutex::new(()),
        }
    }

    #[cfg(any(feature = "async", test))]
    pub(crate) fn get(&self) -> Option<&T> {
        self.service.get()
    }

    /// The service. Starts it if there is none, and then calls `tell` with it, outside the lock.
    #[inline]
    pub(crate) fn get_or_start(
        &self,
        start: impl FnOnce() -> Result<T, StartError>,
        tell: impl FnOnce(&T),
    ) -> Result<&T, StartError> {
        match self.service.get() {
            Some(service) => Ok(service),
            None => self.start(start, tell),
        }
    }

    #[cold]
    fn start(
        &self,
        start: impl FnOnce() -> Result<T, StartError>,
        tell: impl FnOnce(&T),
    ) -> Result<&T, StartError> {
        let mut is_new = false;
        let lock = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        if self.service.get().is_none() {
            let started = start()?;
            is_new = self.service.set(started).is_ok();
        }
        drop(lock);
        let service = self.service.get().expect("this thread or another set it");
        if is_new {
            tell(service);
        }
        Ok(service)
    }

    /// Makes this the service. `None` if there is one: this one is then dropped. Waits for a thread
    /// that starts one just now.
    #[cfg(any(feature = "async", test))]
    pub(crate) fn set(&self, service: T) -> Option<&T> {
        let lock = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        let set = self.service.set(service);
        drop(lock);
        set.ok().and_then(|()| self.service.get())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What a start says when the system has no thread to give.
    fn no_thread() -> StartError {
        StartError::Thread(std::io::ErrorKind::WouldBlock.into())
    }

    #[test]
    fn a_start_that_failed_is_tried_again() {
        let (shared, mut told) = (StartOnce::new(), Vec::new());
        for _ in 0..3 {
            let failed = shared.get_or_start(|| Err(no_thread()), |_| panic!("nothing to tell"));
            assert!(matches!(failed, Err(StartError::Thread(_))));
            assert!(shared.get().is_none());
        }
        let started = shared.get_or_start(|| Ok(7), |&service| told.push(service));
        assert_eq!(started.unwrap(), &7);
        let again = shared.get_or_start(|| Err(no_thread()), |_| panic!("it is told once"));
        assert_eq!(again.unwrap(), &7);
        assert_eq!((shared.set(8), told), (None, vec![7]));
    }

    #[test]
    fn one_may_be_set_after_a_start_that_failed() {
        let shared = StartOnce::new();
        assert!(shared.get_or_start(|| Err(no_thread()), |_| ()).is_err());
        assert_eq!(shared.set(8), Some(&8));
        let used = shared.get_or_start(|| Ok(9), |_| panic!("it was set"));
        assert_eq!(used.unwrap(), &8);
    }
}
