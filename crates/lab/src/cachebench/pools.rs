//! Built-in workloads: three of CacheBench's, as its generator draws them.
//!
//! 1. `data/cachebench.csv` has the popularity and the sizes of objects. [`Mix`] has the weights of
//!    the operations.
//! 2. The generator makes key ranges of equal weight ([`fewer`]). A request draws a range, and a
//!    key in the range ([`Requests::next`]).
//! 3. A key that is requested only once is unique.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zonal_base::Rng;

use super::{KeyGen, Range, ranges};
use crate::trace::spread;

/// Workload of CacheBench: the requests of one of its pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CachePool {
    /// A pool of large objects with many writes: 74 % gets. The other requests write objects that
    /// are never read.
    #[serde(rename = "l2_wc")]
    L2Wc,
    /// A pool of large objects with many reads: 88 % gets, 12 % sets.
    #[serde(rename = "l2_reg")]
    L2Reg,
    /// Small objects: only gets, 12 % of them for objects that are requested once.
    #[serde(rename = "flat")]
    Flat,
}

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Get,
    Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolRequest {
    pub(crate) operation: Operation,
    pub(crate) key: u64,
}

/// Weights of operations, with the number of keys and threads, from the configurations that paper
/// 002 was run with.
#[derive(Clone, Copy, Debug)]
struct Mix {
    keys: u64,
    threads: usize,
    get: f64,
    lone_get: f64,
    set: f64,
    lone_set: f64,
    /// Mean bytes of a key, which is stored with its value.
    key_bytes: u32,
}

/// Request generator of a workload.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    ranges: Vec<Range>,
    /// Sizes of a key and its value in bytes. A hash of the key selects one.
    sizes: Vec<u32>,
    /// Cumulative shares of gets, gets of unique keys, and sets. The rest are sets of unique keys.
    shares: [f64; 3],
    lone_keys: u64,
}

const DATA: &str = include_str!("../../data/cachebench.csv");

/// First unique key.
const LONE: u64 = 1 << 62;

impl CachePool {
    /// All workloads.
    pub const ALL: [Self; 3] = [Self::L2Wc, Self::L2Reg, Self::Flat];

    /// CacheBench's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::L2Wc => "l2_wc",
            Self::L2Reg => "l2_reg",
            Self::Flat => "flat",
        }
    }

    /// Number of threads. Each sends one request after the other.
    #[must_use]
    pub const fn threads(self) -> usize {
        self.mix().threads
    }

    const fn mix(self) -> Mix {
        let (keys, threads) = match self {
            Self::L2Wc => (72_298_041, 24),
            Self::L2Reg => (2_866_320_000, 36),
            Self::Flat => (14_463_466_000_000, 48),
        };
        let (get, lone_get, set, lone_set, key_bytes) = match self {
            Self::L2Wc => (0.6, 8.2e-6, 0.0, 0.21, 12),
            Self::L2Reg => (0.87983, 1.042_667_993_698_658_6e-5, 0.117, 0.00317, 12),
            Self::Flat => (0.984_528_312_027_565_7, 0.134_716_879_724_342_54, 0.0, 0.0, 136),
        };
        Mix { keys, threads, get, lone_get, set, lone_set, key_bytes }
    }

    /// Numbers of the data lines for this workload and this kind.
    fn lines(self, what: &'static str) -> impl Iterator<Item = (f64, f64)> {
        let lines = DATA.lines().filter(|line| !line.starts_with('#')).skip(1);
        lines.filter_map(move |line| {
            let mut fields = line.split(',');
            let is_it = fields.next() == Some(self.name()) && fields.next() == Some(what);
            let mut number = || fields.next()?.parse::<f64>().ok();
            if is_it { Some((number()?, number()?)) } else { None }
        })
    }

    /// Requests over one in `one_in` keys.
    pub(crate) fn requests(self, one_in: f64) -> Requests {
        let mix = self.mix();
        let mut share = 0.0;
        let all = mix.get + mix.lone_get + mix.set + mix.lone_set;
        let shares = [mix.get, mix.lone_get, mix.set].map(|weight| {
            share += weight / all;
            share
        });
        let sizes = self.lines("size").map(|(bytes, _)| whole(bytes) + mix.key_bytes);
        let popularity = self.lines("popularity").map(|(objects, weight)| (wide(objects), weight));
        let ranges = fewer(&popularity.collect::<Vec<_>>(), mix.keys, one_in);
        Requests { ranges, sizes: sizes.collect(), shares, lone_keys: 0 }
    }
}

/// Ranges of the generator of 2022, which overlap, for one in `one_in` keys. They reproduce the hit
/// ratios of paper 002, and no other ranges come near.
fn fewer(popularity: &[(u64, f64)], keys: u64, one_in: f64) -> Vec<Range> {
    let part = |number: u64| wide(number as f64 / one_in);
    let all = ranges(popularity, (keys, KeyGen::Legacy)).into_iter();
    all.map(|Range { first, count }| Range { first: part(first), count: part(count).max(1) })
        .collect()
}

impl Requests {
    /// Next request.
    pub(crate) fn next(&mut self, rng: &mut Rng) -> PoolRequest {
        let at = rng.unit();
        let [get, lone_get, set] = self.shares;
        let operation = if at < lone_get { Operation::Get } else { Operation::Set };
        if (get..lone_get).contains(&at) || set <= at {
            self.lone_keys += 1;
            return PoolRequest { operation, key: LONE + self.lone_keys };
        }
        let range = self.ranges[zonal_base::index(rng.below(self.ranges.len() as u64))];
        PoolRequest { operation, key: range.first + rng.below(range.count) }
    }

    /// Bytes of a key and its value.
    pub(crate) fn bytes(&self, key: u64) -> u32 {
        self.sizes[zonal_base::index(spread(key) % self.sizes.len() as u64)]
    }
}

impl fmt::Display for CachePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CachePool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|workload| workload.name() == text);
        found.ok_or_else(|| format!("{text:?}: the workloads are l2_wc, l2_reg and flat"))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
const fn wide(count: f64) -> u64 {
    count as u64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes of a value")]
const fn whole(bytes: f64) -> u32 {
    bytes as u32
}

#[cfg(test)]
mod tests;
