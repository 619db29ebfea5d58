//! The zipfian generator of YCSB, which many published workloads come from: an approximation by Gray et al. ("Quickly
//! generating billion-record synthetic databases", SIGMOD 1994) whose two most popular keys are exact. Unlike YCSB's
//! "scrambled" one the key of rank 0 is key 0.

use zonal_base::Rng;

/// Ranks from 0 to n - 1, small ones most often.
#[derive(Clone, Copy, Debug)]
pub struct Ycsb {
    n: f64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Ycsb {
    /// Adds up all n weights once. Requires: `n` is not 0, `theta` lies between 0 and 1.
    #[must_use]
    pub fn new(n: u64, theta: f64) -> Self {
        assert!(0 < n && 0.0 < theta && theta < 1.0);
        let zeta_of = |n: u64| (1..=n).map(|rank| (rank as f64).powf(-theta)).sum::<f64>();
        let (zeta, zeta_2) = (zeta_of(n), zeta_of(2));
        let n = n as f64;
        let eta = (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - zeta_2 / zeta);
        Self { n, theta, alpha: 1.0 / (1.0 - theta), zeta, eta }
    }

    /// A rank below n.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let u = rng.unit();
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
}
