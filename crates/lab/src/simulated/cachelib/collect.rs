//! Emptying zones: one task looks every 20 ms whether too few are free, and then moves what is left in one of them, or
//! drops it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zonal_base::Nanos;

use super::layout::Place;
use super::regions::Stage;
use super::{Failure, Placing, Shared};

/// A zone is emptied when fewer are free: 8 of 904 in the paper's code.
const FREE_ZONES: usize = 8;

/// How often that is looked at.
const INTERVAL: Nanos = Nanos::millis(20);

/// Regions of a zone that are dropped at a time: as many as there are buffers for it.
const DROPS: usize = 8;

/// What the tasks that drop the regions of one zone share.
struct Drops {
    regions: RefCell<Vec<u32>>,
    running: Cell<usize>,
}

impl Shared {
    pub(super) async fn collect(self: Rc<Self>) -> Result<(), Failure> {
        let mut to: Option<u32> = None;
        while !self.is_over.get() {
            if self.state.borrow().layout.free_count() < FREE_ZONES
                && let Some(zone) = self.victim()
            {
                if self.settings.placing == Placing::Dropped {
                    self.drop_zone(zone).await?;
                } else {
                    to = self.move_zone(zone, to).await?;
                }
                self.reset(zone).await?;
                let mut state = self.state.borrow_mut();
                state.layout.was_reset(zone);
                state.regions.zone_was_reset(zone);
                drop(state);
                self.zone.notify_all();
            }
            self.clock.sleep_until(self.clock.now() + INTERVAL).await;
        }
        Ok(())
    }

    /// The cache knows which regions it evicted; a layer below it learns that when they are written again.
    fn victim(&self) -> Option<u32> {
        let state = self.state.borrow();
        if self.settings.placing == Placing::Moved {
            return state.layout.victim(|zone| state.layout.valid_count(zone));
        }
        let is_wanted = |region: &u32| state.regions.stage(*region) == Stage::Written;
        state.layout.victim(|zone| {
            let wanted =
                state.layout.valid_in(zone).iter().filter(|region| is_wanted(region)).count();
            zonal_base::low_u32(wanted)
        })
    }

    /// Region by region, to `to` or to another zone once that is full. Returns the zone that is written to then.
    async fn move_zone(&self, zone: u32, mut to: Option<u32>) -> Result<Option<u32>, Failure> {
        let regions = self.state.borrow().layout.valid_in(zone);
        for region in regions {
            let is_there = |place: Option<Place>| place.is_some_and(|place| place.zone == zone);
            let from = self.state.borrow().layout.place(region);
            let Some(from) = from.filter(|place| place.zone == zone) else { continue };
            if self.is_timed.get() {
                let blocks = self.settings.region.blocks_ceil();
                self.read(from, zonal_base::Blocks(0), blocks).await?;
            }
            let slot = self.state.borrow_mut().layout.take_slot_to_move(to);
            let place = slot.ok_or_else(|| Failure("no zone is free to move regions to".into()))?;
            self.write(place).await?;
            let is_full = {
                let mut state = self.state.borrow_mut();
                state.moved += self.settings.region.0;
                // It may have been written anew meanwhile.
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

    async fn drop_zone(self: &Rc<Self>, zone: u32) -> Result<(), Failure> {
        let regions = self.state.borrow().layout.valid_in(zone);
        // Somebody else may be reading one of them for the last time.
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
                // A region that was evicted, or is written anew elsewhere, is nothing that is dropped here.
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
