//! The cache of one shard: settings, state, start and graceful stop.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;

use zonal_base::{BLOCK_BYTES, Bytes, Nanos, index, low_u32};
use zonal_device::Geometry;
use zonal_policy::{AdmissionThrottle, Layout, Rules, WriteBudget};
use zonal_runtime::Event;
use zonal_zonelog::{Identity, Key, Log, OpenError as LogError, OpenMode};

use crate::chunk_store::ChunkStore;
use crate::chunks::{Chunk, ChunkRules};
use crate::dram_tier::DramTier;
use crate::events::RecentEvents;
use crate::fetch::FillPiece;
use crate::heads::Heads;
use crate::lookup::Lookup;
use crate::negative_cache::NegativeCache;
use crate::no_etag_cache::NoEtagCache;
use crate::object::{Keys, ObjectKey};
use crate::origin_backoff::OriginBackoff;
use crate::pins::Pins;
use crate::placement_epochs::PlacementEpochs;
use crate::prefetch::Prefetched;
use crate::prehashed_map::PrehashedMap;
use crate::purge::PurgedLengths;
use crate::recover::{Recovery, RecoveryStats};
use crate::remove::{RemovedLately, WatchedObject};
use crate::roster::KeptRoster;
use crate::version_keys::VersionKeyCache;
use crate::{CacheStats, Ports, Scrub};

/// Settings of one cache shard.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Chunk size, the unit of fetches: a power of two from 4 KiB to the stripe or the zone.
    pub chunk: Bytes,
    /// Maximum number of object heads (metadata) in memory.
    pub heads: usize,
    /// Maximum memory of these, in bytes.
    pub head_bytes: Bytes,
    /// Share of the device that may be pinned, in percent: 75 at most.
    pub pinned_percent: u32,
    /// True when no rule pins anything at the start: pins that recovery finds are released.
    pub forgets_pins: bool,
    /// Maximum prefetch window of a sequential reader, in bytes. 0 turns prefetch off.
    pub prefetch: Bytes,
    /// Settings of the log.
    pub log: zonal_zonelog::Settings,
    /// A bug that the simulator must find.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<crate::Mutation>,
}

impl Settings {
    /// Default chunk size: 256 KiB. A read of a Parquet footer costs little more than the footer,
    /// and a scan few requests.
    pub const CHUNK: Bytes = Bytes::kib(256);

    /// Default number of heads in memory: about 50 MB when every object has a few headers.
    pub const HEADS: usize = 100_000;

    /// Default memory for heads: 100 MiB, a kilobyte for each. Objects with much metadata get fewer.
    pub const HEAD_BYTES: Bytes = Bytes::mib(100);

    /// Default settings for a device.
    #[must_use]
    pub fn for_device(geometry: &Geometry) -> Self {
        Self {
            chunk: Self::CHUNK,
            heads: Self::HEADS,
            head_bytes: Self::HEAD_BYTES,
            pinned_percent: 0,
            forgets_pins: false,
            prefetch: Bytes(0),
            log: zonal_zonelog::Settings::for_device(geometry),
            #[cfg(feature = "planted-bugs")]
            planted: None,
        }
    }

    /// Size of a piece, the unit of flash records, in bytes: for objects whose chunk size no rule
    /// sets.
    #[must_use]
    pub fn piece(&self) -> Bytes {
        self.chunk.min(self.log.segment_bytes)
    }

    /// Capacity figures of the device for an eviction policy.
    #[must_use]
    pub fn layout(&self, geometry: &Geometry) -> Layout {
        let zone_count = geometry.zone_count;
        // Framing: header, footer and the unused end of a zone's last segment take at most three
        // blocks per segment.
        let segments = self.log.segment_bytes.0 / BLOCK_BYTES as u64;
        let framing = (u64::from(zone_count) * 3).div_ceil(segments);
        let open = self.log.fill_zones.min((zone_count / 4).max(1)) + 1;
        Layout {
            zone_count,
            zone_capacity: geometry.zone_capacity.bytes(),
            busy_zones: open + self.log.high_zones + low_u32(index(framing)),
        }
    }

    fn with_backlog_within(mut self, memory: Bytes) -> Self {
        self.log.backlog_max = self.log.backlog_max.min(Bytes(memory.0 / 4));
        self
    }

    /// # Errors
    /// When the chunk size is invalid. The error names the largest valid one.
    pub fn check(&self, geometry: &Geometry) -> Result<(), StartError> {
        let most = geometry.zone_capacity.bytes().min(STRIPE);
        if Chunk::new(self.chunk).is_none() || most < self.chunk {
            return Err(StartError::Chunk { most });
        }
        Ok(())
    }
}

/// Stripe: 32 MiB of an object, the unit of placement. All chunks of a stripe are on one shard. A
/// fetch never crosses a stripe, and a chunk is at most one stripe.
pub const STRIPE: Bytes = Bytes::mib(32);

/// Failure to start a cache. Nothing was written, except with a device failure during formatting or
/// recovery (see [`LogError`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The chunk size is not a power of two from 4 KiB to the limit of the device.
    Chunk {
        /// Largest chunk size of this device.
        most: Bytes,
    },
    /// The log could not be opened.
    Log(LogError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chunk { most } => {
                write!(f, "the chunk size must be a power of two from 4KiB to {most}")
            }
            Self::Log(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for StartError {}

/// The cache of one shard. Clones refer to the same cache.
#[derive(Clone)]
pub struct Cache {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) ports: Ports,
    pub(crate) settings: Settings,
    pub(crate) keys: Keys,
    pub(crate) log: Log,
    pub(crate) holdings: ChunkStore,
    /// Checkpoint trigger: the next policy checkpoint is due when the log has appended this many
    /// bytes since the start.
    pub(crate) remember_at: Cell<u64>,
    pub(crate) memory: RefCell<DramTier>,
    pub(crate) budget: Option<WriteBudget>,
    pub(crate) throttle: RefCell<AdmissionThrottle>,
    pub(crate) started_at: Nanos,
    pub(crate) regained: RecoveryStats,
    pub(crate) heads: RefCell<Heads>,
    pub(crate) placement_epochs: RefCell<PlacementEpochs>,
    pub(crate) chunks: RefCell<Arc<ChunkRules>>,
    /// Largest piece in bytes: a segment, or the largest buffer if that is smaller.
    pub(crate) piece_max: u64,
    pub(crate) roster: RefCell<Option<KeptRoster>>,
    pub(crate) versions: RefCell<VersionKeyCache>,
    /// Origin lookups in flight, by object.
    pub(crate) lookups: RefCell<BTreeMap<ObjectKey, Vec<Rc<Lookup>>>>,
    /// Number of origin lookups sent.
    pub(crate) lookups_sent: Cell<u64>,
    /// Objects with a lookup, fetch or removal in flight, and their invalidation epochs.
    pub(crate) watched: RefCell<PrehashedMap<ObjectKey, WatchedObject>>,
    pub(crate) removed: RefCell<RemovedLately>,
    pub(crate) purged: RefCell<PurgedLengths>,
    /// Prefixes whose purge is in flight.
    pub(crate) purging: RefCell<Vec<Rc<str>>>,
    pub(crate) absences: RefCell<NegativeCache>,
    pub(crate) untagged: RefCell<NoEtagCache>,
    pub(crate) outages: RefCell<OriginBackoff>,
    /// Pieces that are being fetched or are on their way to flash.
    pub(crate) filling: RefCell<PrehashedMap<Key, Rc<FillPiece>>>,
    pub(crate) prefetched: Prefetched,
    /// Number of tasks that a graceful stop waits for: admissions and publications.
    pub(crate) writing: Cell<u64>,
    /// Number of fetches whose origin bodies are still open. Their pieces may be missing from
    /// `filling`: after a removal, a newer fetch of the same pieces replaces them there.
    pub(crate) fetching: Cell<u64>,
    /// Number of tasks in `writing` that store a head from the origin.
    pub(crate) heads_storing: Cell<u32>,
    pub(crate) quiet: Event,
    pub(crate) stats: RefCell<CacheStats>,
    pub(crate) events: RefCell<RecentEvents>,
    pub(crate) scrub: RefCell<Scrub>,
    pub(crate) scrub_ended: Event,
}

impl Cache {
    /// Opens the cache on one shard of a device: recovers a Zonal log, or formats a blank device.
    ///
    /// # Errors
    /// When the device holds foreign data or fails, or the settings do not fit it.
    pub async fn start(
        ports: Ports,
        geometry: Geometry,
        settings: Settings,
        identity: Identity,
        (rules, mode): (Rules, OpenMode),
    ) -> Result<Self, StartError> {
        settings.check(&geometry)?;
        // Pieces on their way to flash hold buffers, and may wait for reclaim, which needs buffers,
        // too. So the backlog gets at most a quarter of the memory.
        let settings = settings.with_backlog_within(ports.buffers.pool().max_bytes());
        let log_ports = zonal_zonelog::Ports {
            device: ports.device.clone(),
            clock: ports.clock.clone(),
            spawner: ports.spawner.clone(),
            buffers: ports.buffers.clone(),
            checksum: ports.checksum,
            generations: ports.generations.clone(),
        };
        let mut recovery = Recovery::new(&geometry, settings);
        let mut note = |record: zonal_zonelog::Recovered<'_>| recovery.note(&record);
        let log_settings = (settings.log, identity);
        let log = Log::open(log_ports, geometry, log_settings, mode, &mut note).await;
        let log = log.map_err(StartError::Log)?;
        let (index, orders, roster) = recovery.finish(&log);
        let regained = RecoveryStats::of(&index, &log);
        let roster = roster.read(&log, &ports.buffers).await;
        let pins = Pins::new(&settings.layout(&geometry), settings.pinned_percent);
        let pins = if settings.forgets_pins { pins.forgetting_found() } else { pins };
        let holdings = ChunkStore::new(index, rules.policy, pins);
        orders.tell_policy(&holdings, &log, (&ports.buffers, ports.clock.now())).await;
        let prefetched = Prefetched::new(settings.prefetch, ports.buffers.pool().max_bytes());
        let piece_max = settings.log.segment_bytes.min(largest_buffer(&ports)).0;
        let inner = Inner {
            keys: Keys::new(log.identity().log),
            settings,
            holdings,
            remember_at: Cell::new(0),
            memory: RefCell::new(DramTier::new(rules.probation, rules.hot)),
            budget: rules.budget,
            throttle: RefCell::new(AdmissionThrottle::new(settings.log.backlog_max)),
            started_at: ports.clock.now(),
            regained,
            heads: RefCell::new(Heads::new(
                settings.heads,
                zonal_base::index(settings.head_bytes.0),
            )),
            placement_epochs: RefCell::default(),
            chunks: RefCell::new(Arc::new(ChunkRules::all(None))),
            piece_max,
            roster: RefCell::new(roster),
            versions: RefCell::new(VersionKeyCache::new()),
            lookups: RefCell::default(),
            lookups_sent: Cell::new(0),
            watched: RefCell::default(),
            removed: RefCell::default(),
            purged: RefCell::new(PurgedLengths::found(&log)),
            purging: RefCell::default(),
            absences: RefCell::default(),
            untagged: RefCell::default(),
            outages: RefCell::default(),
            filling: RefCell::default(),
            prefetched,
            writing: Cell::new(0),
            fetching: Cell::new(0),
            heads_storing: Cell::new(0),
            quiet: Event::default(),
            stats: RefCell::default(),
            events: RefCell::new(RecentEvents::new(ports.clock.now())),
            scrub: RefCell::default(),
            scrub_ended: Event::default(),
            log,
            ports,
        };
        let cache = Self { inner: Rc::new(inner) };
        cache.inner.ports.spawner.spawn(cache.inner.clone().reclaim_for_ever());
        Ok(cache)
    }

    /// Graceful stop: waits until all admitted pieces are on flash, writes the policy checkpoint,
    /// and closes the log.
    pub async fn settle(&self) {
        self.inner.end_scrub();
        self.inner.end_all_waiting();
        self.inner.store_waiting_heads();
        loop {
            self.inner.log.seal_all();
            if self.inner.writing.get() == 0 {
                break;
            }
            self.inner.quiet.wait().await;
        }
        self.inner.remember().await;
        self.inner.log.close().await;
    }

    /// Snapshot of the counters.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        CacheStats { unpinned_bytes: self.unpinned().0, ..*self.inner.stats.borrow() }
    }

    /// Number of records that were damaged, as in [`CacheStats::damaged`].
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.inner.stats.borrow().damaged
    }

    /// The log of this shard.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.inner.log
    }

    /// Settings of this shard, with the backlog limited to the memory.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Numbers of heads, pieces and bytes that recovery found.
    #[must_use]
    pub fn regained(&self) -> RecoveryStats {
        self.inner.regained
    }

    /// Number of records in the index, including pieces that the policy has evicted.
    #[must_use]
    pub fn record_count(&self) -> u64 {
        self.inner.holdings.record_count()
    }

    /// Number of records that may be read: evicted pieces are excluded. Walks the whole index.
    #[must_use]
    pub fn held_count(&self) -> u64 {
        self.inner.holdings.held_count()
    }

    /// Memory of the index, in bytes.
    #[must_use]
    pub fn index_memory(&self) -> Bytes {
        self.inner.holdings.memory()
    }

    /// Memory of the DRAM tier, in bytes: chunks that wait for admission and hot chunks.
    #[must_use]
    pub fn held_memory(&self) -> Bytes {
        self.inner.memory.borrow().held_bytes()
    }

    /// Pinned bytes on flash.
    #[must_use]
    pub fn pinned(&self) -> Bytes {
        self.inner.holdings.pinned()
    }

    /// Upper limit of pinned bytes.
    #[must_use]
    pub fn pinned_max(&self) -> Bytes {
        self.inner.holdings.pinned_max()
    }

    /// Bytes that a rule pins but that were cached without a pin, because pins had reached their
    /// limit.
    #[must_use]
    pub fn unpinned(&self) -> Bytes {
        self.inner.holdings.unpinned()
    }

    /// Bytes that the policy's write budget allows a day. `None`: it sets none by time.
    #[must_use]
    pub fn write_budget(&self) -> Option<Bytes> {
        self.inner.budget.as_ref().and_then(WriteBudget::per_day)
    }

    /// Leak check: fetches, lookups and admissions in flight. 0 when the shard is idle.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        let tables = self.inner.filling.borrow().len() + self.inner.lookups.borrow().len();
        self.inner.writing.get() + self.inner.fetching.get() + tables as u64
    }
}

/// Size of the largest buffer, rounded down to a power of two.
fn largest_buffer(ports: &Ports) -> Bytes {
    let largest = ports.buffers.pool().largest().bytes();
    Bytes(1 << largest.0.ilog2())
}

/// Drop guard of a task that a graceful stop waits for.
pub(crate) struct Writing {
    inner: Rc<Inner>,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.inner.writing.set(self.inner.writing.get() - 1);
        self.inner.quiet.notify_all();
    }
}

impl Inner {
    pub(crate) fn now(&self) -> Nanos {
        self.ports.clock.now()
    }

    pub(crate) fn count(&self, counter: impl FnOnce(&mut CacheStats)) {
        counter(&mut self.stats.borrow_mut());
    }

    /// Starts a task that a graceful stop waits for while the task holds its [`Writing`]. The task
    /// is not wrapped in another future: the wrapper would double its size, and there is one task
    /// per piece on its way to flash.
    pub(crate) fn spawn_writing<T>(self: &Rc<Self>, task: impl FnOnce(Writing) -> T)
    where
        T: Future<Output = ()> + 'static,
    {
        self.writing.set(self.writing.get() + 1);
        self.ports.spawner.spawn(task(Writing { inner: self.clone() }));
    }
}
