//! Pins file: objects and prefixes pinned by the operator, one per line, in the list format of
//! `zonal cache`.
//!
//! One Zonal process writes the file and holds a lock on it. Each version is a new file that is
//! locked before a rename makes it visible. Manual edits are never overwritten unread: a write
//! first compares the file with the pins in force.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zonal_gateway::{Gateway, Pins};
use zonal_host::ObjectName;

use crate::object_list::{self, ListedName};

/// Largest number of pinned prefixes: the cache compares each with the name of every object read.
const PREFIXES_MAX: usize = 64;

/// Error for a list that names a range of an object.
pub(crate) const NO_PARTS: &str = "a byte range cannot be pinned: name the whole object";

/// Reads the pins file. A missing file means no pins.
///
/// # Errors
/// The file cannot be read, or a line is invalid; the text says why.
pub(crate) fn read(path: &Path) -> Result<Pins, String> {
    let name = path.display();
    let list = match fs::read_to_string(path) {
        // A missing folder is no error here: the first pin creates it.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Pins::default());
        }
        list => list.map_err(|error| format!("{name} cannot be read: {error}"))?,
    };
    let mut pins = Pins::default();
    let list = object_list::parse_list(&list).map_err(|why| format!("{name}: {why}"))?;
    pin(&mut pins, &list).map_err(|why| format!("{name}: {why}"))?;
    Ok(pins)
}

/// Adds the objects and prefixes of a list.
///
/// # Errors
/// The list exceeds a limit, or names a range of an object.
pub(crate) fn pin(pins: &mut Pins, list: &[ListedName]) -> Result<(), String> {
    for wanted in list {
        match wanted {
            ListedName::Object(object) => pins.pin(object.clone()),
            ListedName::Below(prefix) => pins.pin_below(&prefix.to_string()),
            ListedName::Part(..) => return Err(NO_PARTS.to_owned()),
        };
    }
    let (objects, prefixes) = (pins.object_count(), pins.prefix_count());
    match objects <= object_list::OBJECTS_MAX && prefixes <= PREFIXES_MAX {
        true => Ok(()),
        false => Err(format!(
            "too many pins, {objects} objects and {prefixes} prefixes: the limits are {} and \
             {PREFIXES_MAX}; use shorter prefixes, or keep.rules",
            object_list::OBJECTS_MAX
        )),
    }
}

/// Removes the objects and prefixes of a list. Returns the sorted names of pinned objects that were
/// below its prefixes.
pub(crate) fn unpin(pins: &mut Pins, list: &[ListedName]) -> Vec<ObjectName> {
    let mut below = Vec::new();
    for wanted in list {
        match wanted {
            ListedName::Object(object) | ListedName::Part(object, _) => drop(pins.unpin(object)),
            ListedName::Below(prefix) => below.extend(pins.unpin_below(&prefix.to_string())),
        }
    }
    below.sort_unstable();
    below.dedup();
    below
}

/// The pins file of a running Zonal.
#[derive(Debug)]
pub(crate) struct PinsFile {
    path: PathBuf,
    held: Mutex<LockedFile>,
}

/// The current file, open and locked; `None` if there is none.
pub(crate) type LockedFile = Option<File>;

/// Why a pin command failed.
pub(crate) enum NotPinned {
    /// The request is invalid; change it.
    Refused(String),
    /// The file could not be written; fix its path or permissions, then retry.
    Failed(String),
}

impl PinsFile {
    /// Opens and locks the file, if it exists.
    ///
    /// # Errors
    /// Another process holds the lock.
    pub(crate) fn open(path: PathBuf) -> Result<Self, String> {
        let file = Self { path, held: Mutex::default() };
        file.lock(&mut file.hold())?;
        Ok(file)
    }

    /// Locks the pins against changes while the guard lives.
    pub(crate) fn hold(&self) -> MutexGuard<'_, LockedFile> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the current file, unless it is the one locked already.
    fn lock(&self, held: &mut LockedFile) -> Result<(), String> {
        // The process that holds the lock may replace the file between open and lock.
        for _ in 0..LOCKINGS_MAX {
            let Ok(file) = File::open(&self.path) else {
                // `read` reports why the file cannot be read.
                *held = None;
                return Ok(());
            };
            if held.as_ref().is_some_and(|held| is_same(held, &file)) {
                return Ok(());
            }
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Err(self.in_use()),
                // The file system has no locks, so no other process can hold one.
                Err(TryLockError::Error(_)) | Ok(()) => *held = Some(file),
            }
        }
        Err(self.in_use())
    }

    fn in_use(&self) -> String {
        format!(
            "the pins file {} is in use by another zonal: stop it, or name another file with \
             --keep-pins-file (keep.pins-file)",
            self.path.display()
        )
    }

    /// Changes the pins: first in the file, so that they survive a crash, then in the gateway.
    pub(crate) fn change<T>(
        &self,
        gateway: &Gateway,
        change: impl FnOnce(&mut Pins) -> Result<T, String>,
    ) -> Result<T, NotPinned> {
        let mut held = self.hold();
        let before = gateway.runtime_config().pins.clone();
        let mut pins = Pins::clone(&before);
        let outcome = change(&mut pins).map_err(NotPinned::Refused)?;
        if pins != *before {
            self.replace(&mut held, &before, &pins).map_err(NotPinned::Failed)?;
            gateway.set_pins(Arc::new(pins));
        }
        Ok(outcome)
    }

    fn replace(&self, held: &mut LockedFile, before: &Pins, pins: &Pins) -> Result<(), String> {
        self.lock(held)?;
        if read(&self.path)? != *before {
            return Err(format!(
                "{} has changed since Zonal read it: send SIGHUP or restart Zonal, then repeat the \
                 command",
                self.path.display()
            ));
        }
        let written = self.write(pins).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => self.in_use(),
            _ => format!(
                "{} cannot be written: {error}: name another file with --keep-pins-file (keep.pins-file)",
                self.path.display()
            ),
        })?;
        *held = Some(written);
        Ok(())
    }

    /// Replaces the file atomically. The new file is locked before it becomes visible.
    fn write(&self, pins: &Pins) -> io::Result<File> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let beside = self.path.with_extension("unfinished");
        let mut file = File::options().create(true).truncate(false).write(true).open(&beside)?;
        // Another process may be writing this file: do not truncate it.
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(ErrorKind::WouldBlock.into()),
            // The file system has no locks.
            Err(TryLockError::Error(_)) | Ok(()) => file.set_len(0)?,
        }
        file.write_all(text(pins).as_bytes())?;
        file.sync_all()?;
        fs::rename(beside, &self.path)?;
        File::open(folder)?.sync_all()?;
        Ok(file)
    }
}

/// Attempts to open and lock the file while another process replaces it. 8: more replacements than
/// another process makes meanwhile.
const LOCKINGS_MAX: u32 = 8;

fn is_same(one: &File, other: &File) -> bool {
    let identity = |file: &File| file.metadata().ok().map(|of| (of.dev(), of.ino()));
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

fn text(pins: &Pins) -> String {
    let objects = pins.objects().into_iter().map(|object| format!("{object}\n"));
    let prefixes = pins.prefixes().filter_map(|prefix| object_list::line_below(prefix).ok());
    objects.chain(prefixes.map(|line| line + "\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/pins");
        assert!(read(&path).unwrap().is_empty(), "there is no file");
        let mut pins = Pins::default();
        let list = object_list::parse_list("b/a\nb/p/\t*\nb/a é\n").unwrap();
        pin(&mut pins, &list).unwrap();
        let file = PinsFile::open(path.clone()).unwrap();
        file.write(&pins).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "b/a\nb/a é\nb/p/\t*\n");
        assert_eq!(read(&path).unwrap(), pins);
        file.write(&Pins::default()).unwrap();
        assert!(read(&path).unwrap().is_empty());
    }

    /// Regression: two servers in one folder overwrote each other's pins, without an error.
    #[test]
    fn one_writes_it_at_a_time_and_not_over_what_was_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pins");
        let open = || PinsFile::open(path.clone());
        let (first, second) = (open().unwrap(), open().unwrap());
        let (nothing, mut a) = (Pins::default(), Pins::default());
        pin(&mut a, &object_list::parse_list("b/a\n").unwrap()).unwrap();
        let replace = |file: &PinsFile, before, pins| file.replace(&mut file.hold(), before, pins);
        replace(&first, &nothing, &a).unwrap();
        replace(&first, &a, &nothing).unwrap();
        let in_use = |why: String| assert!(why.contains("is in use by another zonal"), "{why}");
        in_use(replace(&second, &nothing, &a).unwrap_err());
        in_use(open().unwrap_err());
        drop(first);
        replace(&second, &nothing, &a).unwrap();
        // Manual edits: by replacing the file, and by overwriting it.
        fs::write(folder.path().join("new"), "b/c\n").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        for _ in 0..2 {
            let why = replace(&second, &a, &nothing).unwrap_err();
            assert!(why.contains("has changed since Zonal read it: send SIGHUP"), "{why}");
            fs::write(&path, "b/c\nb/d\n").unwrap();
        }
        replace(&second, &read(&path).unwrap(), &a).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "b/a\n");
    }

    #[test]
    fn what_cannot_be_meant_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pins");
        for (text, said) in [
            ("b/a\nb\n", "line 2: \"b\": write BUCKET/KEY"),
            ("b/a\t0-9\n", NO_PARTS),
            (
                &(0..65).map(|n| format!("b/{n}\t*\n")).collect::<String>(),
                "0 objects and 65 prefixes: ",
            ),
        ] {
            fs::write(&path, text).unwrap();
            let why = read(&path).unwrap_err();
            assert!(why.contains(said) && why.contains("pins: "), "{why}");
        }
    }
}
