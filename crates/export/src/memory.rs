//! Block-aligned receive memory, which a device can write from without a copy.

use bytes::{Buf, BufMut, BytesMut};
use zonal_base::BLOCK_BYTES;

/// An empty, block-aligned buffer. Requires: at most `bytes` bytes are appended. More would move it
/// to another address.
pub(crate) fn aligned(bytes: usize) -> BytesMut {
    let mut memory = BytesMut::with_capacity(bytes + BLOCK_BYTES - 1);
    let before = memory.as_ptr().align_offset(BLOCK_BYTES);
    memory.put_bytes(0, before);
    memory.advance(before);
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_stays_where_a_device_can_take_it() {
        for bytes in [1, 512, BLOCK_BYTES, BLOCK_BYTES + 1, 1 << 20] {
            let mut memory = aligned(bytes);
            memory.put_bytes(7, bytes);
            let frozen = memory.freeze();
            assert_eq!((frozen.len(), frozen.as_ptr().align_offset(BLOCK_BYTES)), (bytes, 0));
        }
    }
}
