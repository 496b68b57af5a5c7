//! Rights: what others may do with a file, and with one that is made of it.

use std::fs::{Metadata, OpenOptions};

/// What others may do with a new file.
#[derive(Clone, Copy)]
pub(super) struct Rights(#[cfg_attr(not(unix), expect(dead_code))] u32);

impl Rights {
    /// Nothing.
    pub(super) const PRIVATE: Self = Self(0o600);

    /// What they may do with this file. (Its owner has to write the new one.)
    #[cfg(unix)]
    pub(super) fn of(file: &Metadata) -> Self {
        use std::os::unix::fs::PermissionsExt;
        Self(file.permissions().mode() & 0o777 | 0o600)
    }

    #[cfg(not(unix))]
    pub(super) fn of(_: &Metadata) -> Self {
        Self::PRIVATE
    }

    #[cfg(unix)]
    pub(super) fn set(self, options: &mut OpenOptions) {
        std::os::unix::fs::OpenOptionsExt::mode(options, self.0);
    }

    #[cfg(not(unix))]
    pub(super) fn set(self, _: &mut OpenOptions) {}
}
