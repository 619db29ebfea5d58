//! Key distributions: `zipf:0.99`, `ycsb-zipf:0.99`, `ycsb-scrambled` or `uniform`.

use std::fmt;
use std::str::FromStr;

use zonal_base::Rng;

use crate::{Permutation, Scrambled, Ycsb, Zipf};

/// Popularity of the keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// The key of rank k with probability proportional to 1 / k^theta.
    Zipf {
        /// Skew, above 0. A larger theta concentrates requests on fewer keys.
        theta: f64,
    },
    /// YCSB's zipfian generator; the lowest keys are the most popular.
    YcsbZipf {
        /// Skew, between 0 and 1.
        theta: f64,
    },
    /// YCSB's scrambled generator, with its fixed theta of 0.99: far more uniform than its name
    /// suggests.
    YcsbScrambled,
    /// All keys are equally popular.
    Uniform,
}

/// Largest theta: beyond it, nearly all requests go to the first key.
const THETA_MAX: f64 = 10.0;

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "uniform" {
            return Ok(Self::Uniform);
        }
        if text == "ycsb-scrambled" {
            return Ok(Self::YcsbScrambled);
        }
        let theta_after = |name| text.strip_prefix(name).and_then(|theta| theta.parse().ok());
        if let Some(theta) = theta_after("ycsb-zipf:").filter(|theta| 0.0 < *theta && *theta < 1.0)
        {
            return Ok(Self::YcsbZipf { theta });
        }
        match theta_after("zipf:") {
            Some(theta) if 0.0 < theta && theta <= THETA_MAX => Ok(Self::Zipf { theta }),
            _ => Err("write uniform, zipf:THETA with THETA above 0, such as zipf:0.99, ycsb-zipf:THETA with THETA between 0 and 1, or ycsb-scrambled".into()),
        }
    }
}

impl fmt::Display for Distribution {
    /// Formats the distribution as it is parsed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zipf { theta } => write!(f, "zipf:{theta}"),
            Self::YcsbZipf { theta } => write!(f, "ycsb-zipf:{theta}"),
            Self::YcsbScrambled => f.write_str("ycsb-scrambled"),
            Self::Uniform => f.write_str("uniform"),
        }
    }
}

/// Generator of keys below a number.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    keys: u64,
    ranks: Ranks,
}

#[derive(Clone, Copy, Debug)]
enum Ranks {
    /// The permutation maps ranks to keys.
    Zipf(Zipf, Permutation),
    Ycsb(Ycsb),
    Scrambled(Scrambled),
    Uniform,
}

impl Draw {
    /// Requires: `keys` is not 0.
    #[must_use]
    pub fn new(distribution: Distribution, keys: u64, seed: u64) -> Self {
        let ranks = match distribution {
            Distribution::Zipf { theta } => {
                Ranks::Zipf(Zipf::new(keys, theta), Permutation::new(keys, seed))
            }
            Distribution::YcsbZipf { theta } => Ranks::Ycsb(Ycsb::new(keys, theta)),
            Distribution::YcsbScrambled => Ranks::Scrambled(Scrambled::new(keys)),
            Distribution::Uniform => Ranks::Uniform,
        };
        Self { keys, ranks }
    }

    /// Number of keys.
    #[must_use]
    pub const fn keys(&self) -> u64 {
        self.keys
    }

    /// Draws a key below [`Draw::keys`].
    pub fn key(&self, rng: &mut Rng) -> u64 {
        match &self.ranks {
            Ranks::Zipf(zipf, permutation) => permutation.at(zipf.draw(rng) - 1),
            Ranks::Ycsb(ycsb) => ycsb.draw(rng),
            Ranks::Scrambled(scrambled) => scrambled.draw(rng),
            Ranks::Uniform => rng.below(self.keys),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Distribution>) {
        assert_eq!(text.parse::<Distribution>().ok(), expected, "parsing {text:?}");
        if let Some(expected) = expected {
            assert_eq!(expected.to_string(), text);
        }
    }

    #[test]
    fn distributions_are_read_as_they_are_written() {
        check("uniform", Some(Distribution::Uniform));
        check("zipf:0.99", Some(Distribution::Zipf { theta: 0.99 }));
        check("zipf:1.2", Some(Distribution::Zipf { theta: 1.2 }));
        check("ycsb-scrambled", Some(Distribution::YcsbScrambled));
        check("ycsb-zipf:0.99", Some(Distribution::YcsbZipf { theta: 0.99 }));
        for text in [
            "",
            "zipf",
            "zipf:",
            "zipf:0",
            "zipf:-1",
            "zipf:nan",
            "zipf:99",
            "ycsb-zipf:1",
            "normal",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn the_most_popular_key_has_its_share_and_is_not_the_first() {
        let draw = Draw::new(Distribution::Zipf { theta: 1.0 }, 1000, 3);
        let mut rng = Rng::new(1);
        let mut seen = vec![0_u32; 1000];
        for _ in 0..100_000 {
            seen[zonal_base::index(draw.key(&mut rng))] += 1;
        }
        let most = seen.iter().max().copied().unwrap_or(0);
        // 1 / H(1000) = 0.1336.
        assert!((12_800..13_900).contains(&most), "{most}");
        assert!(seen[0] < most);
    }
}
