//! Completion order: completes the writes of a zone in submission order, although the kernel may
//! finish them in any order.
//!
//! A failed write completes only after all later writes of its zone have come back from the kernel.
//! Then no write can land any more on blocks that the owner is about to write again.

use std::collections::{BTreeMap, VecDeque};

use zonal_base::{Blocks, ZoneId};
use zonal_device::DeviceError;

#[derive(Debug, Default)]
pub(crate) struct WriteOrder {
    /// Writes in flight by zone, oldest first. Zones without writes have no entry.
    zones: BTreeMap<ZoneId, VecDeque<Write>>,
}

#[derive(Debug)]
struct Write {
    id: u32,
    blocks: Blocks,
    outcome: Option<Result<(), DeviceError>>,
}

/// Writes that can complete now, in this order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Released {
    /// Writes that are on the medium: slot and length in blocks.
    pub(crate) written: Vec<(u32, Blocks)>,
    /// Failed writes: slot and error. When there are any, the zone has no more writes in flight.
    pub(crate) failed: Vec<(u32, DeviceError)>,
}

impl WriteOrder {
    /// Registers a write that begins. `id` is its slot.
    pub(crate) fn begin(&mut self, zone: ZoneId, id: u32, blocks: Blocks) {
        self.zones.entry(zone).or_default().push_back(Write { id, blocks, outcome: None });
    }

    /// Takes the result of a write from the kernel. Requires: the write began.
    pub(crate) fn end(
        &mut self,
        zone: ZoneId,
        id: u32,
        outcome: Result<(), DeviceError>,
    ) -> Released {
        let writes = self.zones.get_mut(&zone).expect("the zone has writes in flight");
        let ended = writes.iter_mut().find(|write| write.id == id);
        ended.expect("the write began").outcome = Some(outcome);
        let mut released = Released::default();
        while let Some(Write { id, blocks, outcome: Some(Ok(())) }) = writes.front() {
            released.written.push((*id, *blocks));
            writes.pop_front();
        }
        let has_failed = matches!(writes.front(), Some(Write { outcome: Some(Err(_)), .. }));
        if has_failed && writes.iter().all(|write| write.outcome.is_some()) {
            released.failed = writes.drain(..).map(|write| (write.id, write.error())).collect();
            for (_, error) in released.failed.iter_mut().skip(1) {
                if !matches!(error, DeviceError::DeviceGone | DeviceError::DeviceReadOnly) {
                    *error = DeviceError::InvalidWrite;
                }
            }
        }
        if writes.is_empty() {
            self.zones.remove(&zone);
        }
        released
    }
}

impl Write {
    /// Error of a write of a failed sequence. A write that the kernel carried out fails with
    /// `InvalidWrite`, because an earlier one failed.
    fn error(&self) -> DeviceError {
        self.outcome.and_then(Result::err).unwrap_or(DeviceError::InvalidWrite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: ZoneId = ZoneId(3);
    const BLOCKS: Blocks = Blocks(2);

    fn order_of(count: u32) -> WriteOrder {
        let mut order = WriteOrder::default();
        order.begin(ZoneId(4), 99, BLOCKS);
        (0..count).for_each(|id| order.begin(ZONE, id, BLOCKS));
        order
    }

    fn written(ids: &[u32]) -> Released {
        let written = ids.iter().map(|id| (*id, BLOCKS)).collect();
        Released { written, failed: Vec::new() }
    }

    #[test]
    fn writes_are_answered_in_order() {
        let mut order = order_of(3);
        assert_eq!(order.end(ZONE, 2, Ok(())), written(&[]));
        assert_eq!(order.end(ZONE, 0, Ok(())), written(&[0]));
        assert_eq!(order.end(ZoneId(4), 99, Ok(())), written(&[99]), "zones are independent");
        assert_eq!(order.end(ZONE, 1, Ok(())), written(&[1, 2]));
        assert!(order.zones.is_empty());
    }

    #[test]
    fn a_failure_waits_for_what_is_behind_it_and_takes_it_along() {
        let mut order = order_of(4);
        assert_eq!(order.end(ZONE, 1, Err(DeviceError::Media)), written(&[]));
        assert_eq!(order.end(ZONE, 3, Ok(())), written(&[]));
        assert_eq!(order.end(ZONE, 0, Ok(())), written(&[0]));
        let released = order.end(ZONE, 2, Err(DeviceError::Media));
        let (media, invalid) = (DeviceError::Media, DeviceError::InvalidWrite);
        assert_eq!(released.failed, [(1, media), (2, invalid), (3, invalid)]);
        assert_eq!(released.written, []);
    }

    #[test]
    fn a_lost_device_is_said_to_all() {
        let mut order = order_of(2);
        order.end(ZONE, 1, Err(DeviceError::DeviceGone));
        let released = order.end(ZONE, 0, Err(DeviceError::Media));
        assert_eq!(released.failed, [(0, DeviceError::Media), (1, DeviceError::DeviceGone)]);
    }
}
