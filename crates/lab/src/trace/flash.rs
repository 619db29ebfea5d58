//! Flash cache model: runs a policy of crate `policy` over zones without a device.
//!
//! 1. A missed read is written to flash at once, or after its time in the small queue (`Flash`).
//! 2. The record is appended to the open zone, as in the log (`FlashLog`).
//! 3. When few zones are empty, the policy picks a victim, and the records it keeps are rewritten
//!    to another zone. One zone stays empty for rewrites if the policy ever rewrites.
//!
//! On a drive that takes overwrites (`place=slots`), objects lie in slots and are never rewritten
//! (`Chunks`, `Regions`).
//!
//! The small queue, the open zones and the zone kept empty all count towards the capacity.

mod chunks;
mod log;
mod regions;
mod slots;
mod store;
mod table;
mod zone;

#[cfg(test)]
mod tests;

use zonal_base::{Bytes, Nanos};
use zonal_policy::{Account, InPlace, Means, SmallQueue, Spec, Verdict, WriteBudget};

use super::{Capacity, Contender, FlashBytes, ReplayOutcome, Request, Room};
use chunks::Chunks;
use log::FlashLog;
use regions::Regions;
use store::Store;

/// Contender that places admitted objects in a [`Store`].
pub(super) struct Flash<S> {
    capacity: Capacity,
    probation: Option<SmallQueue>,
    budget: Option<WriteBudget>,
    /// Bytes of all reads so far.
    asked_for: Bytes,
    store: S,
}

/// Builds the contender of a policy.
///
/// # Errors
/// When the zones or regions are fewer than the policy needs, or when the capacity of each is zero
/// or too large.
pub(super) fn make(spec: &Spec, room: Room) -> Result<Box<dyn Contender>, String> {
    let whole = Bytes(room.capacity.amount());
    let flash = whole.0 - spec.memory_of(whole).0;
    let capacity = match room.capacity {
        Capacity::Objects(_) => Capacity::Objects(flash),
        Capacity::Bytes(_) => Capacity::Bytes(Bytes(flash)),
    };
    Ok(match spec.in_place() {
        None => Box::new(Flash::new(spec, room, log(spec, capacity, room.zones)?)),
        Some(InPlace::Chunks) => Box::new(Flash::new(spec, room, Chunks::new(capacity)?)),
        Some(InPlace::Regions { promotion, per_zone }) => {
            let count = room.zones.saturating_mul(per_zone);
            Box::new(Flash::new(spec, room, Regions::new(promotion, capacity, count)?))
        }
    })
}

fn log(spec: &Spec, capacity: Capacity, zone_count: u32) -> Result<FlashLog, String> {
    let zone_capacity = capacity.amount() / u64::from(zone_count.max(1));
    let least = FlashLog::least_zones(spec);
    if zone_capacity == 0 || zone_count < least {
        return Err(format!(
            "{spec} with a capacity of {capacity} in {zone_count} zones: it needs at least {least} \
             zones, none of them empty",
        ));
    }
    if zone::CAPACITY_MAX < zone_capacity {
        let more = capacity.amount().div_ceil(zone::CAPACITY_MAX);
        return Err(format!(
            "{spec} with a capacity of {capacity} in {zone_count} zones: a zone holds at most {}: \
             use {more} zones",
            Bytes(zone::CAPACITY_MAX),
        ));
    }
    Ok(FlashLog::new(spec, zone_count, zone_capacity))
}

impl<S: Store> Flash<S> {
    fn new(spec: &Spec, room: Room, store: S) -> Self {
        Self {
            capacity: room.capacity,
            probation: spec.probation(Bytes(room.capacity.amount())),
            budget: spec.budget(Bytes(room.capacity.amount())),
            asked_for: Bytes(0),
            store,
        }
    }

    fn miss(&mut self, id: u64, len: u64) {
        let account = self.account();
        let means = self.budget.map_or(Means::Ample, |budget| budget.means(account));
        let Some(probation) = &mut self.probation else { return self.write(id, len) };
        match probation.miss(id, Bytes(len), means) {
            Verdict::Admit => self.write(id, len),
            Verdict::Wait => probation.wait(id, Bytes(len), false),
            Verdict::TurnAway => {}
        }
        while let Some((id, len, verdict)) = self.probation.as_mut().and_then(SmallQueue::leave) {
            if verdict == Verdict::Admit {
                self.write(id, len.0);
            }
        }
        if let Some(probation) = self.probation.as_mut().filter(|_| self.store.was_full()) {
            probation.note_full_flash();
        }
    }

    fn write(&mut self, id: u64, len: u64) {
        let account = self.account();
        if self.budget.is_none_or(|budget| budget.affords(Bytes(len), account)) {
            self.store.write(id, len);
        }
    }

    fn account(&self) -> Account {
        let FlashBytes { filled, moved } = self.store.written();
        let (asked_for, written) = (self.asked_for, Bytes(filled + moved));
        // A replay has no time, so time adds no budget (`Spec::in_replay`).
        Account { asked_for, elapsed: Nanos(0), written }
    }
}

impl<S: Store> Contender for Flash<S> {
    fn read(&mut self, request: &Request) -> ReplayOutcome {
        let len = self.capacity.weight(request.size).max(1);
        self.asked_for += Bytes(len);
        let waits = |probation: &mut SmallQueue| probation.read(request.id);
        if self.store.read(request.id, len) || self.probation.as_mut().is_some_and(waits) {
            return ReplayOutcome::Hit;
        }
        self.miss(request.id, len);
        ReplayOutcome::Miss
    }

    fn invalidate(&mut self, id: u64) {
        self.store.forget_object(id);
        if let Some(probation) = &mut self.probation {
            probation.forget(id);
        }
    }

    fn flash(&self) -> FlashBytes {
        self.store.written()
    }
}
