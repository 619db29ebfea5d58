//! I/O of a simulated thread: blocking reads and writes, which the kernel splits into requests.

use std::collections::VecDeque;

use zonal_base::{Blocks, Bytes, Contents, Lba, Nanos, Payload, PoolClass, index};
use zonal_device::{Command, Completion, DeviceError};
use zonal_runtime::{Buffers, Call, Clock, Port, Spawner};

pub(super) type DevicePort = Port<Command, Completion>;

/// A device error with the operation that failed.
#[derive(Clone, Debug)]
pub(super) struct Failure(pub(super) String);

impl Failure {
    pub(super) fn new(what: &str, error: DeviceError) -> Self {
        Self(format!("{what}: {error:?}"))
    }
}

/// Costs and limits of a thread's system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls {
    /// Largest request in bytes. Longer calls are split.
    pub request: Bytes,
    /// Requests of one read that are in flight together. A write has only one: the kernel allows
    /// one write per zone at a time, and without zones the thread itself writes piece by piece.
    pub reads: usize,
    /// Time of a call on the host, without the drive.
    pub host: Nanos,
}

/// Read buffers of all threads: the most reads in flight.
const READS_MAX: u32 = 2048;

pub(super) struct Io {
    calls: Calls,
    device: DevicePort,
    clock: Clock,
    buffers: Buffers,
    /// Payload of every write. Its content is never read.
    data: Payload,
}

impl Io {
    pub(super) fn new(calls: Calls, device: DevicePort, clock: Clock, spawner: &Spawner) -> Self {
        let blocks = calls.request.blocks_ceil();
        let class = PoolClass { blocks, count: READS_MAX };
        let buffers = Buffers::holding(Contents::Tags, spawner, &[class]);
        let data = buffers.try_take(blocks).expect("nobody has taken one yet");
        let data = data.freeze(index(calls.request.0));
        Self { calls, device, clock, buffers, data }
    }

    /// Reads a chunk. Requires: the chunk lies within one zone.
    pub(super) async fn read(&self, at: Lba, blocks: Blocks) -> Result<(), Failure> {
        let mut under_way = VecDeque::with_capacity(self.calls.reads);
        for (lba, blocks) in self.requests(at, blocks) {
            let buffer = loop {
                let has_room = under_way.len() < self.calls.reads;
                if let Some(buffer) = has_room.then(|| self.buffers.try_take(blocks)).flatten() {
                    break buffer;
                }
                // A completion that is not awaited keeps its buffer, so this read awaits its own
                // first.
                match under_way.pop_front() {
                    Some(first) => Self::read_ended(at, first).await?,
                    None => break self.buffers.take(blocks).await,
                }
            };
            under_way.push_back(self.device.call(Command::Read { lba, blocks, buffer }));
        }
        for last in under_way {
            Self::read_ended(at, last).await?;
        }
        self.clock.sleep_until(self.clock.now() + self.calls.host).await;
        Ok(())
    }

    async fn read_ended(at: Lba, call: Call<Command, Completion>) -> Result<(), Failure> {
        let answer = call.await;
        answer.map(drop).map_err(|error| Failure::new(&format!("a read at {at}"), error))
    }

    /// Writes a chunk. Requires: `at` is the write pointer of the zone.
    pub(super) async fn write(&self, at: Lba, blocks: Blocks) -> Result<(), Failure> {
        for (lba, blocks) in self.requests(at, blocks) {
            let data = vec![self.data.slice(0..index(blocks.bytes().0))];
            let answer = self.device.call(Command::Write { lba, data }).await;
            answer.map_err(|error| Failure::new(&format!("a write at {lba}"), error))?;
        }
        self.clock.sleep_until(self.clock.now() + self.calls.host).await;
        Ok(())
    }

    fn requests(&self, at: Lba, blocks: Blocks) -> impl Iterator<Item = (Lba, Blocks)> + use<> {
        let most = self.calls.request.blocks_ceil().0;
        (0..blocks.0.div_ceil(most)).map(move |number| {
            let begin = number * most;
            (at + Blocks(begin), Blocks(most.min(blocks.0 - begin)))
        })
    }
}
