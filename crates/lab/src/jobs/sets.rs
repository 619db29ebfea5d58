//! Set-associative write-back cache in front of a drive that is written in place.
//!
//! Paper 004 argues against such a cache (its Figure 4, left). This one is as simple as possible.
//!
//! 1. A hash maps each block to one set of [`WAYS`] lines. A line holds one block, on the fast
//!    drive.
//! 2. A write goes to the line of its block, or to the least recently used line of its set. It is
//!    acknowledged when it is in the line. If that line holds another block that is dirty, that
//!    block is written back first, to its place on the drive.
//! 3. Dirty neighbours are written back together with a block, in one write of at most
//!    [`CLEANED_MAX`] blocks. A cache that cleans in good order does no better with what it has.
//! 4. A read takes blocks with a line from the fast drive, and the rest from the drive. Reads claim
//!    no line: this is a write cache.
//!
//! The map of the lines is in memory only. No metadata is written.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use zonal_base::{BLOCK_BYTES, Blocks, Contents, Lba, Payload, PoolClass, index, low_u32, mix64};
use zonal_device::Completion;
use zonal_emulator::BlockCommand;
use zonal_runtime::{Buffers, Call, Event, Port, Spawner};

use crate::tagged::tagged;

type DeviceCall = Call<BlockCommand, Completion>;

/// Lines per set: enough that a full set rarely forces a write-back while other sets have room.
const WAYS: u64 = 16;

/// Blocks per write-back at most: 128 KiB, two units of the QLC drive's map.
const CLEANED_MAX: u64 = 32;

/// The write-back cache.
pub(super) struct Sets {
    fast: Port<BlockCommand, Completion>,
    drive: Port<BlockCommand, Completion>,
    buffers: Buffers,
    /// Payload of every write. Its content is never read.
    data: Payload,
    lines: RefCell<Lines>,
    /// A line became idle.
    freed: Event,
}

struct Lines {
    all: Vec<Way>,
    /// Counter of uses.
    now: u32,
}

/// State of a line.
#[derive(Clone, Copy, Default)]
struct Way {
    /// Block number plus one. 0: the line is empty.
    holds: u32,
    used: u32,
    is_dirty: bool,
    /// Writes to the line in flight. The line keeps its block meanwhile.
    writing: u16,
    /// The line is being written back. No write goes to it meanwhile.
    is_cleaned: bool,
}

impl Way {
    const fn is_idle(&self) -> bool {
        self.writing == 0 && !self.is_cleaned
    }
}

/// Next step of a write that needs a line.
enum Claim {
    Has(usize),
    /// Write back these lines first. They hold consecutive blocks from this one on.
    Clean(u64, Vec<usize>),
    /// Wait: the line is being written back, or all lines of the set are busy.
    Wait,
}

impl Sets {
    /// A cache of `blocks` blocks on the fast drive, for `tasks` tasks that read at most `read` at
    /// a time.
    pub(super) fn new(
        (fast, blocks): (Port<BlockCommand, Completion>, Blocks),
        drive: Port<BlockCommand, Completion>,
        (spawner, tasks, read): (&Spawner, u64, Blocks),
    ) -> Rc<Self> {
        // Every task may read all its lines at once. Untouched buffers take no memory.
        let class = |blocks: u64, each: u64| PoolClass {
            blocks: Blocks(blocks),
            count: low_u32(index(tasks * each)),
        };
        let classes = [class(1, CLEANED_MAX + read.0), class(read.0.max(2), read.0.div_ceil(2))];
        let buffers = Buffers::holding(Contents::Tags, spawner, &classes);
        let count = blocks.0 / WAYS * WAYS;
        let lines = Lines { all: vec![Way::default(); index(count)], now: 0 };
        let (data, lines) = (tagged(Blocks(CLEANED_MAX)), RefCell::new(lines));
        Rc::new(Self { fast, drive, buffers, data, lines, freed: Event::default() })
    }

    /// Writes `blocks` blocks from `at` on.
    pub(super) async fn write(&self, at: u64, blocks: u64) -> Result<(), String> {
        let mut under_way = Vec::with_capacity(index(blocks));
        for number in at..at + blocks {
            let line = loop {
                let claim = self.lines.borrow_mut().claim(number);
                if let Claim::Has(line) = claim {
                    break line;
                }
                // A waiting write holds no line that other writes may wait for.
                self.end(&mut under_way).await?;
                match claim {
                    Claim::Clean(from, lines) => self.write_back(from, &lines).await?,
                    Claim::Has(_) | Claim::Wait => self.freed.wait().await,
                }
            };
            let write = BlockCommand::Write { lba: Lba(line as u64), data: self.data(1) };
            under_way.push((line, self.fast.call(write)));
        }
        self.end(&mut under_way).await
    }

    /// Waits for the writes in flight and releases their lines.
    async fn end(&self, under_way: &mut Vec<(usize, DeviceCall)>) -> Result<(), String> {
        for (line, answer) in under_way.drain(..) {
            let answer = answer.await;
            self.let_go(&[line], |line| line.writing -= 1);
            answer.map_err(|error| format!("a write to the cache: {error:?}"))?;
        }
        Ok(())
    }

    async fn write_back(&self, from: u64, lines: &[usize]) -> Result<(), String> {
        let mut reads = Vec::with_capacity(lines.len());
        for line in lines {
            let buffer = self.buffers.take(Blocks(1)).await;
            let (lba, blocks) = (Lba(*line as u64), Blocks(1));
            reads.push(self.fast.call(BlockCommand::Read { lba, blocks, buffer }));
        }
        for read in reads {
            let answer = read.await;
            answer.map_err(|error| format!("a read from the cache: {error:?}"))?;
        }
        let write = BlockCommand::Write { lba: Lba(from), data: self.data(lines.len()) };
        let answer = self.drive.call(write).await;
        // The drive has the same data: no write went to the lines meanwhile.
        self.let_go(lines, |line| (line.is_dirty, line.is_cleaned) = (false, false));
        answer.map(drop).map_err(|error| format!("a block is not written back: {error:?}"))
    }

    fn data(&self, blocks: usize) -> Vec<Payload> {
        vec![self.data.slice(0..blocks * BLOCK_BYTES)]
    }

    fn let_go(&self, lines: &[usize], then: impl Fn(&mut Way)) {
        let all = &mut self.lines.borrow_mut().all;
        lines.iter().for_each(|line| then(&mut all[*line]));
        self.freed.notify_all();
    }

    /// Reads `blocks` blocks from `at` on.
    pub(super) async fn read(&self, at: u64, blocks: Blocks) -> Result<(), String> {
        let parts = self.lines.borrow_mut().parts(at..at + blocks.0);
        let mut under_way = Vec::with_capacity(parts.len());
        for (port, lba, blocks) in parts {
            let buffer = self.buffers.take(blocks).await;
            let port = if port { &self.fast } else { &self.drive };
            under_way.push(port.call(BlockCommand::Read { lba, blocks, buffer }));
        }
        for read in under_way {
            read.await.map_err(|error| format!("a read: {error:?}"))?;
        }
        Ok(())
    }
}

impl Lines {
    fn set_of(&self, number: u64) -> Range<usize> {
        let sets = self.all.len() as u64 / WAYS;
        let first = mix64(number) % sets * WAYS;
        index(first)..index(first + WAYS)
    }

    fn find(&self, number: u64) -> Option<usize> {
        let holds = holds(number);
        self.set_of(number).find(|line| self.all[*line].holds == holds)
    }

    fn claim(&mut self, number: u64) -> Claim {
        self.now = self.now.wrapping_add(1);
        if let Some(line) = self.find(number) {
            // A line that is being written back is written after that.
            return if self.all[line].is_cleaned { Claim::Wait } else { self.take(line, number) };
        }
        let idle = self.set_of(number).filter(|line| self.all[*line].is_idle());
        let Some(line) = idle.min_by_key(|line| self.last_used(*line)) else { return Claim::Wait };
        match self.all[line].is_dirty {
            true => self.clean(u64::from(self.all[line].holds) - 1),
            false => self.take(line, number),
        }
    }

    fn take(&mut self, line: usize, number: u64) -> Claim {
        let (used, writing) = (self.now, self.all[line].writing + 1);
        self.all[line] =
            Way { holds: holds(number), used, is_dirty: true, writing, is_cleaned: false };
        Claim::Has(line)
    }

    /// Sort key for eviction: empty lines first, then by age.
    fn last_used(&self, line: usize) -> (bool, u32) {
        let Way { holds, used, .. } = self.all[line];
        // The counter wraps around: an old use is far away from it.
        (holds != 0, u32::MAX - self.now.wrapping_sub(used))
    }

    /// Marks the dirty blocks around this one for write-back.
    fn clean(&mut self, number: u64) -> Claim {
        let dirty = |number: u64| {
            let idle = |line: &usize| self.all[*line].is_dirty && self.all[*line].is_idle();
            self.find(number).filter(idle)
        };
        // Stays within an aligned range of that length, so that neighbouring write-backs meet at
        // its ends.
        let stretch = number / CLEANED_MAX * CLEANED_MAX..(number / CLEANED_MAX + 1) * CLEANED_MAX;
        let before = (stretch.start..number).rev().take_while(|at| dirty(*at).is_some()).count();
        let from = number - before as u64;
        let lines: Vec<usize> = (from..stretch.end).map_while(dirty).collect();
        lines.iter().for_each(|line| self.all[*line].is_cleaned = true);
        Claim::Clean(from, lines)
    }

    /// Splits a range into reads, with true for the fast drive. There each block is a read of its
    /// own.
    fn parts(&mut self, range: Range<u64>) -> Vec<(bool, Lba, Blocks)> {
        self.now = self.now.wrapping_add(1);
        let mut parts: Vec<(bool, Lba, Blocks)> = Vec::new();
        for number in range {
            match (self.find(number), parts.last_mut()) {
                (Some(line), _) => {
                    self.all[line].used = self.now;
                    parts.push((true, Lba(line as u64), Blocks(1)));
                }
                (None, Some((false, at, blocks))) if at.0 + blocks.0 == number => blocks.0 += 1,
                (None, _) => parts.push((false, Lba(number), Blocks(1))),
            }
        }
        parts
    }
}

fn holds(number: u64) -> u32 {
    low_u32(index(number + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Lines {
        Lines { all: vec![Way::default(); 2 * index(WAYS)], now: 0 }
    }

    #[test]
    fn a_block_keeps_its_line_until_others_of_its_set_were_used_since() {
        let mut lines = lines();
        let set = lines.set_of(0);
        let alike: Vec<u64> =
            (0..).filter(|number| lines.set_of(*number) == set).take(index(WAYS) + 1).collect();
        let write = |lines: &mut Lines, number: u64| {
            let Claim::Has(line) = lines.claim(number) else { return None };
            lines.all[line].writing -= 1;
            Some(line)
        };
        let held: Vec<_> =
            alike[..index(WAYS)].iter().map(|number| write(&mut lines, *number)).collect();
        assert!(held.iter().all(Option::is_some));
        assert_eq!(write(&mut lines, alike[0]), held[0], "it is written over in place");
        // The next block must wait until the oldest line is written back.
        let last = alike[index(WAYS)];
        let Claim::Clean(from, cleaned) = lines.claim(last) else { panic!("all are dirty") };
        assert!((from..from + cleaned.len() as u64).contains(&alike[1]));
        assert_eq!(lines.find(alike[1]), held[1], "and is read there meanwhile");
        for line in cleaned {
            (lines.all[line].is_dirty, lines.all[line].is_cleaned) = (false, false);
        }
        assert_eq!((write(&mut lines, last), lines.find(alike[1])), (held[1], None));
    }

    #[test]
    fn dirty_neighbours_are_written_back_together() {
        let mut lines = lines();
        for number in [3, 4, 5, 7, CLEANED_MAX] {
            let Claim::Has(line) = lines.claim(number) else { panic!("there is room") };
            lines.all[line].writing -= 1;
        }
        let Claim::Clean(from, cleaned) = lines.clean(4) else { panic!("it is dirty") };
        assert_eq!((from, cleaned.len()), (3, 3));
        // A line that is being written back makes writes wait, and is not written back twice.
        assert!(matches!(lines.claim(5), Claim::Wait));
        let Claim::Clean(from, cleaned) = lines.clean(CLEANED_MAX) else { panic!("it is dirty") };
        assert_eq!((from, cleaned.len()), (CLEANED_MAX, 1));
    }

    #[test]
    fn a_read_takes_from_each_drive_what_it_has() {
        let mut lines = lines();
        let Claim::Has(line) = lines.claim(2) else { panic!("there is room") };
        let parts = lines.parts(0..5);
        let line = (true, Lba(line as u64), Blocks(1));
        assert_eq!(parts, [(false, Lba(0), Blocks(2)), line, (false, Lba(3), Blocks(2))]);
    }
}
