//! CacheBench workload: object popularity and sizes from the JSON files of its configurations.
//!
//! 1. `popularityBuckets` and `popularityWeights` are the number of objects of each popularity.
//!    They are cut into [`RANGES`] parts of equal weight. Each part becomes a [`Range`] of keys
//!    with the part's share of all objects, and equal popularity ([`ranges`]). CacheBench does the
//!    same, so its measurements can be repeated.
//! 2. `valSizeRange` and `valSizeRangeProbability` are the sizes of values: a size per probability,
//!    or bounds of ranges, one more than probabilities. CacheBench draws a table of sizes at
//!    random. Here a hash of the key selects its size, always the same.
//! 3. Three of its workloads are built in, with their operations (`pools`).

mod pools;

use std::fs;
use std::path::Path;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, de::DeserializeOwned};
use zonal_base::{Rng, index, low_u32, mix64};

pub use pools::CachePool;
pub(crate) use pools::{Operation, PoolRequest, Requests};

/// Popularity and sizes of objects.
#[derive(Clone, Debug)]
pub struct CacheBench {
    ranges: Vec<Range>,
    sizes: Sizes,
}

/// Consecutive keys of equal popularity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// Position of the key ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyGen {
    /// Each range starts behind the one before.
    #[default]
    Current,
    /// Each range starts where it would with as many keys as objects. With more keys ranges
    /// overlap, and the last keys are never requested. CacheBench's first version did this, and
    /// still offers it as `useLegacyKeyGen`.
    Legacy,
}

/// Number of ranges.
const RANGES: u32 = 2048;

/// Salt of the hash that selects sizes. Any number works that no other hash uses.
const SIZED: u64 = 0x5349_5A45;

impl CacheBench {
    /// Reads a file with `popularityBuckets` and `popularityWeights`, and one with `valSizeRange`
    /// and `valSizeRangeProbability` (CacheBench's `pop.json` and `sizes.json`). `keys` is
    /// CacheBench's `numKeys`, and the position of the ranges. `None`: one key for each object.
    ///
    /// # Errors
    /// When a file does not exist, or CacheBench would not read it. The text names it, with line
    /// and column.
    pub fn read(
        popularity: &Path,
        sizes: &Path,
        keys: (Option<u64>, KeyGen),
    ) -> Result<Self, String> {
        let popularity: Popularity = json(popularity)?;
        Ok(Self::new(&popularity, json(sizes)?, keys))
    }

    fn new(popularity: &Popularity, sizes: Sizes, (keys, keygen): (Option<u64>, KeyGen)) -> Self {
        let objects: u64 = popularity.0.iter().map(|(objects, _)| objects).sum();
        // CacheBench uses one key less than `numKeys`.
        let keys = keys.unwrap_or(objects.saturating_add(1)).max(1);
        Self { ranges: ranges(&popularity.0, (keys, keygen)), sizes }
    }

    /// End of the keys: about `numKeys`, and a few more where single objects are very popular.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.ranges.iter().map(|range| range.first + range.count).max().unwrap_or(0)
    }

    /// Draws a key below [`CacheBench::keys`], with the bytes of its value.
    pub fn draw(&self, rng: &mut Rng) -> (u64, u32) {
        let Range { first, count } = self.ranges[index(rng.below(self.ranges.len() as u64))];
        let key = first + rng.below(count);
        (key, self.size(key))
    }

    /// Bytes of a key's value.
    #[must_use]
    pub fn size(&self, key: u64) -> u32 {
        let Sizes { sums, sizes } = &self.sizes;
        let mut rng = Rng::new(mix64(key ^ SIZED));
        let wanted = rng.unit() * sums.last().copied().unwrap_or(0.0);
        let at = sums.partition_point(|sum| *sum <= wanted).min(sums.len() - 1);
        let size = match sizes.get(at + 1).filter(|_| sums.len() < sizes.len()) {
            Some(end) => sizes[at] + rng.unit() * (end - sizes[at]),
            None => sizes[at],
        };
        low_u32(index(whole(size).clamp(1, u64::from(u32::MAX))))
    }
}

/// Number of objects, and their weight together, per popularity.
#[derive(Debug, Deserialize)]
#[serde(try_from = "RawPopularity")]
struct Popularity(Vec<(u64, f64)>);

/// Sizes of values in bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawSizes")]
struct Sizes {
    /// Cumulative sums of the probabilities.
    sums: Vec<f64>,
    /// Sizes, or bounds of ranges, of which there is one more.
    sizes: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPopularity {
    popularity_buckets: Vec<u64>,
    popularity_weights: Vec<Amount>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSizes {
    val_size_range: Vec<Amount>,
    val_size_range_probability: Vec<Amount>,
}

/// A number that is not negative. The check runs in the parser, so that the error has a position.
struct Amount(f64);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        match number.is_finite() && 0.0 <= number {
            true => Ok(Self(number)),
            false => Err(D::Error::custom(format!("{number} is negative: write 0 or more"))),
        }
    }
}

impl TryFrom<RawPopularity> for Popularity {
    type Error = String;

    fn try_from(raw: RawPopularity) -> Result<Self, String> {
        let weights: Vec<f64> = raw.popularity_weights.iter().map(|weight| weight.0).collect();
        let objects = raw.popularity_buckets;
        if objects.len() != weights.len() {
            let (buckets, weights) = (objects.len(), weights.len());
            return Err(format!(
                "popularityBuckets has {buckets} values and popularityWeights {weights}: write \
                 equally many"
            ));
        }
        if !sum_of(&weights).is_some_and(|sum| 0.0 < sum) {
            return Err("popularityWeights add up to 0".into());
        }
        let sum = objects.iter().try_fold(0_u64, |sum, objects| sum.checked_add(*objects));
        match sum {
            Some(0) => Err("popularityBuckets add up to 0".into()),
            Some(_) => Ok(Self(objects.into_iter().zip(weights).collect())),
            None => Err("the sum of popularityBuckets exceeds 64 bits".into()),
        }
    }
}

impl TryFrom<RawSizes> for Sizes {
    type Error = String;

    fn try_from(raw: RawSizes) -> Result<Self, String> {
        let sizes: Vec<f64> = raw.val_size_range.iter().map(|size| size.0).collect();
        let probabilities: Vec<f64> =
            raw.val_size_range_probability.iter().map(|probability| probability.0).collect();
        if ![probabilities.len(), probabilities.len() + 1].contains(&sizes.len()) {
            let (sizes, probabilities) = (sizes.len(), probabilities.len());
            return Err(format!(
                "valSizeRange has {sizes} values and valSizeRangeProbability {probabilities}: \
                 write equally many, or one more size"
            ));
        }
        if !sum_of(&probabilities).is_some_and(|sum| 0.0 < sum) {
            return Err("valSizeRangeProbability adds up to 0".into());
        }
        let mut sum = 0.0;
        let add = |probability: &f64| {
            sum += probability;
            sum
        };
        Ok(Self { sums: probabilities.iter().map(add).collect(), sizes })
    }
}

fn sum_of(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    sum.is_finite().then_some(sum)
}

/// Cuts objects and their weights into ranges of equal weight over `keys` keys. Requires: the
/// objects, the weights and `keys` are not 0.
pub(crate) fn ranges(popularity: &[(u64, f64)], (keys, keygen): (u64, KeyGen)) -> Vec<Range> {
    let all: u64 = popularity.iter().map(|(objects, _)| objects).sum();
    let of_each = popularity.iter().map(|(_, weight)| weight).sum::<f64>() / f64::from(RANGES);
    let scale = (keys - 1).max(1) as f64 / all as f64;
    let (mut ranges, mut first) = (Vec::with_capacity(RANGES as usize), 0);
    let mut end = |objects: u64| {
        // A very popular object spans several ranges, with separate keys in each, as in CacheBench.
        let objects = objects.max(1);
        let count = whole(objects as f64 * scale).max(1);
        ranges.push(Range { first, count });
        first += if keygen == KeyGen::Legacy { objects } else { count };
    };
    let (mut objects, mut weight) = (0, 0.0);
    for (left, left_weight) in popularity {
        let (mut left, mut left_weight) = (*left, *left_weight);
        while 0.0 < left_weight && of_each <= weight + left_weight {
            let part = (of_each - weight) / left_weight;
            let taken = whole(part * left as f64).min(left);
            end(objects + taken);
            left -= taken;
            left_weight -= part * left_weight;
            (objects, weight) = (0, 0.0);
        }
        objects += left;
        weight += left_weight;
    }
    // Rounding may cut off the last range. It is dropped, as in CacheBench, unless it is the only
    // one.
    if ranges.is_empty() {
        ranges.push(Range { first: 0, count: keys });
    }
    ranges
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    serde_json::from_str(&text).map_err(|error| {
        let why = error.to_string();
        let why = why.split(" at line ").next().unwrap_or_default();
        let (line, column) = match error.line() {
            // The error arises after the parse, and its text begins with the key.
            0 => place_of(&text, why.split(' ').next().unwrap_or_default()),
            line => (line, error.column()),
        };
        format!("{name}, line {line}, column {column}: {why}")
    })
}

/// Line and column of a key, from 1.
fn place_of(text: &str, key: &str) -> (usize, usize) {
    let before = text.split_once(&format!("\"{key}\"")).map_or("", |(before, _)| before);
    let line = before.matches('\n').count() + 1;
    (line, before.chars().rev().take_while(|c| *c != '\n').count() + 1)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and cut off on purpose"
)]
const fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests;
