//! Pinned objects: reclaim rewrites them whatever the policy says, and admission never refuses them.
//!
//! A pinned piece is a kind of its own ([`PINNED`]), on flash and in the index, so a pin survives what its piece
//! survives. No policy is told of it. The head that leads to pinned pieces is pinned with them, or they could not be
//! served while the origin is away.
//!
//! Pins have a bound, a share of what full zones can hold. That is what makes reclaim certain to proceed: of some
//! full zone no larger share is pinned than that, policies choose such a zone (`policy`, module `pinned`), and the
//! rest of it is theirs to drop. What would go beyond the bound is cached as everything else and counted. Each time
//! that this has happened, the next zone that is emptied lets those of its pins go that nobody has read since they
//! were last written. So pieces of versions that nobody can reach any more, of which not every one is known, do not
//! hold their room for ever.
//!
//! When zones fail, pins may be left that are more than their share. Then [`SHARE_MAX`] keeps reclaim going: while more
//! than that is pinned of all full zones, no more of any is written again because it is pinned.

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use zonal_base::{Bytes, ZoneId, index};
use zonal_policy::{Layout, Lot, Mark, ZoneFacts};
use zonal_zonelog::{Extent, Kind};

use crate::Head;
use crate::cache::Inner;
use crate::object::ObjectKey;
use crate::recover::{HEAD, PINNED};

/// What becomes of the bytes that a read fetches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Care {
    /// They do not go to flash, unless somebody else reads them meanwhile.
    #[default]
    Unkept,
    /// Admission and policy decide.
    Usual,
    /// They go to flash whatever admission says; then the policy decides.
    Warmed,
    /// They go to flash and stay there, while pins have not had their share.
    Pinned,
}

/// How the bytes that one reader fetches are to be kept: the same in all stripes that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// What becomes of them.
    pub care: Care,
    /// Whether they are among what goes to flash, while more is to go there than it takes. Drawn by each reader for itself: who is
    /// asked for often is not left out for long.
    pub lot: Lot,
}

/// Of pins: read since it was written or found at the start, by somebody for whom it is to be pinned. Of heads: pinned.
pub(crate) const WANTED: Mark = Mark(1);

/// The largest share of the device that can be pinned, in percent. The zone that is emptied then gains a quarter of its
/// room less what its policy keeps of that.
pub(crate) const SHARE_MAX: u64 = 75;

/// See the module.
pub(crate) struct Pins {
    by_zone: RefCell<Vec<u64>>,
    total: Cell<u64>,
    most: u64,
    /// What is pinned at the start does not stay so.
    forgets_found: bool,
    /// There was no room for a pin.
    is_short: Cell<bool>,
    /// Bytes for which there was none.
    refused: Cell<u64>,
}

impl Pins {
    /// So many percent of the device may be pinned.
    pub(crate) fn new(layout: &Layout, percent: u32) -> Self {
        // Zones that are being filled or kept empty cannot be counted on, as in the limits of policies.
        let usable = match layout.zone_count.saturating_sub(layout.busy_zones + 1) {
            0 => layout.zone_capacity.0 / 2,
            zones => layout.zone_capacity.0 * u64::from(zones),
        };
        Self {
            by_zone: RefCell::new(vec![0; index(layout.zone_count.into())]),
            total: Cell::new(0),
            most: usable / 100 * u64::from(percent).min(SHARE_MAX),
            forgets_found: false,
            is_short: Cell::new(false),
            refused: Cell::new(0),
        }
    }

    /// What is pinned at the start does not stay so.
    pub(crate) fn forgetting_found(self) -> Self {
        Self { forgets_found: true, ..self }
    }

    /// Whether so much more may be pinned. If not, that is counted.
    pub(crate) fn has_room(&self, len: u32) -> bool {
        let has_room = self.total.get() + u64::from(len) <= self.most;
        if !has_room && 0 < self.most {
            self.is_short.set(true);
            self.refused.set(self.refused.get() + u64::from(len));
        }
        has_room
    }

    /// Whether so much that was found pinned stays so.
    pub(crate) fn has_room_for_found(&self, len: u32) -> bool {
        !self.forgets_found && self.has_room(len)
    }

    pub(crate) const fn refused(&self) -> Bytes {
        Bytes(self.refused.get())
    }

    pub(crate) fn add(&self, extent: &Extent) {
        self.by_zone.borrow_mut()[index(extent.zone.0.into())] += u64::from(extent.len);
        self.total.set(self.total.get() + u64::from(extent.len));
    }

    pub(crate) fn remove(&self, extent: &Extent) {
        self.by_zone.borrow_mut()[index(extent.zone.0.into())] -= u64::from(extent.len);
        self.total.set(self.total.get() - u64::from(extent.len));
    }

    pub(crate) fn of_zone(&self, zone: ZoneId) -> Bytes {
        Bytes(self.by_zone.borrow()[index(zone.0.into())])
    }

    pub(crate) const fn total(&self) -> Bytes {
        Bytes(self.total.get())
    }

    pub(crate) const fn most(&self) -> Bytes {
        Bytes(self.most)
    }

    /// Whether room was lacking since this was asked last.
    pub(crate) fn take_shortage(&self) -> bool {
        self.is_short.take()
    }
}

/// How much of a victim is written again at most because it is pinned. `full` are all full zones.
pub(crate) fn most_of_zone(full: &[ZoneFacts], zone_capacity: Bytes) -> Bytes {
    let sum = |of: fn(&ZoneFacts) -> Bytes| full.iter().map(|facts| of(facts).0).sum::<u64>();
    let most = sum(|facts| facts.bytes) / 100 * SHARE_MAX;
    match sum(|facts| facts.pinned) <= most {
        true => zone_capacity,
        false => Bytes(zone_capacity.0 / 100 * SHARE_MAX),
    }
}

/// Whether a record is written again whatever the policy says.
pub(crate) fn is_pinned(kind: Kind, mark: Mark) -> bool {
    kind == PINNED || (kind == HEAD && mark == WANTED)
}

/// Pieces forgotten between two looks at what else there is to do: about 100 us.
const FORGET_AT_ONCE: u64 = 512;

impl Inner {
    /// Nobody will ask for this version any more: what of it is pinned here gives its room to others.
    pub(crate) fn forget_pins(self: &Rc<Self>, key: ObjectKey, head: &Head) {
        if self.holdings.pinned() == Bytes(0) {
            return;
        }
        let version = self.version_of(key, head);
        let pieces = head.size.div_ceil(self.piece_of(head));
        let inner = self.clone();
        self.spawn_writing(|writing| async move {
            for number in 0..pieces {
                inner.holdings.forget_pinned(version.piece(number));
                if number % FORGET_AT_ONCE == 0 {
                    zonal_runtime::yield_now().await;
                }
            }
            drop(writing);
        });
    }
}
