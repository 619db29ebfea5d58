//! A trace's file: where its bytes come from, and what is wrong with them.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::reader::Reader;
use super::{Format, Packing};

/// A file of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    path: PathBuf,
    format: Format,
}

impl Trace {
    /// Nothing is opened yet.
    #[must_use]
    pub const fn new(path: PathBuf, format: Format) -> Self {
        Self { path, format }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it is written down.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Opens it at its beginning.
    ///
    /// # Errors
    /// When there is no such file, or it cannot be read.
    pub fn open(&self) -> Result<Reader, TraceError> {
        Ok(Reader::new(Input::open(&self.path)?, self.format))
    }

    /// Length and checksum of the file as it lies on disk: what tells it from another of its name.
    ///
    /// # Errors
    /// When there is no such file, or it cannot be read.
    pub fn mark(&self) -> Result<String, TraceError> {
        let fail = |why: io::Error| TraceError::unreadable(&self.path, &why);
        let mut file = File::open(&self.path).map_err(fail)?;
        let (mut buffer, mut checksum, mut len) = (vec![0; BUFFER], 0, 0_u64);
        loop {
            match file.read(&mut buffer).map_err(fail)? {
                0 => return Ok(format!("{len}-{checksum:08x}")),
                read => {
                    checksum = crc32c::crc32c_append(checksum, &buffer[..read]);
                    len += read as u64;
                }
            }
        }
    }
}

/// Where something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorPosition {
    File,
    /// Line, and where in it, if that is known; counted from 1, after unpacking.
    Line(u64, Option<usize>),
    /// Counted from 0, after unpacking.
    Byte(u64),
}

/// A trace cannot be read: where, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    path: PathBuf,
    place: ErrorPosition,
    why: String,
}

impl TraceError {
    fn unreadable(path: &Path, why: &io::Error) -> Self {
        let why = format!("cannot be read: {why}");
        Self { path: path.to_owned(), place: ErrorPosition::File, why }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, place, why } = self;
        match place {
            ErrorPosition::File => write!(f, "{}: {why}", path.display()),
            ErrorPosition::Line(line, None) => {
                write!(f, "{}, line {line}: {why}", path.display())
            }
            ErrorPosition::Line(line, Some(column)) => {
                write!(f, "{}, line {line}, column {column}: {why}", path.display())
            }
            ErrorPosition::Byte(byte) => write!(f, "{}, byte {byte}: {why}", path.display()),
        }
    }
}

impl std::error::Error for TraceError {}

/// Bytes of a line at most: longer ones are no text.
const LINE_MAX: u64 = 64 << 10;

/// Bytes that are unpacked at a time.
const BUFFER: usize = 256 << 10;

/// The bytes of a trace, unpacked.
pub(super) struct Input {
    path: PathBuf,
    bytes: BufReader<Box<dyn Read + Send>>,
    /// Of the file, as it lies on disk.
    file_bytes: u64,
    file_bytes_read: Arc<AtomicU64>,
    line: Vec<u8>,
    lines: u64,
    offset: u64,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Input {
    fn open(path: &Path) -> Result<Self, TraceError> {
        let fail = |why: io::Error| TraceError::unreadable(path, &why);
        let file = File::open(path).map_err(fail)?;
        let file_bytes = file.metadata().map_err(fail)?.len();
        let file_bytes_read = Arc::new(AtomicU64::new(0));
        let counted = Counted { file, read: file_bytes_read.clone() };
        let mut packed = BufReader::with_capacity(BUFFER, counted);
        let packing = Packing::of_first_bytes(packed.fill_buf().map_err(fail)?);
        let unpacked: Box<dyn Read + Send> = match packing {
            Packing::Plain => Box::new(packed),
            Packing::Zstd => Box::new(zstd::Decoder::with_buffer(packed).map_err(fail)?),
            Packing::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(packed)),
            Packing::Gz => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
        };
        Ok(Self {
            path: path.to_owned(),
            bytes: BufReader::with_capacity(BUFFER, unpacked),
            file_bytes,
            file_bytes_read,
            line: Vec::new(),
            lines: 0,
            offset: 0,
        })
    }

    /// How much of the file has been read: from 0 to 1.
    pub(super) fn done(&self) -> f64 {
        let read = self.file_bytes_read.load(Ordering::Relaxed);
        if self.file_bytes == 0 { 1.0 } else { read as f64 / self.file_bytes as f64 }
    }

    /// The next line, without its end; `None` when there are no more.
    pub(super) fn line(&mut self) -> Result<Option<&str>, TraceError> {
        self.line.clear();
        self.lines += 1;
        let mut bounded = (&mut self.bytes).take(LINE_MAX);
        if let Err(why) = bounded.read_until(b'\n', &mut self.line) {
            return Err(self.in_line(None, format!("cannot be unpacked: {why}")));
        }
        if self.line.is_empty() {
            return Ok(None);
        }
        if self.line.last() != Some(&b'\n') && self.line.len() as u64 == LINE_MAX {
            return Err(
                self.in_line(None, format!("more than {LINE_MAX} bytes without the end of a line"))
            );
        }
        match str::from_utf8(&self.line) {
            Ok(line) => Ok(Some(line.trim_ascii_end())),
            Err(_) => Err(self.in_line(None, "this is no text (UTF-8 was expected)".into())),
        }
    }

    /// Something is wrong in the line that was read last.
    pub(super) fn in_line(&self, column: Option<usize>, why: String) -> TraceError {
        TraceError { path: self.path.clone(), place: ErrorPosition::Line(self.lines, column), why }
    }

    /// Fills `records`, as far as there is something, with whole records of so many bytes, and says how many bytes
    /// these are together; 0 when there are no more.
    pub(super) fn records(&mut self, records: &mut [u8], each: usize) -> Result<usize, TraceError> {
        let mut filled = 0;
        while filled < records.len() {
            match self.bytes.read(&mut records[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => (),
                Err(why) => {
                    return Err(self.at_byte(filled, format!("cannot be unpacked: {why}")));
                }
            }
        }
        let rest = filled % each;
        if rest != 0 {
            let why = format!("the file ends after {rest} bytes of a record of {each}");
            return Err(self.at_byte(filled, why));
        }
        self.offset += filled as u64;
        Ok(filled)
    }

    fn at_byte(&self, after: usize, why: String) -> TraceError {
        let place = ErrorPosition::Byte(self.offset + after as u64);
        TraceError { path: self.path.clone(), place, why }
    }

    /// Something is wrong with the file as a whole.
    pub(super) fn in_file(&self, why: String) -> TraceError {
        TraceError { path: self.path.clone(), place: ErrorPosition::File, why }
    }
}

/// A file, and how much of it has been read.
struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
