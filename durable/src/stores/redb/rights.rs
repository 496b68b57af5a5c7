//! Rights: what others may do with a file, and with one that is made of it.

#[cfg(unix)]
use super::disk::may_have_acl;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

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

    /// What they may do with this file. (Its owner has to write the new one.) No mode says what an
    /// ACL does, so that of the new one is for its owner then.
    #[cfg(unix)]
    pub(super) fn of(file: &File) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        if may_have_acl(file) {
            return Ok(Self::PRIVATE);
        }
        let there = file.metadata()?;
        Ok(Self {
            mode: there.mode() & 0o777 | 0o600,
            group: Some(there.gid()),
        })
    }

    #[cfg(not(unix))]
    pub(super) fn of(_: &File) -> io::Result<Self> {
        Ok(Self::PRIVATE)
    }

    /// The same for the file that is there.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        Self::of(&File::open(path)?)
    }

    #[cfg(unix)]
    pub(super) fn set(self, options: &mut OpenOptions) {
        std::os::unix::fs::OpenOptionsExt::mode(options, self.mode);
    }

    #[cfg(not(unix))]
    pub(super) fn set(self, _: &mut OpenOptions) {}

    /// Takes rights from a new file that belongs to another group: those of the group, and those of
    /// others that the former group has not, whose members are others now. (It is empty still.)
    #[cfg(unix)]
    pub(super) fn keep_from_others(self, file: &File) -> io::Result<()> {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let there = file.metadata()?;
        let mode = there.mode() & 0o777;
        let kept = mode & (0o700 | self.mode >> 3 & 0o007);
        if self.group == Some(there.gid()) || kept == mode {
            return Ok(());
        }
        file.set_permissions(PermissionsExt::from_mode(kept))
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
