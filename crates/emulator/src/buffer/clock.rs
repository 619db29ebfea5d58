//! Drain clock: the rate at which the flash empties the write buffer, uneven within a stripe but even on average.
//!
//! Programs go round the dies in stripes, one unit on each die. On the measured drive, buffer room comes back in
//! lumps: within a stripe some units follow at once and some after a pause. A whole stripe takes nearly always the
//! same time, and once in a while much longer (a stall). The clock runs only while there is data to drain.

use zonal_base::{Nanos, Rng, index};

use crate::chance;
use crate::profile::BufferProfile;

/// Unit of work: a small fraction of a block, so that dividing work into shares loses nothing that matters.
pub(super) type Grains = u64;

/// Grains in a block.
pub(super) const BLOCK_GRAINS: Grains = 1 << 16;

/// Units in a stripe for which pauses are drawn.
const UNITS: usize = 32;

/// Distribution of the pauses, 64 equally likely weights: `(-ln u)^1.779`, times 256. The exponent was fitted with
/// the other constants of the drain (see `profile/zn540.rs`).
const PAUSE_WEIGHTS: [u64; 64] = [
    4859, 2722, 2085, 1712, 1457, 1266, 1116, 995, 894, 808, 734, 670, 613, 562, 517, 477, 440,
    407, 376, 348, 323, 299, 277, 257, 238, 221, 205, 190, 176, 163, 150, 139, 128, 118, 109, 100,
    92, 84, 77, 70, 64, 58, 52, 47, 42, 38, 34, 30, 26, 23, 20, 17, 14, 12, 10, 8, 6, 5, 4, 2, 2,
    1, 0, 0,
];

#[derive(Clone, Debug)]
pub(super) struct DrainClock {
    seed: u64,
    stripe_grains: Grains,
    stripe: Nanos,
    burst: Nanos,
    even_permille: u64,
    pause_per_million: u64,
    stall: Nanos,
    stall_per_million: u64,
    /// Number of the stripe that is drained now, and the time at which it began by the clock.
    stripe_id: u64,
    began: Nanos,
    /// End of each unit of this stripe, in nanoseconds from the beginning of the stripe.
    ends: [u64; UNITS],
    /// Ends of the units of the next stripe. Cached, because most queries are about these two stripes.
    next_ends: [u64; UNITS],
}

impl DrainClock {
    pub(super) fn new(profile: &BufferProfile, seed: u64) -> Self {
        let stripe = profile.stripe_blocks * profile.drain_ns_per_block;
        let stalls = profile.stall.0 * profile.stall_per_million / 1_000_000;
        let mut clock = Self {
            seed,
            stripe_grains: profile.stripe_blocks * BLOCK_GRAINS,
            stripe: Nanos(stripe - stalls),
            burst: profile.burst,
            even_permille: profile.even_permille,
            pause_per_million: profile.pause_per_million,
            stall: profile.stall,
            stall_per_million: profile.stall_per_million,
            stripe_id: 0,
            began: Nanos(0),
            ends: [0; UNITS],
            next_ends: [0; UNITS],
        };
        (clock.ends, clock.next_ends) = (clock.ends_of(0), clock.ends_of(1));
        clock
    }

    /// Total work drained at `now`, if there was always data to drain.
    pub(super) fn drained(&mut self, now: Nanos) -> Grains {
        while self.began.0 + self.ends[UNITS - 1] <= now.0 {
            self.began.0 += self.ends[UNITS - 1];
            self.stripe_id += 1;
            (self.ends, self.next_ends) = (self.next_ends, self.ends_of(self.stripe_id + 1));
        }
        let at = now.0.saturating_sub(self.began.0);
        let unit = self.ends.partition_point(|end| *end <= at);
        let (begin, end) = self.bounds(unit);
        let burst = self.drains_for(end - begin);
        let into = (at + burst).saturating_sub(end);
        let unit_grains = self.stripe_grains / UNITS as u64;
        let part = (unit_grains * into).checked_div(burst).unwrap_or(0);
        self.stripe_id * self.stripe_grains + unit as u64 * unit_grains + part
    }

    /// First time at which the given work is drained. Requires: `work` is at least the result of the last `drained`.
    pub(super) fn when(&self, work: Grains) -> Nanos {
        let (stripe_id, rest) = (work / self.stripe_grains, work % self.stripe_grains);
        let mut began = self.began.0;
        if stripe_id < self.stripe_id {
            // The shares were rounded down: less than a block is missing.
            return Nanos(began);
        }
        if stripe_id == self.stripe_id {
            return Nanos(began + self.offset(&self.ends, rest));
        }
        began += self.ends[UNITS - 1];
        if stripe_id == self.stripe_id + 1 {
            return Nanos(began + self.offset(&self.next_ends, rest));
        }
        for between in self.stripe_id + 1..stripe_id {
            began += self.stripe.0 + self.stall_of(between).0;
        }
        if rest == 0 {
            return Nanos(began);
        }
        Nanos(began + self.offset(&self.ends_of(stripe_id), rest))
    }

    /// Restarts the clock at `now` after an idle time that began when `work` was done.
    pub(super) fn resume(&mut self, work: Grains, now: Nanos) {
        let at = self.when(work);
        self.began.0 = (self.began.0 + now.0).saturating_sub(at.0);
    }

    /// Stops the clock for the given time.
    pub(super) fn hold_up(&mut self, by: Nanos) {
        self.began += by;
    }

    fn offset(&self, ends: &[u64; UNITS], grains: Grains) -> u64 {
        let unit_grains = self.stripe_grains / UNITS as u64;
        let (unit, part) = (index(grains / unit_grains), grains % unit_grains);
        let begin = unit.checked_sub(1).map_or(0, |before| ends[before]);
        if part == 0 {
            return begin;
        }
        let end = ends[unit];
        let burst = self.drains_for(end - begin);
        end - burst + (burst * part).div_ceil(unit_grains)
    }

    /// Duration of the drain within a unit of the given length. The drain is at the end of the unit.
    fn drains_for(&self, took: u64) -> u64 {
        let pause = took.saturating_sub(self.burst.0);
        (took - pause) + pause * self.even_permille / 1000
    }

    fn bounds(&self, unit: usize) -> (u64, u64) {
        (unit.checked_sub(1).map_or(0, |before| self.ends[before]), self.ends[unit])
    }

    fn rng(&self, stripe_id: u64) -> Rng {
        Rng::new(self.seed ^ stripe_id.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn stall_of(&self, stripe_id: u64) -> Nanos {
        let stalls = chance::happens(&mut self.rng(stripe_id), self.stall_per_million);
        if stalls { self.stall } else { Nanos(0) }
    }

    fn ends_of(&self, stripe_id: u64) -> [u64; UNITS] {
        let stall = self.stall_of(stripe_id);
        let mut rng = self.rng(!stripe_id);
        let mut weights = [0; UNITS];
        for weight in &mut weights {
            if chance::happens(&mut rng, self.pause_per_million) {
                *weight = PAUSE_WEIGHTS[index(rng.below(64))];
            }
        }
        weights[UNITS - 1] += 1;
        let sum: u64 = weights.iter().sum();
        let pauses = self.stripe.0.saturating_sub(self.burst.0 * UNITS as u64);
        let stalled = index(rng.below(UNITS as u64));
        let (mut ends, mut before, mut at) = ([0; UNITS], 0, 0);
        for (unit, end) in ends.iter_mut().enumerate() {
            before += weights[unit];
            if unit == stalled {
                at += stall.0;
            }
            at += self.burst.0;
            *end = at + pauses * before / sum;
        }
        // The last unit takes the remainders of the divisions.
        ends[UNITS - 1] = self.stripe.0 + stall.0;
        ends
    }
}
