//! Open path: identifies both devices, refuses foreign data, and formats or recovers.
//!
//! 1. Ask both devices for zone reports, and read the first block of each zone: blank, ours, or
//!    foreign.
//! 2. Format two blank devices, recover two that belong together (`recover`), and refuse everything
//!    else.
//! 3. Overwrite what recovery did not trust, so that no later recovery trusts it.
//! 4. Start the tasks.

mod error;

use error::failed;
pub use error::{Damage, OpenError};

use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use zonal_base::{Blocks, PoolClass, index};
use zonal_device::{DeviceError, DeviceKind, ZoneReport, ZoneState};
use zonal_runtime::{Buffers, Event};

use crate::events::RecentEvents;
use crate::format::{FRONT_BLOCKS, Key, SEGMENT_BLOCKS, Shape};
use crate::layout::{Layout, Zone};
use crate::map::Map;
use crate::pages::MapLog;
use crate::recover::{Recovered, is_formatted, recover};
use crate::refused::Writer;
use crate::relocate::{Cause, Mover};
use crate::retry::WAITED_FOR;
use crate::scan::{First, Scanner};
use crate::settings::tenants_of;
use crate::shaper::Inner;
use crate::state::{State, ZoneUse};
use crate::tier::OpenZone;
use crate::{BlockError, Export, Ports, Settings, Shaper, Tier};

/// Identity of a block device: random, assigned when the devices are formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity(pub [u8; 16]);

/// Whether existing data on the devices are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Keep the data: recover a block device of this format, format two blank devices, refuse
    /// anything else.
    Recover,
    /// As `Recover`, but continue without unreadable data. Some blocks may then be older than their
    /// acknowledged writes.
    Salvage,
    /// Format the devices and lose whatever they hold.
    Format,
}

/// Parameters of [`Shaper::open`].
#[derive(Clone, Debug)]
pub struct Opening {
    /// Settings of this opening.
    pub settings: Settings,
    /// Requested exports. Exports already on the devices stay, also those not named here; new ones
    /// are appended.
    pub exports: Vec<Export>,
    /// Identity for newly formatted devices; others keep theirs. Requires: random.
    pub identity: Identity,
    /// Whether existing data are kept.
    pub mode: OpenMode,
}

impl Shaper {
    /// Opens the block device on the two tiers, and starts its tasks.
    ///
    /// # Errors
    /// When the devices hold foreign data, or fail, or do not fit the settings.
    pub async fn open(ports: Ports, layout: Layout, opening: Opening) -> Result<Self, OpenError> {
        opening.settings.check(&layout, &opening.exports).map_err(OpenError::Settings)?;
        let mut layout = layout;
        loop {
            let scanner = Scanner::new(&ports, &layout);
            let reports =
                [scanner.report(Tier::Buffer).await?, scanner.report(Tier::Capacity).await?];
            let firsts = match opening.mode {
                OpenMode::Format => Vec::new(),
                _ => scanner.firsts(&reports).await?,
            };
            if let Some(formatted) = layout_before_growth(&firsts, &layout) {
                layout = formatted;
                continue;
            }
            let known = identify_device(&scanner, (&reports, &firsts), opening.settings).await?;
            let Some(identity) = known else {
                return format(ports.clone(), layout, opening, &reports).await;
            };
            let how = (opening.settings, opening.mode);
            let wanted = (identity, opening.exports.as_slice());
            let found = recover(&scanner, (&reports, &firsts), wanted, how).await?;
            return resume(&scanner, how, identity, found).await;
        }
    }
}

/// The zones with which the devices were formatted, if they have more now: a file or a volume may
/// grow. `None` if they have the same, or others.
fn layout_before_growth(firsts: &[(Zone, First)], layout: &Layout) -> Option<Layout> {
    let shape = firsts.iter().find_map(|(_, first)| match first {
        First::Ours { shape, .. } => Some(*shape),
        _ => None,
    })?;
    let now = Shape::of(layout);
    let is_grown = shape != now && shape.zone_blocks == now.zone_blocks;
    is_grown.then(|| layout.with_zones(shape.zones)).flatten()
}

/// Identity of the block device on both tiers. `None` when they are blank, or formatting was never
/// completed.
async fn identify_device(
    scanner: &Scanner<'_>,
    (reports, firsts): (&[Vec<ZoneReport>; 2], &[(Zone, First)]),
    settings: Settings,
) -> Result<Option<Identity>, OpenError> {
    let layout = scanner.layout;
    let mut formatted: Option<Identity> = None;
    let mut tried: Vec<Identity> = Vec::new();
    for (zone, first) in firsts {
        let tier = layout.tier_of(*zone);
        match first {
            First::Version(version) => return Err(OpenError::Version(tier, *version)),
            First::Features(features) => return Err(OpenError::Features(tier, *features)),
            First::Ours { shape, .. } if *shape != Shape::of(layout) => {
                let zone = shape.zone_blocks.map(|blocks| Blocks(u64::from(blocks)).bytes());
                return Err(OpenError::Shape { zones: shape.zones, zone });
            }
            First::Ours { tier: said, .. } if *said != tier => return Err(OpenError::Mixed(tier)),
            First::Ours { identity, .. } if !tried.contains(identity) => {
                tried.push(*identity);
                if !is_formatted(scanner, (reports, firsts), *identity, settings).await? {
                    continue;
                }
                if formatted.replace(*identity).is_some() {
                    return Err(OpenError::Mixed(tier));
                }
            }
            First::Blank | First::Damaged | First::Foreign | First::Ours { .. } => (),
        }
    }
    for tier in Tier::ALL {
        let of_tier = || firsts.iter().filter(|(zone, _)| layout.tier_of(*zone) == tier);
        let has = |wanted: fn(&First) -> bool| of_tier().any(|(_, first)| wanted(first));
        let is_ours = has(|first| matches!(first, First::Ours { .. }));
        // A block that is not ours among others that are is damage, and not another's device.
        if !is_ours && has(|first| matches!(first, First::Foreign)) {
            return Err(OpenError::Foreign(tier));
        }
        let is_damaged = has(|first| matches!(first, First::Damaged));
        match formatted {
            None if !is_ours && is_damaged => return Err(OpenError::Foreign(tier)),
            Some(_) if !is_ours && !is_damaged => return Err(OpenError::Blank(tier)),
            _ => (),
        }
    }
    Ok(formatted)
}

async fn format(
    ports: Ports,
    layout: Layout,
    opening: Opening,
    reports: &[Vec<ZoneReport>; 2],
) -> Result<Shaper, OpenError> {
    let Opening { settings, exports, identity, .. } = opening;
    let map = Map::new(&layout, &settings, &exports);
    let mut state = State::new(&layout, map, count_of(&exports));
    state.map_place = settings.map_places(&layout, &exports).first().copied();
    let inner = Inner::new(ports, (layout, settings), (identity, exports), state);
    inner.start_flushes();
    inner.start_log();
    for (tier, reports) in Tier::ALL.into_iter().zip(reports) {
        for (zone, report) in layout.zones(tier).zip(reports) {
            let formatted = match report.state {
                ZoneState::Offline => Err(DeviceError::ZoneOffline),
                ZoneState::ReadOnly => Err(DeviceError::ZoneReadOnly),
                _ => inner.format_zone(zone).await,
            };
            match formatted {
                Ok(()) => (),
                Err(error @ DeviceError::DeviceGone) => return Err(OpenError::Device(tier, error)),
                // The zone cannot be reset or written: retire it.
                Err(_) => inner.state.borrow_mut().give_up(&layout, zone),
            }
        }
    }
    inner.start_map(MapLog::default());
    let mut collection = Mover::new(inner.clone(), Cause::Collection);
    inner.write_first_exports(&mut collection).await?;
    // The devices count as blank until a zone table is on one of them, so it comes last.
    inner.write_repairs(&mut collection, &Repairs::default()).await?;
    let compaction = Mover::new(inner.clone(), Cause::Compaction);
    inner.start_movers(collection, compaction);
    Ok(Shaper { inner })
}

async fn resume(
    scanner: &Scanner<'_>,
    (settings, mode): (Settings, OpenMode),
    identity: Identity,
    recovered: Recovered<'_>,
) -> Result<Shaper, OpenError> {
    let Recovered {
        exports,
        is_changed,
        state,
        distrusted,
        half_full,
        unclosed,
        mut released,
        mut found,
    } = recovered;
    let (ports, layout) = (scanner.ports.clone(), *scanner.layout);
    let inner = Inner::new(ports, (layout, settings), (identity, exports), state);
    let map_log = found.hand_over(&inner, identity).await?;
    inner.recovery.set(*scanner.recovery.borrow());
    inner.start_flushes();
    inner.start_log();
    inner.start_map(map_log);
    let mut movers =
        [Cause::Collection, Cause::Compaction].map(|cause| Mover::new(inner.clone(), cause));
    let streams = index(u64::from(inner.streams_per_mover()));
    for (mover, half_full) in movers.iter_mut().zip(half_full.chunks(streams)) {
        mover.resume(half_full);
    }
    let [mut collection, mut compaction] = movers;
    // What recovery did not trust stays above the durable marks.
    inner.state.borrow_mut().is_repairing = true;
    for open in unclosed {
        inner.close_zone(open).await;
    }
    // Also of zones that only compaction writes to: the first zone table names them.
    compaction.finish().await.map_err(failed)?;
    if mode == OpenMode::Salvage {
        released.retain(|zone| inner.keep_if_live(*zone));
    }
    inner.check_released(&released)?;
    inner
        .write_repairs(&mut collection, &Repairs { distrusted, is_table_new: is_changed, released })
        .await?;
    inner.start_movers(collection, compaction);
    Ok(Shaper { inner })
}

pub(crate) fn count_of(exports: &[Export]) -> usize {
    index(u64::from(tenants_of(exports)))
}

/// Tenant number of each export. Tenants are numbered in the order of their first exports.
fn tenants(exports: &[Export]) -> Vec<u16> {
    let mut names: Vec<&str> = Vec::new();
    let mut numbers = Vec::with_capacity(exports.len());
    for export in exports {
        let known = names.iter().position(|name| *name == export.tenant);
        let at = known.unwrap_or_else(|| {
            names.push(&export.tenant);
            names.len() - 1
        });
        numbers.push(u16::try_from(at).expect("at most EXPORTS_MAX"));
    }
    numbers
}

impl Inner {
    fn new(
        ports: Ports,
        (layout, settings): (Layout, Settings),
        (identity, exports): (Identity, Vec<Export>),
        state: State,
    ) -> Rc<Self> {
        let map_place = state.map_place;
        let kept = settings.zones_kept_for_map(&layout, &exports);
        let streams = layout.stream_count(tenants_of(&exports), kept);
        let own = Buffers::holding(settings.contents, &ports.spawner, &own_classes(streams));
        let session = (zonal_base::mix64(ports.clock.now().0) >> 32) as u32;
        Rc::new(Self {
            layout,
            settings,
            identity,
            session,
            tenants: tenants(&exports),
            exports,
            recovery: Cell::default(),
            waits_left: Cell::new(WAITED_FOR),
            holds_writes: Cell::new(false),
            own,
            state: RefCell::new(state),
            events: RecentEvents::new(ports.clock.now()),
            flushers: Default::default(),
            queued: Event::default(),
            queue_room: Event::default(),
            unpinned: Event::default(),
            map_changed: Event::default(),
            is_merging: Cell::default(),
            map_room: Event::default(),
            map_place,
            work: Event::default(),
            ports,
        })
    }

    fn start_flushes(self: &Rc<Self>) {
        for tier in Tier::ALL {
            self.ports.spawner.spawn(self.clone().run_flushes(tier));
        }
    }

    /// Starts the map task, unless the whole map is in memory.
    fn start_map(self: &Rc<Self>, log: MapLog) {
        if self.map_place.is_some() {
            self.ports.spawner.spawn(self.clone().run_map(log));
        }
    }

    /// Starts the log. Until the movers run it takes copies of tables.
    fn start_log(self: &Rc<Self>) {
        self.ports.spawner.spawn(self.clone().run_log());
    }

    /// Starts compaction and garbage collection. They may continue zones that are already open.
    fn start_movers(self: &Rc<Self>, collection: Mover, compaction: Mover) {
        self.holds_writes.set(true);
        let spawner = &self.ports.spawner;
        spawner.spawn(self.clone().run_compaction(compaction));
        spawner.spawn(self.clone().run_garbage_collection(collection));
    }

    async fn format_zone(&self, zone: Zone) -> Result<(), DeviceError> {
        self.reset_on_device(zone).await?;
        let tier = self.layout.tier_of(zone);
        match self.layout.place(tier).geometry.kind {
            // A conventional device keeps the blocks of an earlier format, and recovery would find
            // them again.
            DeviceKind::Conventional => self.mark_empty(zone).await,
            DeviceKind::Zoned => Ok(()),
        }
    }

    /// Keeps what a salvaged start found in a released zone, if nothing newer was found. True if
    /// the zone stays released.
    fn keep_if_live(&self, zone: Zone) -> bool {
        let mut state = self.state.borrow_mut();
        let facts = state.zone_mut(zone);
        facts.is_released = facts.live == 0;
        facts.is_released
    }

    /// Checks that no live block lies in a zone that the zone table released: a release means that
    /// all its blocks were elsewhere.
    fn check_released(&self, released: &BTreeSet<Zone>) -> Result<(), OpenError> {
        let state = self.state.borrow();
        match released.iter().find(|zone| 0 < state.zone(**zone).live) {
            None => Ok(()),
            Some(zone) => {
                let damage = Damage::Zone(self.layout.zone_id(*zone));
                Err(OpenError::Damaged(self.layout.tier_of(*zone), damage))
            }
        }
    }

    /// Writes the export table of newly formatted devices to both tiers, and flushes it.
    async fn write_first_exports(&self, mover: &mut Mover) -> Result<(), OpenError> {
        mover.write_table().await.map_err(failed)?;
        mover.finish().await.map_err(failed)?;
        self.flush_both().await.map_err(failed)
    }

    /// Closes a zone that a crash left partly filled, with a header that repeats its last segment.
    /// If it cannot be written, that segment depends on its own header until the zone is emptied.
    async fn close_zone(&self, mut open: OpenZone) {
        let front = self.own.take(FRONT_BLOCKS).await;
        let room = open.segment_room(&self.layout, 0);
        let writer = (Writer::Collection, &mut open, room);
        let mut begun = self.begin_segment(writer, Vec::new(), Vec::new(), front);
        let answer = self.written(&mut begun.write, 0).await;
        self.end_segment(&begun, &answer);
        self.abandon(open.zone).await;
    }

    /// Writes what must be on the devices before anything else: the export table, the zone table,
    /// and the current content of blocks with an untrusted newer version left by a crash.
    async fn write_repairs(&self, mover: &mut Mover, anew: &Repairs) -> Result<(), OpenError> {
        self.state.borrow_mut().is_repairing = true;
        // Recovered segments count from now on, including those never flushed.
        self.flush_both().await.map_err(failed)?;
        self.empty_dead_zones(mover, anew).await.map_err(failed)?;
        for key in &anew.distrusted {
            mover.assert_current(*key).await.map_err(failed)?;
        }
        if anew.is_table_new || self.state.borrow().is_table_stale {
            mover.write_table().await.map_err(failed)?;
        }
        mover.finish().await.map_err(failed)?;
        self.flush_both().await.map_err(failed)?;
        let mut state = self.state.borrow_mut();
        state.is_repairing = false;
        state.durable = Tier::ALL.map(|tier| state.last_settled(tier));
        // The log may have failed without a caller that waited for it.
        state.failure.map_or(Ok(()), |error| Err(failed(error)))
    }

    /// Resets zones without live data, because later steps may need the room, and writes a zone
    /// table of what recovery found.
    async fn empty_dead_zones(&self, mover: &mut Mover, anew: &Repairs) -> Result<(), BlockError> {
        let has_zone_table = 0 < self.state.borrow().epoch;
        let unwanted = match has_zone_table {
            true => anew.released.iter().copied().collect(),
            false => self.dead_zones(),
        };
        for zone in unwanted {
            self.reset_flushed(zone).await?;
        }
        let dead = self.dead_zones();
        for zone in &dead {
            self.state.borrow_mut().zone_mut(*zone).is_released = true;
        }
        mover.write_zone_table(false).await?;
        for zone in dead {
            self.reset_flushed(zone).await?;
        }
        Ok(())
    }

    async fn flush_both(&self) -> Result<(), BlockError> {
        for tier in Tier::ALL {
            self.flush_tier(tier).await?;
        }
        Ok(())
    }

    /// Sealed capacity zones without live blocks. Their blocks died since the last zone table, or
    /// they are on a conventional device, which does not remember resets.
    fn dead_zones(&self) -> Vec<Zone> {
        let state = self.state.borrow();
        let zones = self.layout.zones(Tier::Capacity);
        let is_dead =
            |zone: &Zone| state.usage(*zone) == ZoneUse::Sealed && state.zone(*zone).live == 0;
        zones.filter(is_dead).collect()
    }
}

/// Data that a start writes before anything else.
#[derive(Default)]
struct Repairs {
    /// Keys with an untrusted newer version on flash. They are rewritten so that no recovery uses
    /// it.
    distrusted: Vec<Key>,
    is_table_new: bool,
    /// Zones that the zone table released: their content is not needed.
    released: BTreeSet<Zone>,
}

/// Buffer classes for our own I/O: single blocks, fronts of segments, and whole segments for moves
/// and streams.
fn own_classes(streams: u32) -> [PoolClass; 3] {
    // The pool reserves a share of its buffers, hence a quarter more.
    let segments = streams + streams / 4 + 2 * SEGMENTS_UNDER_WAY + 1 + SCRUB_SEGMENTS;
    [
        PoolClass { blocks: Blocks(1), count: SINGLES },
        PoolClass { blocks: FRONT_BLOCKS, count: FRONTS },
        PoolClass { blocks: Blocks(SEGMENT_BLOCKS), count: segments },
    ]
}

/// Segment buffers of each mover: segments in flight, the piece being moved, the one being read
/// ahead, and spares for buffers still held by a device that answers late.
const SEGMENTS_UNDER_WAY: u32 = 12;

/// Segment buffers of a scrub: the piece being verified, and a spare for one that is answered late.
const SCRUB_SEGMENTS: u32 = 2;

/// Single blocks in use at once: tables and trim bitmaps being written, headers being read, and
/// spares for buffers still held by a device that answers late.
const SINGLES: u32 = 64;

/// Fronts of segments in flight: those of the log and of both movers, and as many spares.
const FRONTS: u32 = 32;
