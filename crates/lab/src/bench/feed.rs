//! Which key is next.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use zonal_base::{Rng, index};

use crate::Draw;

/// Where the loops of a phase get their keys.
pub(crate) enum Feed {
    /// By the distribution, for ever.
    Draw(Draw),
    /// Any of these, each as often, for ever.
    Known(Arc<[u64]>),
    /// Each once, in order.
    Each(Sequence),
    /// By the distribution, none twice; those that the cache has are passed over.
    Lacking(Lacking),
}

impl Feed {
    /// The next key, when it is its turn; `None` when there is none left.
    pub(crate) async fn next(&self, rng: &mut Rng) -> Option<u64> {
        match self {
            Self::Draw(draw) => Some(draw.key(rng)),
            Self::Known(keys) => Some(keys[index(rng.below(keys.len() as u64))]),
            Self::Each(sequence) => sequence.next().await,
            Self::Lacking(lacking) => lacking.next(rng),
        }
    }

    /// Only what the cache lacks is worth a get.
    pub(crate) const fn lacking(&self) -> Option<&Lacking> {
        match self {
            Self::Lacking(lacking) => Some(lacking),
            _ => None,
        }
    }

    /// How much of it is used up; `None` when it never is.
    pub(crate) fn progress(&self) -> Option<f64> {
        match self {
            Self::Draw(_) | Self::Known(_) => None,
            Self::Each(sequence) => Some(sequence.progress()),
            Self::Lacking(lacking) => Some(lacking.progress()),
        }
    }
}

/// Turns at even distances, shared by all loops.
pub(crate) struct Pace {
    start: Instant,
    distance_nanos: f64,
    next: AtomicU64,
}

impl Pace {
    /// One turn for every `bytes` at `bytes_per_s`, from now on.
    pub(crate) fn new(bytes: u64, bytes_per_s: u64) -> Self {
        let distance_nanos = bytes as f64 * 1e9 / bytes_per_s as f64;
        Self { start: Instant::now(), distance_nanos, next: AtomicU64::new(0) }
    }

    /// Waits for the next turn. Whoever comes late for it does not wait.
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

/// Keys in a row.
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

/// Draws that hit a key which was drawn before, in a row, before the next one in order is taken: enough that
/// popular keys come first, few enough that the last keys of a steep zipf do not take for ever.
const REPEATS_MAX: u32 = 64;

/// Keys that were not asked for yet.
pub(crate) struct Lacking {
    draw: Draw,
    /// Keys still to come.
    wanted: u64,
    pace: Option<Pace>,
    seen: Mutex<SeenSet>,
}

struct SeenSet {
    bits: Vec<u64>,
    /// Every key before this was seen.
    cursor: u64,
    count: u64,
}

impl Lacking {
    /// At most `wanted` keys.
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
    /// True when it was not there.
    fn insert(&mut self, key: u64) -> bool {
        let (word, bit) = (&mut self.bits[index(key / 64)], 1 << (key % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// The first that was not there. Requires: there is one.
    fn insert_next(&mut self) -> u64 {
        while !self.insert(self.cursor) {
            self.cursor += 1;
        }
        self.cursor
    }
}
