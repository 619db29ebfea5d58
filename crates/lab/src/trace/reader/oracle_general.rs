//! Trace format `oracleGeneral` of libCacheSim: packed little-endian records of 24 bytes.
//!
//! Fields: `u32` seconds, `u64` object, `u32` size in bytes, `i64` position of the object's next
//! request. The last field is ignored: next positions are computed from the trace itself, in all
//! formats alike.

use super::super::Request;

pub(super) const BYTES: usize = 24;

pub(super) fn parse(record: &[u8]) -> Request {
    let size = u32::from_le_bytes(part(record, 12));
    let time_s = u32::from_le_bytes(part(record, 0));
    Request::read(u64::from_le_bytes(part(record, 4)), size.into(), time_s)
}

fn part<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&record[at..at + N]);
    part
}
