//! Crash recovery: rebuilds the map from segment headers of both tiers.
//!
//! 1. Walk all zones from header to header, the youngest zone first. A header that does not belong
//!    ends its zone.
//! 2. Accept segments that younger headers report as flushed. Read the others completely, and leave
//!    out blocks with a wrong checksum: they may be torn.
//! 3. Of the entries for one block the highest sequence wins; of equal ones, which are copies, the
//!    one in the youngest segment. Retired zones in the export table are left out.
//! 4. Compare the result with the zone table (`zone_table_check`). If flushed data are missing, the devices
//!    are damaged and are not opened.
//! 5. Apply the trim bitmaps: older data in their holes are dropped.
//! 6. Continue partly filled capacity zones that end behind a whole segment, up to the number of
//!    streams. Other partly filled zones are closed, and emptied like full ones.

mod blocks;
mod hand_over;
mod zone_table_check;
mod zones;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, index};
use zonal_device::{ZoneReport, ZoneState};

use crate::candidates::Candidates;
use crate::export::has_block;
use crate::format::{Entry, EntryKind, Key, PAGE_SPAN, TRIM_BLOCKS};
use crate::layout::{Layout, PhysAddr, Zone};
use crate::map::{Map, Paged};
use crate::mutation::Mutation;
use crate::open::{Identity, count_of, merge};
use crate::scan::{First, Scanner, Segment};
use crate::settings::{MapPlace, tenants_of};
use crate::state::{State, ZoneUse};
use crate::tier::OpenZone;
use crate::{Export, MapMemory, OpenError, OpenMode, Settings, Tier};

/// Statistics of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segments found.
    pub segments: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Device reads.
    pub reads: u64,
    /// The part of `read_bytes` read to verify block checksums and to load single blocks.
    pub verified_bytes: u64,
    /// Data blocks found torn; an older version or a hole takes their place.
    pub torn_blocks: u64,
}

/// Result of recovery.
pub(crate) struct Recovered<'a> {
    pub(crate) exports: Vec<Export>,
    /// True when the export table on flash has fewer or smaller exports, and must be rewritten.
    pub(crate) is_changed: bool,
    pub(crate) state: State,
    /// Keys with an untrusted newer version on flash, which must be rewritten.
    pub(crate) distrusted: Vec<Key>,
    /// Capacity zones to be filled further.
    pub(crate) half_full: Vec<OpenZone>,
    /// Zones that the zone table released.
    pub(crate) released: BTreeSet<Zone>,
    /// The scanned entries, to be handed to the engine.
    pub(crate) found: ScanState<'a>,
}

/// Content of the export table.
struct ExportTable {
    exports: Vec<Export>,
    retired: BTreeSet<Zone>,
}

/// Location of a metadata block: a trim bitmap, the export table or a part of the zone table.
#[derive(Clone, Copy)]
struct MetadataBlock {
    sequence: u64,
    spot: PhysAddr,
    check: u32,
}

/// Position, header checksum and number of a segment.
#[derive(Clone, Copy)]
struct Begin {
    at: u32,
    sum: u32,
    number: u64,
}

/// What the headers have told so far.
pub(crate) struct ScanState<'a> {
    scanner: &'a Scanner<'a>,
    sightings: Candidates,
    /// Verified entries, each with its address and segment number.
    verified: Vec<(Entry, PhysAddr, u64)>,
    /// Zones in which segments were found, with their ends, in the order of the walk.
    walked: Vec<(Zone, u32)>,
    metadata: BTreeMap<Key, MetadataBlock>,
    lost: BTreeSet<(Key, u64)>,
    /// By zone: its segments in order.
    segments: Vec<Vec<Begin>>,
    ends: Vec<u32>,
    sums: Vec<u32>,
    trimmed: Vec<BTreeSet<Key>>,
    /// Segments after the last durable flush mark. They must be verified.
    suspects: Vec<Segment>,
    /// Zones that begin with a mark (an empty header).
    marked: BTreeSet<Zone>,
    distrusted: BTreeSet<Key>,
    /// Zones with segments of a format version that is not written any more.
    old: BTreeSet<Zone>,
    /// By tier: segment number and that of its predecessor, for segments that may be younger than
    /// the zone table.
    links: [BTreeMap<u64, u64>; 2],
    /// Epoch of the last flushed zone table.
    epoch: u64,
    /// Release entries: released zone and number of its first segment, mapped to the number of the
    /// segment with the entry.
    releases: BTreeMap<(Zone, u64), u64>,
    last_number: [u64; 2],
    durable: [u64; 2],
    next_sequence: u64,
    next_number: u64,
}

pub(crate) async fn recover<'a>(
    scanner: &'a Scanner<'a>,
    (reports, firsts): (&[Vec<ZoneReport>; 2], &[(Zone, First)]),
    (identity, wanted): (Identity, &[Export]),
    (settings, mode): (Settings, OpenMode),
) -> Result<Recovered<'a>, OpenError> {
    let mut found = survey(scanner, (reports, firsts), identity, (settings, mode)).await?;
    let ExportTable { exports: old, retired } = found.table().await?;
    let is_retired = |zone: &Zone| retired.contains(zone);
    if retired.iter().any(|zone| !found.segments[index(u64::from(zone.0))].is_empty()) {
        // The device has retired zones again. Their content is not needed: it was moved, or clients
        // got errors for it.
        let others = firsts.iter().filter(|(zone, _)| !is_retired(zone)).copied();
        let others: Vec<_> = others.collect();
        let (sequence, number) = (found.next_sequence, found.next_number);
        found = survey(scanner, (reports, &others), identity, (settings, mode)).await?;
        found.next_sequence = found.next_sequence.max(sequence);
        found.next_number = found.next_number.max(number);
    }
    let claims = found.claims(mode).await?;
    let exports = merge(&old, wanted)?;
    settings.check(scanner.layout, &exports).map_err(OpenError::Settings)?;
    let map = Map::new(scanner.layout, &settings, &exports);
    let mut state = State::new(scanner.layout, map, count_of(&exports));
    state.retired = retired;
    for (tier, reports) in Tier::ALL.into_iter().zip(reports) {
        for (zone, report) in scanner.layout.zones(tier).zip(reports) {
            let is_missing = report.state == ZoneState::Offline && state.retired.insert(zone);
            // It is unknown whether the content of this offline zone had been moved before.
            if is_missing && mode != OpenMode::Salvage {
                return Err(OpenError::Unreadable(tier));
            }
            state.is_table_stale |= is_missing;
        }
    }
    if let Some(claims) = &claims {
        found.hold_against(claims)?;
    }
    let released = claims.map(|claims| found.released(&claims)).unwrap_or_default();
    found.forget_pages_in(&released);
    found.hand_over_metadata(&exports, &mut state);
    let streams = scanner
        .layout
        .stream_count(tenants_of(&exports), settings.zones_kept_for_map(scanner.layout, &exports));
    let mut half_full = Vec::new();
    for (tier, reports) in Tier::ALL.into_iter().zip(reports) {
        for (zone, report) in scanner.layout.zones(tier).zip(reports) {
            let may_resume = half_full.len() < index(u64::from(streams))
                && !state.retired.contains(&zone)
                && !released.contains(&zone);
            match may_resume.then(|| found.half_full(zone, report)).flatten() {
                Some(open) => {
                    found.resume(&mut state, open).await?;
                    half_full.push(open);
                }
                None => found.close(&mut state, zone, report).await?,
            }
        }
    }
    state.map_place = place_of_map(&settings.map_places(scanner.layout, &exports), &state)?;
    let distrusted = found.distrusted.iter().copied();
    let distrusted: Vec<Key> = distrusted.filter(|key| has_block(&exports, *key)).collect();
    let segments = found.segments.iter().map(|of_zone| of_zone.len() as u64).sum();
    scanner.recovery.borrow_mut().segments = segments;
    for zone in &released {
        state.zone_mut(*zone).is_released = true;
    }
    let is_changed = exports != old;
    Ok(Recovered { exports, is_changed, state, distrusted, half_full, released, found })
}

/// The first place with enough empty zones for the map.
fn place_of_map(places: &[MapPlace], state: &State) -> Result<Option<MapPlace>, OpenError> {
    let empty = |place: &MapPlace| state.count(place.tier, ZoneUse::Empty);
    match (places.iter().find(|place| place.least <= empty(place)), places.last()) {
        (None, Some(last)) => {
            Err(OpenError::NoRoomForMap { empty: empty(last), least: last.least })
        }
        (place, _) => Ok(place.copied()),
    }
}

/// Walks all zones, and verifies segments that may be torn.
async fn survey<'a>(
    scanner: &'a Scanner<'a>,
    (reports, firsts): (&[Vec<ZoneReport>; 2], &[(Zone, First)]),
    identity: Identity,
    (settings, mode): (Settings, OpenMode),
) -> Result<ScanState<'a>, OpenError> {
    let (mut zones, mut marked) = (Vec::new(), BTreeSet::new());
    for (zone, first) in firsts {
        match first {
            First::Ours { number: 0, .. } => marked.extend([*zone]),
            First::Ours { number, .. } => zones.push((*number, *zone)),
            _ => (),
        }
    }
    zones.sort_unstable_by(|a, b| b.cmp(a));
    let mut found = ScanState::new(scanner, settings.map_memory != MapMemory::Whole);
    let mut walks = Vec::with_capacity(zones.len());
    for (_, zone) in zones {
        walks.push((zone, scanner.written(zone, scanner.report_of(reports, zone))));
    }
    found.marked = marked;
    scanner.walk(walks.clone(), (identity, mode), &mut |segment| found.hear(segment)).await?;
    walks.retain_mut(|(zone, limit)| {
        // The engine writes behind this position from now on, so a second walk must end here.
        *limit = found.ends[index(u64::from(zone.0))].min(*limit);
        0 < *limit
    });
    found.walked = walks;
    for segment in core::mem::take(&mut found.suspects) {
        if found.is_flushed(&segment) {
            found.believe(&segment);
        } else if settings.has(Mutation::TornTaken) {
            found.verified.extend(found.placed(&segment));
            found.believe(&segment);
        } else {
            found.verify(&segment).await?;
        }
    }
    Ok(found)
}

impl<'a> ScanState<'a> {
    fn new(scanner: &'a Scanner<'a>, is_in_turns: bool) -> Self {
        let zones = index(u64::from(scanner.layout.zone_count()));
        let sightings = if is_in_turns {
            Candidates::Counted(Vec::new())
        } else {
            Candidates::Flat(Vec::new())
        };
        Self {
            scanner,
            sightings,
            verified: Vec::new(),
            walked: Vec::new(),
            metadata: BTreeMap::new(),
            lost: BTreeSet::new(),
            segments: alloc::vec![Vec::new(); zones],
            ends: alloc::vec![0; zones],
            sums: alloc::vec![0; zones],
            trimmed: alloc::vec![BTreeSet::new(); zones],
            suspects: Vec::new(),
            marked: BTreeSet::new(),
            distrusted: BTreeSet::new(),
            old: BTreeSet::new(),
            links: Default::default(),
            epoch: 0,
            releases: BTreeMap::new(),
            last_number: [0; 2],
            durable: [0; 2],
            next_sequence: 1,
            next_number: 1,
        }
    }

    /// Takes a segment that the walk found. Segments of one zone come in order.
    fn hear(&mut self, segment: Segment) {
        let header = &segment.header;
        for (known, said) in self.durable.iter_mut().zip(header.durable) {
            *known = said.max(*known);
        }
        self.next_number = self.next_number.max(header.number + 1);
        self.note_link(header);
        let numbered =
            header.entries.iter().filter(|entry| entry.key.kind() != EntryKind::Released);
        let sequences = numbered.map(|entry| entry.sequence + 1);
        self.next_sequence = sequences.fold(self.next_sequence.max(header.next_sequence), u64::max);
        let zone = index(u64::from(segment.zone.0));
        let begin = Begin { at: header.at, sum: segment.sum, number: header.number };
        self.segments[zone].push(begin);
        self.ends[zone] = segment.end();
        self.sums[zone] = segment.sum;
        if self.is_flushed(&segment) {
            self.believe(&segment);
        } else {
            self.suspects.push(segment);
        }
    }

    /// True if the segment was flushed, and is therefore whole.
    fn is_flushed(&self, segment: &Segment) -> bool {
        let tier = usize::from(segment.header.tier.id());
        segment.header.number <= self.durable[tier] && segment.end() <= segment.limit
    }

    fn believe(&mut self, segment: &Segment) {
        for (entry, at) in segment.places() {
            self.note(segment, entry, at);
        }
    }

    /// Reads the segment's blocks, and accepts those with a matching checksum.
    async fn verify(&mut self, segment: &Segment) -> Result<(), OpenError> {
        let blocks = segment.limit.min(segment.end()) - segment.header.at - 1;
        let whole = match blocks {
            0 => None,
            _ => self.read(segment.zone, segment.header.at + 1, blocks).await?,
        };
        for (entry, at) in segment.places() {
            let behind = at - segment.header.at - 1;
            let verdict = match &whole {
                _ if !entry.key.kind().takes_block() => BlockCheck::Whole,
                _ if blocks <= behind => BlockCheck::Torn,
                Some(buffer) => self.check_block(&entry, buffer, behind),
                None => match self.read(segment.zone, at, 1).await? {
                    Some(buffer) => self.check_block(&entry, &buffer, 0),
                    None => BlockCheck::Unreadable,
                },
            };
            match (verdict, entry.key.kind()) {
                (BlockCheck::Whole, _) => self.note_verified(segment, entry, at),
                // The block may have been acknowledged, so it becomes an error and not an older
                // version.
                (BlockCheck::Unreadable, EntryKind::Data | EntryKind::Lost) => {
                    let key = entry.key.as_kind(EntryKind::Lost);
                    self.note_verified(segment, Entry { key, ..entry }, at);
                }
                (BlockCheck::Torn | BlockCheck::Unreadable, kind) => {
                    let is_users = matches!(kind, EntryKind::Data | EntryKind::Lost);
                    let key = if is_users { entry.key.as_kind(EntryKind::Data) } else { entry.key };
                    self.scanner.recovery.borrow_mut().torn_blocks += u64::from(is_users);
                    self.distrusted.insert(key);
                }
            }
        }
        Ok(())
    }

    fn check_block(&self, entry: &Entry, buffer: &Buffer, behind: u32) -> BlockCheck {
        let at = index(u64::from(behind)) * BLOCK_BYTES;
        let seed = Entry::seed(entry.key, entry.sequence);
        let sum = buffer.checksum(self.scanner.ports.checksum, &seed, at..at + BLOCK_BYTES);
        if sum == entry.check { BlockCheck::Whole } else { BlockCheck::Torn }
    }

    fn note_verified(&mut self, segment: &Segment, entry: Entry, at: u32) {
        if let Candidates::Counted(_) = self.sightings {
            self.verified.push((entry, self.spot(segment, at), segment.header.number));
        }
        self.note(segment, entry, at);
    }

    fn spot(&self, segment: &Segment, at: u32) -> PhysAddr {
        self.scanner.layout.spot(segment.zone, Blocks(u64::from(at.min(segment.limit - 1))))
    }

    /// The entries of a segment, each with its address and the segment's number.
    fn placed(&self, segment: &Segment) -> Vec<(Entry, PhysAddr, u64)> {
        let placed = segment.places();
        placed.map(|(entry, at)| (entry, self.spot(segment, at), segment.header.number)).collect()
    }

    /// Takes an entry, unless a newer one is known.
    fn note(&mut self, segment: &Segment, entry: Entry, at: u32) {
        let Entry { key, sequence, check } = entry;
        let number = segment.header.number;
        let spot = self.spot(segment, at);
        match key.kind() {
            EntryKind::Trim => {
                let blocks = u64::from(check).min(TRIM_BLOCKS);
                let first = key.number() / PAGE_SPAN;
                let last = (key.number() + blocks.max(1) - 1) / PAGE_SPAN;
                let pages =
                    (first..=last).map(|page| Key::new(EntryKind::Page, key.export(), page));
                self.trimmed[index(u64::from(segment.zone.0))].extend(pages);
                if key.number() < self.scanner.layout.blocks() {
                    self.sightings.count(usize::from(key.export().0), key.number(), blocks);
                }
            }
            // Releases were taken from the header before, flushed or not.
            EntryKind::Released => (),
            EntryKind::Data => self.count(key),
            EntryKind::Lost => {
                self.lost.insert((key.as_kind(EntryKind::Data), sequence));
                self.count(key);
            }
            EntryKind::Page | EntryKind::Table | EntryKind::Zones => {
                let known = self.metadata.get(&key).copied();
                let is_newer = known.is_none_or(|known| {
                    (known.sequence, self.number_at(known.spot)) < (sequence, number)
                });
                if is_newer {
                    self.metadata.insert(key, MetadataBlock { sequence, spot, check });
                }
            }
        }
        self.note_place(None, (entry, spot, number));
    }

    fn count(&mut self, key: Key) {
        // An export is never larger than the devices.
        if key.number() < self.scanner.layout.blocks() {
            self.sightings.count(usize::from(key.export().0), key.number(), 1);
        }
    }

    /// Takes an entry for data blocks into the recovery candidates.
    fn note_place(&mut self, paged: Option<&Paged>, (entry, spot, number): (Entry, PhysAddr, u64)) {
        let Entry { key, sequence, check } = entry;
        match key.kind() {
            _ if matches!(self.sightings, Candidates::Counted(_)) => (),
            EntryKind::Trim => {
                let blocks = u64::from(check).min(TRIM_BLOCKS);
                for n in key.number()..key.number() + blocks {
                    let key = Key::data(key.export(), n);
                    self.note_block(paged, (key, sequence), (PhysAddr::NONE, number));
                }
            }
            EntryKind::Data | EntryKind::Lost => {
                self.note_block(paged, (key, sequence), (spot, number))
            }
            EntryKind::Page | EntryKind::Table | EntryKind::Zones | EntryKind::Released => (),
        }
    }

    fn note_block(
        &mut self,
        paged: Option<&Paged>,
        (key, sequence): (Key, u64),
        (spot, number): (PhysAddr, u64),
    ) {
        // An export is never larger than the devices.
        if self.scanner.layout.blocks() <= key.number() {
            return;
        }
        let export = usize::from(key.export().0);
        let Some((known, known_spot)) = self.sightings.at(paged, (export, key.number())) else {
            return;
        };
        let segments = (self.segments.as_slice(), self.scanner.layout);
        if *known < sequence || (*known == sequence && number_at(segments, *known_spot) < number) {
            (*known, *known_spot) = (sequence, spot);
        }
    }

    fn number_at(&self, spot: PhysAddr) -> u64 {
        number_at((&self.segments, self.scanner.layout), spot)
    }
}

/// Number of the segment that contains an address.
fn number_at((segments, layout): (&[Vec<Begin>], &Layout), spot: PhysAddr) -> u64 {
    if spot == PhysAddr::NONE {
        return 0;
    }
    let (zone, at) = layout.locate(spot);
    let segments = &segments[index(u64::from(zone.0))];
    let next = segments.partition_point(|begin| u64::from(begin.at) <= at.0);
    segments[next - 1].number
}

/// Result of verifying a block.
enum BlockCheck {
    Whole,
    Torn,
    Unreadable,
}
