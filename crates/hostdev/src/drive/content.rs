//! Blank check: whether a device holds anything, before it is formatted.
//!
//! 1. A file reports which of its ranges were ever written (SEEK_DATA). Holes and preallocated
//!    space were not.
//! 2. Written ranges are read in full, up to 4 GiB in total: one nonzero byte is content.
//! 3. Of a larger device only samples are read: the first and the last MiB, where partition tables,
//!    file systems and arrays have their magic numbers, and some blocks of every zone.

use std::fs::File;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use zonal_base::{
    BLOCK_BYTES, Blocks, Buffer, Bytes, Lba, Pool, PoolClass, Rng, ZoneId, index, low_u32,
};
use zonal_device::ZoneReport;

use super::{Drive, OpenError, Zones, position, signatures};
use crate::DeviceLocation;
use crate::zoned::Zoned;

/// Result of the blank check, which knows no format of Zonal's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Every byte is zero, or the drive's own zones are all empty.
    Blank,
    /// Every sample is zero; the device is too large to be read in full.
    LooksBlank,
    /// The device has content. The text names its owner, or shows its first bytes.
    Something(String),
}

/// Maximum bytes that are read in full: 4 GiB. A drive takes some seconds for them, once. A file
/// reaches this limit only with written bytes, zeros included: preallocated space is not read at
/// all.
const WHOLE_MAX: Bytes = Bytes::mib(4 << 10);

/// Length of one read: 1 MiB. Also the length of the samples at both ends of a large device: all
/// known magic numbers lie there.
const PIECE: Blocks = Blocks(256);

/// Maximum samples of a large device: 256 Ki blocks. A drive of 4 TB has 60,000 zones of 64 MiB and
/// gets four samples in each. An NVMe drive (200,000 reads a second) takes little more than a
/// second for them.
const SAMPLES_MAX: u64 = 256 << 10;

/// Maximum samples of one zone: more of them find no content that the first sixteen miss. A guess.
const SAMPLES_PER_ZONE_MAX: u64 = 16;

/// Maximum concurrent reads: 16, where drives reach most of their throughput.
const READERS_MAX: u64 = 16;

/// Blocks per reader thread: fewer are not worth the start of a thread. A guess.
const READS_PER_THREAD: u64 = 64;

impl Drive {
    /// Blank check: searches for nonzero bytes, or for written zones on a zoned drive. Changes
    /// nothing.
    ///
    /// # Errors
    /// When the device cannot be read.
    pub fn content(&self) -> Result<Content, OpenError> {
        match &self.zones {
            // `open` refuses foreign files: all content of the file is the modelled drive's own.
            Zones::Modelled(_) => return Ok(Content::Blank),
            Zones::Own(zoned) => return self.content_of_zones(zoned),
            Zones::Agreed => (),
        }
        let found = match self.written() {
            Some(ranges) => (self.first_byte_in(ranges)?, Content::Blank),
            None => (self.first_byte_in_samples()?, Content::LooksBlank),
        };
        match found {
            (Some(at), _) => self.name(at).map(Content::Something),
            (None, content) => Ok(content),
        }
    }

    /// Owner of a magic number at the front of the device, where file systems and partition tables
    /// have theirs.
    ///
    /// # Errors
    /// When the device cannot be read.
    pub fn foreign_mark(&self) -> Result<Option<&'static str>, OpenError> {
        if let Zones::Own(zoned) = &self.zones
            && zoned.base() == Lba(0)
            && self.written_zones(zoned).is_ok_and(|written| written.first() != Some(&ZoneId(0)))
        {
            // An empty zone may return old bytes.
            return Ok(None);
        }
        let mut piece = Reader::new(PIECE);
        Ok(signatures::in_front(self.read_piece(&mut piece, 0)?))
    }

    /// Calls `look` with the first block of each zone, from several threads. Returns the result for
    /// the lowest zone that has one. Skips blocks that cannot be read.
    pub fn first_of_zones<T: Send>(
        &self,
        look: impl Fn(ZoneId, &[u8]) -> Option<T> + Sync,
    ) -> Option<T> {
        let geometry = self.geometry;
        let written = match &self.zones {
            Zones::Own(zoned) => self.written_zones(zoned).ok()?,
            Zones::Agreed | Zones::Modelled(_) => Vec::new(),
        };
        search(u64::from(geometry.zone_count), |n, reader| {
            let zone = ZoneId(low_u32(index(n)));
            let start = geometry.zone_start(zone);
            let position = match &self.zones {
                Zones::Agreed => position(Lba(0), start),
                Zones::Modelled(emulated) => emulated.position(zone)?,
                // An empty zone may return old bytes.
                Zones::Own(zoned) => {
                    written.binary_search(&zone).ok()?;
                    position(zoned.base(), start)
                }
            };
            let block = reader.read(&self.file, position).ok()?;
            (block.len() == BLOCK_BYTES).then(|| look(zone, block)).flatten()
        })
    }

    /// Blank check of a zoned drive. A written zone is content. So is a magic number at the front
    /// of the drive, even in a conventional zone that Zonal would not use.
    fn content_of_zones(&self, zoned: &Zoned) -> Result<Content, OpenError> {
        if let Ok(Some(mark)) = self.foreign_mark() {
            return Ok(Content::Something(mark.to_owned()));
        }
        let written = self.written_zones(zoned);
        let written = written.map_err(|errno| self.cannot("read the zones of", errno))?;
        Ok(match written.first() {
            None => Content::Blank,
            Some(zone) => {
                let count = written.len();
                Content::Something(format!(
                    "{count} of its zones contain data, the first is zone {zone}"
                ))
            }
        })
    }

    /// Zones with readable data, in order.
    fn written_zones(&self, zoned: &Zoned) -> Result<Vec<ZoneId>, Errno> {
        let reports = zoned.reports(&self.file, ZoneId(0), self.geometry.zone_count)?;
        let holds = |report: &ZoneReport| report.state.is_readable() && Blocks(0) < report.written;
        Ok(reports.into_iter().filter(holds).map(|report| report.zone).collect())
    }

    fn cannot(&self, action: &'static str, errno: Errno) -> OpenError {
        OpenError::io(action, self.path(), errno)
    }

    /// Ranges of the device that may hold nonzero bytes. `None` when they are more than
    /// [`WHOLE_MAX`].
    fn written(&self) -> Option<Vec<Range<u64>>> {
        let end = self.size.0;
        let next = |position| match self.place {
            DeviceLocation::File { .. } => written_from(&self.file, position, end),
            DeviceLocation::Block { .. }
            | DeviceLocation::Zoned { .. }
            | DeviceLocation::Emulated { .. } => position..end,
        };
        let (mut ranges, mut bytes) = (Vec::new(), 0);
        let mut range = next(0);
        while !range.is_empty() {
            bytes += range.end - range.start;
            if WHOLE_MAX.0 < bytes {
                return None;
            }
            let position = range.end;
            ranges.push(range);
            range = next(position);
        }
        Some(ranges)
    }

    fn first_byte_in(&self, ranges: Vec<Range<u64>>) -> Result<Option<u64>, OpenError> {
        let mut reader = Reader::new(PIECE);
        for range in ranges {
            let mut position = range.start / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
            while position < range.end {
                let bytes = self.read_piece(&mut reader, position)?;
                if let Some(at) = first_byte(bytes) {
                    return Ok(Some(position + at));
                }
                position += PIECE.bytes().0;
            }
        }
        Ok(None)
    }

    fn first_byte_in_samples(&self) -> Result<Option<u64>, OpenError> {
        let (front, back) = (0..PIECE.bytes().0, self.back()..self.size.0);
        if let Some(at) = self.first_byte_in(vec![front, back])? {
            return Ok(Some(at));
        }
        let zones = u64::from(self.geometry.zone_count);
        let per_zone = (SAMPLES_MAX / zones).clamp(1, SAMPLES_PER_ZONE_MAX);
        let zone_blocks = self.geometry.zone_size.0;
        let stretch = zone_blocks / per_zone;
        let looked = search(zones * per_zone, |n, reader| {
            let (zone, part) = (n / per_zone, n % per_zone);
            // Samples the start of each zone, and a pseudorandom block in each of its other parts.
            // The seed is the sample's number, so that every check reads the same blocks.
            let within = if part == 0 { 0 } else { Rng::new(n).below(stretch) };
            let at = Blocks(zone * zone_blocks + part * stretch + within).bytes().0;
            let found = self.read_piece(reader, at).map(first_byte);
            found.map(|found| found.map(|within| at + within)).transpose()
        });
        looked.transpose()
    }

    /// Describes the content at `at` for the user: its owner, or its first bytes.
    fn name(&self, at: u64) -> Result<String, OpenError> {
        if let Some(meaning) = self.foreign_mark()? {
            return Ok(meaning.to_owned());
        }
        let mut reader = Reader::new(PIECE);
        let start = self.back();
        let len = index(self.size.0 - start);
        let back = self.read_piece(&mut reader, start)?;
        if let Some(meaning) = signatures::at_back(&back[..len.min(back.len())]) {
            return Ok(meaning.to_owned());
        }
        let block = at / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        let bytes = self.read_piece(&mut reader, block)?;
        let shown = bytes.iter().skip(index(at - block)).take(16).copied().collect::<Vec<u8>>();
        Ok(format!("at byte {at}: \"{}\"", shown.escape_ascii()))
    }

    /// Start of the device's tail, rounded down to a block. The tail is shorter than 1 MiB, so that
    /// one read covers it, even if the size is not whole blocks.
    fn back(&self) -> u64 {
        let before = self.size.0.saturating_sub(PIECE.bytes().0 - BLOCK_BYTES as u64);
        before / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
    }

    fn read_piece<'a>(&self, reader: &'a mut Reader, at: u64) -> Result<&'a [u8], OpenError> {
        reader.read(&self.file, at).map_err(|errno| self.cannot("read", errno))
    }
}

/// Calls `look` for the places from 0 to `count`, from several threads. Returns the result of the
/// lowest place that has one.
fn search<T: Send>(count: u64, look: impl Fn(u64, &mut Reader) -> Option<T> + Sync) -> Option<T> {
    let (next, found_at) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let found: Mutex<Option<T>> = Mutex::new(None);
    let work = || {
        let mut reader = Reader::new(Blocks(1));
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            // Places below a result are still searched: they may have a result, too.
            if count <= n || found_at.load(Ordering::Relaxed) < n {
                return;
            }
            if let Some(answer) = look(n, &mut reader) {
                let mut found = found.lock().expect("nobody panics with the lock");
                if n < found_at.load(Ordering::Relaxed) {
                    found_at.store(n, Ordering::Relaxed);
                    *found = Some(answer);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..(count / READS_PER_THREAD).min(READERS_MAX) {
            // When the system has no threads left, this thread reads alone.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    found.into_inner().expect("nobody panics with the lock")
}

/// The next written range of a file at or after `position`, up to the next hole. Empty when there
/// is none.
fn written_from(file: &File, position: u64, end: u64) -> Range<u64> {
    match rustix::fs::seek(file, SeekFrom::Data(position)) {
        Ok(start) => start..rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(end),
        Err(Errno::NXIO) => end..end,
        // The file system does not report holes.
        Err(_) => position..end,
    }
}

/// Offset of the first nonzero byte.
fn first_byte(bytes: &[u8]) -> Option<u64> {
    static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
    // Comparing whole blocks is many times as fast as comparing bytes.
    let is_zeros = |block: &[u8]| block == &ZEROS[..block.len()];
    let (n, block) = (0..).zip(bytes.chunks(BLOCK_BYTES)).find(|(_, block)| !is_zeros(block))?;
    let within = block.iter().take_while(|byte| **byte == 0).count();
    Some(n * BLOCK_BYTES as u64 + within as u64)
}

/// Block-aligned memory for reads with O_DIRECT.
pub(super) struct Reader(Buffer);

impl Reader {
    pub(super) fn new(blocks: Blocks) -> Self {
        let pool = Pool::new(&[PoolClass { blocks, count: 1 }], Box::new(|| ()));
        Self(pool.take(blocks).expect("the pool is new"))
    }

    /// Reads at `at` until the buffer is full or the device ends. Requires: `at` is the start of a
    /// block.
    pub(super) fn read(&mut self, file: &File, at: u64) -> Result<&[u8], Errno> {
        let read = loop {
            match rustix::io::pread(file, &mut *self.0.bytes_mut(), at) {
                Err(Errno::INTR) => (),
                read => break read?,
            }
        };
        Ok(&self.0.bytes()[..read])
    }
}

#[cfg(test)]
mod tests;
