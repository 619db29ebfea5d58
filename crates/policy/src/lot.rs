//! Who is left out while more is to go to flash than it takes: whole objects, not parts of all of them.
//!
//! What waits for flash is bounded. If whoever comes first had the room, an origin faster than flash would leave of every
//! large object some pieces there, of none all: each read of it would ask the origin for hundreds of gaps, and wait for it
//! as if nothing were there.
//!
//! 1. Each reader draws a lot, for all that it fetches.
//! 2. A share of the lots, from the lowest on, is in. It grows while more than a quarter of the room to wait in is free, and
//!    shrinks while less is: by a part of itself, over as many bytes as go through the room. So it comes to stand where as much
//!    goes to flash as flash takes.
//! 3. What is free just now makes that half as many or twice as many at most, and a burst less than that: what is large and
//!    in stays in to its end.
//! 4. Where three quarters are free, everything is in. What comes to no more than three quarters of the room is so, too, if little
//!    came before it.

use zonal_base::Bytes;

/// What is drawn for what belongs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lot(u32);

impl Lot {
    /// Any of them, as even as `random` is.
    #[must_use]
    pub const fn of(random: u64) -> Self {
        Self((random >> u32::BITS) as u32)
    }

    /// In after all others.
    pub const LAST: Self = Self(u32::MAX);

    /// Of all lots, those that are lower.
    fn part(self) -> f64 {
        f64::from(self.0) / ALL
    }
}

const ALL: f64 = (1_u64 << u32::BITS) as f64;

/// Of the room, what is free in the long run.
const FREE: f64 = 0.25;

/// The room is as good as empty.
const EMPTY: f64 = 0.75;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Lots {
    /// The room to wait in.
    room: f64,
    /// Of lots, those that are in while [`FREE`] of the room is free.
    share: f64,
}

impl Lots {
    /// Where so much may wait for flash.
    #[must_use]
    pub const fn new(room: Bytes) -> Self {
        Self { room: room.0 as f64, share: 1.0 }
    }

    /// Whether so many bytes of this lot go to flash, while so much waits.
    pub fn takes(&mut self, lot: Lot, len: Bytes, waiting: Bytes) -> bool {
        let part_of_room = |bytes: Bytes| bytes.0 as f64 / self.room.max(1.0);
        let free = (1.0 - part_of_room(waiting)).max(0.0);
        let share = if EMPTY <= free { 1.0 } else { self.share * (1.0 + 2.0 * (free - FREE)) };
        let share = share.min(1.0);
        // Of such bytes of all lots, so many go through the room.
        let through = (part_of_room(len) * share).min(1.0);
        self.share = (self.share * (1.0 + (free - FREE) * through)).min(1.0);
        lot.part() < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Bytes = Bytes(1000);

    fn lot(permille: u64) -> Lot {
        Lot::of(u64::MAX / 1000 * permille)
    }

    /// After so many were in.
    fn with(share: f64) -> Lots {
        Lots { share, ..Lots::new(ROOM) }
    }

    /// Rounds of so many bytes of all lots, of which flash takes so many. What went there, and how many lots were in
    /// sometimes and sometimes not, in the last half of them.
    fn settle((come, taken): (u32, u64), rounds: u32) -> (f64, usize) {
        let (mut lots, mut waiting, mut went) = (Lots::new(ROOM), 0_u64, 0);
        let mut seen = [0; 1000];
        for round in 0..rounds {
            for number in 0..come {
                let permille = u64::from((number * 617) % come) * 1000 / u64::from(come);
                if lots.takes(lot(permille), Bytes(1), Bytes(waiting)) && waiting < ROOM.0 {
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
        let mut lots = Lots::new(ROOM);
        assert!((0..750).all(|waiting| lots.takes(Lot::LAST, Bytes(1), Bytes(waiting))));
        assert!(!lots.takes(Lot::LAST, Bytes(1), Bytes(760)));
    }

    #[test]
    fn where_nothing_waits_any_longer_all_are_in_at_once_and_soon_where_little_does() {
        let mut lots = with(0.1);
        assert!((0..5).all(|_| lots.takes(Lot::LAST, ROOM, Bytes(0))));
        assert!(lots.takes(lot(500), Bytes(1), Bytes(500)));
        assert!(!with(0.1).takes(lot(999), Bytes(1), Bytes(260)));
        assert!(with(0.1).takes(lot(999), Bytes(1), Bytes(250)));
        assert!(Lots::new(Bytes(0)).takes(lot(999), Bytes(1), Bytes(0)), "and without room");
    }
}
