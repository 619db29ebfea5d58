//! Test host: one executor, one port, one RAM device, virtual time.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::rc::Rc;

use zonal_base::{
    BLOCK_BYTES, Blocks, Bytes, Checksum, Lba, Nanos, Payload, PoolClass, Rng, ZoneId, index,
};
use zonal_device::ram::{Crash, RamDevice, RamOptions};
use zonal_device::{Command, Completion, DeviceError, DeviceKind, Geometry, ZonedDevice};
use zonal_runtime::{Buffers, Executor, Port};
use zonal_zonelog::{
    Checks, Descriptor, Extent, Generations, Identity, Key, Kind, Log, OpenError, OpenMode, Ports,
    ReadError, Record, Settings, UnpublishedRecord,
};

pub(crate) const CRC: Checksum = Checksum(crc32c::crc32c_append);

pub(crate) const IDENTITY: Identity = Identity { log: [7; 16], shard: 0, shard_count: 1 };

/// Kind of the tests' records. Any kind but the tombstone's works.
pub(crate) const KIND: Kind = Kind(2);

/// Virtual time after which a test fails because a task does not end.
const PATIENCE: Nanos = Nanos::secs(1000);

/// Zone capacity: half a MiB. Segments are 64 KiB, so zones turn over quickly.
pub(crate) const ZONE: Blocks = Blocks(128);

pub(crate) fn geometry(kind: DeviceKind, zone_count: u32) -> Geometry {
    Geometry {
        kind,
        zone_count,
        // The capacity is below the size, as in real zoned drives.
        zone_size: Blocks(ZONE.0 + 32),
        zone_capacity: ZONE,
        max_open_zones: None,
        max_active_zones: None,
    }
}

pub(crate) fn settings() -> Settings {
    Settings {
        segment_bytes: Bytes::kib(64),
        linger: Nanos::millis(20),
        fill_zones: 2,
        backlog_max: Bytes::kib(512),
        low_zones: 2,
        high_zones: 3,
        #[cfg(feature = "planted-bugs")]
        planted: None,
    }
}

/// A device, and the host that a crash replaces.
pub(crate) struct Rig {
    pub(crate) settings: Settings,
    pub(crate) device: RamDevice,
    pub(crate) now: Nanos,
    pub(crate) rng: Rng,
    /// Errors that the device answered.
    pub(crate) refusals: Vec<DeviceError>,
    /// Number of blocks read.
    pub(crate) blocks_read: u64,
    /// Number of commands submitted.
    pub(crate) commands: u64,
    /// Number of next flushes that fail and make nothing durable.
    pub(crate) failing_flushes: u32,
    /// Blocks whose reads fail until they are taken from this set. Their contents are unchanged.
    pub(crate) failing_reads: BTreeSet<Lba>,
    host: Host,
}

struct Host {
    executor: Executor,
    ports: Ports,
}

/// A record that the log found when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundRecord {
    pub(crate) extent: Extent,
    pub(crate) descriptor: Descriptor,
}

impl FoundRecord {
    pub(crate) fn of(placed: &UnpublishedRecord) -> Self {
        Self { extent: placed.extent(), descriptor: placed.descriptor().clone() }
    }

    pub(crate) fn key(&self) -> Key {
        self.descriptor.key
    }

    pub(crate) fn checks(&self) -> Checks {
        self.descriptor.checks.clone()
    }
}

impl Rig {
    pub(crate) fn new(geometry: Geometry, seed: u64) -> Self {
        let options = RamOptions {
            seed,
            latency: Nanos::micros(50),
            latency_spread: Nanos::micros(200),
            ..RamOptions::default()
        };
        Self {
            settings: settings(),
            device: RamDevice::new(geometry, options),
            now: Nanos::secs(1),
            rng: Rng::new(seed),
            refusals: Vec::new(),
            blocks_read: 0,
            commands: 0,
            failing_flushes: 0,
            failing_reads: BTreeSet::new(),
            host: Host::new(Nanos::secs(1)),
        }
    }

    /// Opens the log. Returns it with the found records.
    pub(crate) fn try_open(
        &mut self,
        identity: Identity,
        mode: OpenMode,
    ) -> Result<(Log, Vec<FoundRecord>), OpenError> {
        let found = Rc::new(RefCell::new(Vec::new()));
        let (ports, geometry) = (self.ports(), *self.device.geometry());
        let (settings, notes) = (self.settings, found.clone());
        let log = self.run(async move {
            let mut note = |record: zonal_zonelog::Recovered<'_>| {
                let descriptor = record.descriptor.clone();
                notes.borrow_mut().push(FoundRecord { extent: record.extent(), descriptor });
            };
            Log::open(ports, geometry, (settings, identity), mode, &mut note).await
        })?;
        let found = found.take();
        Ok((log, found))
    }

    #[track_caller]
    pub(crate) fn open(&mut self) -> (Log, Vec<FoundRecord>) {
        self.try_open(IDENTITY, OpenMode::Recover).expect("the log opens")
    }

    pub(crate) fn ports(&self) -> Ports {
        self.host.ports.clone()
    }

    /// Makes the log one of several logs of a node, until the next crash.
    pub(crate) fn share(&mut self, generations: Generations) {
        self.host.ports.generations = generations;
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.host.executor.spawner().spawn(task);
    }

    /// Runs the event loop until `future` is done.
    #[track_caller]
    pub(crate) fn run<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) -> T {
        let output = Rc::new(RefCell::new(None));
        let out = output.clone();
        self.spawn(async move {
            let done = future.await;
            *out.borrow_mut() = Some(done);
        });
        let until = self.now + PATIENCE;
        loop {
            self.turn();
            if let Some(output) = output.borrow_mut().take() {
                return output;
            }
            assert!(self.step() && self.now < until, "what was waited for never happens");
        }
    }

    /// Runs the event loop for `steps` events, or until there are none.
    pub(crate) fn run_steps(&mut self, steps: u64) {
        self.turn();
        for _ in 0..steps {
            if !self.step() {
                return;
            }
            self.turn();
        }
    }

    /// Runs the event loop until it is idle.
    #[track_caller]
    pub(crate) fn run_until_idle(&mut self) {
        let until = self.now + PATIENCE;
        self.turn();
        while self.step() {
            assert!(self.now < until, "it never rests");
            self.turn();
        }
    }

    /// Runs the event loop until nothing is due within 10 ms: what was urgent is written, and the
    /// manifest that follows removals is not.
    #[track_caller]
    pub(crate) fn run_until_calm(&mut self) {
        let until = self.now + PATIENCE;
        self.turn();
        while self.next().is_some_and(|next| next < self.now + Nanos::millis(10)) && self.step() {
            assert!(self.now < until, "it never rests");
            self.turn();
        }
    }

    /// Crashes and restarts the host. Only the device keeps state.
    pub(crate) fn crash(&mut self, crash: Crash) {
        self.host = Host::new(self.now);
        self.device.crash(&mut self.rng, crash);
    }

    /// Write pointer that the device reports for a zone, in blocks from its start.
    pub(crate) fn written(&mut self, zone: ZoneId) -> Blocks {
        let device = self.ports().device;
        let report = Command::Report { first: zone, count: 1 };
        match self.run(async move { device.call(report).await }) {
            Ok(zonal_device::Answer::Report(zones)) => zones[0].written,
            other => panic!("{other:?}"),
        }
    }

    fn turn(&mut self) {
        loop {
            let polls = self.host.executor.run(usize::MAX);
            let device = &self.host.ports.device;
            let mut moved = 0 < polls;
            while let Some((ticket, command)) = device.take() {
                moved = true;
                self.commands += 1;
                if let Command::Read { lba, blocks, .. } = &command {
                    self.blocks_read += blocks.0;
                    if self.failing_reads.range(*lba..*lba + *blocks).next().is_some() {
                        device.complete(ticket, Err(DeviceError::Media));
                        continue;
                    }
                }
                if matches!(command, Command::Flush) && 0 < self.failing_flushes {
                    self.failing_flushes -= 1;
                    self.refusals.push(DeviceError::Media);
                    device.complete(ticket, Err(DeviceError::Media));
                    continue;
                }
                if let Err(command) = self.device.submit(self.now, ticket, command) {
                    device.put_back(ticket, command);
                    break;
                }
            }
            while let Some((ticket, completion)) = self.device.poll(self.now) {
                moved = true;
                self.refusals.extend(completion.as_ref().err());
                device.complete(ticket, completion);
            }
            if !moved {
                return;
            }
        }
    }

    /// Time of the next event.
    fn next(&self) -> Option<Nanos> {
        let next = [self.device.next_event(), self.host.executor.next_deadline()];
        next.into_iter().flatten().min()
    }

    /// Advances the clock to the next event. False when there is none.
    fn step(&mut self) -> bool {
        let Some(next) = self.next() else { return false };
        self.now = self.now.max(next);
        self.host.executor.advance(self.now);
        true
    }
}

impl Host {
    fn new(now: Nanos) -> Self {
        let executor = Executor::new(4096);
        executor.advance(now);
        let classes = [
            PoolClass { blocks: Blocks(2), count: 32 },
            PoolClass { blocks: Blocks(17), count: 32 },
            PoolClass { blocks: Blocks(257), count: 8 },
        ];
        let ports = Ports {
            device: Port::<Command, Completion>::new(),
            clock: executor.clock().clone(),
            spawner: executor.spawner().clone(),
            buffers: Buffers::new(executor.spawner(), &classes),
            checksum: CRC,
            generations: Generations::default(),
        };
        Self { executor, ports }
    }
}

/// Deterministic bytes of a record, derived from its key.
pub(crate) fn content(key: Key, len: u32) -> Vec<u8> {
    let [low, high] = [key.0, key.0 >> 64].map(|n| u64::try_from(n & u128::from(u64::MAX)));
    let mut rng = Rng::new(low.expect("masked") ^ high.expect("masked").rotate_left(17));
    let words = (0..len.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes());
    words.take(len as usize).collect()
}

pub(crate) fn record(key: Key, len: u32) -> Record {
    record_of(key, &content(key, len))
}

pub(crate) fn record_of(key: Key, bytes: &[u8]) -> Record {
    let len = u32::try_from(bytes.len()).expect("tests write little");
    Record { key, kind: KIND, len, data: payload(bytes), generation: None }
}

/// Payload in the log's layout: packed records as they are, longer ones in whole aligned blocks.
fn payload(bytes: &[u8]) -> Payload {
    if bytes.len() < BLOCK_BYTES {
        return zonal_bytes(bytes);
    }
    let blocks = Bytes(bytes.len() as u64).blocks_ceil();
    let class = PoolClass { blocks, count: 1 };
    let pool = zonal_base::Pool::new(&[class], Box::new(|| ()));
    let mut buffer = pool.take(blocks).expect("a new pool has one");
    buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    buffer.freeze(index(blocks.bytes().0))
}

fn zonal_bytes(bytes: &[u8]) -> Payload {
    bytes::Bytes::copy_from_slice(bytes).into()
}

/// Reads a range of a record.
pub(crate) async fn read(
    (log, ports): (Log, Ports),
    found: FoundRecord,
    range: core::ops::Range<u32>,
) -> Result<Vec<u8>, ReadError> {
    let buffer = ports.buffers.take(Log::read_blocks(found.extent, &range)).await;
    let place = (found.key(), found.extent);
    let mut reading = log.start_read(place, found.checks(), &range, buffer);
    reading.done().await.map(|payload| payload.as_bytes().to_vec())
}
