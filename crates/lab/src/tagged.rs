//! Tagged payloads: contents for writes whose bytes are never checked.

use zonal_base::{Blocks, Contents, Payload, Pool, PoolClass, Tag, index};

/// Payload of this many blocks of tags, for repeated writes.
pub(crate) fn tagged(blocks: Blocks) -> Payload {
    let class = PoolClass { blocks, count: 1 };
    let pool = Pool::holding(Contents::Tags, &[class], Box::new(|| ()));
    let mut buffer = pool.take(blocks).expect("the pool has one");
    buffer.set_tags(0..index(blocks.0), Tag { source: 1, block: Blocks(0) });
    buffer.freeze(index(blocks.bytes().0))
}
