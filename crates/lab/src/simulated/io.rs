//! How a thread reads and writes a chunk: calls that block it, cut into requests by the kernel.

use std::collections::VecDeque;

use zonal_base::{Blocks, Bytes, Contents, Lba, Nanos, Payload, PoolClass, index};
use zonal_device::{Command, Completion, DeviceError};
use zonal_runtime::{Buffers, Call, Clock, Port, Spawner};

pub(super) type DevicePort = Port<Command, Completion>;

/// What went wrong, and where.
#[derive(Clone, Debug)]
pub(super) struct Failure(pub(super) String);

impl Failure {
    pub(super) fn new(what: &str, error: DeviceError) -> Self {
        Self(format!("{what}: {error:?}"))
    }
}

/// How a thread's calls come to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls {
    /// The largest request: what is longer is cut.
    pub request: Bytes,
    /// Requests of one thread's read that are under way together. Of a write it is always one: the kernel lets one write
    /// into a zone at a time, and without zones the thread itself writes piece by piece.
    pub reads: usize,
    /// What a call costs the host, beyond the drive.
    pub host: Nanos,
}

/// Reads that the host has under way, of all threads: as many buffers.
const READS_MAX: u32 = 2048;

pub(super) struct Io {
    calls: Calls,
    device: DevicePort,
    clock: Clock,
    buffers: Buffers,
    /// What is written: nobody looks at it.
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

    /// Requires: the chunk lies within a zone.
    pub(super) async fn read(&self, at: Lba, blocks: Blocks) -> Result<(), Failure> {
        let mut under_way = VecDeque::with_capacity(self.calls.reads);
        for (lba, blocks) in self.requests(at, blocks) {
            let buffer = loop {
                let has_room = under_way.len() < self.calls.reads;
                if let Some(buffer) = has_room.then(|| self.buffers.try_take(blocks)).flatten() {
                    break buffer;
                }
                // Answers that nobody has come for keep their buffers: first of all one's own.
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

    /// Requires: the zone's next chunk lies there.
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
