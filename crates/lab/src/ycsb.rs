//! YCSB's zipfian generator, the source of many published workloads: an approximation by Gray et
//! al. ("Quickly generating billion-record synthetic databases", SIGMOD 1994), exact for the two
//! most popular keys. The plain generator gives rank 0 to key 0. The scrambled one spreads its
//! ranks over all keys.

use zonal_base::Rng;

/// Generator of ranks from 0 to n - 1; low ranks are the most frequent.
#[derive(Clone, Copy, Debug)]
pub struct Ycsb {
    n: f64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Ycsb {
    /// Adds up all n weights once. Requires: `n` is not 0, and `theta` is between 0 and 1.
    #[must_use]
    pub fn new(n: u64, theta: f64) -> Self {
        assert!(0 < n && 0.0 < theta && theta < 1.0);
        let zeta = (1..=n).map(|rank| (rank as f64).powf(-theta)).sum();
        Self::with_zeta(n, (theta, zeta))
    }

    /// Generator with a known sum of all weights.
    fn with_zeta(n: u64, (theta, zeta): (f64, f64)) -> Self {
        let zeta_2 = 1.0 + 0.5_f64.powf(theta);
        let n = n as f64;
        let eta = (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - zeta_2 / zeta);
        Self { n, theta, alpha: 1.0 / (1.0 - theta), zeta, eta }
    }

    /// Draws a rank below n.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        self.rank(rng.unit())
    }

    /// Rank of a number from 0 to 1.
    fn rank(&self, u: f64) -> u64 {
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(self.theta) {
            return whole(1.0_f64.min(self.n - 1.0));
        }
        let rank = self.n * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        whole(rank.clamp(0.0, self.n - 1.0))
    }
}

/// YCSB's scrambled generator, which its workloads use: a [`Ycsb`] of theta 0.99 over 10^16 ranks,
/// hashed to the keys. Its keys are far more uniform than a zipf distribution over the keys: the
/// most popular one has 3.8 % of the draws for any number of keys, the share of rank 0 of 10^16.
#[derive(Clone, Copy, Debug)]
pub struct Scrambled {
    ranks: Ycsb,
    keys: u64,
}

/// Ranks of the scrambled generator.
const SCRAMBLED_RANKS: u64 = 10_000_000_000_000_000;

/// Theta, and YCSB's sum of the weights of all ranks.
const SCRAMBLED: (f64, f64) = (0.99, 26.469_028_201_783_02);

impl Scrambled {
    /// Requires: `keys` is not 0.
    #[must_use]
    pub fn new(keys: u64) -> Self {
        assert!(0 < keys);
        Self { ranks: Ycsb::with_zeta(SCRAMBLED_RANKS, SCRAMBLED), keys }
    }

    /// Draws a key below `keys`.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        self.key(self.ranks.draw(rng))
    }

    const fn key(&self, rank: u64) -> u64 {
        fnv(rank) % self.keys
    }
}

/// FNV-1a of the eight bytes of a number, lowest first; the absolute value as a signed number.
const fn fnv(number: u64) -> u64 {
    const BASIS: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 1_099_511_628_211;
    let (mut hash, mut at) = (BASIS, 0);
    while at < u64::BITS {
        hash = (hash ^ (number >> at & 0xFF)).wrapping_mul(PRIME);
        at += 8;
    }
    hash.cast_signed().unsigned_abs()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank: below n")]
const fn whole(rank: f64) -> u64 {
    rank as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_ranks_are_exact_and_the_rest_near() {
        const DRAWS: u32 = 400_000;
        let (n, theta) = (1000, 0.99);
        let (ycsb, mut rng) = (Ycsb::new(n, theta), Rng::new(5));
        let mut seen = vec![0_u32; zonal_base::index(n)];
        for _ in 0..DRAWS {
            seen[zonal_base::index(ycsb.draw(&mut rng))] += 1;
        }
        let zeta: f64 = (1..=n).map(|rank| (rank as f64).powf(-theta)).sum();
        let share = |from: usize, to: usize| {
            f64::from(seen[from..to].iter().sum::<u32>()) / f64::from(DRAWS)
        };
        let exact = |from: u64, to: u64| {
            (from + 1..=to).map(|rank| (rank as f64).powf(-theta)).sum::<f64>() / zeta
        };
        for rank in 0..2 {
            let (seen, exact) = (share(rank, rank + 1), exact(rank as u64, rank as u64 + 1));
            assert!((seen / exact - 1.0).abs() < 0.03, "rank {rank}: {seen}, {exact}");
        }
        let (seen, exact) = (share(0, 100), exact(0, 100));
        assert!((seen - exact).abs() < 0.05, "the first hundred: {seen}, {exact}");
    }

    #[test]
    fn one_key_is_always_the_same() {
        let (ycsb, mut rng) = (Ycsb::new(1, 0.99), Rng::new(1));
        assert!((0..1000).all(|_| ycsb.draw(&mut rng) == 0));
    }

    /// Values computed from the published formulas with another program.
    #[test]
    fn ranks_are_those_of_the_published_formulas() {
        #[track_caller]
        fn check(keys: u64, (zeta, eta): (f64, f64), ranks: [u64; 7]) {
            let ycsb = Ycsb::new(keys, 0.99);
            assert!((ycsb.zeta - zeta).abs() < 1e-9, "{}", ycsb.zeta);
            assert!((ycsb.eta - eta).abs() < 1e-9, "{}", ycsb.eta);
            assert_eq!([0.0, 0.05, 0.125, 0.19, 0.25, 0.5, 0.75].map(|u| ycsb.rank(u)), ranks);
        }
        check(1000, (7.728_953_217_284_73, 0.074_806_086_706_9), [0, 0, 0, 1, 3, 22, 151]);
        check(100_000, (12.778_338_062_551_25, 0.116_224_727_395_2), [0, 0, 2, 5, 10, 251, 5240]);
        check(
            1_000_000,
            (15.391_849_746_037_37, 0.136_291_333_394_1),
            [0, 0, 3, 8, 20, 860, 31220],
        );
    }

    #[test]
    fn scrambled_keys_are_those_of_the_published_formulas() {
        let hashes = [0, 1, 2, 1000, SCRAMBLED_RANKS - 1].map(fnv);
        let expected = [
            6_284_781_860_667_377_211,
            8_517_097_267_634_966_620,
            1_820_151_046_732_198_393,
            5_952_875_239_596_136_740,
            1_572_712_814_797_062_537,
        ];
        assert_eq!(hashes, expected);
        let scrambled = Scrambled::new(1_000_000);
        assert!((scrambled.ranks.eta - 0.321_625_756_354_784).abs() < 1e-12);
        let ranks = [0.0, 0.03, 0.05, 0.06, 0.125, 0.25].map(|u| scrambled.ranks.rank(u));
        assert_eq!(ranks, [0, 0, 1, 2, 44, 10271]);
        let keys = ranks.map(|rank| scrambled.key(rank));
        assert_eq!(keys, [377_211, 377_211, 966_620, 198_393, 325_801, 774_334]);
    }

    #[test]
    fn scrambled_keys_are_more_alike_than_those_of_a_zipf_distribution() {
        const DRAWS: u32 = 1_000_000;
        let (keys, mut rng) = (100_000, Rng::new(5));
        let scrambled = Scrambled::new(keys);
        let mut seen = vec![0_u32; zonal_base::index(keys)];
        for _ in 0..DRAWS {
            seen[zonal_base::index(scrambled.draw(&mut rng))] += 1;
        }
        seen.sort_unstable_by(|a, b| b.cmp(a));
        let share = |count: usize| f64::from(seen[..count].iter().sum::<u32>()) / f64::from(DRAWS);
        // 1 / 26.469, and the random share of the other ranks.
        assert!((share(1) - 0.0378).abs() < 0.001, "{}", share(1));
        // A fifth; a zipf distribution over this many keys has three fifths.
        assert!((share(1000) - 0.203).abs() < 0.02, "{}", share(1000));
    }
}
