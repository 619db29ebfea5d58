//! How long the commands of a zoned drive take.

use zonal_base::{Blocks, Nanos, Rng, ZoneId, mix64};

use crate::chance::{exponential, happens};
use crate::controller::Server;
use crate::link::Link;
use crate::nand::{Nand, Place};
use crate::profile::{ControllerProfile, Profile, ZoneProfile};

#[derive(Clone, Debug)]
pub(crate) struct Timing {
    controller: ControllerProfile,
    pub(super) zones: ZoneProfile,
    server: Server,
    link: Link,
    pub(crate) nand: Nand,
    rng: Rng,
    /// When the resets that were asked for are done, as far as is known now.
    resets_until: Nanos,
    /// How long writes have held resets up, all in all.
    held_up: Nanos,
}

/// What kind of write.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteKind {
    pub(super) is_append: bool,
    pub(super) opens_zone: bool,
}

impl Timing {
    /// Requires: a profile with zones of its own.
    pub(super) fn new(profile: &Profile, rng: &mut Rng) -> Self {
        Self {
            controller: profile.controller,
            zones: profile.zones.clone().expect("the caller has looked"),
            server: Server::default(),
            link: Link::new(profile.link),
            nand: Nand::new(profile.nand, rng.next_u64()),
            rng: Rng::new(rng.next_u64()),
            resets_until: Nanos(0),
            held_up: Nanos(0),
        }
    }

    /// When a read is answered.
    pub(super) fn read(
        &mut self,
        now: Nanos,
        zone: ZoneId,
        at: Blocks,
        blocks: Blocks,
        drained: Blocks,
    ) -> Nanos {
        self.nand.programmed(now, drained);
        let begun = self.server.serve(now, self.controller.read);
        let sent = self.link.send(begun, blocks);
        let place = Place { at, blocks, first_die: mix64(u64::from(zone.0)) };
        self.nand.read(sent, place) + self.controller.read_fixed
    }

    /// When a write has arrived in the buffer, if there is room.
    pub(super) fn write(
        &mut self,
        now: Nanos,
        kind: WriteKind,
        blocks: Blocks,
        others_in_flight: bool,
    ) -> Nanos {
        let costs = if kind.is_append { self.controller.append } else { self.controller.write };
        let serial = if blocks.0 == 1 { costs.single_block } else { costs.several_blocks };
        let reset = self.wait_for_reset(now);
        let served = self.server.serve(now, serial + reset);
        let queued = served.since(now + serial + reset);
        // Several submission queues are served in turns, so commands overtake each other.
        let overtaking = Nanos(queued.0 * (600 + self.rng.below(801)) / 1000);
        let arrived = self.link.receive(now + serial + reset + overtaking, blocks);
        let mut more = costs.fixed + exponential(&mut self.rng, self.controller.write_jitter);
        if 2 < blocks.0 {
            more += costs.list_fetch;
        }
        if others_in_flight && queued == Nanos(0) {
            more += costs.interleaved;
        }
        if kind.opens_zone {
            more += costs.opens_zone;
        }
        arrived + more
    }

    /// While a zone is reset, the controller works on the map in pieces, and each write waits for one.
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

    /// The drive starts again: no reset is under way.
    pub(crate) fn restart(&mut self) {
        (self.resets_until, self.held_up) = (Nanos(0), Nanos(0));
    }

    pub(super) fn open(&self, now: Nanos) -> Nanos {
        now + self.zones.open
    }

    pub(super) fn close(&self, now: Nanos) -> Nanos {
        now + self.zones.close
    }

    pub(super) fn administrative(&self, now: Nanos) -> Nanos {
        now + self.controller.administrative
    }

    pub(super) fn finish_empty(&self, now: Nanos) -> Nanos {
        now + self.zones.finish_empty
    }

    /// When a finish whose padding ends at `padded` is answered.
    pub(super) fn finished(&mut self, padded: Nanos) -> Nanos {
        let is_slow = happens(&mut self.rng, self.zones.finish_slow_per_million);
        padded + if is_slow { self.zones.finish_slow } else { Nanos(0) }
    }

    /// When a reset is answered, if no write comes in between. Resets follow each other.
    pub(super) fn reset(
        &mut self,
        now: Nanos,
        written: Blocks,
        is_finished: bool,
        capacity: Blocks,
    ) -> Nanos {
        let alone = self.reset_alone(written, is_finished, capacity);
        self.resets_until = self.resets_until.max(now) + alone;
        // Kept as if nothing had ever been held up, so that what comes can be added.
        self.resets_until - self.held_up
    }

    /// The reset that was laid out for `earliest` came up at `due`: when it is done, if that is later.
    pub(super) fn reset_is_held_up(&self, earliest: Nanos, due: Nanos) -> Option<Nanos> {
        let done = earliest + self.held_up;
        (due < done).then_some(done)
    }

    fn reset_alone(&mut self, written: Blocks, is_finished: bool, capacity: Blocks) -> Nanos {
        let zones = &self.zones;
        if written == Blocks(0) {
            let does_nothing = happens(&mut self.rng, zones.reset_nothing_per_million);
            return if does_nothing && !is_finished {
                zones.reset_nothing
            } else {
                zones.reset_empty
            };
        }
        let map = Nanos(written.0 * zones.reset_ps_per_block / 1000);
        let mut took = zones.reset + map;
        if is_finished || written < capacity {
            took += exponential(&mut self.rng, zones.reset_jitter);
        } else {
            took += exponential(&mut self.rng, zones.reset_jitter_full);
        }
        if !is_finished && written < capacity {
            // A tenth of it spreads.
            let more = interpolate(zones.reset_unfinished, written.0);
            took += Nanos(more.0 * 9 / 10) + exponential(&mut self.rng, Nanos(more.0 / 10));
        }
        took
    }
}

/// Linear between the points, level beyond them.
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
