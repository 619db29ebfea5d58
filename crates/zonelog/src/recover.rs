//! Recovery: rebuilds the in-memory state of the log from the scanned zones.
//!
//! 1. Flush the device, so that everything found is durable.
//! 2. Scan each zone that begins with a segment, up to [`SCAN_WINDOW`] zones at a time (`scan`).
//! 3. Report every record to the owner; keep tombstones.
//! 4. Compare the zones with the newest manifest (`damage`).
//! 5. Continue the unfinished zones as far as there are slots; finish the others.
//! 6. Rewrite the tombstones that were found behind unreadable blocks (`salvage`). Then reset the
//!    zones whose first block is unreadable.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;

use zonal_base::{Blocks, ZoneId, index};
use zonal_device::{Command, DeviceError, DeviceKind, ZoneAction, ZoneReport, ZoneState};

use crate::damage::{self, Damage, FoundFill};
use crate::format::footer::Trailer;
use crate::format::manifest::Manifest;
use crate::format::record;
use crate::log::Inner;
use crate::mutation::Mutation;
use crate::open::{FirstBlock, SCAN_WINDOW};
use crate::scan::{Scan, Scanner, ZoneEnd};
use crate::segment::SEGMENT_BLOCKS_MAX;
use crate::state::{Tombstone, Zone};
use crate::writer::Writer;
use crate::{AppendError, Descriptor, Kind, Log, Recovered, Stream, ZoneUse};

/// Added to the precedence of records in unfinished zones, so that they win over records in full
/// zones.
const UNFINISHED: u64 = 1 << 63;

/// Tombstones found behind unreadable blocks, by zone.
type Salvaged = Vec<(ZoneId, Vec<Descriptor>)>;

/// Recovers all zones into `log`.
pub(crate) async fn recover(
    log: &Log,
    zones: &[ZoneReport],
    firsts: &[FirstBlock],
    on_record: &mut dyn FnMut(Recovered<'_>),
) -> Result<(), DeviceError> {
    log.inner.flush().await?;
    let scanner = Scanner { ports: &log.inner.ports, geometry: &log.inner.geometry };
    let (mut unfinished, mut without_records) = (Vec::new(), Vec::new());
    let (mut salvaged, mut found) = (Vec::new(), FoundZones::default());
    let mut scans: Vec<Pin<Box<dyn Future<Output = _> + '_>>> = Vec::new();
    let mut waiting = zones.iter().zip(firsts);
    loop {
        while scans.len() < SCAN_WINDOW {
            let Some((report, first)) = waiting.next() else { break };
            match first {
                FirstBlock::Segment(header) if header.identity == log.inner.identity => {
                    scans.push(Box::pin(scanner.scan(*report, *header)));
                }
                other => without_records.push((*report, *other)),
            }
        }
        if scans.is_empty() {
            break;
        }
        let mut scan = first_ready(&mut scans).await?;
        found.note(&mut scan);
        match scan.ending {
            ZoneEnd::Footer => {
                log.adopt(&scan, on_record);
                log.restore(scan.zone, log.inner.geometry.zone_capacity).await?;
            }
            ZoneEnd::Open(_) => unfinished.push(scan),
            ZoneEnd::Unreadable(_) => {
                log.adopt(&scan, on_record);
                log.note_unreadable(scan.zone);
                log.close_for_good(zones[index(u64::from(scan.zone.0))]).await?;
                salvaged.push((scan.zone, scan.salvaged));
            }
        }
    }
    // Unfinished zones come last, because of equal records the last reported one wins. The copies
    // that reclaim was writing before a crash are in an unfinished zone, and the victim may be
    // reset.
    unfinished.iter().for_each(|scan| log.adopt(scan, on_record));
    log.note_marks(&without_records);
    log.note_damage(&found, &without_records);
    let torn = log.empty(&scanner, without_records, &mut salvaged).await?;
    log.go_on_with(unfinished, zones).await?;
    let is_kept = log.keep_salvaged(&salvaged).await;
    for report in torn {
        match is_kept {
            Ok(()) => log.empty_or_retire(report, FirstBlock::Torn).await?,
            // The tombstones found no room. Reclaim tries again when it picks the zone.
            Err(_) => log.inner.state.borrow_mut().zone_mut(report.zone).usage = ZoneUse::Sealed,
        }
    }
    log.inner.list_found();
    Ok(())
}

/// Returns the writable unfinished zone with the most free blocks.
fn roomiest(unfinished: &[Scan], zones: &[ZoneReport]) -> Option<usize> {
    let can_go_on = |at: &usize| is_writable(zones[index(u64::from(unfinished[*at].zone.0))].state);
    (0..unfinished.len()).filter(can_go_on).min_by_key(|at| position(&unfinished[*at]))
}

/// A conventional device reports all zones as empty before their write pointers are restored.
const fn is_writable(state: ZoneState) -> bool {
    state.is_active() || matches!(state, ZoneState::Empty)
}

/// Block at which the zone's segments end.
fn position(scan: &Scan) -> Blocks {
    match scan.ending {
        ZoneEnd::Open(position) => position,
        ZoneEnd::Footer | ZoneEnd::Unreadable(_) => Blocks(u64::MAX),
    }
}

/// The fills that recovery found, and the newest manifest.
#[derive(Default)]
struct FoundZones {
    fills: Vec<FoundFill>,
    manifest: Option<Manifest>,
}

impl FoundZones {
    fn note(&mut self, scan: &mut Scan) {
        self.fills.push(FoundFill { fill: scan.fill, has_footer: scan.ending == ZoneEnd::Footer });
        let number = |manifest: &Option<Manifest>| manifest.as_ref().map(|found| found.number);
        if number(&self.manifest) < number(&scan.manifest) {
            self.manifest = scan.manifest.take();
        }
    }
}

impl Log {
    /// Registers the zones as later manifests tell them, and what is damaged or missing.
    fn note_damage(&self, found: &FoundZones, without_records: &[(ZoneReport, FirstBlock)]) {
        let Inner { ports, geometry, .. } = &*self.inner;
        let mut state = self.inner.state.borrow_mut();
        for FoundFill { fill, has_footer } in &found.fills {
            state.fills.found(*fill, *has_footer, ports.checksum);
        }
        let mut damage = Vec::new();
        // On a conventional device an empty zone has a mark. On a zoned one a power cut can leave
        // zeros where nothing was durable.
        let is_never_blank = geometry.kind == DeviceKind::Conventional && !found.fills.is_empty();
        for (report, first) in without_records {
            match first {
                FirstBlock::Blank if is_never_blank => damage.push(Damage::Blank(report.zone)),
                FirstBlock::Misplaced(_) | FirstBlock::Segment(_) => {
                    damage.push(Damage::Misplaced(report.zone));
                }
                _ => {}
            }
        }
        if let Some(manifest) = &found.manifest {
            state.fills.found_number(manifest.number);
            ports.generations.note_suspect_below(manifest.suspect_below);
            damage.extend(damage::missing(manifest, &found.fills, ports.checksum));
        }
        // A zone without its first block may have been any zone, with the newest manifest in it.
        let is_torn = |(_, first): &(ZoneReport, FirstBlock)| *first == FirstBlock::Torn;
        let has_losses = !damage.is_empty() || without_records.iter().any(is_torn);
        if has_losses && !self.inner.settings.has(Mutation::LossIgnored) {
            ports.generations.note_losses();
            state.stats.losses += 1;
        }
        state.damage.extend(damage);
    }

    fn note_marks(&self, zones: &[(ZoneReport, FirstBlock)]) {
        let mut state = self.inner.state.borrow_mut();
        for (_, first) in zones {
            if let FirstBlock::Mark(mark) = first {
                state.next_sequence = state.next_sequence.max(mark.zone_sequence + 1);
            }
        }
    }

    /// Resets zones that do not begin with a segment. Zones that still hold tombstones are returned
    /// instead: they are reset once the tombstones are rewritten elsewhere.
    async fn empty(
        &self,
        scanner: &Scanner<'_>,
        zones: Vec<(ZoneReport, FirstBlock)>,
        salvaged: &mut Salvaged,
    ) -> Result<Vec<ZoneReport>, DeviceError> {
        let mut with_tombstones = Vec::new();
        for (report, first) in zones {
            let mut tombstones = Vec::new();
            if first == FirstBlock::Torn {
                self.note_unreadable(report.zone);
                let behind = Blocks(1)..scanner.readable(&report).end;
                tombstones = scanner.tombstones(report.zone, self.inner.identity, behind).await?;
            }
            if tombstones.is_empty() {
                self.empty_or_retire(report, first).await?;
            } else {
                self.close_for_good(report).await?;
                salvaged.push((report.zone, tombstones));
                with_tombstones.push(report);
            }
        }
        Ok(with_tombstones)
    }

    /// Resets a zone that does not begin with a segment. An unreadable first block may become
    /// readable later and lead to old records again. So if the reset fails, the retired zone counts
    /// as holding records older than any tombstone.
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
            Ok(()) => state.note_empty(zone),
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
        let precedence = match scan.ending {
            ZoneEnd::Footer | ZoneEnd::Unreadable(_) => sequence,
            // Copies written by reclaim win over the originals, see [`recover`].
            ZoneEnd::Open(_) => UNFINISHED | sequence,
        };
        for descriptor in scan.records.iter().filter(|record| record.kind != Kind::TOMBSTONE) {
            on_record(Recovered { zone: scan.zone, descriptor, precedence });
        }
    }

    fn note_unreadable(&self, zone: ZoneId) {
        self.inner.state.borrow_mut().note_unreadable(zone);
        self.inner.ports.generations.skip();
    }

    /// Registers salvaged tombstones and rewrites them, so that the next recovery finds them
    /// whatever blocks are readable by then.
    async fn keep_salvaged(&self, salvaged: &Salvaged) -> Result<(), AppendError> {
        let all = salvaged.iter().flat_map(|(zone, tombstones)| {
            tombstones.iter().map(|Descriptor { key, generation, .. }| {
                (*key, Tombstone { generation: *generation, zone: *zone })
            })
        });
        let unknown = all.filter_map(|(key, tombstone)| {
            self.inner.ports.generations.found(tombstone.generation);
            let mut state = self.inner.state.borrow_mut();
            let known = state.tombstones.get(&key).map(|known| known.generation);
            let is_news = known < Some(tombstone.generation);
            is_news.then(|| state.note_tombstone(key, tombstone))?;
            Some((key, tombstone.generation))
        });
        let unknown = unknown.collect();
        self.rewrite_tombstones(unknown).await
    }

    /// Continues as many unfinished zones as there are slots; finishes the others.
    async fn go_on_with(
        &self,
        mut unfinished: Vec<Scan>,
        zones: &[ZoneReport],
    ) -> Result<(), DeviceError> {
        // The youngest first: the log was filling it last.
        unfinished.sort_by_key(|scan| Reverse(scan.first.zone_sequence));
        if self.inner.state.borrow().empty.is_empty()
            && let Some(at) = roomiest(&unfinished, zones)
        {
            // No zone is empty: reclaim had taken the reserved empty zone. Its rest is all the
            // space that rewrites have.
            let scan = unfinished.remove(at);
            self.go_on_or_finish(scan, zones, [Stream::Rewrite, Stream::Fill]).await?;
        }
        for scan in unfinished {
            self.go_on_or_finish(scan, zones, [Stream::Fill, Stream::Rewrite]).await?;
        }
        Ok(())
    }

    /// Restores the zone's write pointer on a conventional device, which does not store one.
    async fn restore(&self, zone: ZoneId, written: Blocks) -> Result<(), DeviceError> {
        if self.inner.geometry.kind == DeviceKind::Conventional {
            let restore = Command::Restore { zone, written };
            self.inner.ports.device.call(restore).await?;
        }
        Ok(())
    }

    /// Closes the zone to writes until its next reset.
    async fn close_for_good(&self, report: ZoneReport) -> Result<(), DeviceError> {
        self.restore(report.zone, self.inner.geometry.zone_capacity).await?;
        match report.state.is_active() {
            true => self.finish(report.zone).await,
            false => Ok(()),
        }
    }

    async fn finish(&self, zone: ZoneId) -> Result<(), DeviceError> {
        let finish = Command::Manage { zone, action: ZoneAction::Finish };
        match self.inner.ports.device.call(finish).await {
            Err(error @ DeviceError::DeviceGone) => Err(error),
            _ => Ok(()),
        }
    }

    /// Continues a zone if one of the streams has a slot; otherwise finishes it.
    async fn go_on_or_finish(
        &self,
        scan: Scan,
        zones: &[ZoneReport],
        streams: [Stream; 2],
    ) -> Result<(), DeviceError> {
        let (end, report) = (position(&scan), zones[index(u64::from(scan.zone.0))]);
        self.restore(scan.zone, end).await?;
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
        self.finish(scan.zone).await
    }

    /// Continues at block `at` in a zone whose segments end at `end`. The blocks between are torn.
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

/// Waits for the first of `futures` that is ready, removes it from the list and returns its output.
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
