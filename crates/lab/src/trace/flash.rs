//! A cache on zones, without a device: what a policy of crate `policy` makes of a trace.
//!
//! 1. A read that is not a hit goes to flash, at once or after its time on probation (`Flash`).
//! 2. There it is written to the zone that is being filled, one record after the other, as in the log (`Log`).
//! 3. When few zones are empty, the policy chooses a victim, and what it keeps of it is written to another
//!    zone. One zone stays empty for that, if the policy ever writes again.
//!
//! Memory to wait in, zones that are being filled, and the zone that stays empty are all part of the capacity.

mod log;
mod table;
mod zone;

#[cfg(test)]
mod tests;

use zonal_base::{Bytes, Nanos};
use zonal_policy::{Budget, Probation, Spec, Verdict};

use super::{Capacity, Contender, FlashBytes, Outcome, Request};
use log::Log;

/// See the module.
pub(super) struct Flash {
    capacity: Capacity,
    probation: Option<Probation>,
    budget: Option<Budget>,
    /// By all reads so far.
    asked_for: Bytes,
    log: Log,
}

impl Flash {
    /// # Errors
    /// When there is no room for so many zones, or for a policy that needs some of them to work.
    pub(super) fn new(spec: &Spec, capacity: Capacity, zone_count: u32) -> Result<Self, String> {
        let room = Bytes(capacity.amount());
        let flash = room.0 - spec.memory_of(room).0;
        let log = Log::new(spec, zone_count, flash / u64::from(zone_count.max(1)));
        if log.zone_capacity() == 0 || zone_count < log.least_zones() {
            return Err(format!(
                "{spec} with room for {capacity} in {zone_count} zones: it needs {} zones at least, with room for \
                 something in each",
                log.least_zones(),
            ));
        }
        Ok(Self {
            capacity,
            probation: spec.probation(room),
            budget: spec.budget(),
            asked_for: Bytes(0),
            log,
        })
    }

    fn miss(&mut self, id: u64, len: u64) {
        let Some(probation) = &mut self.probation else { return self.write(id, len) };
        if probation.miss(id, Bytes(len)) {
            self.write(id, len);
        }
        while let Some((id, len, verdict)) = self.probation.as_mut().and_then(Probation::leave) {
            if verdict == Verdict::Admit {
                self.write(id, len.0);
            }
        }
        if let Some(probation) = self.probation.as_mut().filter(|_| self.log.was_full()) {
            probation.note_full_flash();
        }
    }

    fn write(&mut self, id: u64, len: u64) {
        let FlashBytes { filled, moved } = self.log.written();
        let affords =
            |budget: Budget| budget.affords(Bytes(len), self.asked_for, Bytes(filled + moved));
        if self.budget.is_none_or(affords) {
            self.log.write(id, len);
        }
    }
}

impl Contender for Flash {
    fn read(&mut self, request: &Request) -> Outcome {
        // Not every trace has times, and those that have count seconds: a millisecond for each request.
        self.log.now = Nanos(self.log.now.0 + 1_000_000);
        let len = self.capacity.weight(request.size).max(1);
        self.asked_for += Bytes(len);
        let waits = |probation: &mut Probation| probation.read(request.id);
        if self.log.read(request.id, len) || self.probation.as_mut().is_some_and(waits) {
            return Outcome::Hit;
        }
        self.miss(request.id, len);
        Outcome::Miss
    }

    fn invalidate(&mut self, id: u64) {
        self.log.forget_object(id);
        if let Some(probation) = &mut self.probation {
            probation.forget(id);
        }
    }

    fn flash(&self) -> FlashBytes {
        self.log.written()
    }
}
