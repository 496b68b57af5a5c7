//! Folder: where the job keeps its store. What is in it is the job's own, or it is not touched.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const STORE: &str = "wheelwork-kills.redb";

/// Says whose folder it is, and is locked while a job is at work.
const MARK: &str = "wheelwork-kills.txt";

const MARK_TEXT: &str = "wheelwork's `kills` keeps its store in this folder.
Each job begins with a new one: what is in wheelwork-kills.redb is deleted.
";

/// The folder of a job, for as long as this lives.
pub(crate) struct Folder {
    _mark: File,
}

impl Folder {
    /// Makes the folder, or takes it: it must be empty, or hold what an earlier job has left, which
    /// is deleted. The folder around it must be there: a name that is mistyped makes no folders.
    pub(crate) fn take(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let name = name.replace(char::is_control, "\u{fffd}");
        let said = |what: &str| format!("{name}: {what}");
        let failed = |error: std::io::Error| said(&error.to_string());
        match fs::create_dir(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(said("the folder around it does not exist"));
            }
            made => made.map_err(failed)?,
        }
        let mark = path.join(MARK);
        let is_ours = match fs::read_to_string(&mark) {
            Ok(text) => text == MARK_TEXT,
            Err(_) => false,
        };
        for entry in fs::read_dir(path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let is_own = is_ours && (name == MARK || name == STORE);
            if !is_own {
                let name = name.display();
                return Err(said(&format!(
                    "it has to be empty, or an earlier job's own, and holds {name}"
                )));
            }
        }
        let opened = OpenOptions::new().create(true).append(true).open(mark);
        let mut mark = opened.map_err(failed)?;
        match mark.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(said("another job is at work there")),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        if !is_ours {
            mark.write_all(MARK_TEXT.as_bytes()).map_err(failed)?;
        }
        let store = Self::store_in(path);
        if store.exists() {
            fs::remove_file(&store).map_err(failed)?;
        }
        Ok(Self { _mark: mark })
    }

    /// The store's file in a folder.
    pub(crate) fn store_in(path: &Path) -> PathBuf {
        path.join(STORE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let name = format!("wheelwork-{}-{name}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn it_is_new_or_an_earlier_jobs_own() {
        let place = Place::new("folder-own");
        let folder = Folder::take(&place.0).map(drop);
        assert_eq!(folder, Ok(()));
        let store = Folder::store_in(&place.0);
        fs::write(&store, "rows").expect("it is a folder");
        let _folder = Folder::take(&place.0).expect("it is a job's own");
        assert!(!store.exists());
        let second = Folder::take(&place.0).map(drop);
        assert!(second.is_err_and(|why| why.ends_with("another job is at work there")));
    }

    #[test]
    fn what_is_others_is_not_touched() {
        let place = Place::new("folder-others");
        fs::create_dir_all(&place.0).expect("it can be made");
        for name in ["photo.jpg", STORE, MARK] {
            let path = place.0.join(name);
            fs::write(&path, "mine").expect("it is a folder");
            let why = Folder::take(&place.0)
                .map(drop)
                .expect_err("it is not ours");
            assert!(why.ends_with(&format!("and holds {name}")), "{why}");
            assert_eq!(fs::read_to_string(&path).as_deref().ok(), Some("mine"));
            assert_eq!(fs::read_dir(&place.0).map(Iterator::count).ok(), Some(1));
            fs::remove_file(&path).expect("it is there");
        }
        // Beside a job's own, too.
        drop(Folder::take(&place.0));
        fs::write(place.0.join("photo.jpg"), "mine").expect("it is a folder");
        fs::write(Folder::store_in(&place.0), "rows").expect("it is a folder");
        assert!(Folder::take(&place.0).is_err());
        assert!(Folder::store_in(&place.0).exists());
    }

    #[test]
    fn no_other_folders_are_made() {
        let place = Place::new("folder-outer");
        let why = Folder::take(&place.0.join("a\nb/inner")).map(drop);
        let why = why.expect_err("there is no outer one");
        assert!(
            why.ends_with("the folder around it does not exist"),
            "{why}"
        );
        assert!(!why.contains('\n') && !place.0.exists(), "{why}");
    }

    #[test]
    fn a_file_is_no_folder() {
        let place = Place::new("folder-file");
        fs::create_dir_all(&place.0).expect("it can be made");
        let file = place.0.join("file");
        fs::write(&file, "mine").expect("it is a folder");
        assert!(Folder::take(&file).is_err());
    }
}
