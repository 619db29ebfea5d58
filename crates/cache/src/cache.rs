//! The cache of one shard: its parts, and how it starts and stops.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;

use zonal_base::{BLOCK_BYTES, Bytes, Nanos, index, low_u32};
use zonal_device::Geometry;
use zonal_policy::{Budget, Layout, Lots, Rules};
use zonal_runtime::Event;
use zonal_zonelog::{Identity, Key, Log, OpenError as LogError, OpenMode};

use crate::absences::Absences;
use crate::chunks::{Chunk, ChunkRules};
use crate::fetch::FillPiece;
use crate::hashed::Hashed;
use crate::heads::Heads;
use crate::holdings::Holdings;
use crate::homes::Homes;
use crate::memory::Memory;
use crate::object::{Keys, ObjectKey};
use crate::open::Lookup;
use crate::outages::Outages;
use crate::pins::Pins;
use crate::prefetch::Prefetched;
use crate::purge::PurgedLengths;
use crate::recover::{Recovery, Regained};
use crate::remove::{RemovedLately, Watched};
use crate::roster::KeptRoster;
use crate::untagged::Untagged;
use crate::versions::Versions;
use crate::{CacheStats, Ports};

/// How a cache shard behaves.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What is fetched and admitted together: a power of two from 4 KiB to the stripe or the zone.
    pub chunk: Bytes,
    /// Heads kept in memory.
    pub heads: usize,
    /// How much of the device may be pinned, in percent: 75 at most.
    pub pinned_percent: u32,
    /// Nothing is to be pinned as it starts: what was is no longer.
    pub forgets_pins: bool,
    /// How far ahead of a reader that goes front to back is fetched at most. 0: nothing is.
    pub prefetch: Bytes,
    /// The log below.
    pub log: zonal_zonelog::Settings,
    /// A bug for the simulator to find.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<crate::Planted>,
}

impl Settings {
    /// Chunks of 256 KiB: a footer read costs little more than the footer, a scan few requests.
    pub const CHUNK: Bytes = Bytes::kib(256);

    /// Heads in memory: about 50 MB when every object has a few headers.
    pub const HEADS: usize = 100_000;

    /// What a device gets when nobody says otherwise.
    #[must_use]
    pub fn for_device(geometry: &Geometry) -> Self {
        Self {
            chunk: Self::CHUNK,
            heads: Self::HEADS,
            pinned_percent: 0,
            forgets_pins: false,
            prefetch: Bytes(0),
            log: zonal_zonelog::Settings::for_device(geometry),
            #[cfg(feature = "planted-bugs")]
            planted: None,
        }
    }

    /// What is stored as one record of an object that no rule cuts otherwise.
    #[must_use]
    pub fn piece(&self) -> Bytes {
        self.chunk.min(self.log.segment_bytes)
    }

    /// The device as a policy sees it.
    #[must_use]
    pub fn layout(&self, geometry: &Geometry) -> Layout {
        let zone_count = geometry.zone_count;
        // Header, footer, and what the last segment of a zone leaves free: three blocks for each segment, at most.
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
    /// When the chunk size is not one that can be used, with what would be.
    pub fn check(&self, geometry: &Geometry) -> Result<(), StartError> {
        let most = geometry.zone_capacity.bytes().min(STRIPE);
        if Chunk::new(self.chunk).is_none() || most < self.chunk {
            return Err(StartError::Chunk { most });
        }
        Ok(())
    }
}

/// Neighbouring chunks of one stripe live on one shard; a fetch never crosses it. A chunk is at most that.
pub const STRIPE: Bytes = Bytes::mib(32);

/// Why a cache could not start. Nothing was written then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The chunk size.
    Chunk {
        /// The most that this device allows.
        most: Bytes,
    },
    /// The log.
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

/// The cache of one shard. Clones share it.
#[derive(Clone)]
pub struct Cache {
    pub(crate) inner: Rc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) ports: Ports,
    pub(crate) settings: Settings,
    pub(crate) keys: Keys,
    pub(crate) log: Log,
    pub(crate) holdings: Holdings,
    /// When so much was written since the start, what the policy knows is written again.
    pub(crate) remember_at: Cell<u64>,
    pub(crate) memory: RefCell<Memory>,
    pub(crate) budget: Option<Budget>,
    pub(crate) lots: RefCell<Lots>,
    pub(crate) started_at: Nanos,
    pub(crate) regained: Regained,
    pub(crate) heads: RefCell<Heads>,
    pub(crate) homes: RefCell<Homes>,
    pub(crate) chunks: RefCell<Arc<ChunkRules>>,
    /// The largest piece: a segment, or a buffer.
    pub(crate) piece_max: u64,
    pub(crate) roster: RefCell<Option<KeptRoster>>,
    pub(crate) versions: RefCell<Versions>,
    /// Origin lookups of heads under way: whoever comes later shares the answer.
    pub(crate) lookups: RefCell<BTreeMap<ObjectKey, Rc<Lookup>>>,
    /// Objects that somebody looks at right now, and their last removal since.
    pub(crate) watched: RefCell<Hashed<ObjectKey, Watched>>,
    pub(crate) removed: RefCell<RemovedLately>,
    pub(crate) purged: RefCell<PurgedLengths>,
    /// Prefixes that are being purged.
    pub(crate) purging: RefCell<Vec<Rc<str>>>,
    pub(crate) absences: RefCell<Absences>,
    pub(crate) untagged: RefCell<Untagged>,
    pub(crate) outages: RefCell<Outages>,
    /// Pieces that are being fetched or are on their way to flash.
    pub(crate) filling: RefCell<Hashed<Key, Rc<FillPiece>>>,
    pub(crate) prefetched: Prefetched,
    /// Tasks whose end a graceful stop waits for: admissions and publications.
    pub(crate) writing: Cell<u64>,
    /// Fetches whose bodies are not closed yet. Their pieces need not stand in `filling`: a newer fetch of the same
    /// pieces takes their place there once the object was removed.
    pub(crate) fetching: Cell<u64>,
    /// Those of `writing` that store a head that the origin gave.
    pub(crate) heads_storing: Cell<u32>,
    pub(crate) quiet: Event,
    pub(crate) stats: RefCell<CacheStats>,
}

impl Cache {
    /// Opens the cache on a device share: recovers what is there, or formats a blank device.
    ///
    /// # Errors
    /// When the device holds something else or fails, or the settings do not fit it.
    pub async fn start(
        ports: Ports,
        geometry: Geometry,
        settings: Settings,
        identity: Identity,
        (rules, mode): (Rules, OpenMode),
    ) -> Result<Self, StartError> {
        settings.check(&geometry)?;
        // Pieces on their way to flash hold buffers, and may wait for reclaim, which needs some, too.
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
        let regained = Regained::of(&index, &log);
        let roster = roster.read(&log, &ports.buffers).await;
        let pins = Pins::new(&settings.layout(&geometry), settings.pinned_percent);
        let pins = if settings.forgets_pins { pins.forgetting_found() } else { pins };
        let holdings = Holdings::new(index, rules.policy, pins);
        orders.tell_policy(&holdings, &log, (&ports.buffers, ports.clock.now())).await;
        let prefetched = Prefetched::new(settings.prefetch, ports.buffers.pool().max_bytes());
        let piece_max = settings.log.segment_bytes.min(largest_buffer(&ports)).0;
        let inner = Inner {
            keys: Keys::new(log.identity().log),
            settings,
            holdings,
            remember_at: Cell::new(0),
            memory: RefCell::new(Memory::new(rules.probation, rules.hot)),
            budget: rules.budget,
            lots: RefCell::new(Lots::new(settings.log.backlog_max)),
            started_at: ports.clock.now(),
            regained,
            heads: RefCell::new(Heads::new(settings.heads)),
            homes: RefCell::default(),
            chunks: RefCell::new(Arc::new(ChunkRules::all(None))),
            piece_max,
            roster: RefCell::new(roster),
            versions: RefCell::new(Versions::new()),
            lookups: RefCell::default(),
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
            log,
            ports,
        };
        let cache = Self { inner: Rc::new(inner) };
        cache.inner.ports.spawner.spawn(cache.inner.clone().reclaim_for_ever());
        Ok(cache)
    }

    /// Waits until everything that was admitted is on flash, and what the policy knows of it; flushes the device.
    pub async fn settle(&self) {
        self.inner.end_all_waiting();
        loop {
            self.inner.log.seal_all();
            if self.inner.writing.get() == 0 {
                break;
            }
            self.inner.quiet.wait().await;
        }
        self.inner.remember().await;
        self.inner.log.flush().await;
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        CacheStats { unpinned_bytes: self.unpinned().0, ..*self.inner.stats.borrow() }
    }

    /// The log below.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.inner.log
    }

    /// How it behaves.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// What the start found.
    #[must_use]
    pub fn regained(&self) -> Regained {
        self.inner.regained
    }

    /// Records in the index.
    #[must_use]
    pub fn record_count(&self) -> u64 {
        self.inner.holdings.record_count()
    }

    /// Those that may be read: the policy did not evict them. Looks at each.
    #[must_use]
    pub fn held_count(&self) -> u64 {
        self.inner.holdings.held_count()
    }

    /// Memory of the index.
    #[must_use]
    pub fn index_memory(&self) -> Bytes {
        self.inner.holdings.memory()
    }

    /// Memory of chunks that wait before flash or are read often.
    #[must_use]
    pub fn held_memory(&self) -> Bytes {
        self.inner.memory.borrow().held_bytes()
    }

    /// Bytes that are pinned.
    #[must_use]
    pub fn pinned(&self) -> Bytes {
        self.inner.holdings.pinned()
    }

    /// Bytes that may be pinned.
    #[must_use]
    pub fn pinned_max(&self) -> Bytes {
        self.inner.holdings.pinned_max()
    }

    /// Bytes that came to be written or read while they should have been pinned, for which there was no room.
    #[must_use]
    pub fn unpinned(&self) -> Bytes {
        self.inner.holdings.unpinned()
    }

    /// What must be nothing when no read is under way: fetches, lookups, admissions.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        let tables = self.inner.filling.borrow().len() + self.inner.lookups.borrow().len();
        self.inner.writing.get() + self.inner.fetching.get() + tables as u64
    }
}

/// The largest power of two that a buffer holds.
fn largest_buffer(ports: &Ports) -> Bytes {
    let largest = ports.buffers.pool().largest().bytes();
    Bytes(1 << largest.0.ilog2())
}

/// Held by a task that a graceful stop waits for.
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

    /// Starts a task that a graceful stop waits for, as long as it holds what it is given. It is not wrapped in another:
    /// that would have room for it twice, and there is one for each piece on its way to flash.
    pub(crate) fn spawn_writing<T>(self: &Rc<Self>, task: impl FnOnce(Writing) -> T)
    where
        T: Future<Output = ()> + 'static,
    {
        self.writing.set(self.writing.get() + 1);
        self.ports.spawner.spawn(task(Writing { inner: self.clone() }));
    }
}
