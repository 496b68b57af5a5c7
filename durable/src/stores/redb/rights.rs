//! Rights: what others may do with a file, and with one that is made of it.

use std::fs::{File, Metadata, OpenOptions};
use std::io;

/// What others may do with a new file.
#[derive(Clone, Copy)]
#[cfg_attr(not(unix), expect(dead_code))]
pub(super) struct Rights {
    mode: u32,
    /// The group that has the rights of a group. `None`: there are none.
    group: Option<u32>,
}

impl Rights {
    /// Nothing.
    pub(super) const PRIVATE: Self = Self {
        mode: 0o600,
        group: None,
    };

    /// What they may do with this file. (Its owner has to write the new one.)
    #[cfg(unix)]
    pub(super) fn of(file: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            mode: file.mode() & 0o777 | 0o600,
            group: Some(file.gid()),
        }
    }

    #[cfg(not(unix))]
    pub(super) fn of(_: &Metadata) -> Self {
        Self::PRIVATE
    }

    #[cfg(unix)]
    pub(super) fn set(self, options: &mut OpenOptions) {
        std::os::unix::fs::OpenOptionsExt::mode(options, self.mode);
    }

    #[cfg(not(unix))]
    pub(super) fn set(self, _: &mut OpenOptions) {}

    /// Takes the rights of a group from a new file that belongs to another group. (It is empty
    /// still.)
    #[cfg(unix)]
    pub(super) fn keep_from_others(self, file: &File) -> io::Result<()> {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let there = file.metadata()?;
        if self.group == Some(there.gid()) || there.mode() & 0o070 == 0 {
            return Ok(());
        }
        let mode = there.mode() & 0o707;
        file.set_permissions(PermissionsExt::from_mode(mode))
    }

    #[cfg(not(unix))]
    pub(super) fn keep_from_others(self, _: &File) -> io::Result<()> {
        Ok(())
    }

    #[cfg(all(test, unix))]
    pub(super) fn of_another_group(self) -> Self {
        let group = self.group.map(|group| group ^ 1);
        Self { group, ..self }
    }
}
