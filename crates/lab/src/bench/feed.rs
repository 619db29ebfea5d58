//! Key feed: chooses the next key of a loop, at random or in order, optionally at a fixed rate.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use zonal_base::{Rng, index};

use crate::Draw;

/// Source of the keys for the loops of a phase.
pub(crate) enum Feed {
    /// Draws from the distribution, without end.
    Draw(Draw),
    /// Draws uniformly from these keys, without end.
    Known(Arc<[u64]>),
    /// Each key once, in order.
    Each(Sequence),
    /// Draws from the distribution, no key twice; keys that the cache holds are skipped.
    Lacking(Lacking),
}

impl Feed {
    /// Waits for the turn of the next key and returns it; `None` at the end of the feed.
    pub(crate) async fn next(&self, rng: &mut Rng) -> Option<u64> {
        match self {
            Self::Draw(draw) => Some(draw.key(rng)),
            Self::Known(keys) => Some(keys[index(rng.below(keys.len() as u64))]),
            Self::Each(sequence) => sequence.next().await,
            Self::Lacking(lacking) => lacking.next(rng),
        }
    }

    /// Returns the feed if gets must skip keys that the cache holds.
    pub(crate) const fn lacking(&self) -> Option<&Lacking> {
        match self {
            Self::Lacking(lacking) => Some(lacking),
            _ => None,
        }
    }

    /// Share of the feed that is used up; `None` for a feed without end.
    pub(crate) fn progress(&self) -> Option<f64> {
        match self {
            Self::Draw(_) | Self::Known(_) => None,
            Self::Each(sequence) => Some(sequence.progress()),
            Self::Lacking(lacking) => Some(lacking.progress()),
        }
    }
}

/// Rate limit shared by all loops: turns at even intervals.
pub(crate) struct Pace {
    start: Instant,
    distance_nanos: f64,
    next: AtomicU64,
}

impl Pace {
    /// Creates turns for `bytes` each at `bytes_per_s`, starting now.
    pub(crate) fn new(bytes: u64, bytes_per_s: u64) -> Self {
        let distance_nanos = bytes as f64 * 1e9 / bytes_per_s as f64;
        Self { start: Instant::now(), distance_nanos, next: AtomicU64::new(0) }
    }

    /// Waits for the next turn. A loop that is late does not wait.
    async fn turn(&self) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let due = self.start + Duration::from_secs_f64(turn as f64 * self.distance_nanos / 1e9);
        if Instant::now() < due {
            tokio::time::sleep_until(due).await;
        }
    }
}

async fn turn(pace: Option<&Pace>) {
    if let Some(pace) = pace {
        pace.turn().await;
    }
}

/// Consecutive keys.
pub(crate) struct Sequence {
    first: u64,
    count: u64,
    next: AtomicU64,
    pace: Option<Pace>,
}

impl Sequence {
    pub(crate) const fn new(first: u64, count: u64, pace: Option<Pace>) -> Self {
        Self { first, count, next: AtomicU64::new(0), pace }
    }

    async fn next(&self) -> Option<u64> {
        turn(self.pace.as_ref()).await;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.count).then_some(self.first + number)
    }

    fn progress(&self) -> f64 {
        self.next.load(Ordering::Relaxed).min(self.count) as f64 / self.count as f64
    }
}

/// Draws in a row that may repeat earlier keys, before the next key in order is taken. Enough that
/// popular keys come first, few enough that the last keys of a steep zipf end soon.
const REPEATS_MAX: u32 = 64;

/// Keys that no loop requested yet.
pub(crate) struct Lacking {
    draw: Draw,
    /// Number of keys to hand out in all.
    wanted: u64,
    pace: Option<Pace>,
    seen: Mutex<SeenSet>,
}

struct SeenSet {
    bits: Vec<u64>,
    /// Every key below this one was handed out.
    cursor: u64,
    count: u64,
}

impl Lacking {
    /// Creates a feed of at most `wanted` keys.
    pub(crate) fn new(draw: Draw, wanted: u64, pace: Option<Pace>) -> Self {
        let bits = vec![0; index(draw.keys().div_ceil(64))];
        let wanted = wanted.min(draw.keys());
        Self { draw, wanted, pace, seen: Mutex::new(SeenSet { bits, cursor: 0, count: 0 }) }
    }

    fn next(&self, rng: &mut Rng) -> Option<u64> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.count == self.wanted {
            return None;
        }
        seen.count += 1;
        for _ in 0..REPEATS_MAX {
            let key = self.draw.key(rng);
            if seen.insert(key) {
                return Some(key);
            }
        }
        Some(seen.insert_next())
    }

    /// Waits for the turn of a key that must be inserted.
    pub(crate) async fn turn(&self) {
        turn(self.pace.as_ref()).await;
    }

    fn progress(&self) -> f64 {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.count as f64 / self.wanted.max(1) as f64
    }
}

impl SeenSet {
    /// Adds `key`; true if the set did not contain it.
    fn insert(&mut self, key: u64) -> bool {
        let (word, bit) = (&mut self.bits[index(key / 64)], 1 << (key % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Adds the lowest missing key and returns it. Requires: a key is missing.
    fn insert_next(&mut self) -> u64 {
        while !self.insert(self.cursor) {
            self.cursor += 1;
        }
        self.cursor
    }
}
