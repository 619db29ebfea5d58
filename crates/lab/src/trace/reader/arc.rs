//! Trace format `arc`: the `.lis` files of the ARC authors, in pages of 512 bytes.
//!
//! Columns: `start count ignored sequence`. Each line is `count` requests, for the pages `start` to
//! `start + count - 1`.

use super::super::Request;
use super::field::Wrong;
use super::{Lines, Run, field};

pub(super) struct Arc;

const PAGE: u64 = 512;

impl Lines for Arc {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Option<Run>, Wrong<'a>> {
        let mut columns = line.split_ascii_whitespace();
        let id = field::number(field::next(&mut columns, "a page")?, "a page")?;
        let left = field::number(field::next(&mut columns, "a count")?, "a count of pages")?;
        for what in ["a third column", "a sequence number"] {
            field::number::<u64>(field::next(&mut columns, what)?, what)?;
        }
        if left == 0 {
            return Ok(None);
        }
        let next = Request::read(id, PAGE, 0);
        Ok(Some(Run { next, left, step: 1 }))
    }
}
