//! What is written where nobody looks at the bytes but those who move them.

use zonal_base::{Blocks, Contents, Payload, Pool, PoolClass, Tag, index};

/// So many blocks of tags, to be written as often as is wanted.
pub(crate) fn tagged(blocks: Blocks) -> Payload {
    let class = PoolClass { blocks, count: 1 };
    let pool = Pool::holding(Contents::Tags, &[class], Box::new(|| ()));
    let mut buffer = pool.take(blocks).expect("the pool has one");
    buffer.set_tags(0..index(blocks.0), Tag { source: 1, block: Blocks(0) });
    buffer.freeze(index(blocks.bytes().0))
}
