//! The file of what is pinned by order: a list as `zonal cache` takes it, a line for each object or prefix.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zonal_gateway::{Gateway, Pins};
use zonal_host::ObjectName;

use crate::wanted::{self, Wanted};

/// Prefixes that may be pinned: each is compared with the name of whatever is read.
const PREFIXES_MAX: usize = 64;

/// What is said of a list that names a part of an object.
pub(crate) const NO_PARTS: &str = "a range of an object cannot be pinned by order: name the object";

/// What the file has. Without a file nothing is pinned.
///
/// # Errors
/// Why it cannot be meant.
pub(crate) fn read(path: &Path) -> Result<Pins, String> {
    let name = path.display();
    let list = match fs::read_to_string(path) {
        // Whether its folder can be made is found out when it is needed.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Pins::default());
        }
        list => list.map_err(|error| format!("{name} cannot be read: {error}"))?,
    };
    let mut pins = Pins::default();
    let list = wanted::parse_list(&list).map_err(|why| format!("{name}: {why}"))?;
    pin(&mut pins, &list).map_err(|why| format!("{name}: {why}"))?;
    Ok(pins)
}

/// Adds what a list names.
///
/// # Errors
/// There would be too much, or a part of an object is named.
pub(crate) fn pin(pins: &mut Pins, list: &[Wanted]) -> Result<(), String> {
    for wanted in list {
        match wanted {
            Wanted::Object(object) => pins.pin(object.clone()),
            Wanted::Below(prefix) => pins.pin_below(&prefix.to_string()),
            Wanted::Part(..) => return Err(NO_PARTS.to_owned()),
        };
    }
    let (objects, prefixes) = (pins.object_count(), pins.prefix_count());
    match objects <= wanted::OBJECTS_MAX && prefixes <= PREFIXES_MAX {
        true => Ok(()),
        false => Err(format!(
            "{objects} objects and {prefixes} prefixes: {} and {PREFIXES_MAX} can be pinned by order: \
             write a shorter prefix, or keep.rules",
            wanted::OBJECTS_MAX
        )),
    }
}

/// Takes away what a list names. Objects that were named below its prefixes come back, in order.
pub(crate) fn unpin(pins: &mut Pins, list: &[Wanted]) -> Vec<ObjectName> {
    let mut below = Vec::new();
    for wanted in list {
        match wanted {
            Wanted::Object(object) | Wanted::Part(object, _) => drop(pins.unpin(object)),
            Wanted::Below(prefix) => below.extend(pins.unpin_below(&prefix.to_string())),
        }
    }
    below.sort_unstable();
    below.dedup();
    below
}

/// The file of a Zonal that runs.
#[derive(Debug)]
pub(crate) struct PinsFile {
    path: PathBuf,
    changing: Mutex<()>,
}

/// Why something is not pinned by order.
pub(crate) enum NotPinned {
    /// It cannot be.
    Refused(String),
    /// The file was not written.
    Failed(String),
}

impl PinsFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, changing: Mutex::default() }
    }

    /// Nobody changes what is pinned meanwhile.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is pinned: first in the file, where it survives a crash, then for who reads.
    pub(crate) fn change<T>(
        &self,
        gateway: &Gateway,
        change: impl FnOnce(&mut Pins) -> Result<T, String>,
    ) -> Result<T, NotPinned> {
        let _changing = self.hold();
        let before = gateway.terms().pins.clone();
        let mut pins = Pins::clone(&before);
        let outcome = change(&mut pins).map_err(NotPinned::Refused)?;
        if pins != *before {
            self.write(&pins).map_err(|error| {
                NotPinned::Failed(format!(
                    "{} cannot be written: {error}: name another file with --keep-pins-file (keep.pins-file)",
                    self.path.display()
                ))
            })?;
            gateway.set_pins(Arc::new(pins));
        }
        Ok(outcome)
    }

    fn write(&self, pins: &Pins) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let beside = self.path.with_extension("unfinished");
        let mut file = File::create(&beside)?;
        file.write_all(text(pins).as_bytes())?;
        file.sync_all()?;
        fs::rename(beside, &self.path)?;
        File::open(folder)?.sync_all()
    }
}

fn text(pins: &Pins) -> String {
    let objects = pins.objects().into_iter().map(|object| format!("{object}\n"));
    let prefixes = pins.prefixes().filter_map(|prefix| wanted::line_below(prefix).ok());
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
        let list = wanted::parse_list("b/a\nb/p/\t*\nb/a é\n").unwrap();
        pin(&mut pins, &list).unwrap();
        let file = PinsFile::new(path.clone());
        file.write(&pins).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "b/a\nb/a é\nb/p/\t*\n");
        assert_eq!(read(&path).unwrap(), pins);
        file.write(&Pins::default()).unwrap();
        assert!(read(&path).unwrap().is_empty());
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
