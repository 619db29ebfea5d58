//! Region I/O: reads, writes, finishes and resets of zones.

use zonal_base::{Blocks, Lba, ZoneId};
use zonal_device::{Command, ZoneAction};

use super::layout::RegionSlot;
use super::{CacheState, Failure};

impl CacheState {
    /// Slot of a region on the drive. `None` while it is in memory.
    pub(super) fn place_of(&self, region: u32) -> Option<RegionSlot> {
        let state = self.state.borrow();
        if !state.is_on_drive(region) {
            return None;
        }
        match self.settings.placing.is_mapped() {
            false => Some(RegionSlot { zone: region, slot: 0 }),
            true => state.layout.place(region),
        }
    }

    fn lba(&self, place: RegionSlot) -> Lba {
        let offset = u64::from(place.slot) * self.settings.region.blocks_ceil().0;
        self.geometry.zone_start(ZoneId(place.zone)) + Blocks(offset)
    }

    /// Reads blocks of a slot. [`CacheState::reset`] waits for reads of its zone.
    pub(super) async fn read(
        &self,
        place: RegionSlot,
        offset: Blocks,
        blocks: Blocks,
    ) -> Result<(), Failure> {
        let zone = place.zone as usize;
        self.readers.borrow_mut()[zone] += 1;
        let read = self.io.read(self.lba(place) + offset, blocks).await;
        self.readers.borrow_mut()[zone] -= 1;
        if self.readers.borrow()[zone] == 0 {
            self.reader_left.notify_all();
        }
        read
    }

    /// Reads a whole region. Does nothing during warm-up.
    pub(super) async fn read_region(&self, region: u32) -> Result<(), Failure> {
        match self.place_of(region) {
            Some(place) if self.is_timed.get() => {
                self.read(place, Blocks(0), self.settings.region.blocks_ceil()).await
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn write_region(&self, region: u32) -> Result<(), Failure> {
        if !self.settings.placing.is_mapped() {
            let place = RegionSlot { zone: region, slot: 0 };
            self.reset(region).await?;
            return self.write(place).await;
        }
        let place = loop {
            let slot = self.state.borrow_mut().layout.take_slot();
            match slot {
                Some(place) => break place,
                None => self.zone.wait().await,
            }
        };
        self.write(place).await?;
        let is_full = self.state.borrow_mut().layout.put(region, place);
        if is_full {
            self.finish(place.zone).await?;
        }
        self.state.borrow_mut().layout.give_back(place.zone);
        self.zone.notify_all();
        Ok(())
    }

    pub(super) async fn write(&self, place: RegionSlot) -> Result<(), Failure> {
        self.io.write(self.lba(place), self.settings.region.blocks_ceil()).await
    }

    /// Finishes a zone whose rest is too small for a region.
    pub(super) async fn finish(&self, zone: u32) -> Result<(), Failure> {
        self.manage(zone, ZoneAction::Finish).await
    }

    pub(super) async fn reset(&self, zone: u32) -> Result<(), Failure> {
        while self.readers.borrow()[zone as usize] != 0 {
            self.reader_left.wait().await;
        }
        self.manage(zone, ZoneAction::Reset).await
    }

    async fn manage(&self, zone: u32, action: ZoneAction) -> Result<(), Failure> {
        let zone = ZoneId(zone);
        let answer = self.device.call(Command::Manage { zone, action }).await;
        answer.map(drop).map_err(|error| Failure::new(&format!("{action:?} of {zone}"), error))
    }
}
