//! `twitter`, the csv of Twitter's in-memory caches: `time,key,key size,value size,client,operation,ttl`.
//!
//! `get` and `gets` are requests, of key and value together. `delete` invalidates. What stores (`set`, `add` and the like)
//! is passed over: it is how the recorded cache was filled after a miss, and here a miss fills. The value's
//! size is 0 in a `get` that the recorded cache missed, and stays so. Time to live is not looked at.

use super::super::{NEVER, Op, Request};
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
                let why = format!("an operation (get, set, …) was expected, not {other:?}");
                return Err(Wrong::part(other, why));
            }
        };
        let size = key.saturating_add(value);
        Ok(Some(Run::one(Request { id, size, time_s, next: NEVER, op })))
    }
}
