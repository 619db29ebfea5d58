//! Keys with drifting popularity: new keys replace old ones over time.

use zonal_base::{Bytes, Rng, index, low_u32, mix64};

use crate::{Distribution, Draw};

/// Keys of equal size, each of which is replaced after a while.
#[derive(Clone, Copy, Debug)]
pub struct Drifting {
    draw: Draw,
    churn: f64,
    size: u32,
}

/// Number of requests over which `churn` of all keys are replaced.
const CHURN_OVER: f64 = 1e6;

impl Drifting {
    /// `keys` keys of a distribution, of `size` bytes each. `churn` is the fraction of all keys
    /// that is replaced within a million requests, from 0 on.
    #[must_use]
    pub fn new(
        distribution: Distribution,
        (keys, seed): (u64, u64),
        churn: f64,
        size: Bytes,
    ) -> Self {
        let size = low_u32(index(size.0.min(u64::from(u32::MAX))));
        Self { draw: Draw::new(distribution, keys, seed), churn, size }
    }

    /// Next key. Each key is replaced at its own time, and its successors after equal periods, with
    /// the same popularity.
    pub(super) fn next(&self, number: u64, rng: &mut Rng) -> (u64, u32) {
        let key = self.draw.key(rng);
        let phase = mix64(key) as f64 / u64::MAX as f64;
        let replaced = (number as f64 / CHURN_OVER * self.churn + phase).floor();
        (key.saturating_add(self.draw.keys().saturating_mul(whole(replaced))), self.size)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and whole"
)]
const fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_keys_are_others_after_so_many_requests() {
        let keys = 10_000;
        let drifting = Drifting::new(Distribution::Uniform, (keys, 1), 0.3, Bytes(4096));
        let old = |number| {
            let mut rng = Rng::new(number);
            let first = (0..20_000).filter(|_| drifting.next(number, &mut rng).0 < keys).count();
            first as f64 / 20_000.0
        };
        // Each key is replaced at its own time: 30 % after a million requests, 60 % after two.
        for (number, share) in [(0, 1.0), (1_000_000, 0.7), (2_000_000, 0.4), (4_000_000, 0.0)] {
            assert!((old(number) - share).abs() < 0.03, "{} at {number}", old(number));
        }
    }

    #[test]
    fn without_churn_keys_are_those_that_are_drawn() {
        let distribution = Distribution::Zipf { theta: 0.9 };
        let drifting = Drifting::new(distribution, (1000, 1), 0.0, Bytes::kib(64));
        let (mut ours, mut theirs) = (Rng::new(3), Rng::new(3));
        for number in 0..1000 {
            let key = drifting.draw.key(&mut theirs);
            assert_eq!(drifting.next(number << 30, &mut ours), (key, 64 << 10));
        }
    }
}
