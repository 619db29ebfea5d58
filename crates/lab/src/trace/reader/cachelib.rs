//! Trace format `cachelib`: csv of Meta's key-value and block caches.
//!
//! The first line names the columns; both column orders of the key-value traces are read.
//!
//! Key-value (`key`, `op`, `size`, `op_count`, `key_size`, `op_time`): `GET` and `GET_LEASE` are
//! requests of key plus value, each repeated `op_count` times. `DELETE` invalidates. `SET` is
//! skipped, because the recorded cache filled with it after a miss, and here a miss fills. The
//! value's size is 0 in a `GET` that missed in the recorded cache, and stays 0.
//!
//! Block (`block_id`, `io_size`, `io_offset`, `op_name`): operations that begin with `get` request
//! `io_size` bytes of the block. Operations that begin with `put` or `delete` invalidate the block.

use super::super::{Op, Request};
use super::field::Wrong;
use super::{Lines, Run, field};

/// Parser state: the column positions, known after the first line.
#[derive(Default)]
pub(super) struct Cachelib {
    columns: Option<Columns>,
}

struct Columns {
    id: usize,
    op: usize,
    size: usize,
    /// Column of the key size. Block traces have none that counts.
    key_size: Option<usize>,
    count: Option<usize>,
    time: Option<usize>,
}

impl Columns {
    fn of_header(line: &str) -> Result<Self, String> {
        let names: Vec<&str> = line.split(',').map(str::trim).collect();
        let find = |wanted: &[&str]| names.iter().position(|name| wanted.contains(name));
        let need = |wanted: &[&str]| {
            let name = wanted[0];
            find(wanted).ok_or_else(|| format!("expected a first line with a column {name:?}"))
        };
        Ok(Self {
            id: need(&["key", "block_id"])?,
            op: need(&["op", "op_name"])?,
            size: need(&["size", "io_size"])?,
            key_size: find(&["key_size"]),
            count: find(&["op_count"]),
            time: find(&["op_time"]),
        })
    }
}

impl Lines for Cachelib {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Option<Run>, Wrong<'a>> {
        let Some(columns) = &self.columns else {
            self.columns = Some(Columns::of_header(line).map_err(Wrong::line)?);
            return Ok(None);
        };
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let at = |column: usize| {
            fields.get(column).copied().ok_or_else(|| {
                let count = fields.len();
                Wrong::line(format!("the line has {count} columns, fewer than the first line"))
            })
        };
        let op = match at(columns.op)? {
            "GET" | "GET_LEASE" => Op::Read,
            "DELETE" => Op::Invalidate,
            "SET" | "ADD" | "REPLACE" | "SET_LEASE" => return Ok(None),
            name if name.starts_with("get") => Op::Read,
            name if name.starts_with("put") || name.starts_with("delete") => Op::Invalidate,
            other => {
                let why = format!("expected an operation (GET, SET, …), not {other:?}");
                return Err(Wrong::part(other, why));
            }
        };
        let mut size = field::size(at(columns.size)?)?;
        if let Some(key) = columns.key_size {
            size = size.saturating_add(field::size(at(key)?)?);
        }
        let time_s = columns.time.map_or(Ok(0), |time| field::seconds(at(time)?))?;
        let left = columns.count.map_or(Ok(1), |n| field::number(at(n)?, "a count"))?;
        let next = Request { op, ..Request::read(field::object(at(columns.id)?), size, time_s) };
        Ok((left != 0).then_some(Run { next, left, step: 0 }))
    }
}
