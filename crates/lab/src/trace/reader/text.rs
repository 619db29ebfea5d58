//! Trace formats `text` and `text-size`: one request per line, columns split by blanks or commas.
//!
//! `text` is `object`, or `time object`. `text-size` is `object size`, or `time object size`. Times
//! are in seconds; a sequence number in that column is read as a time.

use super::super::{NEVER, Op, Request, SIZE_UNKNOWN};
use super::field::Wrong;
use super::{Lines, Run, field};

pub(super) struct Text;
pub(super) struct TextSize;

fn columns(line: &str) -> Vec<&str> {
    line.split([' ', '\t', ',']).filter(|column| !column.is_empty()).collect()
}

impl Lines for Text {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Option<Run>, Wrong<'a>> {
        let (time, id) = match columns(line)[..] {
            [id] => ("0", id),
            [time, id] => (time, id),
            _ => return Err(Wrong::line("expected an object, or a time and an object")),
        };
        request(time, id, SIZE_UNKNOWN)
    }
}

impl Lines for TextSize {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Option<Run>, Wrong<'a>> {
        let (time, id, size) = match columns(line)[..] {
            [id, size] => ("0", id, size),
            [time, id, size] => (time, id, size),
            _ => {
                let why = "expected an object and its size, or a time before them";
                return Err(Wrong::line(why));
            }
        };
        request(time, id, field::size(size)?)
    }
}

fn request<'a>(time: &'a str, id: &str, size: u32) -> Result<Option<Run>, Wrong<'a>> {
    let (id, time_s) = (field::object(id), field::seconds(time)?);
    Ok(Some(Run::one(Request { id, size, time_s, next: NEVER, op: Op::Read })))
}
