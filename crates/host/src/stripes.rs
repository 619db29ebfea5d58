//! Stripes of a range: a range is read stripe by stripe, each from the shard that owns it.

use std::ops::Range;

use zonal_cache::STRIPE;

/// Maximum number of stripes of one range (2 GiB) that are probed before the first byte. A longer
/// range counts as not cached.
pub(crate) const PROBED_STRIPES_MAX: u64 = 64;

/// Stripes that a range touches, each with its part of the range.
pub(crate) fn stripes_of(range: &Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
    let Range { start, end } = *range;
    let stripes = start / STRIPE.0..end.div_ceil(STRIPE.0);
    stripes.filter_map(move |stripe| Some((stripe, in_stripe(&(start..end), stripe)?)))
}

/// The part of a range in a stripe, if there is one.
pub(crate) fn in_stripe(range: &Range<u64>, stripe: u64) -> Option<Range<u64>> {
    let start = range.start.max(stripe * STRIPE.0);
    // An object that cannot be cached may have any size.
    let end = range.end.min((stripe + 1).saturating_mul(STRIPE.0));
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stripe_has_its_part_of_the_range() {
        let stripe = STRIPE.0;
        let parts = |range| stripes_of(&range).collect::<Vec<_>>();
        assert_eq!(parts(5..6), [(0, 5..6)]);
        assert_eq!(parts(stripe..stripe + 1), [(1, stripe..stripe + 1)]);
        let across = [(0, 5..stripe), (1, stripe..2 * stripe), (2, 2 * stripe..2 * stripe + 7)];
        assert_eq!(parts(5..2 * stripe + 7), across);
        assert_eq!(parts(5..5), []);
        assert_eq!(in_stripe(&(5..stripe), 1), None);
        let last = u64::MAX / stripe;
        assert_eq!(parts(u64::MAX - 1..u64::MAX), [(last, u64::MAX - 1..u64::MAX)]);
        assert_eq!(parts(u64::MAX..u64::MAX), []);
    }
}
