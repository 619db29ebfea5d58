//! Objects as CacheBench draws them: how popular they are and how large, from the JSON files of its configurations.
//!
//! 1. `popularityBuckets` and `popularityWeights` say how many objects there are of each popularity. They are cut into
//!    [`RANGES`] parts of equal weight, each part becomes a [`Range`] of keys, as long as its share of all objects, and its keys are all
//!    alike ([`ranges`]): as CacheBench has it, so that what it measured is measured again.
//! 2. `valSizeRange` and `valSizeRangeProbability` say how large values are: sizes with a probability each, or bounds of ranges,
//!    one more than there are probabilities. CacheBench has a table of sizes drawn by chance; here a hash of the key
//!    draws its size, always the same.
//! 3. Three of its workloads, with their operations, are here themselves (`pools`).

mod pools;

use std::fs;
use std::path::Path;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, de::DeserializeOwned};
use zonal_base::{Rng, index, low_u32, mix64};

pub use pools::CachePool;
pub(crate) use pools::{Operation, Request, Requests};

/// Popularity and sizes of objects.
#[derive(Clone, Debug)]
pub struct CacheBench {
    ranges: Vec<Range>,
    sizes: Sizes,
}

/// Keys that follow each other and are asked for alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// Where ranges of keys begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyGen {
    /// Each behind the one before.
    #[default]
    Current,
    /// Where it would if there were as many keys as objects, though it is as long as it is: of more keys ranges lie over each other, and
    /// those that come last are never asked for. So CacheBench had it first, and still has it as `useLegacyKeyGen`.
    Legacy,
}

/// Ranges that the popularity is cut into.
const RANGES: u32 = 2048;

/// Any number: the hash by which sizes are drawn is nobody else's.
const SIZED: u64 = 0x5349_5A45;

impl CacheBench {
    /// Reads a file with `popularityBuckets` and `popularityWeights` and one with `valSizeRange` and `valSizeRangeProbability`
    /// (CacheBench's are `pop.json` and `sizes.json`). `keys`: CacheBench's `numKeys`, and where ranges begin.
    /// `None`: one key for each object.
    ///
    /// # Errors
    /// When a file is not there, or not what CacheBench reads; the text names it, with line and column.
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
        // As CacheBench counts: there is one key less than it is told.
        let keys = keys.unwrap_or(objects.saturating_add(1)).max(1);
        Self { ranges: ranges(&popularity.0, (keys, keygen)), sizes }
    }

    /// Where keys end: as many as there are to be, and some more where single objects are very popular.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.ranges.iter().map(|range| range.first + range.count).max().unwrap_or(0)
    }

    /// A key below [`CacheBench::keys`], and the bytes of its value.
    pub fn draw(&self, rng: &mut Rng) -> (u64, u32) {
        let Range { first, count } = self.ranges[index(rng.below(self.ranges.len() as u64))];
        let key = first + rng.below(count);
        (key, self.size(key))
    }

    /// The bytes of a key's value.
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

/// So many objects have such a weight, together.
#[derive(Debug, Deserialize)]
#[serde(try_from = "RawPopularity")]
struct Popularity(Vec<(u64, f64)>);

/// Bytes of values.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawSizes")]
struct Sizes {
    /// Sums of the probabilities, up to each.
    sums: Vec<f64>,
    /// As many sizes, or bounds of ranges of which there is one more.
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

/// A number that is not negative. Checked while it is read: then the error says where it stands.
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
                "popularityBuckets has {buckets} values and popularityWeights {weights}: write as many"
            ));
        }
        if !sum_of(&weights).is_some_and(|sum| 0.0 < sum) {
            return Err("popularityWeights add up to nothing".into());
        }
        let sum = objects.iter().try_fold(0_u64, |sum, objects| sum.checked_add(*objects));
        match sum {
            Some(0) => Err("popularityBuckets add up to nothing".into()),
            Some(_) => Ok(Self(objects.into_iter().zip(weights).collect())),
            None => Err("popularityBuckets add up to more than 64 bits hold".into()),
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
                "valSizeRange has {sizes} values and valSizeRangeProbability {probabilities}: write as many, or one more size"
            ));
        }
        if !sum_of(&probabilities).is_some_and(|sum| 0.0 < sum) {
            return Err("valSizeRangeProbability adds up to nothing".into());
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

/// Cuts objects and their weights into ranges of equal weight, of so many keys. Requires: some object, some weight, and some key.
pub(crate) fn ranges(popularity: &[(u64, f64)], (keys, keygen): (u64, KeyGen)) -> Vec<Range> {
    let all: u64 = popularity.iter().map(|(objects, _)| objects).sum();
    let of_each = popularity.iter().map(|(_, weight)| weight).sum::<f64>() / f64::from(RANGES);
    let scale = (keys - 1).max(1) as f64 / all as f64;
    let (mut ranges, mut first) = (Vec::with_capacity(RANGES as usize), 0);
    let mut end = |objects: u64| {
        // A very popular object has several ranges, and keys of its own in each: so has CacheBench.
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
    // What rounding leaves of the last range is left out, there as well, unless it is all.
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
            // Found when all was read: it begins with the key.
            0 => place_of(&text, why.split(' ').next().unwrap_or_default()),
            line => (line, error.column()),
        };
        format!("{name}, line {line}, column {column}: {why}")
    })
}

/// Line and column of a key, counted from 1.
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
