//! Blank check: whether a device holds anything, before it is formatted.
//!
//! 1. A file says which parts of it were ever written. Holes and preallocated space were not.
//! 2. What was written is read whole, if it is not too much: one byte that is not zero is content.
//! 3. Of more than that the first and the last MiB are read, where partition tables, file systems and
//!    arrays have what they are known by, and places in every zone.

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

use super::{Drive, OpenError, Zones, marks, position};
use crate::DeviceLocation;
use crate::zoned::Zoned;

/// What a device holds, to someone who knows nothing of logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Zeros, to the last byte.
    Blank,
    /// Zeros wherever we looked; it is too large to be read whole.
    LooksBlank,
    /// Something. The text names it, or shows how it begins.
    Something(String),
}

/// So much is read whole: 4 GiB. It takes a drive some seconds, once. A file reaches it only when
/// somebody wrote zeros to it: what we preallocate is not read at all.
const WHOLE_MAX: Bytes = Bytes::mib(4 << 10);

/// How much is read at once: 1 MiB. As much is read of the front and the end of a large device: the
/// marks of all that we know lie there.
const PIECE: Blocks = Blocks(256);

/// Looks at a large device: at most 256 Ki blocks. A drive of 4 TB has 60,000 zones of 64 MiB and gets
/// four looks at each, which takes an NVMe drive (200,000 reads a second) little more than a second.
const SAMPLES_MAX: u64 = 256 << 10;

/// Looks at one zone: more of them find nothing that the first sixteen miss. A guess.
const SAMPLES_PER_ZONE_MAX: u64 = 16;

/// Blocks that are read at the same time: 16, where drives give most of what they have.
const READERS_MAX: u64 = 16;

/// Blocks for which it is worth to start one more thread. A guess.
const READS_PER_THREAD: u64 = 64;

impl Drive {
    /// Looks for anything but zeros. Nothing is changed.
    ///
    /// # Errors
    /// When the device cannot be read.
    pub fn content(&self) -> Result<Content, OpenError> {
        match &self.zones {
            // It was opened as the file of a modelled drive: all else was refused then.
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

    /// Whose mark the device bears in front, where file systems and partition tables have theirs.
    ///
    /// # Errors
    /// When the device cannot be read.
    pub fn foreign_mark(&self) -> Result<Option<&'static str>, OpenError> {
        if let Zones::Own(zoned) = &self.zones
            && zoned.base() == Lba(0)
            && self.written_zones(zoned).is_ok_and(|written| written.first() != Some(&ZoneId(0)))
        {
            // What can be read of an empty zone is old.
            return Ok(None);
        }
        let mut piece = Reader::new(PIECE);
        Ok(marks::in_front(self.read_piece(&mut piece, 0)?))
    }

    /// Shows `look` the first block of each zone, many at a time: what it says of the first zone of
    /// which it says anything. Blocks that cannot be read are left out.
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
                // What can be read of an empty zone is old.
                Zones::Own(zoned) => {
                    written.binary_search(&zone).ok()?;
                    position(zoned.base(), start)
                }
            };
            let block = reader.read(&self.file, position).ok()?;
            (block.len() == BLOCK_BYTES).then(|| look(zone, block)).flatten()
        })
    }

    /// A zone that is written to is somebody's; so is a drive whose front bears a mark, be it in a conventional zone
    /// that we would not touch.
    fn content_of_zones(&self, zoned: &Zoned) -> Result<Content, OpenError> {
        if let Ok(Some(mark)) = self.foreign_mark() {
            return Ok(Content::Something(mark.to_owned()));
        }
        let written = self.written_zones(zoned);
        let written = written.map_err(|errno| self.cannot("ask for the zones of", errno))?;
        Ok(match written.first() {
            None => Content::Blank,
            Some(zone) => {
                let count = written.len();
                Content::Something(format!("{count} of its zones are written to, first {zone}"))
            }
        })
    }

    /// Zones that hold something, in order.
    fn written_zones(&self, zoned: &Zoned) -> Result<Vec<ZoneId>, Errno> {
        let reports = zoned.reports(&self.file, ZoneId(0), self.geometry.zone_count)?;
        let holds = |report: &ZoneReport| report.state.is_readable() && Blocks(0) < report.written;
        Ok(reports.into_iter().filter(holds).map(|report| report.zone).collect())
    }

    fn cannot(&self, action: &'static str, errno: Errno) -> OpenError {
        OpenError::io(action, self.path(), errno)
    }

    /// The parts of the device that may be anything but zeros; `None` when they are too much to read.
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
            // The start of each zone; in its other stretches another place in each zone, always the same.
            let within = if part == 0 { 0 } else { Rng::new(n).below(stretch) };
            let at = Blocks(zone * zone_blocks + part * stretch + within).bytes().0;
            let found = self.read_piece(reader, at).map(first_byte);
            found.map(|found| found.map(|within| at + within)).transpose()
        });
        looked.transpose()
    }

    /// What stands at `at`, for people: whose it is, or how it begins.
    fn name(&self, at: u64) -> Result<String, OpenError> {
        if let Some(meaning) = self.foreign_mark()? {
            return Ok(meaning.to_owned());
        }
        let mut reader = Reader::new(PIECE);
        let start = self.back();
        let len = index(self.size.0 - start);
        let back = self.read_piece(&mut reader, start)?;
        if let Some(meaning) = marks::at_back(&back[..len.min(back.len())]) {
            return Ok(meaning.to_owned());
        }
        let block = at / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        let bytes = self.read_piece(&mut reader, block)?;
        let shown = bytes.iter().skip(index(at - block)).take(16).copied().collect::<Vec<u8>>();
        Ok(format!("at byte {at}: \"{}\"", shown.escape_ascii()))
    }

    /// Where the last MiB of the device begins, rounded down to a block.
    fn back(&self) -> u64 {
        let before = self.size.0.saturating_sub(PIECE.bytes().0 - BLOCK_BYTES as u64);
        before / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
    }

    fn read_piece<'a>(&self, reader: &'a mut Reader, at: u64) -> Result<&'a [u8], OpenError> {
        reader.read(&self.file, at).map_err(|errno| self.cannot("read", errno))
    }
}

/// Looks at `count` places, many at a time, and gives the answer to the first of them that has one.
fn search<T: Send>(count: u64, look: impl Fn(u64, &mut Reader) -> Option<T> + Sync) -> Option<T> {
    let (next, found_at) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let found: Mutex<Option<T>> = Mutex::new(None);
    let work = || {
        let mut reader = Reader::new(Blocks(1));
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            // Whatever lies before an answer is still looked at: it may have one, too.
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
            // Where the system has no threads left, this one reads alone.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    found.into_inner().expect("nobody panics with the lock")
}

/// The next part of a file at or after `position` that was written, up to the next hole; empty when
/// there is none.
fn written_from(file: &File, position: u64, end: u64) -> Range<u64> {
    match rustix::fs::seek(file, SeekFrom::Data(position)) {
        Ok(start) => start..rustix::fs::seek(file, SeekFrom::Hole(start)).unwrap_or(end),
        Err(Errno::NXIO) => end..end,
        // The file system does not tell holes from zeros.
        Err(_) => position..end,
    }
}

/// Where the first byte stands that is not zero.
fn first_byte(bytes: &[u8]) -> Option<u64> {
    static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
    // A comparison of blocks is many times as fast as one of bytes.
    let is_zeros = |block: &[u8]| block == &ZEROS[..block.len()];
    let (n, block) = (0..).zip(bytes.chunks(BLOCK_BYTES)).find(|(_, block)| !is_zeros(block))?;
    let within = block.iter().take_while(|byte| **byte == 0).count();
    Some(n * BLOCK_BYTES as u64 + within as u64)
}

/// Memory that a device can be read into with O_DIRECT.
pub(super) struct Reader(Buffer);

impl Reader {
    pub(super) fn new(blocks: Blocks) -> Self {
        let pool = Pool::new(&[PoolClass { blocks, count: 1 }], Box::new(|| ()));
        Self(pool.take(blocks).expect("the pool is new"))
    }

    /// As much as there is from `at` on. Requires: `at` is the start of a block.
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
