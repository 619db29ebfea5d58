//! Command latency of a zoned drive: reads, writes, appends, resets and other zone management.

use zonal_base::{Blocks, Nanos, Rng, ZoneId, mix64};

use crate::chance::{exponential, happens};
use crate::controller::Server;
use crate::link::Link;
use crate::nand::{FlashExtent, FlashRead, Nand};
use crate::profile::{ControllerProfile, Profile, ZoneProfile};

#[derive(Clone, Debug)]
pub(crate) struct Timing {
    controller: ControllerProfile,
    pub(super) zones: ZoneProfile,
    server: Server,
    /// Zone of the last write.
    last_zone: Option<ZoneId>,
    link: Link,
    pub(crate) nand: Nand,
    rng: Rng,
    /// Time at which all pending resets are done, as far as is known now.
    resets_until: Nanos,
    /// Total delay of resets by writes.
    held_up: Nanos,
}

/// End of the zone to be reset: the reset latency depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZoneEnd {
    /// The zone is not full.
    Open,
    /// The host finished the zone.
    Finished,
    /// The host wrote the zone to its capacity.
    Written,
}

/// End time of a reset, minus all delays of resets by writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResetEnd(Nanos);

/// Properties of a write on which its latency depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteKind {
    pub(super) is_append: bool,
    pub(super) opens_zone: bool,
    pub(super) others_in_flight: bool,
}

impl Timing {
    /// Requires: a profile with zones of its own.
    pub(super) fn new(profile: &Profile, rng: &mut Rng) -> Self {
        Self {
            controller: profile.controller,
            zones: profile.zones.clone().expect("the caller has looked"),
            server: Server::default(),
            last_zone: None,
            link: Link::new(profile.link),
            nand: Nand::new(profile.nand, rng.next_u64()),
            rng: Rng::new(rng.next_u64()),
            resets_until: Nanos(0),
            held_up: Nanos(0),
        }
    }

    /// Returns the completion time of a read, and its delay of the programs.
    ///
    /// Requires: the flash was told about the latest programs.
    pub(super) fn read(
        &mut self,
        now: Nanos,
        zone: ZoneId,
        at: Blocks,
        blocks: Blocks,
    ) -> FlashRead {
        let begun = self.server.serve(now, self.controller.read);
        let sent = self.link.send(begun, blocks);
        let place = FlashExtent { at, blocks, first_die: mix64(u64::from(zone.0)) >> 32 };
        let read = self.nand.read(sent, place);
        FlashRead { done: read.done + self.controller.read_fixed, ..read }
    }

    /// Returns the time at which a write has arrived in the buffer, if there is room.
    pub(super) fn write(
        &mut self,
        now: Nanos,
        kind: WriteKind,
        zone: ZoneId,
        blocks: Blocks,
    ) -> Nanos {
        let costs = if kind.is_append { self.controller.append } else { self.controller.write };
        let serial = if blocks.0 == 1 { costs.single_block } else { costs.several_blocks };
        let reset = self.wait_for_reset(now);
        let served = self.server.serve(now, serial + reset);
        let queued = served.since(now + serial + reset);
        // The controller serves several submission queues in turns, so commands overtake each other.
        let overtaking = Nanos(queued.0 * (600 + self.rng.below(801)) / 1000);
        let arrived = self.link.receive(now + serial + reset + overtaking, blocks);
        let mut more = costs.fixed + exponential(&mut self.rng, self.controller.write_jitter);
        if 2 < blocks.0 {
            more += costs.list_fetch;
        }
        // Opening a zone already includes the switch to it.
        let turns = self.last_zone.replace(zone) != Some(zone) && !kind.opens_zone;
        if (kind.others_in_flight || turns) && queued == Nanos(0) {
            more += costs.interleaved;
        }
        if kind.opens_zone {
            more += costs.opens_zone;
        }
        arrived + more
    }

    /// Delay of a write by a reset: the controller works on the reset in slices, and each write waits for one slice.
    fn wait_for_reset(&mut self, now: Nanos) -> Nanos {
        if self.resets_until <= now {
            return Nanos(0);
        }
        self.resets_until += self.zones.reset_held_up;
        self.held_up += self.zones.reset_held_up;
        let is_queued = now < self.server.free_at();
        let slice = self.zones.reset_slice;
        if is_queued { slice } else { Nanos(self.rng.below(slice.0)) }
    }

    /// Restarts after a power cut: no reset is pending, and the write buffer is empty.
    pub(crate) fn restart(&mut self) {
        (self.resets_until, self.held_up) = (Nanos(0), Nanos(0));
        self.nand.restart();
    }

    pub(super) fn open(&self, now: Nanos) -> Nanos {
        now + self.zones.open
    }

    pub(super) fn close(&mut self, now: Nanos) -> Nanos {
        let is_slow = happens(&mut self.rng, self.zones.close_slow_per_million);
        now + self.zones.close + if is_slow { self.zones.close_slow } else { Nanos(0) }
    }

    pub(super) fn administrative(&self, now: Nanos) -> Nanos {
        now + self.controller.administrative
    }

    pub(super) fn finish_empty(&self, now: Nanos) -> Nanos {
        now + self.zones.finish_empty
    }

    /// Completion time of a finish whose padding ends at `padded`.
    pub(super) fn finished(&mut self, padded: Nanos) -> Nanos {
        let is_slow = happens(&mut self.rng, self.zones.finish_slow_per_million);
        padded + if is_slow { self.zones.finish_slow } else { Nanos(0) }
    }

    /// Schedules a reset after the pending ones.
    pub(super) fn reset(&mut self, now: Nanos, written: Blocks, end: ZoneEnd) -> ResetEnd {
        let alone = self.reset_alone(written, end);
        self.resets_until = self.resets_until.max(now) + alone;
        ResetEnd(self.resets_until - self.held_up)
    }

    /// Completion time of a reset, if no further write delays it.
    pub(super) fn reset_done(&self, end: ResetEnd) -> Nanos {
        end.0 + self.held_up
    }

    fn reset_alone(&mut self, written: Blocks, end: ZoneEnd) -> Nanos {
        let zones = &self.zones;
        if written == Blocks(0) {
            let does_nothing = happens(&mut self.rng, zones.reset_nothing_per_million);
            return if does_nothing && end != ZoneEnd::Finished {
                zones.reset_nothing
            } else {
                zones.reset_empty
            };
        }
        let map = Nanos(written.0 * zones.reset_ps_per_block / 1000);
        let jitter = match end {
            ZoneEnd::Written => zones.reset_jitter_full,
            _ => zones.reset_jitter,
        };
        let took = zones.reset + map + exponential(&mut self.rng, jitter);
        if end != ZoneEnd::Open {
            return took;
        }
        // A tenth of the extra cost of an unfinished zone is random.
        let more = interpolate(zones.reset_unfinished, written.0);
        took + Nanos(more.0 * 9 / 10) + exponential(&mut self.rng, Nanos(more.0 / 10))
    }
}

/// Linear interpolation between the points, constant beyond them.
fn interpolate(points: &[(u64, Nanos)], at: u64) -> Nanos {
    let after = points.partition_point(|(x, _)| *x <= at);
    match (after.checked_sub(1).and_then(|before| points.get(before)), points.get(after)) {
        (Some((x0, y0)), Some((x1, y1))) => {
            let (low, high) = (y0.0.min(y1.0), y0.0.max(y1.0));
            let part = (high - low) * (at - x0) / (x1 - x0);
            Nanos(if y0 <= y1 { low + part } else { high - part })
        }
        (Some((_, y)), None) | (None, Some((_, y))) => *y,
        (None, None) => Nanos(0),
    }
}
