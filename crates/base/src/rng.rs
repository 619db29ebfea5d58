//! Seeded random number generator (SplitMix64): equal seeds give equal numbers on every machine.

/// SplitMix64: small, fast, and good enough for workloads, policies and simulated faults. Never use it for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

/// The finalizer of SplitMix64: a bijection of 64 bits that leaves no pattern.
#[must_use]
pub const fn mix64(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ (n >> 31)
}

impl Rng {
    /// A generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix64(self.state)
    }

    /// A number below `bound`. Requires: `bound` is not 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        assert!(bound != 0);
        // The high half of a product avoids a division. Its bias is below 2^-32 for the bounds used here.
        (((self.next_u64() as u128) * (bound as u128)) >> 64) as u64
    }

    /// True once in `n` calls on average. Requires: `n` is not 0.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub const fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        let mut rng = Rng::new(42);
        let first = [rng.next_u64(), rng.next_u64()];
        let mut again = Rng::new(42);
        assert_eq!(first, [again.next_u64(), again.next_u64()]);
        assert_ne!(first[0], Rng::new(43).next_u64());
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[crate::index(rng.below(7))] = true;
        }
        assert_eq!(seen, [true; 7]);
    }
}
