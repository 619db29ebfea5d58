//! Recovery: what the zones hold becomes what the log knows.
//!
//! 1. Scan each zone that begins with a segment, some zones at a time (`scan`).
//! 2. Tell the owner of every record; keep tombstones.
//! 3. Go on where the unfinished zones end, as far as slots allow; make the others full.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;

use zonal_base::{Blocks, index};
use zonal_device::{Action, Command, DeviceError, Kind as DeviceKind, ZoneReport, ZoneState};

use crate::format::footer::Trailer;
use crate::format::record;
use crate::open::{FirstBlock, SCAN_WINDOW};
use crate::scan::{Ending, Scan, Scanner};
use crate::segment::SEGMENT_BLOCKS_MAX;
use crate::state::{Tombstone, Zone};
use crate::writer::Writer;
use crate::{Descriptor, Kind, Log, Recovered, Stream, ZoneUse};

/// Recovers all zones into `log`.
pub(crate) async fn recover(
    log: &Log,
    zones: &[ZoneReport],
    firsts: &[FirstBlock],
    on_record: &mut dyn FnMut(Recovered<'_>),
) -> Result<(), DeviceError> {
    let scanner = Scanner { ports: &log.inner.ports, geometry: &log.inner.geometry };
    let (mut unfinished, mut without_records) = (Vec::new(), Vec::new());
    let mut scans: Vec<Pin<Box<dyn Future<Output = _> + '_>>> = Vec::new();
    let mut waiting = zones.iter().zip(firsts);
    loop {
        while scans.len() < SCAN_WINDOW {
            let Some((report, first)) = waiting.next() else { break };
            match first {
                FirstBlock::Segment(header) => scans.push(Box::pin(scanner.scan(*report, *header))),
                other => without_records.push((*report, *other)),
            }
        }
        if scans.is_empty() {
            break;
        }
        let scan = first_ready(&mut scans).await?;
        match scan.ending {
            Ending::Footer => {
                log.adopt(&scan, on_record);
                log.restore(&scan, log.inner.geometry.zone_capacity).await?;
            }
            Ending::Open(_) => unfinished.push(scan),
        }
    }
    // Last, because of equal records those count that are noted last: what was written again when the log
    // stopped stands in an unfinished zone, and the zone that it came from may go.
    unfinished.iter().for_each(|scan| log.adopt(scan, on_record));
    log.note_marks(&without_records);
    for (report, first) in without_records {
        log.empty_or_retire(report, first).await?;
    }
    // The youngest first: it is the one that was being filled.
    unfinished.sort_by_key(|scan| Reverse(scan.first.zone_sequence));
    if log.inner.state.borrow().empty.is_empty()
        && let Some(at) = roomiest(&unfinished, zones)
    {
        // Reclaim was at work and had taken the last empty zone: what is left of it is all that it has.
        let scan = unfinished.remove(at);
        log.go_on_or_finish(scan, zones, [Stream::Rewrite, Stream::Fill]).await?;
    }
    for scan in unfinished {
        log.go_on_or_finish(scan, zones, [Stream::Fill, Stream::Rewrite]).await?;
    }
    Ok(())
}

/// The zone with the most room among those that can be gone on with.
fn roomiest(unfinished: &[Scan], zones: &[ZoneReport]) -> Option<usize> {
    let can_go_on = |at: &usize| is_writable(zones[index(u64::from(unfinished[*at].zone.0))].state);
    (0..unfinished.len()).filter(can_go_on).min_by_key(|at| position(&unfinished[*at]))
}

/// Conventional zones are all reported as empty.
const fn is_writable(state: ZoneState) -> bool {
    state.is_active() || matches!(state, ZoneState::Empty)
}

/// Where the segments of a zone end.
fn position(scan: &Scan) -> Blocks {
    match scan.ending {
        Ending::Footer => Blocks(u64::MAX),
        Ending::Open(position) => position,
    }
}

impl Log {
    fn note_marks(&self, zones: &[(ZoneReport, FirstBlock)]) {
        let mut state = self.inner.state.borrow_mut();
        for (_, first) in zones {
            if let FirstBlock::Mark(mark) = first {
                state.next_sequence = state.next_sequence.max(mark.zone_sequence + 1);
            }
        }
    }

    /// A zone that does not begin with a segment. What it begins with may be readable the next time, and
    /// records behind it found again: the zone is emptied for good or, if that fails, held to have records
    /// older than any tombstone.
    async fn empty_or_retire(
        &self,
        report: ZoneReport,
        first: FirstBlock,
    ) -> Result<(), DeviceError> {
        let ZoneReport { zone, state, .. } = report;
        let is_zoned = self.inner.geometry.kind == DeviceKind::Zoned;
        let emptied = match (state, first) {
            (ZoneState::Empty, FirstBlock::Mark(_)) => Ok(()),
            (ZoneState::Empty, _) if is_zoned => Ok(()),
            (ZoneState::ReadOnly, _) => Err(DeviceError::ZoneReadOnly),
            (ZoneState::Offline, _) => Err(DeviceError::ZoneOffline),
            _ => self.inner.reset(zone).await,
        };
        let mut state = self.inner.state.borrow_mut();
        match emptied {
            Ok(()) => state.empty.push_back(zone),
            Err(error @ DeviceError::DeviceGone) => return Err(error),
            Err(_) => {
                if first != FirstBlock::Blank {
                    state.zone_mut(zone).generation_min = 0;
                }
                state.retire(zone);
            }
        }
        Ok(())
    }

    fn adopt(&self, scan: &Scan, on_record: &mut dyn FnMut(Recovered<'_>)) {
        let mut state = self.inner.state.borrow_mut();
        let sequence = scan.first.zone_sequence;
        state.next_sequence = state.next_sequence.max(sequence + 1);
        *state.zone_mut(scan.zone) = Zone { usage: ZoneUse::Sealed, sequence, ..Zone::empty() };
        for record in &scan.records {
            let Descriptor { key, generation, kind, .. } = *record;
            self.inner.ports.generations.found(generation);
            state.zone_mut(scan.zone).note_record(kind, generation, record.len);
            if kind == Kind::TOMBSTONE {
                state.note_tombstone(key, Tombstone { generation, zone: scan.zone });
            }
        }
        drop(state);
        for descriptor in scan.records.iter().filter(|record| record.kind != Kind::TOMBSTONE) {
            on_record(Recovered { zone: scan.zone, descriptor });
        }
    }

    /// A conventional device has forgotten where the zone's write pointer is.
    async fn restore(&self, scan: &Scan, written: Blocks) -> Result<(), DeviceError> {
        if self.inner.geometry.kind == DeviceKind::Conventional {
            let restore = Command::Restore { zone: scan.zone, written };
            self.inner.ports.device.call(restore).await?;
        }
        Ok(())
    }

    /// Goes on in a zone, if one of the streams has a slot.
    async fn go_on_or_finish(
        &self,
        scan: Scan,
        zones: &[ZoneReport],
        streams: [Stream; 2],
    ) -> Result<(), DeviceError> {
        let (end, report) = (position(&scan), zones[index(u64::from(scan.zone.0))]);
        self.restore(&scan, end).await?;
        let at = match self.inner.geometry.kind {
            DeviceKind::Conventional => end,
            DeviceKind::Zoned => report.written,
        };
        if !is_writable(report.state) {
            return Ok(());
        }
        if self.go_on(&scan, (end, at), streams) {
            return Ok(());
        }
        let finish = Command::Manage { zone: scan.zone, action: Action::Finish };
        match self.inner.ports.device.call(finish).await {
            Err(error @ DeviceError::DeviceGone) => Err(error),
            _ => Ok(()),
        }
    }

    /// Goes on at `at` in a zone whose segments end at `end`. What lies between is torn.
    fn go_on(&self, scan: &Scan, (end, at): (Blocks, Blocks), streams: [Stream; 2]) -> bool {
        let mut footer = Vec::new();
        for descriptor in &scan.records {
            record::encode(descriptor, &mut footer);
        }
        let capacity = self.inner.geometry.zone_capacity;
        if end + SEGMENT_BLOCKS_MAX <= at || capacity < at + Trailer::blocks_for(footer.len()) {
            return false;
        }
        let mut state = self.inner.state.borrow_mut();
        let slot = streams.into_iter().find_map(|stream| {
            let slot = state.slots.acquire(stream)?;
            Some((stream, slot))
        });
        let Some((stream, slot)) = slot else { return false };
        let sequence = scan.first.zone_sequence;
        let mut writer = Writer::new(stream, slot, sequence, capacity);
        writer.position = at;
        writer.next_segment = zonal_base::low_u32(scan.segments.len());
        writer.previous = scan.segments.last().map_or(0, |header| header.crc);
        writer.first_crc = (Blocks(0) < at).then_some(scan.first.crc);
        writer.footer = footer;
        writer.footer_records = zonal_base::low_u32(scan.records.len());
        state.writers.insert(scan.zone, writer);
        state.zone_mut(scan.zone).usage = ZoneUse::Open;
        true
    }
}

/// The output of the first of `futures` that is ready; it leaves the list.
async fn first_ready<T>(futures: &mut Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> T {
    poll_fn(|cx| {
        for at in 0..futures.len() {
            if let Poll::Ready(output) = futures[at].as_mut().poll(cx) {
                drop(futures.swap_remove(at));
                return Poll::Ready(output);
            }
        }
        Poll::Pending
    })
    .await
}
