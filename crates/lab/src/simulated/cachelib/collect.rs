//! Garbage collection: every 20 ms, a task empties a victim zone when too few zones are free.
//!
//! The collector moves or drops the regions that are left in the zone.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zonal_base::Nanos;

use super::layout::RegionSlot;
use super::regions::Stage;
use super::{CacheState, Failure, Placing};

/// Period of the check for free zones.
const INTERVAL: Nanos = Nanos::millis(20);

/// Checks without a victim before the run fails: ten minutes. After so long no zone will have a
/// region that could go.
const TURNS_IN_VAIN_MAX: u32 = 30_000;

/// Regions of a zone that are dropped in parallel: as many as there are buffers for them.
const DROPS: usize = 8;

/// Work list of the tasks that drop the regions of one zone.
struct Drops {
    regions: RefCell<Vec<u32>>,
    running: Cell<usize>,
}

impl CacheState {
    pub(super) async fn collect(self: Rc<Self>) -> Result<(), Failure> {
        let mut to: Option<u32> = None;
        let (low, high) = self.settings.free_zones;
        let (mut is_emptying, mut turns_in_vain) = (false, 0);
        while !self.is_over.get() {
            let free = self.state.borrow().layout.free_count();
            is_emptying = free < low as usize || is_emptying && free < high as usize;
            let victim = if is_emptying { self.victim() } else { None };
            if let Some(zone) = victim
                && let Some((dropped, moved)) = self.fates(zone)
            {
                turns_in_vain = 0;
                let begun = self.clock.now();
                self.drop_regions_of(zone, dropped).await?;
                to = self.move_regions(zone, moved, to).await?;
                self.reset(zone).await?;
                self.emptied.set(self.emptied.get() + 1);
                let took = self.clock.now().since(begun);
                self.emptying.set(Nanos(self.emptying.get().0 + took.0));
                let mut state = self.state.borrow_mut();
                state.layout.was_reset(zone);
                state.regions.zone_was_reset(zone);
                drop(state);
                self.zone.notify_all();
            } else if is_emptying {
                turns_in_vain += 1;
                if TURNS_IN_VAIN_MAX < turns_in_vain {
                    return Err(Failure("zones cannot be reclaimed: no spare capacity".into()));
                }
            }
            self.clock.sleep_until(self.clock.now() + INTERVAL).await;
        }
        Ok(())
    }

    /// Picks a victim zone. The cache knows which regions it evicted. A layer below the cache
    /// learns that only when they are written again.
    fn victim(&self) -> Option<u32> {
        let state = self.state.borrow();
        let count = |zone: u32, is_it: &dyn Fn(&u32) -> bool| {
            let found = state.layout.valid_in(zone).iter().filter(|region| is_it(region)).count();
            zonal_base::low_u32(found)
        };
        let is_wanted = |region: &u32| state.regions.stage(*region) == Stage::Written;
        let is_young = |region: &u32| is_wanted(region) && !state.regions.is_old(*region);
        match self.settings.placing {
            Placing::Dropped => state.layout.victim(|zone| count(zone, &is_wanted)),
            // Regions that may be dropped cost nothing. They break ties only.
            Placing::OldDropped | Placing::DroppedByLoad => {
                let counts = |zone| (count(zone, &is_young), count(zone, &is_wanted));
                state.layout.least((0, 0), counts)
            }
            _ => state.layout.victim(|zone| state.layout.valid_count(zone)),
        }
    }

    /// Splits the regions of a zone into dropped and moved ones. `None`: emptying the zone would
    /// free no slot.
    fn fates(&self, zone: u32) -> Option<(Vec<u32>, Vec<u32>)> {
        let state = self.state.borrow();
        let all = state.layout.valid_in(zone).into_iter();
        let (low, _) = self.settings.free_zones;
        let are_few_free = state.layout.free_count() < low as usize / 2;
        // An evictor may be at work on one of them. Policies that drop wait for it and move no
        // evicted region.
        let is_dropped = |region: &u32| {
            let is_young =
                state.regions.stage(*region) == Stage::Written && !state.regions.is_old(*region);
            match self.settings.placing {
                Placing::OldDropped => !is_young,
                Placing::DroppedByLoad => !is_young || are_few_free,
                placing => placing == Placing::Dropped,
            }
        };
        let (dropped, moved): (Vec<u32>, Vec<u32>) = all.partition(is_dropped);
        (moved.len() < state.layout.slots() as usize).then_some((dropped, moved))
    }

    /// Moves regions one by one to `to`, or to another zone once `to` is full. Returns the zone
    /// that is open at the end.
    async fn move_regions(
        &self,
        zone: u32,
        regions: Vec<u32>,
        mut to: Option<u32>,
    ) -> Result<Option<u32>, Failure> {
        for region in regions {
            let is_there =
                |place: Option<RegionSlot>| place.is_some_and(|place| place.zone == zone);
            let from = self.state.borrow().layout.place(region);
            let Some(from) = from.filter(|place| place.zone == zone) else { continue };
            if self.is_timed.get() {
                let blocks = self.settings.region.blocks_ceil();
                self.read(from, zonal_base::Blocks(0), blocks).await?;
            }
            let slot = self.state.borrow_mut().layout.take_slot_to_move(to);
            let place = slot.ok_or_else(|| Failure("no free zone to move regions to".into()))?;
            self.write(place).await?;
            let is_full = {
                let mut state = self.state.borrow_mut();
                state.moved += self.settings.region.0;
                // The region may have been rewritten during the move.
                if is_there(state.layout.place(region)) {
                    state.regions.was_moved(region, place.zone);
                    state.layout.put(region, place)
                } else {
                    state.layout.waste(region, place)
                }
            };
            to = Some(place.zone);
            if is_full {
                self.finish(place.zone).await?;
                to = None;
            }
        }
        Ok(to)
    }

    async fn drop_regions_of(self: &Rc<Self>, zone: u32, regions: Vec<u32>) -> Result<(), Failure> {
        if regions.is_empty() {
            return Ok(());
        }
        // An evictor may still read one of the regions.
        for region in &regions {
            while self.state.borrow().regions.stage(*region) == Stage::Evicting {
                self.evicted.wait().await;
            }
        }
        let drops = Rc::new(Drops { regions: RefCell::new(regions), running: Cell::new(DROPS) });
        for _ in 0..DROPS {
            let drops = drops.clone();
            self.spawn(|cache| async move { cache.drop_regions(&drops, zone).await });
        }
        while drops.running.get() != 0 {
            self.evicted.wait().await;
        }
        Ok(())
    }

    async fn drop_regions(&self, drops: &Drops, zone: u32) -> Result<(), Failure> {
        loop {
            let next = drops.regions.borrow_mut().pop();
            let Some(region) = next else { break };
            {
                // Skips a region that was evicted, or was rewritten elsewhere.
                let mut state = self.state.borrow_mut();
                let is_here = state.layout.place(region).is_some_and(|place| place.zone == zone);
                if !is_here || state.regions.stage(region) != Stage::Written {
                    continue;
                }
                state.regions.take(region);
            }
            self.forget_region(region).await?;
        }
        drops.running.set(drops.running.get() - 1);
        self.evicted.notify_all();
        Ok(())
    }
}
