//! Exact zipf generator: draws rank k of n with probability proportional to 1 / k^theta.
//!
//! Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", 1996). It needs no table, so two million keys take no memory,
//! and no approximation, unlike YCSB's zipfian generator.

use zonal_base::Rng;

/// Generator of ranks from 1 to n; low ranks are the most frequent.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: f64,
    theta: f64,
    /// Integral of the hat function at both ends of the ranks.
    first: f64,
    last: f64,
    /// Within this distance below a rank, a draw is never rejected.
    sure: f64,
}

impl Zipf {
    /// Requires: `n` is not 0, `theta` is above 0.
    #[must_use]
    pub fn new(n: u64, theta: f64) -> Self {
        assert!(0 < n && 0.0 < theta);
        let mut zipf = Self { n: n as f64, theta, first: 0.0, last: 0.0, sure: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(zipf.n + 0.5);
        zipf.sure = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Draws a rank from 1 to n.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.last + rng.unit() * (self.first - self.last);
            let x = self.integral_inverse(u);
            let rank = (x + 0.5).floor().clamp(1.0, self.n);
            if rank - x <= self.sure || self.integral(rank + 0.5) - self.weight(rank) <= u {
                return whole(rank);
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// Integral of [`Zipf::weight`], shifted by a constant; valid at theta = 1 too.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        expm1_over((1.0 - self.theta) * log) * log
    }

    fn integral_inverse(&self, x: f64) -> f64 {
        let t = (x * (1.0 - self.theta)).max(-1.0);
        (ln_1p_over(t) * x).exp()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank: 1 to n")]
const fn whole(rank: f64) -> u64 {
    rank as u64
}

/// (e^t - 1) / t; 1 at t = 0.
fn expm1_over(t: f64) -> f64 {
    if t.abs() < 1e-8 { 1.0 + t / 2.0 } else { t.exp_m1() / t }
}

/// ln(1 + t) / t; 1 at t = 0.
fn ln_1p_over(t: f64) -> f64 {
    if t.abs() < 1e-8 { 1.0 - t / 2.0 } else { t.ln_1p() / t }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each rank occurs as often as the definition says, within five standard deviations.
    #[track_caller]
    fn check(n: u64, theta: f64) {
        const DRAWS: u32 = 200_000;
        let zipf = Zipf::new(n, theta);
        let mut rng = Rng::new(7);
        let mut seen = vec![0_u32; zonal_base::index(n)];
        for _ in 0..DRAWS {
            seen[zonal_base::index(zipf.draw(&mut rng) - 1)] += 1;
        }
        let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-theta)).collect();
        let sum: f64 = weights.iter().sum();
        for (k, (seen, weight)) in seen.iter().zip(&weights).enumerate() {
            let p = weight / sum;
            let (mean, sigma) =
                (p * f64::from(DRAWS), (p * (1.0 - p) * f64::from(DRAWS)).sqrt().max(1.0));
            let off = (f64::from(*seen) - mean).abs() / sigma;
            assert!(off < 5.0, "rank {} of {n}, theta {theta}: {seen} instead of {mean}", k + 1);
        }
    }

    #[test]
    fn every_rank_is_drawn_as_often_as_the_definition_says() {
        for theta in [0.2, 0.7, 0.99, 1.0, 1.2, 3.0] {
            check(1, theta);
            check(2, theta);
            check(100, theta);
        }
    }
}
