//! Pinned objects: reclaim rewrites them regardless of the policy, and admission never refuses
//! them.
//!
//! A pinned piece has a record kind of its own ([`PINNED`]), on flash and in the index, so its pin
//! survives a restart. No policy is told of it. The head that leads to pinned pieces is pinned with
//! them: without it they could not be served while the origin is down.
//!
//! Pins are bounded by a share of the capacity of full zones. The bound guarantees that reclaim
//! proceeds. In some full zone the pinned share is no larger than the bound, policies choose such a
//! zone (`policy`, module `pinned`), and its other records may be dropped. Pieces beyond the bound
//! are cached without a pin and counted. After that, the next reclaimed zone releases pins that
//! have not been read since they were last written. So unreachable pieces of old versions, which
//! the cache cannot all find, do not hold their room for ever.
//!
//! When zones fail, more may be pinned than the bound allows. Then [`SHARE_MAX`] keeps reclaim
//! going: while more than that share of all full zones is pinned, no more than that share of any
//! zone is rewritten for pins.

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use zonal_base::{Bytes, ZoneId, index};
use zonal_policy::{Layout, PolicyTag, SampleRank, ZoneFacts};
use zonal_zonelog::{Extent, Kind};

use crate::Head;
use crate::cache::Inner;
use crate::object::ObjectKey;
use crate::recover::{HEAD, PINNED};

/// Retention class of the bytes that a read fetches. Higher classes win.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetentionClass {
    /// Not cached on flash, unless another reader of the same fetch has a higher class.
    #[default]
    Unkept,
    /// Cached if admission and policy decide so.
    Usual,
    /// Written to flash without admission; then the policy decides.
    Warmed,
    /// Written to flash and kept there, while there is room for pins.
    Pinned,
}

/// Read hints: how the bytes that a reader fetches are kept, and what is known of their version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadHints {
    /// Retention class of the fetched bytes.
    pub retention: RetentionClass,
    /// The origin confirmed the version for this request. Otherwise the version may be gone at the
    /// origin. A read that needs the origin then asks it before it delivers cached bytes.
    pub is_confirmed: bool,
    /// Sample rank for admission while fills exceed the flash write bandwidth. Each reader draws
    /// its own, so that a popular object is not left out for long.
    pub rank: SampleRank,
}

/// Mark of pinned pieces: the piece was read, since it was last written or found at a start, under
/// a rule that pins it. Mark of heads: the head is pinned.
pub(crate) const WANTED: PolicyTag = PolicyTag(1);

/// Largest pinnable share of the device: 75 %. A reclaimed zone then frees a quarter of its room,
/// less what the policy keeps of that.
pub(crate) const SHARE_MAX: u64 = 75;

/// Accounting of pinned bytes, by zone and in total.
pub(crate) struct Pins {
    by_zone: RefCell<Vec<u64>>,
    total: Cell<u64>,
    most: u64,
    /// True when recovered pins are released.
    forgets_found: bool,
    /// A pin found no room since the last [`Pins::take_shortage`].
    is_short: Cell<bool>,
    /// Bytes of pins that found no room, in total.
    refused: Cell<u64>,
}

impl Pins {
    /// Creates the accounting. Up to `percent` of the usable capacity may be pinned.
    pub(crate) fn new(layout: &Layout, percent: u32) -> Self {
        // Open and reserved zones do not count as capacity, as in the limits of policies.
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

    /// Releases the pins that recovery finds.
    pub(crate) fn forgetting_found(self) -> Self {
        Self { forgets_found: true, ..self }
    }

    /// True when `len` more bytes may be pinned. Counts the bytes otherwise.
    pub(crate) fn has_room(&self, len: u32) -> bool {
        let has_room = self.total.get() + u64::from(len) <= self.most;
        if !has_room && 0 < self.most {
            self.is_short.set(true);
            self.refused.set(self.refused.get() + u64::from(len));
        }
        has_room
    }

    /// True when a recovered pin of `len` bytes stays.
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

    /// True when a pin found no room since the last call.
    pub(crate) fn take_shortage(&self) -> bool {
        self.is_short.take()
    }
}

/// Limit of bytes of a victim that are rewritten for pins. `full` are all full zones.
pub(crate) fn most_of_zone(full: &[ZoneFacts], zone_capacity: Bytes) -> Bytes {
    let sum = |of: fn(&ZoneFacts) -> Bytes| full.iter().map(|facts| of(facts).0).sum::<u64>();
    let most = sum(|facts| facts.bytes) / 100 * SHARE_MAX;
    match sum(|facts| facts.pinned) <= most {
        true => zone_capacity,
        false => Bytes(zone_capacity.0 / 100 * SHARE_MAX),
    }
}

/// True when reclaim rewrites the record regardless of the policy.
pub(crate) fn is_pinned(kind: Kind, mark: PolicyTag) -> bool {
    kind == PINNED || (kind == HEAD && mark == WANTED)
}

/// Pieces looked up between two yields to other tasks: about 100 us.
const RELEASE_AT_ONCE: u64 = 512;

/// Pieces of one version whose pins are released: 1 TiB in pieces of 256 KiB, 0.2 s of CPU time.
/// Pins of further pieces are released when pins find no room.
const RELEASED_MAX: u64 = 1 << 22;

impl Inner {
    /// Releases the pins of a version that no head names any more, in the background. The pieces
    /// stay until the policy evicts them: a reader who began with this version may still need them.
    pub(crate) fn release_pins(self: &Rc<Self>, key: ObjectKey, head: &Head) {
        if self.holdings.pinned() == Bytes(0) {
            return;
        }
        let version = self.version_of(key, head);
        let pieces = head.size.div_ceil(self.piece_of(head)).min(RELEASED_MAX);
        let inner = self.clone();
        self.spawn_writing(|writing| async move {
            for number in 0..pieces {
                inner.holdings.release_pin(version.piece(number), inner.now());
                if number % RELEASE_AT_ONCE == 0 {
                    zonal_runtime::yield_now().await;
                }
            }
            drop(writing);
        });
    }
}
