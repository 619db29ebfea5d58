//! Trace format `spc`: block csv of the Storage Performance Council.
//!
//! Columns: `unit,block,size,operation,time`, and perhaps more. Blocks have 512 bytes; sizes are in
//! bytes. `r` is one request per 4 KiB block that it touches. `w` invalidates these blocks.

use super::super::{Op, Request};
use super::field::Wrong;
use super::{Lines, Run, field};

pub(super) struct Spc;

const SECTOR: u64 = 512;

/// Distance between the first blocks of two units; all units together span 16 EiB of 4 KiB blocks.
const UNIT: u64 = 1 << 44;

impl Lines for Spc {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Option<Run>, Wrong<'a>> {
        let mut columns = line.split(',');
        let unit: u64 = field::number(field::next(&mut columns, "a unit")?, "a unit's number")?;
        let sector: u64 = field::number(field::next(&mut columns, "a block")?, "a block's number")?;
        let bytes = field::number(field::next(&mut columns, "a size")?, "a size in bytes")?;
        let op = match field::next(&mut columns, "r or w")? {
            "r" | "R" => Op::Read,
            "w" | "W" => Op::Invalidate,
            other => {
                return Err(Wrong::part(other, format!("expected r or w, not {other:?}")));
            }
        };
        let time_s = field::seconds(field::next(&mut columns, "a time")?)?;
        let (first, left) = field::blocks(sector.saturating_mul(SECTOR), bytes);
        let id = unit.wrapping_mul(UNIT).wrapping_add(first);
        let next = Request { op, ..Request::read(id, field::BLOCK_SIZE, time_s) };
        Ok(Some(Run { next, left, step: 1 }))
    }
}
