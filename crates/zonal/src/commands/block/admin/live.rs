//! Live view of a block device: its document, once a second.

use zonal_api::block::{Event, Requests};
use zonal_api::tiers;

use super::Admin;
use crate::commands::block::metrics::by_operation;

impl Admin {
    /// Samples while there are viewers, until the future is dropped.
    pub(super) async fn sample_for_viewers(self) {
        let mut audience = self.viewers.audience();
        let mut next = 0;
        loop {
            audience.sample_due().await;
            let shaper = self.block.shaper();
            let new = shaper.events(next);
            next = new.last().map_or(next, |last| last.number + 1);
            let new: Vec<Event> = new.iter().map(tiers::event).collect();
            audience.tell(tiers::document(shaper, &self.served(), self.requests()), &new);
        }
    }

    /// Times of all requests since the start.
    fn requests(&self) -> impl Iterator<Item = Requests> {
        let exports = self.block.shaper().exports().iter().zip(self.server.exports());
        exports.flat_map(|(made, served)| {
            by_operation(served.latencies()).map(|(operation, times)| Requests {
                operation,
                export: made.name.clone(),
                times: (&times.snapshot()).into(),
            })
        })
    }
}
