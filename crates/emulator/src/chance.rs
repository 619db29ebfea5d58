//! Random distributions as integer tables, so that every machine draws the same values.

use zonal_base::{Nanos, Rng, index};

/// Exponential distribution: `-ln(u)` for 64 equally likely parts of the unit interval, times 1024; the mean of each
/// part.
const EXPONENTIAL: [u64; 64] = [
    5281, 3863, 3327, 2979, 2721, 2514, 2343, 2196, 2068, 1954, 1851, 1758, 1673, 1594, 1521, 1452,
    1388, 1328, 1271, 1217, 1166, 1117, 1071, 1026, 983, 942, 903, 865, 828, 793, 759, 726, 694,
    663, 633, 604, 575, 547, 520, 494, 469, 444, 419, 395, 372, 349, 327, 305, 284, 263, 243, 223,
    203, 184, 165, 146, 128, 110, 92, 75, 58, 41, 24, 8,
];

/// Draws a time from the exponential distribution with the given mean.
pub(crate) fn exponential(rng: &mut Rng, mean: Nanos) -> Nanos {
    Nanos(mean.0 * EXPONENTIAL[index(rng.below(64))] / 1024)
}

/// True in `per_million` of a million cases.
pub(crate) fn happens(rng: &mut Rng, per_million: u64) -> bool {
    rng.below(1_000_000) < per_million
}
