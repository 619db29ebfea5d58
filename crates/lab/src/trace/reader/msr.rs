//! Trace format `msr`: block csv of Microsoft Research, Cambridge.
//!
//! Columns: `time,host,disk,type,offset,size,response time`. Times are Windows file times (100 ns
//! since 1601), counted here from the first line. A `Read` is one request per 4 KiB block that it
//! touches. A `Write` invalidates these blocks.

use super::super::{Op, Request};
use super::field::Wrong;
use super::{Lines, Run, field};

#[derive(Default)]
pub(super) struct Msr {
    /// Time of the first line in units of 100 ns.
    origin: Option<u64>,
}

/// Time units of 100 ns per second.
const TICKS: u64 = 10_000_000;

impl Lines for Msr {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Option<Run>, Wrong<'a>> {
        let mut columns = line.split(',');
        let time = field::next(&mut columns, "a time")?;
        let time: u64 = field::number(time, "a time in units of 100 ns")?;
        let origin = *self.origin.get_or_insert(time);
        let host = field::next(&mut columns, "a host")?;
        let disk: u64 = field::number(field::next(&mut columns, "a disk")?, "a disk's number")?;
        let op = match field::next(&mut columns, "Read or Write")? {
            "Read" => Op::Read,
            "Write" => Op::Invalidate,
            other => {
                let why = format!("expected Read or Write, not {other:?}");
                return Err(Wrong::part(other, why));
            }
        };
        let offset = field::number(field::next(&mut columns, "an offset")?, "an offset in bytes")?;
        let bytes = field::number(field::next(&mut columns, "a size")?, "a size in bytes")?;
        let (first, left) = field::blocks(offset, bytes);
        // Disks and hosts do not overlap: the hash puts their first blocks far apart.
        let id = field::object(&format!("{host} {disk}")).wrapping_add(first);
        let seconds = time.saturating_sub(origin) / TICKS;
        let time_s = u32::try_from(seconds).unwrap_or(u32::MAX);
        let next = Request { op, ..Request::read(id, field::BLOCK_SIZE, time_s) };
        Ok(Some(Run { next, left, step: 1 }))
    }
}
