//! Trace source: finds the files of a trace by name, and their format.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::input::{BUFFER, Input};
use super::reader::Reader;
use super::{Format, Request, TraceError, detect};

/// A trace: its files, all of one format, or requests in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    files: Vec<TraceFile>,
    format: Format,
    held: Option<Arc<[Request]>>,
}

/// A file of a trace.
#[derive(Clone, Debug)]
pub(super) struct TraceFile {
    pub(super) path: PathBuf,
    /// Name in messages.
    pub(super) name: String,
    /// Copy of standard input, which disappears with its last handle.
    _copy: Option<Arc<File>>,
}

impl PartialEq for TraceFile {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for TraceFile {}

/// Name of standard input on the command line.
const STANDARD_INPUT: &str = "-";

/// Largest depth of folders in a folder: those of CloudTrail are eight deep.
const DEPTH_MAX: u32 = 32;

impl Trace {
    /// One file of a known format. No file is opened yet.
    #[must_use]
    pub fn new(path: PathBuf, format: Format) -> Self {
        Self { files: vec![TraceFile::new(path)], format, held: None }
    }

    /// Finds the files: names may be files, folders with everything in them, patterns such as
    /// `logs/*.gz`, or `-` for standard input. Without a format, the name or the beginning of the
    /// first file decides.
    ///
    /// # Errors
    /// When a name leads to no file, or the format is unknown.
    pub fn find(names: &[PathBuf], format: Option<Format>) -> Result<Self, TraceError> {
        let mut files = Vec::new();
        for name in names {
            find(name, &mut files)?;
        }
        check_twice(&files)?;
        let named = || files.first().and_then(|file| Format::of_name(&file.path));
        let format = match format.or_else(named) {
            Some(format) => format,
            None => of_content(&files)?,
        };
        Ok(Self { files, format, held: None })
    }

    /// Requests in memory, with their sizes and times. `name` is for messages.
    #[must_use]
    pub fn of_requests(name: &str, requests: Arc<[Request]>) -> Self {
        let file = TraceFile { path: name.into(), name: name.into(), _copy: None };
        Self { files: vec![file], format: Format::TextSize, held: Some(requests) }
    }

    /// Format of the files.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Opens the trace at its beginning.
    ///
    /// # Errors
    /// When a file does not exist or cannot be read.
    pub fn open(&self) -> Result<Reader, TraceError> {
        match &self.held {
            Some(held) => Ok(Reader::of_held(&self.to_string(), held.clone())),
            None => Reader::open(&self.files, self.format),
        }
    }

    /// Length and CRC-32C of the files on disk, to detect other files under the same names.
    ///
    /// # Errors
    /// When a file does not exist or cannot be read.
    pub fn mark(&self) -> Result<String, TraceError> {
        let (mut buffer, mut checksum, mut len) = (vec![0; BUFFER], 0, 0_u64);
        for file in &self.files {
            let fail = |why: io::Error| TraceError::unreadable(&file.name, &why);
            let mut bytes = File::open(&file.path).map_err(fail)?;
            loop {
                match bytes.read(&mut buffer).map_err(fail)? {
                    0 => break,
                    read => {
                        checksum = crc32c::crc32c_append(checksum, &buffer[..read]);
                        len += read as u64;
                    }
                }
            }
        }
        Ok(format!("{len}-{checksum:08x}"))
    }
}

impl fmt::Display for Trace {
    /// Writes the name of the file, or the number of files with the first and the last one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.files[..] {
            [] => Ok(()),
            [one] => f.write_str(&one.name),
            [first, .., last] => {
                write!(f, "{} files from {} to {}", self.files.len(), first.name, last.name)
            }
        }
    }
}

impl TraceFile {
    fn new(path: PathBuf) -> Self {
        let name = path.display().to_string();
        Self { path, name, _copy: None }
    }

    /// Copies standard input to a file without a name, because a trace is read more than once.
    fn of_standard_input() -> Result<Self, TraceError> {
        let fail = |why: io::Error| TraceError::unreadable("standard input", &why);
        if io::stdin().is_terminal() {
            let why = "standard input is a terminal: pipe a log into it";
            return Err(TraceError::in_file("-", why.into()));
        }
        let mut copy = tempfile::tempfile().map_err(fail)?;
        io::copy(&mut io::stdin().lock(), &mut copy).map_err(|why| {
            let folder = std::env::temp_dir();
            let why = format!("cannot be copied to {}: {why}", folder.display());
            TraceError::in_file("standard input", why)
        })?;
        copy.flush().and_then(|()| copy.rewind()).map_err(fail)?;
        // Each open of this path has a position of its own.
        let path = PathBuf::from(format!("/proc/self/fd/{}", copy.as_raw_fd()));
        Ok(Self { path, name: "standard input".into(), _copy: Some(Arc::new(copy)) })
    }
}

/// Refuses a log that is given twice, also once plain and once compressed.
fn check_twice(files: &[TraceFile]) -> Result<(), TraceError> {
    let mut known = HashMap::new();
    for file in files {
        let path = file.path.canonicalize().unwrap_or_else(|_| file.path.clone());
        let suffix = path.extension().and_then(|suffix| suffix.to_str());
        let is_packed = suffix.is_some_and(|suffix| ["gz", "zst", "xz"].contains(&suffix));
        let plain = if is_packed { path.with_extension("") } else { path };
        if let Some(other) = known.insert(plain, &file.name) {
            let why = format!("this is {other} again, which would count twice: give one of them");
            return Err(TraceError::in_file(&file.name, why));
        }
    }
    Ok(())
}

fn find(name: &Path, files: &mut Vec<TraceFile>) -> Result<(), TraceError> {
    let shown = name.display().to_string();
    let before = files.len();
    if shown == STANDARD_INPUT {
        files.push(TraceFile::of_standard_input()?);
    } else if name.is_dir() {
        find_in(name, DEPTH_MAX, files)?;
    } else if name.exists() || !shown.contains(['*', '?', '[']) {
        // A file that does not exist is reported when it is opened.
        files.push(TraceFile::new(name.to_owned()));
    } else {
        let wrong = |why: String| TraceError::in_file(&shown, why);
        for path in glob::glob(&shown).map_err(|error| wrong(error.msg.into()))? {
            let path = path.map_err(|error| wrong(error.to_string()))?;
            match path.is_dir() {
                true => find_in(&path, DEPTH_MAX, files)?,
                false => files.push(TraceFile::new(path)),
            }
        }
    }
    if files.len() == before {
        return Err(TraceError::in_file(&shown, "there is no file".into()));
    }
    Ok(())
}

/// Files of a folder and of the folders in it, in the order of their names. Hidden ones do not
/// count.
fn find_in(folder: &Path, depth: u32, files: &mut Vec<TraceFile>) -> Result<(), TraceError> {
    let name = folder.display().to_string();
    let fail = |why: io::Error| TraceError::unreadable(&name, &why);
    let mut paths = Vec::new();
    for entry in folder.read_dir().map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true if depth == 0 => {
                return Err(TraceError::in_file(&name, "the folders are too deep".into()));
            }
            true => find_in(&path, depth - 1, files)?,
            false => files.push(TraceFile::new(path)),
        }
    }
    Ok(())
}

/// Detects the format by the beginning of the first file that is not empty.
fn of_content(files: &[TraceFile]) -> Result<Format, TraceError> {
    for file in files {
        let mut input = Input::open(file)?;
        let head = input.head(detect::LOOKED_AT)?;
        if head.is_empty() {
            continue;
        }
        return detect::format(head).map_err(|why| TraceError::in_file(&file.name, why));
    }
    let name = files.first().map_or("-", |file| &file.name);
    Err(TraceError::in_file(name, "the trace is empty: it has no request".into()))
}
