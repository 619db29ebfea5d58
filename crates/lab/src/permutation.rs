//! Seeded permutation of the numbers below n, so that popular keys are not neighbours.

use zonal_base::mix64;

/// Rounds of the Feistel network: 4 leave no pattern that a cache could see.
const ROUNDS: usize = 4;

/// A permutation of the numbers below n.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    n: u64,
    /// One key per round.
    keys: [u64; ROUNDS],
    /// Bits of each half of a number.
    half: u32,
}

impl Permutation {
    /// Requires: `n` is not 0.
    #[must_use]
    pub const fn new(n: u64, seed: u64) -> Self {
        assert!(0 < n);
        let bits = u64::BITS - (n - 1).leading_zeros();
        let half = bits.div_ceil(2);
        let keys = [mix64(seed), mix64(seed ^ 1), mix64(seed ^ 2), mix64(seed ^ 3)];
        Self { n, keys, half: if half == 0 { 1 } else { half } }
    }

    /// Image of `i`. Requires: `i` is below n.
    #[must_use]
    pub fn at(&self, i: u64) -> u64 {
        assert!(i < self.n);
        // The network permutes the next power of four; a result outside the range is permuted again
        // (cycle walking).
        let mut i = self.network(i);
        while self.n <= i {
            i = self.network(i);
        }
        i
    }

    fn network(&self, i: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (i >> self.half, i & mask);
        for key in self.keys {
            let mixed = mix64(right ^ key) & mask;
            (left, right) = (right, left ^ mixed);
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_reached_once_and_the_seed_matters() {
        for n in [1, 2, 3, 4, 5, 63, 64, 65, 1000] {
            let permutation = Permutation::new(n, 1);
            let mut reached: Vec<u64> = (0..n).map(|i| permutation.at(i)).collect();
            reached.sort_unstable();
            assert_eq!(reached, (0..n).collect::<Vec<_>>(), "n = {n}");
        }
        let first =
            |seed| (0..1000).map(|i| Permutation::new(1000, seed).at(i)).collect::<Vec<_>>();
        assert_ne!(first(1), first(2));
    }
}
