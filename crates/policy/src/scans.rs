//! Who reads an object front to back, and how much to fetch ahead of whom.
//!
//! 1. A range that begins where another ended is the sign, to the byte: that one range lies near another says nothing
//!    in a small object. Of objects not known yet, the ends of ranges stand in a table of hashes: a range that follows
//!    none costs one look at it, and one number written.
//! 2. Of a known object the ranges asked for lately are kept as scans: each begins somewhere and grows at its end. A
//!    range that overtook another begins a scan, which the other joins to the one before.
//! 3. The third range of a scan opens it, if half of the object's last ranges followed another: among random ones
//!    some do, too. An open scan is fetched ahead of, by one range at first, then by twice as much each time that half
//!    of it is used up, to a bound. So what lies ahead is seldom more than what was asked for in order.
//! 4. What was fetched ahead and went unread closes the scan ([`Wasted`]): it has to begin anew. A reader that jumps
//!    begins another.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use zonal_base::{Bytes, Nanos, index, mix64};

/// Ends of ranges that are remembered: 32 KiB. Beside 20,000 ranges a second at random, one that follows another
/// within a fifth of a second is seen.
const ENDS: usize = 4096;

/// Objects known at once are looked for in as many groups ...
const GROUPS: usize = 16;

/// ... of so many. In each, a new one takes the place of the one that was silent for longest.
const GROUP: usize = 4;

/// Scans of one object: readers of it at a time, and gaps that ranges in flight leave for a moment.
const SCANS_MAX: usize = 4;

/// Ranges that open a scan.
const OPENS: u32 = 3;

/// Ranges of an object of which half must have followed another.
const HISTORY: u32 = u8::BITS;

/// After so long without a range a scan is over.
const SILENCE_MAX: Nanos = Nanos::secs(60);

/// See the module.
#[derive(Debug)]
pub struct Scans {
    most: u64,
    ends: Box<[u64]>,
    /// Beside `known`: looked through for each range. 0: nobody.
    versions: Box<[u64]>,
    known: Box<[Known]>,
}

/// A version of an object of which one range followed another.
#[derive(Debug, Default)]
struct Known {
    scans: Vec<Scan>,
    /// Of each of the last ranges: whether it followed another.
    history: u8,
    /// Ranges that it tells of.
    told: u32,
    seen: Nanos,
}

/// Ranges that follow each other.
#[derive(Debug)]
struct Scan {
    bytes: Range<u64>,
    count: u32,
    /// How far ahead of it is fetched; 0 until it opens.
    window: u64,
    /// The end of what was fetched ahead.
    ahead: u64,
    wasted: Wasted,
    seen: Nanos,
}

/// Bytes that were fetched ahead of one scan and went unread: whoever fetches says so, on whatever thread.
#[derive(Clone, Debug, Default)]
pub struct Wasted(Arc<AtomicU64>);

/// What to fetch ahead of a reader.
#[derive(Clone, Debug)]
pub struct Prefetch {
    /// Of the object.
    pub bytes: Range<u64>,
    /// To be told what of it goes unread.
    pub wasted: Wasted,
}

impl Wasted {
    /// So many more.
    pub fn add(&self, bytes: Bytes) {
        self.0.fetch_add(bytes.0, Ordering::Relaxed);
    }

    /// True if there were any since this was asked last.
    fn take(&self) -> bool {
        // A look costs less than a swap, and nearly always there are none.
        self.0.load(Ordering::Relaxed) != 0 && self.0.swap(0, Ordering::Relaxed) != 0
    }
}

impl Scans {
    /// Fetches ahead by `most` at last. 0: there are no scans.
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

    /// Somebody asks for a range of a version of `size` bytes: what to fetch beyond it, by `least` at first, unless the
    /// ranges are larger.
    ///
    /// `version`: a number that no two versions share, but by accident.
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

    /// Scans that are fetched ahead of.
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

    /// Remembers the end of a range. True if it begins where another of the version ended.
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
        // How long the one before was, and what came between, nobody knows: not all went in order, then.
        known.scans.push(Scan::new(range.start..range.start, now));
        (known.history, known.told) = (0, 2);
        at
    }
}

impl Known {
    /// The scan that the range follows, with it.
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
