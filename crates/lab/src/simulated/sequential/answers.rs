//! Origin latency model: lognormal, as calls to a remote store are, with few very late answers.

use zonal_base::{Nanos, Rng};

/// Latency distribution of the origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answers {
    /// Geometric mean.
    middle: Nanos,
    /// Standard deviation of the logarithm.
    sigma: f64,
}

impl Answers {
    /// Lognormal latencies with this geometric mean and standard deviation.
    pub(super) fn new(middle: Nanos, sd: Nanos) -> Self {
        let sigma = match middle {
            Nanos(0) => 0.0,
            // The variance is (x - 1) x middle^2, where x = e^(sigma^2).
            _ => {
                let part = sd.0 as f64 / middle.0 as f64;
                let x = f64::midpoint(1.0, (1.0 + 4.0 * part * part).sqrt());
                x.ln().sqrt()
            }
        };
        Self { middle, sigma }
    }

    /// Draws a latency. Equal latencies take no random number.
    pub(super) fn draw(&self, chance: &mut Rng) -> Nanos {
        if self.sigma == 0.0 {
            return self.middle;
        }
        // Box-Muller transform. 1 - u is not 0.
        let radius = (-2.0 * (1.0 - chance.unit()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * chance.unit()).cos();
        nanos(self.middle.0 as f64 * (self.sigma * normal).exp())
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above 0, and a time")]
const fn nanos(span: f64) -> Nanos {
    Nanos(span as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_mean_and_the_spread_that_they_are_told() {
        let (middle, sd) = (Nanos::millis(39), Nanos::millis(21));
        let (answers, mut chance) = (Answers::new(middle, sd), Rng::new(1));
        let draws: Vec<f64> =
            (0..200_000).map(|_| answers.draw(&mut chance).0 as f64 / 1e6).collect();
        let mean = |of: fn(f64) -> f64| {
            draws.iter().map(|draw| of(*draw)).sum::<f64>() / draws.len() as f64
        };
        let geometric = mean(f64::ln).exp();
        let deviation = (mean(|draw| draw * draw) - mean(|draw| draw).powi(2)).sqrt();
        assert!(
            (geometric - 39.0).abs() < 0.2 && (deviation - 21.0).abs() < 0.5,
            "{geometric} {deviation}"
        );
    }

    #[test]
    fn without_a_spread_all_take_as_long_and_nothing_is_drawn() {
        let mut chance = Rng::new(1);
        let answers = Answers::new(Nanos::millis(39), Nanos(0));
        assert_eq!(answers.draw(&mut chance), Nanos::millis(39));
        assert_eq!(chance.next_u64(), Rng::new(1).next_u64());
    }
}
