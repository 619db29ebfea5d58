//! `u32le`, `u32be`, `u64le`, `u64be`: a number for each request, the object. There is no time, and no size.

use super::super::{NEVER, Op, Request, SIZE_UNKNOWN};

macro_rules! plain {
    ($name:ident, $number:ty, $from:ident) => {
        pub(super) fn $name(record: &[u8]) -> Request {
            let mut bytes = [0; size_of::<$number>()];
            bytes.copy_from_slice(record);
            let id = <$number>::$from(bytes).into();
            Request { id, size: SIZE_UNKNOWN, time_s: 0, next: NEVER, op: Op::Read }
        }
    };
}

plain!(u32le, u32, from_le_bytes);
plain!(u32be, u32, from_be_bytes);
plain!(u64le, u64, from_le_bytes);
plain!(u64be, u64, from_be_bytes);
