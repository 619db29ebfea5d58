//! Crash recovery: rebuilds the map from segment headers of both tiers.
//!
//! 1. Walk all zones from header to header, the youngest zone first. A header that does not belong
//!    ends its zone.
//! 2. Go on behind headers that cannot be read, and take their segments from the echoes (`mend`).
//! 3. Accept segments that younger headers report as flushed. Read the others completely, and leave
//!    out blocks with a wrong checksum: they may be torn.
//! 4. Of the entries for one block the highest sequence wins; of equal ones, which are copies, the
//!    one in the youngest segment. Retired zones in the export table are left out.
//! 5. Compare the result with the zone table (`zone_table_check`). If flushed data are missing, the
//!    devices are damaged and are not opened.
//! 6. Apply the trim bitmaps: older data in their holes are dropped.
//! 7. Continue partly filled capacity zones that end behind a whole segment, up to the number of
//!    streams. Other partly filled zones are closed by a header that repeats their last segment,
//!    and emptied like full ones.

mod blocks;
mod entries;
mod hand_over;
mod mend;
mod trims;
mod verify;
mod zone_table_check;
mod zones;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use zonal_base::index;
use zonal_device::{ZoneReport, ZoneState};

use crate::candidates::Candidates;
use crate::export::{has_block, is_same_table, merge};
use crate::format::{Entry, Key, ZoneClaim};
use crate::layout::{PhysAddr, Zone};
use crate::map::Map;
use crate::mutation::Mutation;
use crate::open::{Identity, count_of};
use crate::scan::{First, Scanner, Segment, Stop, WalkStart};
use crate::settings::{MapPlace, tenants_of};
use crate::state::{Detour, State, ZoneUse};
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
    /// Unreadable headers whose segments were found by their echoes.
    pub headers_rebuilt: u64,
    /// Unreadable headers without an echo. What they described was not flushed, or the devices were
    /// salvaged.
    pub headers_lost: u64,
    /// Unreadable trim bitmaps of a salvaged start. Blocks that may have been trimmed there are
    /// errors.
    pub trims_lost: u64,
}

/// Result of recovery.
pub(crate) struct Recovered<'a> {
    pub(crate) exports: Vec<Export>,
    /// True when the export table on flash has fewer or smaller exports or a damaged copy, and must
    /// be rewritten.
    pub(crate) is_changed: bool,
    pub(crate) state: State,
    /// Keys with an untrusted newer version on flash, which must be rewritten.
    pub(crate) distrusted: Vec<Key>,
    /// Capacity zones to be filled further.
    pub(crate) half_full: Vec<OpenZone>,
    /// Zones to be closed: no header repeats their last segment yet.
    pub(crate) unclosed: Vec<OpenZone>,
    /// Zones that the zone table released.
    pub(crate) released: BTreeSet<Zone>,
    /// The scanned entries, to be handed to the engine.
    pub(crate) found: ScanState<'a>,
}

/// Content of the export table.
struct ExportTable {
    exports: Vec<Export>,
    retired: BTreeSet<Zone>,
    /// True when both copies are whole, each on its tier.
    is_twice: bool,
}

/// Location of a metadata block: a trim bitmap, the export table or a part of the zone table.
#[derive(Clone, Copy)]
struct MetadataBlock {
    sequence: u64,
    /// Number of its segment.
    number: u64,
    spot: PhysAddr,
    check: u32,
}

/// Position, header checksum and number of a segment.
#[derive(Clone, Copy)]
struct Begin {
    at: u32,
    end: u32,
    sum: u32,
    number: u64,
    /// False for a header that only repeats the segment before it.
    has_entries: bool,
}

/// What the headers have told so far.
pub(crate) struct ScanState<'a> {
    scanner: &'a Scanner<'a>,
    sightings: Candidates,
    /// Verified entries, each with its address and segment number.
    verified: Vec<(Entry, PhysAddr, u64)>,
    /// Parts of zones in which segments were found, up to their ends, in the order of the walk.
    walked: Vec<WalkStart>,
    /// Where scans ended early.
    stops: Vec<Stop>,
    /// By zone: blocks that can have been written.
    limits: Vec<u32>,
    /// By zone: what the zone table says; empty before it was read.
    claimed: Vec<ZoneClaim>,
    /// Segments below this number are older than the zone table.
    claimed_below: u64,
    /// Zones in which a header was lost.
    unsound: BTreeSet<Zone>,
    /// By zone: positions at which the header on the device does not count.
    detours: BTreeMap<Zone, BTreeMap<u32, Detour>>,
    /// Copies of the export table and of the parts of the zone table, newest first, by the key of
    /// the first copy.
    tables: BTreeMap<Key, Vec<(Key, MetadataBlock)>>,
    /// True when the opening goes on without what cannot be read.
    is_salvage: bool,
    /// Trim bitmaps.
    metadata: BTreeMap<Key, MetadataBlock>,
    /// Places of blocks that are errors, and of those among them that were read in vain now. Of
    /// equal versions a readable one counts.
    lost: BTreeSet<(Key, PhysAddr)>,
    unreadable: BTreeSet<(Key, PhysAddr)>,
    /// By zone: its segments in order.
    segments: Vec<Vec<Begin>>,
    ends: Vec<u32>,
    sums: Vec<u32>,
    trimmed: Vec<BTreeSet<Key>>,
    trims: trims::LongTrims,
    /// Segments after the last durable flush mark. They must be verified.
    suspects: Vec<Segment>,
    /// Zones that begin with a mark (an empty header).
    marked: BTreeSet<Zone>,
    distrusted: BTreeSet<Key>,
    /// By tier: segment number and that of its predecessor, for segments that may be younger than
    /// the zone table.
    links: [BTreeMap<u64, u64>; 2],
    /// Epoch of the last zone table that a header reports as flushed, and the highest one found.
    epoch_named: u64,
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
    let mut found = survey(scanner, (reports, firsts), identity, settings).await?;
    let table = found.table().await?.ok_or(OpenError::ExportsLost)?;
    let ExportTable { exports: old, retired, is_twice } = table;
    check_strangers(scanner, firsts, (identity, &retired))?;
    let is_retired = |zone: &Zone| retired.contains(zone);
    if retired.iter().any(|zone| !found.segments[index(u64::from(zone.0))].is_empty()) {
        // The device has retired zones again. Their content is not needed: it was moved, or clients
        // got errors for it.
        let others = firsts.iter().filter(|(zone, _)| !is_retired(zone)).copied();
        let others: Vec<_> = others.collect();
        let (sequence, number) = (found.next_sequence, found.next_number);
        found = survey(scanner, (reports, &others), identity, settings).await?;
        found.next_sequence = found.next_sequence.max(sequence);
        found.next_number = found.next_number.max(number);
    }
    found.is_salvage = mode == OpenMode::Salvage;
    let claims = found.current_claims(mode).await?;
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
    if let Some(claims) = &claims
        && mode != OpenMode::Salvage
    {
        found.hold_against(claims)?;
    }
    let released = claims.map(|claims| found.released(&claims)).unwrap_or_default();
    found.forget_pages_in(&released);
    found.hand_over_metadata(&exports, &mut state);
    let streams = scanner
        .layout
        .stream_count(tenants_of(&exports), settings.zones_kept_for_map(scanner.layout, &exports));
    let (mut half_full, mut unclosed) = (Vec::new(), Vec::new());
    for (tier, reports) in Tier::ALL.into_iter().zip(reports) {
        for (zone, report) in scanner.layout.zones(tier).zip(reports) {
            let may_resume = half_full.len() < index(u64::from(streams));
            let is_released = released.contains(&zone) || state.retired.contains(&zone);
            match found.open_zone(zone, report).await?.filter(|_| !is_released) {
                Some(open) if may_resume && found.is_half_full(&open) => {
                    found.resume(&mut state, &open).await?;
                    half_full.push(open);
                }
                Some(open) if open.is_exposed() => {
                    found.resume(&mut state, &open).await?;
                    unclosed.push(open);
                }
                _ => found.close(&mut state, zone, report).await?,
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
    let is_changed = !is_same_table(&old, &exports) || !is_twice;
    Ok(Recovered { exports, is_changed, state, distrusted, half_full, unclosed, released, found })
}

/// True if formatting was completed with this identity: a zone table is there, or a header names
/// one. It is the last thing that formatting writes. Damage does not make a block device a blank
/// one.
pub(crate) async fn is_formatted(
    scanner: &Scanner<'_>,
    (reports, firsts): (&[Vec<ZoneReport>; 2], &[(Zone, First)]),
    identity: Identity,
    settings: Settings,
) -> Result<bool, OpenError> {
    let is_named = |(_, first): &(Zone, First)| matches!(first, First::Ours { identity: found, epoch: 1.., .. } if *found == identity);
    if firsts.iter().any(is_named) {
        return Ok(true);
    }
    let found = survey(scanner, (reports, firsts), identity, settings).await?;
    let has_table = 0 < found.epoch_named || found.claims().await?.is_some();
    *scanner.recovery.borrow_mut() = Recovery::default();
    Ok(has_table || !found.unsound.is_empty())
}

/// Refuses zones of another block device, unless they are retired: those could not be reset.
fn check_strangers(
    scanner: &Scanner<'_>,
    firsts: &[(Zone, First)],
    (identity, retired): (Identity, &BTreeSet<Zone>),
) -> Result<(), OpenError> {
    let is_stranger = |(zone, first): &&(Zone, First)| {
        matches!(first, First::Ours { identity: other, .. } if *other != identity)
            && !retired.contains(zone)
    };
    match firsts.iter().find(is_stranger) {
        Some((zone, _)) => Err(OpenError::Mixed(scanner.layout.tier_of(*zone))),
        None => Ok(()),
    }
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

/// Walks all zones, mends what can be mended, and verifies segments that may be torn.
async fn survey<'a>(
    scanner: &'a Scanner<'a>,
    (reports, firsts): (&[Vec<ZoneReport>; 2], &[(Zone, First)]),
    identity: Identity,
    settings: Settings,
) -> Result<ScanState<'a>, OpenError> {
    let (mut zones, mut stops) = (Vec::new(), Vec::new());
    let mut found = ScanState::new(scanner, settings.map_memory != MapMemory::Whole);
    for (zone, first) in firsts {
        let limit = scanner.written(*zone, scanner.report_of(reports, *zone));
        found.limits[index(u64::from(zone.0))] = limit;
        let start = WalkStart { zone: *zone, at: 0, previous: 0, limit };
        let is_damaged = match first {
            First::Ours { identity: other, .. } if *other != identity => continue,
            First::Ours { number: 0, .. } => {
                found.marked.insert(*zone);
                false
            }
            First::Ours { number, .. } => {
                zones.push((*number, start));
                continue;
            }
            First::Blank | First::Version(_) | First::Features(_) => false,
            First::Damaged | First::Foreign => true,
        };
        stops.push(Stop { rest: start, is_damaged });
    }
    zones.sort_unstable_by(|(a, one), (b, other)| (b, other.zone).cmp(&(a, one.zone)));
    let mut walks: Vec<WalkStart> = zones.into_iter().map(|(_, start)| start).collect();
    stops.extend(scanner.walk(walks.clone(), identity, &mut |segment| found.hear(segment)).await?);
    walks.retain_mut(|walk| {
        // The engine writes behind this position from now on, so a second walk must end here.
        walk.limit = found.ends[index(u64::from(walk.zone.0))].min(walk.limit);
        0 < walk.limit
    });
    (found.walked, found.stops) = (walks, stops);
    found.mend(identity).await?;
    for segment in core::mem::take(&mut found.suspects) {
        if found.is_believed(&segment) {
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
            stops: Vec::new(),
            limits: alloc::vec![0; zones],
            claimed: Vec::new(),
            claimed_below: 0,
            unsound: BTreeSet::new(),
            detours: BTreeMap::new(),
            tables: BTreeMap::new(),
            is_salvage: false,
            metadata: BTreeMap::new(),
            lost: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            segments: alloc::vec![Vec::new(); zones],
            ends: alloc::vec![0; zones],
            sums: alloc::vec![0; zones],
            trimmed: alloc::vec![BTreeSet::new(); zones],
            trims: trims::LongTrims::default(),
            suspects: Vec::new(),
            marked: BTreeSet::new(),
            distrusted: BTreeSet::new(),
            links: Default::default(),
            epoch_named: 0,
            epoch: 0,
            releases: BTreeMap::new(),
            last_number: [0; 2],
            durable: [0; 2],
            next_sequence: 1,
            next_number: 1,
        }
    }
}
