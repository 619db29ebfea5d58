//! Readahead: detects sequential reads of an object (scans), and sizes the prefetch window of each.
//!
//! 1. Detection is exact to the byte: a range is sequential if it begins where another range ended. Nearness says
//!    nothing in a small object. For objects that are not known yet, a table of hashes holds the ends of ranges. A
//!    range that follows none costs one lookup in the table, and one number written.
//! 2. For a known object, the ranges asked for lately are kept as scans: each scan begins somewhere and grows at its
//!    end. A range that overtook another begins a new scan, which the overtaken range joins to the scan before.
//! 3. The third range of a scan opens the scan, if half of the object's last ranges followed another. The second
//!    condition is there because some random ranges follow another, too. The caller prefetches for an open scan: one
//!    range at first, then twice as much each time that half of the window is used up, to a bound. So the bytes fetched
//!    ahead are seldom more than the bytes asked for in order.
//! 4. Prefetched bytes that went unread close the scan ([`Wasted`]): the scan has to begin anew. A reader that jumps
//!    begins another scan.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use zonal_base::{Bytes, Nanos, index, mix64};

/// Number of range ends that are remembered: 32 KiB. Beside 20,000 random ranges a second, a range that follows another
/// within a fifth of a second is detected.
const ENDS: usize = 4096;

/// Number of groups of the set-associative table of known objects.
const GROUPS: usize = 16;

/// Number of objects in each group. A new object replaces the one that was silent for longest in its group; objects
/// without an open scan are replaced first.
const GROUP: usize = 4;

/// Number of scans of one object: its concurrent readers, and the gaps that ranges in flight leave for a moment.
const SCANS_MAX: usize = 4;

/// Number of ranges that open a scan.
const OPENS: u32 = 3;

/// Number of an object's last ranges of which half must have followed another.
const HISTORY: u32 = u8::BITS;

/// Idle timeout of a scan: a scan without a range for so long is over.
const SILENCE_MAX: Nanos = Nanos::secs(60);

/// Sequential-read detector of a cache: bounded memory, whatever the number of objects and readers.
#[derive(Debug)]
pub struct SequentialDetector {
    /// Largest prefetch window in bytes.
    most: u64,
    /// Hashes of the ends of ranges of objects that are not known yet.
    ends: Box<[u64]>,
    /// Versions of the objects in `known`. 0: free. An array of its own, because each range searches it.
    versions: Box<[u64]>,
    known: Box<[Known]>,
}

/// Known object: a version of an object of which one range followed another.
#[derive(Debug, Default)]
struct Known {
    scans: Vec<Scan>,
    /// One bit for each of the last ranges: whether it followed another.
    history: u8,
    /// Number of ranges in `history`.
    told: u32,
    seen: Nanos,
}

/// Sequential stream: ranges that follow each other.
#[derive(Debug)]
struct Scan {
    bytes: Range<u64>,
    count: u32,
    /// Prefetch window in bytes; 0 until the scan opens.
    window: u64,
    /// Offset in the object at which the prefetched bytes end.
    ahead: u64,
    wasted: Wasted,
    seen: Nanos,
}

/// Counter of prefetched bytes that went unread, for one scan. The prefetcher may add to it from any thread.
#[derive(Clone, Debug, Default)]
pub struct Wasted(Arc<AtomicU64>);

/// Prefetch request for a sequential reader.
#[derive(Clone, Debug)]
pub struct Prefetch {
    /// Byte range of the object to fetch.
    pub bytes: Range<u64>,
    /// Counter for the bytes of this range that go unread.
    pub wasted: Wasted,
}

impl Wasted {
    /// Reports more bytes that went unread.
    pub fn add(&self, bytes: Bytes) {
        self.0.fetch_add(bytes.0, Ordering::Relaxed);
    }

    /// Resets the counter. True if bytes were reported since the last call.
    fn take(&self) -> bool {
        // A load costs less than a swap, and the counter is nearly always 0.
        self.0.load(Ordering::Relaxed) != 0 && self.0.swap(0, Ordering::Relaxed) != 0
    }
}

impl SequentialDetector {
    /// A detector with prefetch windows of up to `most` bytes. 0: readahead is off.
    #[must_use]
    pub fn new(most: Bytes) -> Self {
        let if_any = |count: usize| if most == Bytes(0) { 0 } else { count };
        Self {
            most: most.0,
            ends: vec![0; if_any(ENDS)].into(),
            versions: vec![0; if_any(GROUPS * GROUP)].into(),
            known: (0..if_any(GROUPS * GROUP)).map(|_| Known::default()).collect(),
        }
    }

    /// Records a read of a range of a version of `size` bytes, and returns the bytes to prefetch beyond the range. The
    /// first window is `least` bytes, or the length of the range if that is larger.
    ///
    /// `version`: a number that two versions share only by accident.
    pub fn note(
        &mut self,
        version: u64,
        range: &Range<u64>,
        (size, least): (u64, Bytes),
        now: Nanos,
    ) -> Option<Prefetch> {
        let is_all_or_nothing = range.is_empty() || (range.start == 0 && size <= range.end);
        if self.most == 0 || is_all_or_nothing {
            return None;
        }
        let at = match self.find(version) {
            Some(at) => at,
            None if self.follows_another(version, range) => self.make_known(version, range, now),
            None => return None,
        };
        let known = &mut self.known[at];
        let scan = known.note(range, now)?;
        if size <= known.scans[scan].bytes.end {
            known.scans.swap_remove(scan);
            return None;
        }
        let may_open = known.are_in_order();
        known.scans[scan].fetch_ahead(range, may_open, (least.0, self.most), size)
    }

    /// Number of open scans: those that get prefetch.
    #[must_use]
    pub fn open_count(&self, now: Nanos) -> u64 {
        let scans = self.known.iter().flat_map(|known| &known.scans);
        scans.filter(|scan| scan.is_open(now)).count() as u64
    }

    fn group(version: u64) -> Range<usize> {
        let first = index(version % GROUPS as u64) * GROUP;
        first..first + GROUP
    }

    fn find(&self, version: u64) -> Option<usize> {
        Self::group(version).find(|at| self.versions[*at] == version)
    }

    /// Remembers the end of a range. True if the range begins where another range of the version ended.
    fn follows_another(&mut self, version: u64, range: &Range<u64>) -> bool {
        let [begin, end] = [range.start, range.end].map(|at| mix64(version ^ mix64(at)) | 1);
        let place = |print: u64| index((print >> 1) % ENDS as u64);
        let follows = self.ends[place(begin)] == begin;
        self.ends[place(end)] = end;
        follows
    }

    fn make_known(&mut self, version: u64, range: &Range<u64>, now: Nanos) -> usize {
        let known = &self.known;
        let silent = |at: &usize| (known[*at].has_open(now), known[*at].seen);
        let at = Self::group(version).min_by_key(silent).unwrap_or_default();
        self.versions[at] = version;
        let known = &mut self.known[at];
        known.scans.clear();
        // The length of the previous range and the ranges between are unknown: count two ranges that followed none.
        known.scans.push(Scan::new(range.start..range.start, now));
        (known.history, known.told) = (0, 2);
        at
    }
}

impl Known {
    /// Adds a range. Returns the index of the scan that the range extends. `None`: the range begins a new scan.
    fn note(&mut self, range: &Range<u64>, now: Nanos) -> Option<usize> {
        let found = self.scans.iter().position(|scan| scan.bytes.end == range.start);
        self.history = self.history << 1 | u8::from(found.is_some());
        self.told = HISTORY.min(self.told + 1);
        self.seen = now;
        let mut scan = match found {
            Some(at) => self.scans.swap_remove(at),
            None => {
                self.begin(Scan::new(range.clone(), now), now);
                return None;
            }
        };
        scan.extend(range.end, 1, now);
        while let Some(at) = self.scans.iter().position(|far| far.bytes.start == scan.bytes.end) {
            let far = self.scans.swap_remove(at);
            scan.extend(far.bytes.end, far.count, now);
        }
        self.scans.push(scan);
        Some(self.scans.len() - 1)
    }

    fn begin(&mut self, scan: Scan, now: Nanos) {
        if self.scans.len() == SCANS_MAX {
            let silent = |at: &usize| (self.scans[*at].is_open(now), self.scans[*at].seen);
            let at = (0..SCANS_MAX).min_by_key(silent).unwrap_or_default();
            self.scans.swap_remove(at);
        }
        self.scans.push(scan);
    }

    fn are_in_order(&self) -> bool {
        self.told <= 2 * self.history.count_ones()
    }

    fn has_open(&self, now: Nanos) -> bool {
        self.scans.iter().any(|scan| scan.is_open(now))
    }
}

impl Scan {
    fn new(bytes: Range<u64>, now: Nanos) -> Self {
        Self { bytes, count: 1, window: 0, ahead: 0, wasted: Wasted::default(), seen: now }
    }

    fn is_open(&self, now: Nanos) -> bool {
        self.window != 0 && now.since(self.seen) < SILENCE_MAX
    }

    fn extend(&mut self, end: u64, count: u32, now: Nanos) {
        self.bytes.end = end;
        self.count = self.count.saturating_add(count);
        self.seen = now;
    }

    fn fetch_ahead(
        &mut self,
        range: &Range<u64>,
        may_open: bool,
        (least, most): (u64, u64),
        size: u64,
    ) -> Option<Prefetch> {
        if self.wasted.take() {
            (self.window, self.count, self.ahead) = (0, 1, 0);
        }
        let end = self.bytes.end;
        self.ahead = self.ahead.max(end);
        self.window = match self.window {
            0 if self.count < OPENS || !may_open => return None,
            0 => least.max(range.end - range.start).min(most),
            window if window / 2 < self.ahead - end => return None,
            window => most.min(2 * window),
        };
        let bytes = self.ahead..size.min(end + self.window);
        if bytes.is_empty() {
            return None;
        }
        self.ahead = bytes.end;
        Some(Prefetch { bytes, wasted: self.wasted.clone() })
    }
}

#[cfg(test)]
mod tests;
