//! Trace input: opens a trace file, decompresses it, and reports errors with their position.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::packing::{self, Packing};
use super::source::TraceFile;

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
    file: String,
    place: ErrorPosition,
    why: String,
}

impl TraceError {
    pub(super) fn unreadable(file: &str, why: &io::Error) -> Self {
        Self::in_file(file, format!("cannot be read: {why}"))
    }

    /// Error of a file as a whole.
    pub(super) fn in_file(file: &str, why: String) -> Self {
        Self { file: file.into(), place: ErrorPosition::File, why }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, place, why } = self;
        match place {
            ErrorPosition::File => write!(f, "{file}: {why}"),
            ErrorPosition::Line(line, None) => write!(f, "{file}, line {line}: {why}"),
            ErrorPosition::Line(line, Some(column)) => {
                write!(f, "{file}, line {line}, column {column}: {why}")
            }
            ErrorPosition::Byte(byte) => write!(f, "{file}, byte {byte}: {why}"),
        }
    }
}

impl std::error::Error for TraceError {}

/// Maximum length of a line in bytes. Longer lines are taken as binary data.
const LINE_MAX: u64 = 64 << 10;

/// Buffer size in bytes of reads and of decompression.
pub(super) const BUFFER: usize = 256 << 10;

/// Decompressed bytes of a trace file.
pub(super) struct Input {
    name: String,
    bytes: BufReader<Unpacked>,
    file_bytes_read: Arc<AtomicU64>,
    line: Vec<u8>,
    lines: u64,
    offset: u64,
}

/// Decompressed bytes: those that were looked at in advance, and the others.
type Unpacked = io::Chain<io::Cursor<Vec<u8>>, Box<dyn Read + Send>>;

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Input {
    pub(super) fn open(file: &TraceFile) -> Result<Self, TraceError> {
        let fail = |why: io::Error| TraceError::unreadable(&file.name, &why);
        let refused = |why: String| TraceError::in_file(&file.name, why);
        let file_bytes_read = Arc::new(AtomicU64::new(0));
        let bytes = File::open(&file.path).map_err(fail)?;
        let counted = Counted { file: bytes, read: file_bytes_read.clone() };
        let mut packed = BufReader::with_capacity(BUFFER, counted);
        let packing = Packing::of_first_bytes(packed.fill_buf().map_err(fail)?);
        let mut unpacked = packing.map_err(refused)?.unpack(packed).map_err(fail)?;
        let mut head = Vec::new();
        let looked_at = unpacked.by_ref().take(packing::LOOKED_AT).read_to_end(&mut head);
        looked_at.map_err(|why| refused(format!("cannot be decompressed: {why}")))?;
        packing::check_unpacked(&head).map_err(refused)?;
        let bytes = io::Cursor::new(head).chain(unpacked);
        Ok(Self {
            name: file.name.clone(),
            bytes: BufReader::with_capacity(BUFFER, bytes),
            file_bytes_read,
            line: Vec::new(),
            lines: 0,
            offset: 0,
        })
    }

    /// Bytes of the file on disk that were read so far, compressed.
    pub(super) fn file_bytes_read(&self) -> u64 {
        self.file_bytes_read.load(Ordering::Relaxed)
    }

    /// The first bytes of the file, at most `most`, which are read again later.
    ///
    /// Requires: nothing was read yet.
    pub(super) fn head(&mut self, most: usize) -> Result<&[u8], TraceError> {
        let mut head = vec![0; most];
        let filled = self.fill(&mut head)?;
        head.truncate(filled);
        let empty =
            || io::Cursor::new(Vec::new()).chain(Box::new(io::empty()) as Box<dyn Read + Send>);
        let rest = std::mem::replace(&mut self.bytes, BufReader::with_capacity(0, empty()));
        let bytes = io::Cursor::new(head).chain(Box::new(rest) as Box<dyn Read + Send>);
        self.bytes = BufReader::with_capacity(BUFFER, bytes);
        let head = self.bytes.fill_buf().map_err(|why| TraceError::unreadable(&self.name, &why))?;
        Ok(&head[..head.len().min(most)])
    }

    /// Returns the next line without its line end, or `None` at the end of the file.
    pub(super) fn line(&mut self) -> Result<Option<&str>, TraceError> {
        if !self.read_line()? {
            return Ok(None);
        }
        match str::from_utf8(&self.line) {
            Ok(line) => Ok(Some(line.trim_ascii_end())),
            Err(_) => Err(self.in_line(None, "not a text file (expected UTF-8)".into())),
        }
    }

    /// As [`Input::line`], for logs: clients send bytes of any encoding, and servers log them.
    pub(super) fn log_line(&mut self) -> Result<Option<Cow<'_, str>>, TraceError> {
        if !self.read_line()? {
            return Ok(None);
        }
        Ok(Some(String::from_utf8_lossy(self.line.trim_ascii_end())))
    }

    /// Reads a line. False at the end of the file.
    fn read_line(&mut self) -> Result<bool, TraceError> {
        self.line.clear();
        self.lines += 1;
        let mut bounded = (&mut self.bytes).take(LINE_MAX);
        if let Err(why) = bounded.read_until(b'\n', &mut self.line) {
            return Err(self.in_line(None, format!("cannot be decompressed: {why}")));
        }
        if self.line.is_empty() {
            return Ok(false);
        }
        if self.line.last() != Some(&b'\n') {
            let why = match self.line.len() as u64 {
                LINE_MAX => format!("a line exceeds {LINE_MAX} bytes"),
                _ => "the last line has no line end, so it may be cut: complete it or remove it"
                    .into(),
            };
            return Err(self.in_line(None, why));
        }
        Ok(true)
    }

    /// Error in the line that was read last.
    pub(super) fn in_line(&self, column: Option<usize>, why: String) -> TraceError {
        TraceError { file: self.name.clone(), place: ErrorPosition::Line(self.lines, column), why }
    }

    /// Fills `records` with whole records of `each` bytes as far as the file lasts. Returns the
    /// bytes filled; 0 at the end of the file.
    pub(super) fn records(&mut self, records: &mut [u8], each: usize) -> Result<usize, TraceError> {
        let filled = self.fill(records)?;
        let rest = filled % each;
        if rest != 0 {
            let why = format!("the file ends after {rest} bytes of a record of {each}");
            return Err(self.at_byte(filled as u64, why));
        }
        self.offset += filled as u64;
        Ok(filled)
    }

    /// Fills a buffer as far as the file lasts.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, TraceError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.bytes.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => (),
                Err(why) => {
                    let why = format!("cannot be decompressed: {why}");
                    return Err(self.at_byte(filled as u64, why));
                }
            }
        }
        Ok(filled)
    }

    /// Error behind the records that were read last.
    pub(super) fn at_byte(&self, after: u64, why: String) -> TraceError {
        let place = ErrorPosition::Byte(self.offset + after);
        TraceError { file: self.name.clone(), place, why }
    }

    /// Error of the file as a whole.
    pub(super) fn in_file(&self, why: String) -> TraceError {
        TraceError::in_file(&self.name, why)
    }

    /// The bytes, for a parser that finds its own boundaries.
    pub(super) const fn bytes(&mut self) -> &mut impl BufRead {
        &mut self.bytes
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
