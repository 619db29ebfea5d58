//! Admission sampling: when fills exceed the flash write bandwidth, admits whole objects instead of fragments of all.
//!
//! The backlog of bytes that wait for flash is bounded. If the first pieces to come had the room, an origin faster than
//! flash would leave some pieces of every large object on flash, and all pieces of none. Each read of such an object
//! would ask the origin for hundreds of gaps, and wait for it as if no piece were cached.
//!
//! 1. Each reader draws a random rank (its lot), for all that it fetches.
//! 2. The throttle admits a share of the ranks, from the lowest on. The share grows while more than a quarter of the
//!    backlog's room is free, and shrinks while less is free. Each change is a part of the share itself, over as many
//!    bytes as go through the room. So the share settles where as much goes to flash as flash takes.
//! 3. The room that is free at the moment halves or doubles the share at most, and a burst changes it less than that.
//!    So a large object that is admitted stays admitted to its end.
//! 4. When three quarters of the room are free, the throttle admits all ranks. A burst of no more than three quarters
//!    of the room is admitted whole, too, if little came before it.

use zonal_base::Bytes;

/// Sample rank: a random number, drawn once for all bytes that belong together. Lower ranks are admitted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SampleRank(u32);

impl SampleRank {
    /// The rank for a random number. Ranks are as evenly distributed as `random` is.
    #[must_use]
    pub const fn of(random: u64) -> Self {
        Self((random >> u32::BITS) as u32)
    }

    /// The highest rank: admitted after all others.
    pub const LAST: Self = Self(u32::MAX);

    /// Share of all ranks that are lower.
    fn part(self) -> f64 {
        f64::from(self.0) / ALL
    }
}

const ALL: f64 = (1_u64 << u32::BITS) as f64;

/// Target share of the room that is free in the long run.
const FREE: f64 = 0.25;

/// Share of free room from which on the room is as good as empty.
const EMPTY: f64 = 0.75;

/// Admission throttle: admits the share of ranks that flash has write bandwidth for.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionThrottle {
    /// Bytes that may wait for flash.
    room: f64,
    /// Share of ranks that are admitted while [`FREE`] of the room is free.
    share: f64,
}

impl AdmissionThrottle {
    /// A throttle for a backlog of at most `room` bytes.
    #[must_use]
    pub const fn new(room: Bytes) -> Self {
        Self { room: room.0 as f64, share: 1.0 }
    }

    /// Whether `len` bytes of this rank go to flash, while `waiting` bytes wait.
    pub fn takes(&mut self, rank: SampleRank, len: Bytes, waiting: Bytes) -> bool {
        let part_of_room = |bytes: Bytes| bytes.0 as f64 / self.room.max(1.0);
        let free = (1.0 - part_of_room(waiting)).max(0.0);
        let share = if EMPTY <= free { 1.0 } else { self.share * (1.0 + 2.0 * (free - FREE)) };
        let share = share.min(1.0);
        // Bytes of this length over all ranks: the mean part of the room that the admitted ones take.
        let through = (part_of_room(len) * share).min(1.0);
        self.share = (self.share * (1.0 + (free - FREE) * through)).min(1.0);
        rank.part() < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Bytes = Bytes(1000);

    fn rank(permille: u64) -> SampleRank {
        SampleRank::of(u64::MAX / 1000 * permille)
    }

    /// A throttle whose share has settled at `share`.
    fn with(share: f64) -> AdmissionThrottle {
        AdmissionThrottle { share, ..AdmissionThrottle::new(ROOM) }
    }

    /// Runs rounds: in each, `come` ranks offer one byte each, and flash takes `taken` bytes. Returns the mean number
    /// of bytes that went to flash, and the number of ranks that were admitted in some rounds only. Both are over the
    /// last half of the rounds.
    fn settle((come, taken): (u32, u64), rounds: u32) -> (f64, usize) {
        let (mut throttle, mut waiting, mut went) = (AdmissionThrottle::new(ROOM), 0_u64, 0);
        let mut seen = [0; 1000];
        for round in 0..rounds {
            for number in 0..come {
                let permille = u64::from((number * 617) % come) * 1000 / u64::from(come);
                if throttle.takes(rank(permille), Bytes(1), Bytes(waiting)) && waiting < ROOM.0 {
                    waiting += 1;
                    if rounds / 2 <= round {
                        went += 1;
                        seen[number as usize] += 1;
                    }
                }
            }
            waiting = waiting.saturating_sub(taken);
        }
        let torn = seen.iter().filter(|seen| 0 < **seen && **seen < rounds / 2).count();
        (f64::from(went) / f64::from(rounds / 2), torn)
    }

    #[test]
    fn all_are_in_while_flash_takes_all() {
        assert_eq!(settle((100, 100), 1000), (100.0, 0));
    }

    #[test]
    fn what_goes_to_flash_is_what_it_takes_and_of_the_same_lots() {
        for (come, taken) in [(100, 90), (100, 50), (100, 10), (500, 50), (1000, 50)] {
            let (went, torn) = settle((come, taken), 2000);
            assert!((went / taken as f64 - 1.0).abs() < 0.02, "{went} of {come} for {taken}");
            assert!(
                torn as f64 <= 0.3 * taken as f64,
                "{torn} lots of {come} are torn, {taken} are in"
            );
        }
    }

    #[test]
    fn what_comes_first_is_in_whatever_its_lot() {
        let mut throttle = AdmissionThrottle::new(ROOM);
        assert!((0..750).all(|waiting| throttle.takes(SampleRank::LAST, Bytes(1), Bytes(waiting))));
        assert!(!throttle.takes(SampleRank::LAST, Bytes(1), Bytes(760)));
    }

    #[test]
    fn where_nothing_waits_any_longer_all_are_in_at_once_and_soon_where_little_does() {
        let mut throttle = with(0.1);
        assert!((0..5).all(|_| throttle.takes(SampleRank::LAST, ROOM, Bytes(0))));
        assert!(throttle.takes(rank(500), Bytes(1), Bytes(500)));
        assert!(!with(0.1).takes(rank(999), Bytes(1), Bytes(260)));
        assert!(with(0.1).takes(rank(999), Bytes(1), Bytes(250)));
        assert!(
            AdmissionThrottle::new(Bytes(0)).takes(rank(999), Bytes(1), Bytes(0)),
            "and without room"
        );
    }
}
