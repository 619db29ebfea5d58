//! What a crash leaves.
//!
//! 1. Walk all zones from header to header, the youngest first. A header that does not belong ends its zone.
//! 2. Segments that were flushed, as younger headers tell, are believed. The others are read to their last byte, and what does
//!    not fit its checksum is left out: it may be torn.
//! 3. Of entries that tell of one block the highest sequence counts; of equal ones, which are copies, the one that was written
//!    last.
//! 4. Pages of trims make holes of what is older than they are.
//! 5. Zones of the capacity tier that end behind a whole segment are filled further, as many as there are streams. Others that
//!    are half full are emptied when their turn comes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, index, low_u32};
use zonal_device::{
    Action, Answer, Command, DeviceError, Kind as DeviceKind, ZoneReport, ZoneState,
};

use crate::format::{Entry, Key, Kind, PAGE_SPAN, TRIM_BLOCKS, decode_table};
use crate::layout::{Spot, Zone};
use crate::map::Map;
use crate::open::Identity;
use crate::planted::Planted;
use crate::scan::{First, Scanner, Segment};
use crate::settings::tenants_of;
use crate::state::{State, ZoneUse};
use crate::tier::OpenZone;
use crate::{Export, ExportId, OpenError, OpenMode, Settings, Tier};

/// What it took to open the devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segments that were found.
    pub segments: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Reads of the devices.
    pub reads: u64,
    /// Of the bytes that were read, those read to see whether they are whole.
    pub verified_bytes: u64,
    /// Blocks of users that were found torn, and given up for what they were before.
    pub torn_blocks: u64,
}

/// What was found.
pub(crate) struct Recovered {
    pub(crate) exports: Vec<Export>,
    pub(crate) state: State,
    pub(crate) recovery: Recovery,
    /// Of these something lies about that must never be believed.
    pub(crate) distrusted: Vec<Key>,
    /// Zones of the capacity tier that can be filled further.
    pub(crate) half_full: Vec<OpenZone>,
}

/// What stands in the table.
struct Table {
    exports: Vec<Export>,
    given_up: BTreeSet<Zone>,
}

/// What is known of one of the few blocks that are not a user's.
#[derive(Clone, Copy)]
struct Few {
    sequence: u64,
    spot: Spot,
    check: u32,
}

/// What the headers said so far.
struct Found<'a> {
    scanner: &'a Scanner<'a>,
    /// By export: of each block the sequence that counts, and where it lies. Grown as blocks are heard of.
    sequences: Vec<Vec<u64>>,
    spots: Vec<Vec<Spot>>,
    few: BTreeMap<Key, Few>,
    lost: BTreeSet<(Key, u64)>,
    /// By zone: where its segments begin, and their numbers.
    segments: Vec<Vec<(u32, u64)>>,
    ends: Vec<u32>,
    sums: Vec<u32>,
    trimmed: Vec<BTreeSet<Key>>,
    /// Not known to have been flushed.
    suspects: Vec<Segment>,
    distrusted: BTreeSet<Key>,
    durable: [u64; 2],
    next_sequence: u64,
    next_number: u64,
}

pub(crate) async fn recover(
    scanner: Scanner<'_>,
    (reports, firsts): (&[Vec<ZoneReport>; 2], &[(Zone, First)]),
    identity: Identity,
    (settings, mode): (Settings, OpenMode),
) -> Result<Recovered, OpenError> {
    let mut zones: Vec<(u64, Zone)> = Vec::new();
    for (zone, first) in firsts {
        if let First::Ours { number, .. } = first {
            zones.push((*number, *zone));
        }
    }
    zones.sort_unstable_by(|a, b| b.cmp(a));
    let mut found = Found::new(&scanner);
    let mut walks = Vec::with_capacity(zones.len());
    for (_, zone) in zones {
        walks.push((zone, scanner.written(zone, scanner.report_of(reports, zone))));
    }
    scanner.walk(walks, (identity, mode), &mut |segment| found.hear(segment)).await?;
    for segment in core::mem::take(&mut found.suspects) {
        if found.is_flushed(&segment) || settings.has(Planted::TornTaken) {
            found.believe(&segment);
        } else {
            found.verify(&segment).await?;
        }
    }
    let Table { exports, given_up } = found.table().await?;
    let mut state = State::new(scanner.layout, Map::new(&[]), 0);
    state.given_up = given_up;
    for (tier, reports) in Tier::ALL.into_iter().zip(reports) {
        for (zone, report) in scanner.layout.zones(tier).zip(reports) {
            let is_missing = report.state == ZoneState::Offline && state.given_up.insert(zone);
            // What was in it may have been moved before, or not.
            if is_missing && mode != OpenMode::Salvage {
                return Err(OpenError::Unreadable(tier));
            }
            state.is_table_stale |= is_missing;
        }
    }
    found.make_holes(&exports).await?;
    found.hand_over(&exports, &mut state);
    let streams = scanner.layout.stream_count(tenants_of(&exports));
    let mut half_full = Vec::new();
    for (tier, reports) in Tier::ALL.into_iter().zip(reports) {
        for (zone, report) in scanner.layout.zones(tier).zip(reports) {
            let may_resume =
                half_full.len() < index(u64::from(streams)) && !state.given_up.contains(&zone);
            match may_resume.then(|| found.half_full(zone, report)).flatten() {
                Some(open) => {
                    found.resume(&mut state, open).await?;
                    half_full.push(open);
                }
                None => found.close(&mut state, zone, report).await?,
            }
        }
    }
    let distrusted = found.distrusted.iter().copied();
    let distrusted: Vec<Key> = distrusted.filter(|key| state.map.has(*key)).collect();
    let Found { segments, .. } = found;
    let mut recovery = scanner.recovery.into_inner();
    recovery.segments = segments.iter().map(|of_zone| of_zone.len() as u64).sum();
    Ok(Recovered { exports, state, recovery, distrusted, half_full })
}

impl<'a> Found<'a> {
    fn new(scanner: &'a Scanner<'a>) -> Self {
        let zones = index(u64::from(scanner.layout.zone_count()));
        Self {
            scanner,
            sequences: Vec::new(),
            spots: Vec::new(),
            few: BTreeMap::new(),
            lost: BTreeSet::new(),
            segments: alloc::vec![Vec::new(); zones],
            ends: alloc::vec![0; zones],
            sums: alloc::vec![0; zones],
            trimmed: alloc::vec![BTreeSet::new(); zones],
            suspects: Vec::new(),
            distrusted: BTreeSet::new(),
            durable: [0; 2],
            next_sequence: 1,
            next_number: 1,
        }
    }

    /// A segment was found; those of one zone come in order.
    fn hear(&mut self, segment: Segment) {
        let header = &segment.header;
        for (known, said) in self.durable.iter_mut().zip(header.durable) {
            *known = said.max(*known);
        }
        self.next_number = self.next_number.max(header.number + 1);
        let sequences = header.entries.iter().map(|entry| entry.sequence + 1);
        self.next_sequence = sequences.fold(self.next_sequence.max(header.next_sequence), u64::max);
        let zone = index(u64::from(segment.zone.0));
        self.segments[zone].push((header.at, header.number));
        self.ends[zone] = segment.end();
        self.sums[zone] = segment.sum;
        if self.is_flushed(&segment) {
            self.believe(&segment);
        } else {
            self.suspects.push(segment);
        }
    }

    /// What is flushed is whole.
    fn is_flushed(&self, segment: &Segment) -> bool {
        let tier = usize::from(segment.header.tier.id());
        segment.header.number < self.durable[tier] && segment.end() <= segment.limit
    }

    fn believe(&mut self, segment: &Segment) {
        for (entry, at) in segment.places() {
            self.note(segment, entry, at);
        }
    }

    /// Reads the segment's blocks, and believes what fits.
    async fn verify(&mut self, segment: &Segment) -> Result<(), OpenError> {
        let blocks = segment.limit.min(segment.end()) - segment.header.at - 1;
        let whole = match blocks {
            0 => None,
            _ => self.read(segment.zone, segment.header.at + 1, blocks).await?,
        };
        for (entry, at) in segment.places() {
            let behind = at - segment.header.at - 1;
            let verdict = match &whole {
                _ if !entry.key.kind().takes_block() => Verdict::Whole,
                _ if blocks <= behind => Verdict::Torn,
                Some(buffer) => self.judge(&entry, buffer, behind),
                None => match self.read(segment.zone, at, 1).await? {
                    Some(buffer) => self.judge(&entry, &buffer, 0),
                    None => Verdict::Unreadable,
                },
            };
            match (verdict, entry.key.kind()) {
                (Verdict::Whole, _) => self.note(segment, entry, at),
                // It may have been acknowledged: an error is what is left of it.
                (Verdict::Unreadable, Kind::Data | Kind::Lost) => {
                    let key = entry.key.as_kind(Kind::Lost);
                    self.note(segment, Entry { key, ..entry }, at);
                }
                (Verdict::Torn | Verdict::Unreadable, kind) => {
                    let is_users = matches!(kind, Kind::Data | Kind::Lost);
                    let key = if is_users { entry.key.as_kind(Kind::Data) } else { entry.key };
                    self.scanner.recovery.borrow_mut().torn_blocks += u64::from(is_users);
                    self.distrusted.insert(key);
                }
            }
        }
        Ok(())
    }

    fn judge(&self, entry: &Entry, buffer: &Buffer, behind: u32) -> Verdict {
        let at = index(u64::from(behind)) * BLOCK_BYTES;
        let seed = Entry::seed(entry.key, entry.sequence);
        let sum = buffer.checksum(self.scanner.ports.checksum, &seed, at..at + BLOCK_BYTES);
        if sum == entry.check { Verdict::Whole } else { Verdict::Torn }
    }

    /// An entry counts, unless a newer one is known.
    fn note(&mut self, segment: &Segment, entry: Entry, at: u32) {
        let Entry { key, sequence, check } = entry;
        let number = segment.header.number;
        let spot =
            self.scanner.layout.spot(segment.zone, Blocks(u64::from(at.min(segment.limit - 1))));
        match key.kind() {
            Kind::Trim => {
                let blocks = u64::from(check).min(TRIM_BLOCKS);
                for n in key.number()..key.number() + blocks {
                    self.note_block(Key::data(key.export(), n), sequence, (Spot::NONE, number));
                }
                let first = key.number() / PAGE_SPAN;
                let last = (key.number() + blocks.max(1) - 1) / PAGE_SPAN;
                let pages = (first..=last).map(|page| Key::new(Kind::Page, key.export(), page));
                self.trimmed[index(u64::from(segment.zone.0))].extend(pages);
            }
            Kind::Data => self.note_block(key, sequence, (spot, number)),
            Kind::Lost => {
                self.lost.insert((key.as_kind(Kind::Data), sequence));
                self.note_block(key, sequence, (spot, number));
            }
            Kind::Page | Kind::Table => {
                let known = self.few.get(&key).copied();
                let is_newer = known.is_none_or(|known| {
                    (known.sequence, self.number_at(known.spot)) < (sequence, number)
                });
                if is_newer {
                    self.few.insert(key, Few { sequence, spot, check });
                }
            }
        }
    }

    fn note_block(&mut self, key: Key, sequence: u64, (spot, number): (Spot, u64)) {
        // No export is larger than the devices.
        if self.scanner.layout.blocks() <= key.number() {
            return;
        }
        let (export, at) = (usize::from(key.export().0), index(key.number()));
        if self.spots.len() <= export {
            self.spots.resize_with(export + 1, Vec::new);
            self.sequences.resize_with(export + 1, Vec::new);
        }
        if self.spots[export].len() <= at {
            self.spots[export].resize(at + 1, Spot::NONE);
            self.sequences[export].resize(at + 1, 0);
        }
        let (known, known_spot) = (self.sequences[export][at], self.spots[export][at]);
        let is_later_copy = known == sequence && self.number_at(known_spot) < number;
        if known < sequence || is_later_copy {
            self.sequences[export][at] = sequence;
            self.spots[export][at] = spot;
        }
    }

    /// The number of the segment in which a block lies.
    fn number_at(&self, spot: Spot) -> u64 {
        if spot == Spot::NONE {
            return 0;
        }
        let (zone, at) = self.scanner.layout.locate(spot);
        let segments = &self.segments[index(u64::from(zone.0))];
        let next = segments.partition_point(|(begin, _)| u64::from(*begin) <= at.0);
        segments[next - 1].1
    }

    /// The table of exports.
    async fn table(&self) -> Result<Table, OpenError> {
        let unreadable = || OpenError::Unreadable(Tier::Capacity);
        let table = *self.few.get(&Key::TABLE).ok_or_else(unreadable)?;
        let block = self.read_few(Key::TABLE, table).await?.ok_or_else(unreadable)?;
        let (exports, given_up) =
            decode_table(&block.bytes()[..BLOCK_BYTES]).ok_or_else(unreadable)?;
        Ok(Table { exports, given_up })
    }

    /// What a page says is a hole is one, unless it was written later.
    async fn make_holes(&mut self, exports: &[Export]) -> Result<(), OpenError> {
        let pages: Vec<(Key, Few)> = self.few.iter().map(|(key, few)| (*key, *few)).collect();
        for (key, few) in pages.into_iter().filter(|(key, _)| key.kind() == Kind::Page) {
            let export = usize::from(key.export().0);
            if exports.len() <= export {
                self.few.remove(&key);
                continue;
            }
            let Some(page) = self.read_few(key, few).await? else {
                return Err(OpenError::Unreadable(Tier::Capacity));
            };
            let Some(spots) = self.spots.get_mut(export) else { continue };
            let first = index(key.number() * PAGE_SPAN);
            let blocks = spots.iter_mut().zip(&self.sequences[export]).skip(first);
            for (n, (spot, sequence)) in blocks.take(index(PAGE_SPAN)).enumerate() {
                let is_hole = page.bytes()[n / 8] >> (n % 8) & 1 == 1;
                if is_hole && *sequence < few.sequence {
                    *spot = Spot::NONE;
                }
            }
        }
        Ok(())
    }

    async fn read_few(&self, key: Key, few: Few) -> Result<Option<Buffer>, OpenError> {
        let (zone, at) = self.scanner.layout.locate(few.spot);
        let Some(buffer) = self.read(zone, low_u32(index(at.0)), 1).await? else { return Ok(None) };
        let seed = Entry::seed(key, few.sequence);
        let sum = buffer.checksum(self.scanner.ports.checksum, &seed, 0..BLOCK_BYTES);
        Ok((sum == few.check).then_some(buffer))
    }

    /// Reads blocks; `None` when the device cannot.
    async fn read(&self, zone: Zone, at: u32, blocks: u32) -> Result<Option<Buffer>, OpenError> {
        let call = self.scanner.read(zone, at, u64::from(blocks)).await;
        let bytes = Blocks(u64::from(blocks)).bytes().0;
        self.scanner.recovery.borrow_mut().verified_bytes += bytes;
        match call.await {
            Ok(Answer::Read(buffer)) => Ok(Some(buffer)),
            Err(error @ DeviceError::DeviceGone) => {
                Err(OpenError::Device(self.scanner.layout.tier_of(zone), error))
            }
            _ => Ok(None),
        }
    }

    fn hand_over(&mut self, exports: &[Export], state: &mut State) {
        let mut map = Map::new(exports);
        for (export, spots) in (0..).map(ExportId).zip(core::mem::take(&mut self.spots)) {
            for (number, spot) in (0..).zip(spots).filter(|(_, spot)| *spot != Spot::NONE) {
                let data = Key::data(export, number);
                let sequence = self.sequences[usize::from(export.0)][index(number)];
                let kind = match self.lost.contains(&(data, sequence)) {
                    true => Kind::Lost,
                    false => Kind::Data,
                };
                if map.has(data) {
                    map.set(data.as_kind(kind), spot);
                }
            }
        }
        self.sequences = Vec::new();
        for (key, few) in &self.few {
            if map.has(*key) {
                map.set(*key, few.spot);
                map.renew(*key, few.sequence);
            }
        }
        state.adopt_map(self.scanner.layout, map);
        state.next_sequence = self.next_sequence;
        state.next_number = self.next_number;
        state.durable = self.durable;
    }

    /// The zone, if it is one of the capacity tier that can be filled further.
    fn half_full(&self, zone: Zone, report: &ZoneReport) -> Option<OpenZone> {
        let layout = self.scanner.layout;
        let at = index(u64::from(zone.0));
        let tier = layout.tier_of(zone);
        let is_in_order = match layout.place(tier).geometry.kind {
            // The next write must be where the last segment ended.
            DeviceKind::Zoned => {
                report.state.is_active() && report.written.0 == u64::from(self.ends[at])
            }
            DeviceKind::Conventional => true,
        };
        let open = OpenZone::resume(zone, self.ends[at], self.sums[at]);
        let has_room = u64::from(self.ends[at]) + 1 < layout.zone_capacity(zone).0;
        let is_begun = !self.segments[at].is_empty();
        (tier == Tier::Capacity && is_in_order && has_room && is_begun).then_some(open)
    }

    async fn resume(&mut self, state: &mut State, open: OpenZone) -> Result<(), OpenError> {
        let layout = self.scanner.layout;
        let at = index(u64::from(open.zone.0));
        state.set_usage(layout, open.zone, ZoneUse::Open);
        state.adopt_zone(open.zone, self.segments[at][0].1, open.at);
        if layout.capacity.geometry.kind == DeviceKind::Zoned {
            return Ok(());
        }
        let (zone, written) = (layout.zone_id(open.zone), Blocks(u64::from(open.at)));
        let restored = self.scanner.call(Tier::Capacity, Command::Restore { zone, written }).await;
        restored.map(drop).map_err(|error| OpenError::Device(Tier::Capacity, error))
    }

    /// Says what a zone is used for, and makes it full on its device if it is not empty.
    async fn close(
        &mut self,
        state: &mut State,
        zone: Zone,
        report: &ZoneReport,
    ) -> Result<(), OpenError> {
        let layout = self.scanner.layout;
        let at = index(u64::from(zone.0));
        let tier = layout.tier_of(zone);
        let geometry = &layout.place(tier).geometry;
        // What was given up once stays so, whatever its device says of it now: the next start may do without it.
        if state.given_up.contains(&zone) {
            state.set_usage(layout, zone, ZoneUse::Retired);
            return Ok(());
        }
        let is_zoned = geometry.kind == DeviceKind::Zoned;
        if self.segments[at].is_empty() && (!is_zoned || report.written.0 == 0) {
            // Opened by a write of which nothing got there: it has a place among the active ones.
            return match is_zoned && report.state.is_active() {
                true => self.manage(zone, Action::Reset).await,
                false => Ok(()),
            };
        }
        let number = self.segments[at].first().map_or(0, |(_, number)| *number);
        state.set_usage(layout, zone, ZoneUse::Sealed);
        let written = low_u32(index(geometry.zone_capacity.0)).min(self.ends[at]);
        state.adopt_zone(zone, number, written);
        state.zone_mut(zone).trimmed = core::mem::take(&mut self.trimmed[at]);
        match (is_zoned, report.state.is_active()) {
            (true, false) => Ok(()),
            (true, true) => self.manage(zone, Action::Finish).await,
            (false, _) => {
                let (zone, written) = (layout.zone_id(zone), geometry.zone_capacity);
                let restored = self.scanner.call(tier, Command::Restore { zone, written }).await;
                restored.map(drop).map_err(|error| OpenError::Device(tier, error))
            }
        }
    }

    async fn manage(&self, zone: Zone, action: Action) -> Result<(), OpenError> {
        let layout = self.scanner.layout;
        let tier = layout.tier_of(zone);
        let command = Command::Manage { zone: layout.zone_id(zone), action };
        match self.scanner.call(tier, command).await {
            Err(error @ DeviceError::DeviceGone) => Err(OpenError::Device(tier, error)),
            // It keeps its place among the active zones until it is reset.
            _ => Ok(()),
        }
    }
}

/// What became of a block.
enum Verdict {
    Whole,
    Torn,
    Unreadable,
}
