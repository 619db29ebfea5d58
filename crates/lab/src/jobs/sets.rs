//! A set-associative write-back cache before a drive that is written in place: what paper 004 argues against (its Figure 4,
//! left), as simple as such a cache can be.
//!
//! 1. Each block belongs to one set of [`WAYS`] lines, by a hash. A line holds one block, on the fast drive.
//! 2. A write goes to the line of its block, or to the one of its set that was used longest ago, and is acknowledged when it is
//!    there. What that line held is written back first, to its place on the drive, if it is dirty.
//! 3. Dirty blocks right beside it are written back with it, in one write of [`CLEANED_MAX`] at most: a cache that cleans
//!    in good order does no better with what it has.
//! 4. A read takes from the fast drive what has a line, and the rest from the drive. It takes no line: this is a cache of writes.
//!
//! Where each block lies is in memory, and nothing else is written to keep it.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use zonal_base::{BLOCK_BYTES, Blocks, Contents, Lba, Payload, PoolClass, index, low_u32, mix64};
use zonal_device::Completion;
use zonal_emulator::BlockCommand;
use zonal_runtime::{Buffers, Call, Event, Port, Spawner};

use crate::tagged::tagged;

type DeviceCall = Call<BlockCommand, Completion>;

/// Lines of a set: enough that hardly anything is written back because its set is full and others are not.
const WAYS: u64 = 16;

/// Blocks that are written back together: 128 KiB, two units of the QLC drive's map.
const CLEANED_MAX: u64 = 32;

/// See the module.
pub(super) struct Sets {
    fast: Port<BlockCommand, Completion>,
    drive: Port<BlockCommand, Completion>,
    buffers: Buffers,
    /// What is written: nobody looks at it.
    data: Payload,
    lines: RefCell<Lines>,
    /// A line was let go.
    freed: Event,
}

struct Lines {
    all: Vec<Way>,
    /// Counts uses.
    now: u32,
}

/// What a line holds.
#[derive(Clone, Copy, Default)]
struct Way {
    /// Its block, and one more: 0 is nothing.
    holds: u32,
    used: u32,
    is_dirty: bool,
    /// Writes to it under way: it keeps its block.
    writing: u16,
    /// It is being written back: nobody writes to it meanwhile.
    is_cleaned: bool,
}

impl Way {
    const fn is_idle(&self) -> bool {
        self.writing == 0 && !self.is_cleaned
    }
}

/// What a write has to do before it has a line.
enum Claim {
    Has(usize),
    /// These lie side by side from this block on, and are to be written back.
    Clean(u64, Vec<usize>),
    /// Its line is being written back, or all lines of the set are busy.
    Wait,
}

impl Sets {
    /// A cache of so many blocks of the fast drive, for so many tasks that read at most `read` at a time.
    pub(super) fn new(
        (fast, blocks): (Port<BlockCommand, Completion>, Blocks),
        drive: Port<BlockCommand, Completion>,
        (spawner, tasks, read): (&Spawner, u64, Blocks),
    ) -> Rc<Self> {
        // Every one of them may read all its lines at once. What is not touched takes no memory.
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

    /// Writes so many blocks from `at` on.
    pub(super) async fn write(&self, at: u64, blocks: u64) -> Result<(), String> {
        let mut under_way = Vec::with_capacity(index(blocks));
        for number in at..at + blocks {
            let line = loop {
                let claim = self.lines.borrow_mut().claim(number);
                if let Claim::Has(line) = claim {
                    break line;
                }
                // Who waits holds no line for which others might.
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

    /// Waits until everything is there that is being written.
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
        // It is what the drive has: nobody wrote to it meanwhile.
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

    /// Reads so many blocks from `at` on.
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
            // What is being written back is written once it is there.
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

    /// Empty lines first, then by age.
    fn last_used(&self, line: usize) -> (bool, u32) {
        let Way { holds, used, .. } = self.all[line];
        // The count goes round: what is old is far away.
        (holds != 0, u32::MAX - self.now.wrapping_sub(used))
    }

    /// The dirty blocks around one of them: being written back from now on.
    fn clean(&mut self, number: u64) -> Claim {
        let dirty = |number: u64| {
            let idle = |line: &usize| self.all[*line].is_dirty && self.all[*line].is_idle();
            self.find(number).filter(idle)
        };
        // Within one stretch of that length: neighbours that are cleaned meet there.
        let stretch = number / CLEANED_MAX * CLEANED_MAX..(number / CLEANED_MAX + 1) * CLEANED_MAX;
        let before = (stretch.start..number).rev().take_while(|at| dirty(*at).is_some()).count();
        let from = number - before as u64;
        let lines: Vec<usize> = (from..stretch.end).map_while(dirty).collect();
        lines.iter().for_each(|line| self.all[*line].is_cleaned = true);
        Claim::Clean(from, lines)
    }

    /// Stretches of a range, and whether they are on the fast drive: there each block is by itself.
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
        // The next has to wait until the one that is oldest by now is written back.
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
        // What is being written back waits, and is not written back twice.
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
