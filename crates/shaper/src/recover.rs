//! Crash recovery: rebuilds the map from segment headers of both tiers.
//!
//! 1. Walk all zones from header to header, the youngest first. A header that does not belong ends its zone.
//! 2. Segments that were flushed, as younger headers tell, are believed. The others are read to their last byte, and what does
//!    not fit its checksum is left out: it may be torn.
//! 3. Of entries that tell of one block the highest sequence counts; of equal ones, which are copies, the one that was written
//!    last.
//!    Zones that the table gives up are left out.
//! 4. What was found is held against the zone table (`claims`): what it has and was not found was damaged, and nothing is opened.
//! 5. Pages of trims make holes of what is older than they are.
//! 6. Zones of the capacity tier that end behind a whole segment are filled further, as many as there are streams. Others that
//!    are half full are emptied when their turn comes.

mod blocks;
mod claims;
mod hand_over;
mod zones;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, index};
use zonal_device::{ZoneReport, ZoneState};

use crate::export::has_block;
use crate::format::{Entry, Key, Kind, PAGE_SPAN, TRIM_BLOCKS};
use crate::layout::{Layout, Spot, Zone};
use crate::map::{Map, Paged};
use crate::open::{Identity, count_of, merge};
use crate::planted::Planted;
use crate::scan::{First, Scanner, Segment};
use crate::settings::{MapPlace, tenants_of};
use crate::sightings::Sightings;
use crate::state::{State, ZoneUse};
use crate::tier::OpenZone;
use crate::{Export, MapMemory, OpenError, OpenMode, Settings, Tier};

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
pub(crate) struct Recovered<'a> {
    pub(crate) exports: Vec<Export>,
    /// The table on flash tells of fewer, or smaller ones.
    pub(crate) is_changed: bool,
    pub(crate) state: State,
    /// Of these something lies about that must never be believed.
    pub(crate) distrusted: Vec<Key>,
    /// Zones of the capacity tier that can be filled further.
    pub(crate) half_full: Vec<OpenZone>,
    /// Zones that the zone table had given back.
    pub(crate) released: BTreeSet<Zone>,
    /// What is known of blocks so far.
    pub(crate) found: ScanState<'a>,
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

/// Where a segment begins.
#[derive(Clone, Copy)]
struct Begin {
    at: u32,
    sum: u32,
    number: u64,
}

/// What the headers said so far.
pub(crate) struct ScanState<'a> {
    scanner: &'a Scanner<'a>,
    sightings: Sightings,
    /// What was read to its last byte and believed: entry, where it is, number of its segment.
    verified: Vec<(Entry, Spot, u64)>,
    /// Zones in which segments were found, as they were walked.
    walked: Vec<(Zone, u32)>,
    few: BTreeMap<Key, Few>,
    lost: BTreeSet<(Key, u64)>,
    /// By zone: where its segments begin, their numbers, and the checksums of their headers.
    segments: Vec<Vec<Begin>>,
    ends: Vec<u32>,
    sums: Vec<u32>,
    trimmed: Vec<BTreeSet<Key>>,
    /// Not known to have been flushed.
    suspects: Vec<Segment>,
    /// Zones that begin with a header that tells of nothing.
    marked: BTreeSet<Zone>,
    distrusted: BTreeSet<Key>,
    /// Zones with segments of a version that is not written any more.
    old: BTreeSet<Zone>,
    /// By tier: number of a segment and of the one before it, for those that may be younger than the zone table.
    links: [BTreeMap<u64, u64>; 2],
    /// Of the last zone table that is flushed.
    epoch: u64,
    /// Of entries that release a zone: the zone, the number of its first segment, and that of the entry's own.
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
    let Table { exports: old, given_up } = found.table().await?;
    let is_given_up = |zone: &Zone| given_up.contains(zone);
    if given_up.iter().any(|zone| !found.segments[index(u64::from(zone.0))].is_empty()) {
        // Their device has them again. What is in them counts no more: it was moved, or users were told that it is lost.
        let others = firsts.iter().filter(|(zone, _)| !is_given_up(zone)).copied();
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
    if let Some(claims) = &claims {
        found.hold_against(claims)?;
    }
    let released = claims.map(|claims| found.released(&claims)).unwrap_or_default();
    found.forget_pages_in(&released);
    found.hand_over_few(&exports, &mut state);
    let streams = scanner
        .layout
        .stream_count(tenants_of(&exports), settings.zones_kept_for_map(scanner.layout, &exports));
    let mut half_full = Vec::new();
    for (tier, reports) in Tier::ALL.into_iter().zip(reports) {
        for (zone, report) in scanner.layout.zones(tier).zip(reports) {
            let may_resume = half_full.len() < index(u64::from(streams))
                && !state.given_up.contains(&zone)
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

/// The first place in which there is room for the map.
fn place_of_map(places: &[MapPlace], state: &State) -> Result<Option<MapPlace>, OpenError> {
    let empty = |place: &MapPlace| state.count(place.tier, ZoneUse::Empty);
    match (places.iter().find(|place| place.least <= empty(place)), places.last()) {
        (None, Some(last)) => {
            Err(OpenError::NoRoomForMap { empty: empty(last), least: last.least })
        }
        (place, _) => Ok(place.copied()),
    }
}

/// Walks all zones, and reads to its last byte what may be torn.
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
        // What is to be written further ends there from now on.
        *limit = found.ends[index(u64::from(zone.0))].min(*limit);
        0 < *limit
    });
    found.walked = walks;
    for segment in core::mem::take(&mut found.suspects) {
        if found.is_flushed(&segment) {
            found.believe(&segment);
        } else if settings.has(Planted::TornTaken) {
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
        let sightings =
            if is_in_turns { Sightings::Counted(Vec::new()) } else { Sightings::Flat(Vec::new()) };
        Self {
            scanner,
            sightings,
            verified: Vec::new(),
            walked: Vec::new(),
            few: BTreeMap::new(),
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

    /// A segment was found; those of one zone come in order.
    fn hear(&mut self, segment: Segment) {
        let header = &segment.header;
        for (known, said) in self.durable.iter_mut().zip(header.durable) {
            *known = said.max(*known);
        }
        self.next_number = self.next_number.max(header.number + 1);
        self.note_link(header);
        let numbered = header.entries.iter().filter(|entry| entry.key.kind() != Kind::Released);
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

    /// What is flushed is whole.
    fn is_flushed(&self, segment: &Segment) -> bool {
        let tier = usize::from(segment.header.tier.id());
        segment.header.number <= self.durable[tier] && segment.end() <= segment.limit
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
                (Verdict::Whole, _) => self.note_verified(segment, entry, at),
                // It may have been acknowledged: an error is what is left of it.
                (Verdict::Unreadable, Kind::Data | Kind::Lost) => {
                    let key = entry.key.as_kind(Kind::Lost);
                    self.note_verified(segment, Entry { key, ..entry }, at);
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

    fn note_verified(&mut self, segment: &Segment, entry: Entry, at: u32) {
        if let Sightings::Counted(_) = self.sightings {
            self.verified.push((entry, self.spot(segment, at), segment.header.number));
        }
        self.note(segment, entry, at);
    }

    fn spot(&self, segment: &Segment, at: u32) -> Spot {
        self.scanner.layout.spot(segment.zone, Blocks(u64::from(at.min(segment.limit - 1))))
    }

    /// The entries of a segment, each with where it is and the segment's number.
    fn placed(&self, segment: &Segment) -> Vec<(Entry, Spot, u64)> {
        let placed = segment.places();
        placed.map(|(entry, at)| (entry, self.spot(segment, at), segment.header.number)).collect()
    }

    /// An entry counts, unless a newer one is known.
    fn note(&mut self, segment: &Segment, entry: Entry, at: u32) {
        let Entry { key, sequence, check } = entry;
        let number = segment.header.number;
        let spot = self.spot(segment, at);
        match key.kind() {
            Kind::Trim => {
                let blocks = u64::from(check).min(TRIM_BLOCKS);
                let first = key.number() / PAGE_SPAN;
                let last = (key.number() + blocks.max(1) - 1) / PAGE_SPAN;
                let pages = (first..=last).map(|page| Key::new(Kind::Page, key.export(), page));
                self.trimmed[index(u64::from(segment.zone.0))].extend(pages);
                if key.number() < self.scanner.layout.blocks() {
                    self.sightings.count(usize::from(key.export().0), key.number(), blocks);
                }
            }
            // Its header says so, whether it was flushed or not.
            Kind::Released => (),
            Kind::Data => self.count(key),
            Kind::Lost => {
                self.lost.insert((key.as_kind(Kind::Data), sequence));
                self.count(key);
            }
            Kind::Page | Kind::Table | Kind::Zones => {
                let known = self.few.get(&key).copied();
                let is_newer = known.is_none_or(|known| {
                    (known.sequence, self.number_at(known.spot)) < (sequence, number)
                });
                if is_newer {
                    self.few.insert(key, Few { sequence, spot, check });
                }
            }
        }
        self.note_place(None, (entry, spot, number));
    }

    fn count(&mut self, key: Key) {
        // No export is larger than the devices.
        if key.number() < self.scanner.layout.blocks() {
            self.sightings.count(usize::from(key.export().0), key.number(), 1);
        }
    }

    /// What an entry tells of blocks of users.
    fn note_place(&mut self, paged: Option<&Paged>, (entry, spot, number): (Entry, Spot, u64)) {
        let Entry { key, sequence, check } = entry;
        match key.kind() {
            _ if matches!(self.sightings, Sightings::Counted(_)) => (),
            Kind::Trim => {
                let blocks = u64::from(check).min(TRIM_BLOCKS);
                for n in key.number()..key.number() + blocks {
                    let key = Key::data(key.export(), n);
                    self.note_block(paged, (key, sequence), (Spot::NONE, number));
                }
            }
            Kind::Data | Kind::Lost => self.note_block(paged, (key, sequence), (spot, number)),
            Kind::Page | Kind::Table | Kind::Zones | Kind::Released => (),
        }
    }

    fn note_block(
        &mut self,
        paged: Option<&Paged>,
        (key, sequence): (Key, u64),
        (spot, number): (Spot, u64),
    ) {
        // No export is larger than the devices.
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

    fn number_at(&self, spot: Spot) -> u64 {
        number_at((&self.segments, self.scanner.layout), spot)
    }
}

/// The number of the segment in which a block lies.
fn number_at((segments, layout): (&[Vec<Begin>], &Layout), spot: Spot) -> u64 {
    if spot == Spot::NONE {
        return 0;
    }
    let (zone, at) = layout.locate(spot);
    let segments = &segments[index(u64::from(zone.0))];
    let next = segments.partition_point(|begin| u64::from(begin.at) <= at.0);
    segments[next - 1].number
}

/// What became of a block.
enum Verdict {
    Whole,
    Torn,
    Unreadable,
}
