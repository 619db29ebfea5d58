//! Hash tables whose keys are hashes already. They offer no iteration, because its order would be
//! meaningless.

use core::hash::{BuildHasher, Hasher};

use hashbrown::HashMap;
use zonal_base::mix64;

/// Hash table whose keys were hashed with a secret, so that an attacker cannot produce collisions.
pub(crate) type PrehashedMap<K, V> = HashMap<K, V, AsIs>;

/// Hasher for keys that are hashes already.
#[derive(Clone, Copy, Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are one number");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = mix64(key);
    }

    /// The pieces of a version differ in the low bits only.
    #[expect(clippy::cast_possible_truncation, reason = "the halves of 128 bits are 64 bits each")]
    fn write_u128(&mut self, key: u128) {
        self.0 = mix64(key as u64 ^ (key >> 64) as u64);
    }
}

impl BuildHasher for AsIs {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}
