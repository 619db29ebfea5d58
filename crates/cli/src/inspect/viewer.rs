//! Read-only shard host: runs the log's own zone reader over one shard of a device.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use zonal_base::{Blocks, Nanos, PoolClass, ZoneId};
use zonal_device::{Command, Completion, DeviceError, Geometry, ZonedDevice};
use zonal_host::CHECKSUM;
use zonal_hostdev::{Drive, EngineKind, HostDevice, OpenError, ShardOptions};
use zonal_runtime::{Buffers, Executor, Port};
use zonal_zonelog::{Generations, ZoneContent, inspect_zone};

/// Commands in flight: the number of blocks that the log reads concurrently.
const QUEUE_DEPTH: u32 = 16;

/// Concurrent tasks: the reader, and those of the buffer pool.
const TASKS_MAX: usize = 16;

/// Task polls between two polls of the device for completions.
const POLLS_PER_TURN: usize = 256;

/// Longest wait for one completion. A slower device is polled again, without an error.
const WAIT: Duration = Duration::from_secs(1);

/// Buffer sizes for the log's reads: first blocks, segment headers, footers of up to 1 MiB.
const BUFFERS: [PoolClass; 3] = [
    PoolClass { blocks: Blocks(1), count: 64 },
    PoolClass { blocks: Blocks(16), count: 32 },
    PoolClass { blocks: Blocks(256), count: 8 },
];

pub(super) struct Viewer {
    executor: Executor,
    device: HostDevice,
    ports: zonal_zonelog::Ports,
}

impl Viewer {
    pub(super) fn open(drive: &Drive, shard: u32, shard_count: u32) -> Result<Self, OpenError> {
        let executor = Executor::new(TASKS_MAX);
        let buffers = Buffers::new(executor.spawner(), &BUFFERS);
        let options =
            ShardOptions { shard, shard_count, queue_depth: QUEUE_DEPTH, pool: buffers.pool() };
        let device = drive.shard(&options)?;
        let ports = zonal_zonelog::Ports {
            device: Port::new(),
            clock: executor.clock().clone(),
            spawner: executor.spawner().clone(),
            buffers,
            checksum: CHECKSUM,
            generations: Generations::default(),
        };
        Ok(Self { executor, device, ports })
    }

    pub(super) fn geometry(&self) -> Geometry {
        *self.device.geometry()
    }

    pub(super) const fn engine(&self) -> EngineKind {
        self.device.engine()
    }

    /// Reads one zone and returns its contents.
    pub(super) fn content(&mut self, zone: ZoneId) -> Result<ZoneContent, DeviceError> {
        let (ports, geometry) = (self.ports.clone(), self.geometry());
        self.run(async move { inspect_zone(&ports, &geometry, zone).await })
            .map(|(_, content)| content)
    }

    fn run<T: 'static>(&mut self, work: impl Future<Output = T> + 'static) -> T {
        let output = Rc::new(RefCell::new(None));
        let put = output.clone();
        self.executor.spawner().spawn(async move {
            let done = work.await;
            *put.borrow_mut() = Some(done);
        });
        loop {
            self.executor.run(POLLS_PER_TURN);
            if let Some(output) = output.borrow_mut().take() {
                return output;
            }
            self.turn();
        }
    }

    /// Submits queued commands to the device, and passes completions to the tasks.
    fn turn(&mut self) {
        // The clock stays at 0: the read-only host sets no deadlines.
        let now = Nanos(0);
        let port: &Port<Command, Completion> = &self.ports.device;
        while let Some((ticket, command)) = port.take() {
            if let Err(command) = self.device.submit(now, ticket, command) {
                port.put_back(ticket, command);
                break;
            }
        }
        self.device.flush_submissions();
        let mut any = false;
        while let Some((ticket, completion)) = self.device.poll(now) {
            any = true;
            port.complete(ticket, completion);
        }
        if !any && !self.executor.has_ready() {
            self.device.wait(WAIT);
        }
    }
}
