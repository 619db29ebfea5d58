//! Garbage collection of the capacity tier: empties zones that hold little live data.
//!
//! 1. Wait until few zones of the capacity tier are empty.
//! 2. Choose the victim: the sealed zone with the largest gained blocks per moved block, times its
//!    age in segments since its first one (cost-benefit). Of equal zones the older one is chosen. A
//!    zone that would gain less than a sixteenth of its capacity is left alone, unless compaction
//!    waits for room.
//! 3. Move the live blocks (`relocate`), flush both tiers, release the zone (`zone_table`), reset
//!    it (`tier`).
//!
//! Age distinguishes zones whose blocks die at different rates. By live blocks alone, nearly full
//! zones of cold blocks would wait far longer than the space they waste is worth.
//!
//! The last two empty zones are reserved for garbage collection, so it can always proceed: the live
//! blocks of any victim fit into one zone.

use alloc::rc::Rc;

use crate::BlockError;
use crate::layout::Zone;
use crate::relocate::Mover;
use crate::shaper::Inner;
use crate::state::State;

impl Inner {
    /// Garbage collection task. It ends on a device failure or at shutdown.
    pub(crate) async fn run_garbage_collection(self: Rc<Self>, mut mover: Mover) {
        let wanted = |state: &State| {
            state.wants_collection(&self).then(|| state.collection_victim(&self)).flatten()
        };
        while let Some(zone) = self.victim(wanted).await {
            match self.collect(&mut mover, zone).await {
                Ok(()) => (),
                Err(BlockError::Closing) => break,
                Err(error) => return self.stop_moving(error),
            }
        }
        self.end_collection(mover).await;
    }

    async fn collect(&self, mover: &mut Mover, zone: Zone) -> Result<(), BlockError> {
        mover.move_all(zone).await?;
        mover.reset(zone).await?;
        self.state.borrow_mut().passed = 0;
        mover.record_retired_zones().await
    }
}
