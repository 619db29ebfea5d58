//! Trace formats `u32le`, `u32be`, `u64le`, `u64be`: one object id per request.
//!
//! These formats have neither times nor sizes.

use super::super::{Request, SIZE_UNKNOWN};

macro_rules! plain {
    ($name:ident, $number:ty, $from:ident) => {
        pub(super) fn $name(record: &[u8]) -> Request {
            let mut bytes = [0; size_of::<$number>()];
            bytes.copy_from_slice(record);
            Request::read(<$number>::$from(bytes).into(), SIZE_UNKNOWN, 0)
        }
    };
}

plain!(u32le, u32, from_le_bytes);
plain!(u32be, u32, from_be_bytes);
plain!(u64le, u64, from_le_bytes);
plain!(u64be, u64, from_be_bytes);
