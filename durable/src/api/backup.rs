//! Backup: a copy of the store, while timers run.

use super::client::DurableClient;
use crate::handler::error::DurableError;
use crate::queue::request::Request;
use crate::store::snapshot::BackupReport;
use std::path::Path;

impl DurableClient {
    /// Writes a copy of the store to a new file, while timers go on. The copy has what the store
    /// held at one instant of the call, and is a store as [`Redb`](crate::Redb) opens it.
    ///
    /// The copy is written under the name with `.partial` behind it, is synced, and gets its name
    /// last. So what has the name is whole. A process that is killed leaves the other one, which
    /// the next backup to this name replaces.
    ///
    /// A program that opens the copy begins as after a crash at that instant: timers that have
    /// fired or were cancelled since are in it. It fires them, so do not open the copy beside the
    /// store unless that is wanted; [`Redb::check`](crate::Redb::check) reads it and fires nothing.
    ///
    /// The copy has the mode of the store's file, as far as the process's umask allows. It belongs
    /// to the process's user and to a group of that user, and if that is not the group of the file,
    /// its rights are less: nobody may read the copy who may not read the file. A copy of a file
    /// with a POSIX ACL is for its owner alone (on Linux; other systems, and ACLs of NFSv4, are not
    /// asked). If the folder of the copy has a default ACL, what that allows comes on top, within
    /// the rights of the file's group.
    ///
    /// The call blocks its thread. It reads all of the store, and rests as long as it works, so
    /// that commits of the store do not wait for the disk: some two seconds for a million timers.
    /// Meanwhile the file does not use pages again that the copy still needs, so it may grow by
    /// what is written to it. Other calls do not wait for the backup.
    ///
    /// # Errors
    /// [`DurableError::Refused`]: there is a file of this name already, which stays as it is (one
    /// that comes to the name in the last moment, between the check and the renaming, is replaced);
    /// the new file could not be written, because its disk is full for instance; a timer or a
    /// record that was to be copied is damaged; the file has a table that this version does not
    /// know; or the service was stopped meanwhile. No copy is left then, and the store goes on. A
    /// store that is in no file is refused in the same way: a database has backups of its own.
    /// Otherwise as [`cancel`](Self::cancel).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use wheelwork_durable::{Durable, Redb};
    ///
    /// # let folder = std::env::temp_dir().join(format!("wheelwork-back-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let timers = Durable::builder(Redb::open(folder.join("timers.redb"))?).start()?;
    /// timers.schedule("mail", Duration::from_secs(60), "hello")?;
    /// let copy = folder.join("monday.redb");
    /// assert_eq!(timers.backup(&copy)?.rows, 1);
    /// assert!(Redb::check(&copy)?.is_sound());
    /// # drop(timers);
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<BackupReport, DurableError> {
        let Some(snapshot) = self.shared.ask_and_wait(Request::snapshot)? else {
            let why = "it is in no file, so there is nothing to copy";
            return Err(DurableError::Refused(why.into()));
        };
        let copied = snapshot.copy(path.as_ref());
        copied.map_err(|error| DurableError::Refused(error.to_string().into()))
    }
}
