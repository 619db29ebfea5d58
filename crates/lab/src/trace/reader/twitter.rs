//! Trace format `twitter`: csv of Twitter's in-memory caches.
//!
//! Columns: `time,key,key size,value size,client,operation,ttl`. `get` and `gets` are requests of
//! key plus value. `delete` invalidates. Stores (`set`, `add` and the like) are skipped, because
//! the recorded cache filled with them after a miss, and here a miss fills. The value's size is 0
//! in a `get` that missed in the recorded cache, and stays 0. The TTL is ignored.

use super::super::{Op, Request};
use super::field::Wrong;
use super::{Lines, Run, field};

pub(super) struct Twitter;

impl Lines for Twitter {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Option<Run>, Wrong<'a>> {
        let mut columns = line.split(',');
        let time_s = field::seconds(field::next(&mut columns, "a time")?)?;
        let id = field::object(field::next(&mut columns, "a key")?);
        let key = field::size(field::next(&mut columns, "the size of the key")?)?;
        let value = field::size(field::next(&mut columns, "the size of the value")?)?;
        field::next(&mut columns, "a client")?;
        let op = match field::next(&mut columns, "an operation")? {
            "get" | "gets" => Op::Read,
            "delete" => Op::Invalidate,
            "set" | "add" | "replace" | "cas" | "append" | "prepend" | "incr" | "decr" => {
                return Ok(None);
            }
            other => {
                let why = format!("expected an operation (get, set, …), not {other:?}");
                return Err(Wrong::part(other, why));
            }
        };
        let size = key.saturating_add(value);
        Ok(Some(Run::one(Request { op, ..Request::read(id, size, time_s) })))
    }
}
