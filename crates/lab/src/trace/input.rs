//! Trace input: opens a trace file, decompresses it, and reports errors with their position.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::reader::Reader;
use super::{Format, Packing};

/// A trace file and its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    path: PathBuf,
    format: Format,
}

impl Trace {
    /// Names a trace. No file is opened yet.
    #[must_use]
    pub const fn new(path: PathBuf, format: Format) -> Self {
        Self { path, format }
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Format of the records in the file.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Opens the trace at its beginning.
    ///
    /// # Errors
    /// When the file does not exist or cannot be read.
    pub fn open(&self) -> Result<Reader, TraceError> {
        Ok(Reader::new(Input::open(&self.path)?, self.format))
    }

    /// Length and CRC-32C of the file on disk, to detect another file under the same name.
    ///
    /// # Errors
    /// When the file does not exist or cannot be read.
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

/// Position of an error in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorPosition {
    File,
    /// Line and, if known, byte column; both count from 1, after decompression.
    Line(u64, Option<usize>),
    /// Byte offset from 0, after decompression.
    Byte(u64),
}

/// Trace error: the trace cannot be read. Names the position and what was expected there.
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

/// Maximum length of a line in bytes. Longer lines are taken as binary data.
const LINE_MAX: u64 = 64 << 10;

/// Buffer size in bytes of reads and of decompression.
const BUFFER: usize = 256 << 10;

/// Decompressed bytes of a trace.
pub(super) struct Input {
    path: PathBuf,
    bytes: BufReader<Box<dyn Read + Send>>,
    /// Size of the file on disk in bytes, compressed.
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

    /// Share of the file read so far, from 0 to 1.
    pub(super) fn done(&self) -> f64 {
        let read = self.file_bytes_read.load(Ordering::Relaxed);
        if self.file_bytes == 0 { 1.0 } else { read as f64 / self.file_bytes as f64 }
    }

    /// Returns the next line without its line end, or `None` at the end of the file.
    pub(super) fn line(&mut self) -> Result<Option<&str>, TraceError> {
        self.line.clear();
        self.lines += 1;
        let mut bounded = (&mut self.bytes).take(LINE_MAX);
        if let Err(why) = bounded.read_until(b'\n', &mut self.line) {
            return Err(self.in_line(None, format!("cannot be decompressed: {why}")));
        }
        if self.line.is_empty() {
            return Ok(None);
        }
        if self.line.last() != Some(&b'\n') && self.line.len() as u64 == LINE_MAX {
            return Err(self.in_line(None, format!("a line exceeds {LINE_MAX} bytes")));
        }
        match str::from_utf8(&self.line) {
            Ok(line) => Ok(Some(line.trim_ascii_end())),
            Err(_) => Err(self.in_line(None, "not a text file (expected UTF-8)".into())),
        }
    }

    /// Error in the line that was read last.
    pub(super) fn in_line(&self, column: Option<usize>, why: String) -> TraceError {
        TraceError { path: self.path.clone(), place: ErrorPosition::Line(self.lines, column), why }
    }

    /// Fills `records` with whole records of `each` bytes as far as the file lasts. Returns the
    /// bytes filled; 0 at the end of the file.
    pub(super) fn records(&mut self, records: &mut [u8], each: usize) -> Result<usize, TraceError> {
        let mut filled = 0;
        while filled < records.len() {
            match self.bytes.read(&mut records[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => (),
                Err(why) => {
                    return Err(self.at_byte(filled, format!("cannot be decompressed: {why}")));
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

    /// Error of the file as a whole.
    pub(super) fn in_file(&self, why: String) -> TraceError {
        TraceError { path: self.path.clone(), place: ErrorPosition::File, why }
    }
}

/// A file reader that counts the bytes read.
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
