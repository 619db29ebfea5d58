//! Moving what is wanted out of a zone: what compaction and collection have in common.
//!
//! 1. Read the zone's headers one after the other; of each segment read the blocks that the map still names.
//! 2. Check them, and gather them by tenant into segments, which are written one after the other to the tenant's zone.
//! 3. When the device has answered, the map names the new place of each block that nobody has written meanwhile.
//! 4. Of what a damaged header described, the map knows the owners (`anew`).

mod anew;

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Payload, index};
use zonal_device::{Answer, Command, DeviceError};

use crate::format::{DATA_BLOCKS, Entry, Header, Key, Kind};
use crate::layout::{Spot, Zone};
use crate::planted::Planted;
use crate::shaper::Inner;
use crate::tier::{Begun, OpenZone, gone};
use crate::write::WRITE_TRIES;
use crate::{BlockError, Tier};

/// Segments of one mover under way at once: the device has the next one while we gather the one after.
const FLYING_MAX: usize = 3;

/// Blocks that are read though nobody wants them, so that two stretches are one read.
const GAP_MAX: u32 = 4;

/// Why blocks move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Out of the buffer.
    Compaction,
    /// Out of a zone of the capacity tier in which little is left.
    Collection,
}

/// Moves blocks to the capacity tier, each tenant's to a stream of its own if there are enough.
pub(crate) struct Mover {
    inner: Rc<Inner>,
    cause: Cause,
    streams: Vec<Stream>,
    flying: VecDeque<Flying>,
    /// Segments that the device refused, to be written again.
    refused: VecDeque<Flying>,
    refused_in_a_row: u32,
}

#[derive(Default)]
struct Stream {
    open: Option<OpenZone>,
    gathered: Option<Gathered>,
}

/// A segment that is not full yet.
struct Gathered {
    buffer: Buffer,
    moved: Vec<Moved>,
}

/// One block on its way.
#[derive(Clone, Copy)]
struct Moved {
    entry: Entry,
    /// Where the map must still say that it lies.
    from: Spot,
}

struct Flying {
    begun: Begun,
    stream: usize,
    moved: Vec<Moved>,
    data: Payload,
}

impl Mover {
    pub(crate) fn new(inner: Rc<Inner>, cause: Cause) -> Self {
        let streams = (0..inner.streams_per_mover()).map(|_| Stream::default()).collect();
        let (flying, refused) = (VecDeque::new(), VecDeque::new());
        Self { inner, cause, streams, flying, refused, refused_in_a_row: 0 }
    }

    /// Goes on with zones that an earlier opening left half full. Requires: nothing was moved yet, and there are no more of them than
    /// streams.
    pub(crate) fn resume(&mut self, half_full: &[OpenZone]) {
        for (stream, open) in self.streams.iter_mut().zip(half_full) {
            stream.open = Some(*open);
        }
    }

    /// Moves everything that the map names in the zone. Afterwards it names nothing there.
    pub(crate) async fn move_all(&mut self, zone: Zone) -> Result<(), BlockError> {
        let mut at = 0;
        while at < self.inner.state.borrow().zone(zone).written {
            let Some(header) = self.read_header(zone, at).await? else { break };
            self.move_segment(zone, at, &header).await?;
            let blocks = 1 + header.blocks();
            if self.cause == Cause::Compaction {
                self.inner.state.borrow_mut().grant(&self.inner, u64::from(blocks));
                self.inner.queue_room.notify_one();
            }
            at += blocks;
        }
        self.finish().await?;
        // What the headers that could be read did not tell.
        if 0 < self.inner.state.borrow().zone(zone).live {
            self.move_orphans(zone).await?;
            self.finish().await?;
        }
        Ok(())
    }

    /// Puts everything that was gathered on its way, and waits until it is on the device and in the map.
    pub(crate) async fn finish(&mut self) -> Result<(), BlockError> {
        for stream in 0..self.streams.len() {
            self.seal(stream).await?;
        }
        loop {
            while !self.flying.is_empty() {
                self.settle().await?;
            }
            if self.refused.is_empty() {
                return Ok(());
            }
            self.send_refused().await?;
        }
    }

    async fn read_header(&mut self, zone: Zone, at: u32) -> Result<Option<Header>, BlockError> {
        let front = self.inner.own.take(Blocks(1)).await;
        let spot = self.inner.layout.spot(zone, Blocks(u64::from(at)));
        let Some(front) = self.inner.read_own(spot, 1, front).await? else { return Ok(None) };
        let header = Header::decode(&front.bytes()[..BLOCK_BYTES], self.inner.checksum());
        let is_it = |header: &Header| {
            header.identity == self.inner.identity && header.zone == zone && header.at == at
        };
        Ok(header.ok().map(|(header, _)| header).filter(is_it))
    }

    /// Moves what the map still names of a segment.
    async fn move_segment(
        &mut self,
        zone: Zone,
        at: u32,
        header: &Header,
    ) -> Result<(), BlockError> {
        let first = self.inner.layout.spot(zone, Blocks(u64::from(at))).plus(1);
        let mut live: Vec<Moved> = Vec::new();
        {
            let state = self.inner.state.borrow();
            let with_block = header.entries.iter().filter(|entry| entry.key.kind().takes_block());
            for (n, entry) in (0..).zip(with_block) {
                let from = first.plus(n);
                if state.map.has(entry.key) && state.map.get(entry.key) == from {
                    live.push(Moved { entry: *entry, from });
                }
            }
        }
        for stretch in live.chunk_by(|a, b| b.from.0 - a.from.0 <= GAP_MAX) {
            self.move_stretch(stretch).await?;
        }
        Ok(())
    }

    async fn move_stretch(&mut self, stretch: &[Moved]) -> Result<(), BlockError> {
        let (first, last) = (stretch[0].from, stretch[stretch.len() - 1].from);
        let blocks = last.0 - first.0 + 1;
        let buffer = self.inner.own.take(Blocks(u64::from(blocks))).await;
        let read = self.inner.read_own(first, blocks, buffer).await?;
        for moved in stretch {
            match &read {
                Some(buffer) => {
                    let at = index(u64::from(moved.from.0 - first.0)) * BLOCK_BYTES;
                    self.move_block(*moved, Some((buffer, at))).await?;
                }
                // One of them cannot be read: which one?
                None if 1 < blocks => {
                    let alone = self.inner.own.take(Blocks(1)).await;
                    let alone = self.inner.read_own(moved.from, 1, alone).await?;
                    self.move_block(*moved, alone.as_ref().map(|buffer| (buffer, 0))).await?;
                }
                None => self.move_block(*moved, None).await?,
            }
        }
        Ok(())
    }

    async fn move_block(
        &mut self,
        moved: Moved,
        found: Option<(&Buffer, usize)>,
    ) -> Result<(), BlockError> {
        let Entry { key, sequence, check } = moved.entry;
        let fits = |(buffer, at): &(&Buffer, usize)| {
            let part = *at..at + BLOCK_BYTES;
            let seed = Entry::seed(key, sequence);
            key.kind() == Kind::Lost || buffer.checksum(self.inner.checksum(), &seed, part) == check
        };
        match found.filter(fits) {
            Some((buffer, at)) => self.push(moved, buffer, at).await,
            None => self.move_lost(key, sequence, moved.from).await,
        }
    }

    async fn push_new(
        &mut self,
        key: Key,
        sequence: u64,
        from: Spot,
        block: &Buffer,
    ) -> Result<(), BlockError> {
        let seed = Entry::seed(key, sequence);
        let check = block.checksum(self.inner.checksum(), &seed, 0..BLOCK_BYTES);
        self.push(Moved { entry: Entry { key, sequence, check }, from }, block, 0).await
    }

    /// Adds a block to what its tenant's stream gathers.
    async fn push(&mut self, moved: Moved, from: &Buffer, at: usize) -> Result<(), BlockError> {
        let key = moved.entry.key;
        let tenant = self.inner.tenant_of_key(key);
        let stream = usize::from(tenant) % self.streams.len();
        if self.streams[stream].gathered.is_none() {
            let buffer = self.inner.own.take(Blocks(DATA_BLOCKS as u64)).await;
            self.streams[stream].gathered = Some(Gathered { buffer, moved: Vec::new() });
        }
        let gathered = self.streams[stream].gathered.as_mut().expect("made just now");
        let to = gathered.moved.len() * BLOCK_BYTES;
        gathered.buffer.copy_from(to, &from.bytes()[at..at + BLOCK_BYTES]);
        gathered.moved.push(moved);
        if gathered.moved.len() == DATA_BLOCKS { self.seal(stream).await } else { Ok(()) }
    }

    /// Puts on its way what the stream has gathered.
    async fn seal(&mut self, stream: usize) -> Result<(), BlockError> {
        let Some(Gathered { buffer, moved }) = self.streams[stream].gathered.take() else {
            return Ok(());
        };
        let data = buffer.freeze(moved.len() * BLOCK_BYTES);
        self.send(stream, moved, data).await?;
        while FLYING_MAX <= self.flying.len() {
            self.settle().await?;
        }
        self.send_refused().await
    }

    /// What the device refused goes elsewhere.
    async fn send_refused(&mut self) -> Result<(), BlockError> {
        while let Some(Flying { stream, moved, data, .. }) = self.refused.pop_front() {
            self.send(stream, moved, data).await?;
        }
        Ok(())
    }

    /// Puts blocks on their way: as one segment, or as two when the zone ends between.
    async fn send(
        &mut self,
        stream: usize,
        mut moved: Vec<Moved>,
        mut data: Payload,
    ) -> Result<(), BlockError> {
        while !moved.is_empty() {
            let room = self.open(stream).await?;
            let count = room.min(moved.len());
            let rest = moved.split_off(count);
            let rest_data = data.slice(count * BLOCK_BYTES..data.len());
            self.begin(stream, moved, data.slice(0..count * BLOCK_BYTES)).await?;
            (moved, data) = (rest, rest_data);
        }
        Ok(())
    }

    /// Requires: the stream's zone is open and has room.
    async fn begin(
        &mut self,
        stream: usize,
        moved: Vec<Moved>,
        data: Payload,
    ) -> Result<(), BlockError> {
        let front = self.inner.own.take(Blocks(1)).await;
        let open = self.streams[stream].open.as_mut().expect("opened before it was gathered for");
        let entries = moved.iter().map(|moved| moved.entry).collect();
        let pieces = if data.is_empty() { Vec::new() } else { vec![data.clone()] };
        let begun = self.inner.begin_segment(open, entries, pieces, front);
        self.flying.push_back(Flying { begun, stream, moved, data });
        Ok(())
    }

    /// Sees to it that the stream has a zone with room for a header and a block. Blocks that fit behind the header come back.
    async fn open(&mut self, stream: usize) -> Result<usize, BlockError> {
        loop {
            let room = self.streams[stream].open.map(|open| open.room(&self.inner.layout));
            match room {
                Some(0) => {
                    // The last write makes the zone full, and its place among the active ones free.
                    let zone = self.streams[stream].open.map(|open| open.zone);
                    while self.flying.iter().any(|flying| Some(flying.begun.zone) == zone) {
                        self.settle().await?;
                    }
                    if let Some(full) = self.streams[stream].open.take() {
                        self.inner.seal_zone(full.zone);
                    }
                }
                Some(1) => self.begin(stream, Vec::new(), Payload::default()).await?,
                Some(room) => return Ok(index(u64::from(room - 1)).min(DATA_BLOCKS)),
                None => self.streams[stream].open = Some(self.take_zone().await?),
            }
        }
    }

    async fn take_zone(&mut self) -> Result<OpenZone, BlockError> {
        if self.cause == Cause::Compaction {
            return self.inner.zone_for_compaction().await.map(OpenZone::new);
        }
        if let Some(zone) = self.inner.open_zone(Tier::Capacity) {
            return Ok(OpenZone::new(zone));
        }
        // Rather among the blocks of another tenant than nowhere.
        let has_room = |open: &OpenZone| 1 < open.room(&self.inner.layout);
        let other =
            self.streams.iter_mut().find_map(|stream| stream.open.take_if(|open| has_room(open)));
        other.ok_or(BlockError::NoSpace)
    }

    /// Waits for the oldest segment under way.
    async fn settle(&mut self) -> Result<(), BlockError> {
        let Some(mut first) = self.flying.pop_front() else { return Ok(()) };
        let answer = (&mut first.begun.call).await;
        self.inner.end_segment(&first.begun, &answer);
        match answer {
            Ok(_) => {
                self.refused_in_a_row = 0;
                self.inner.publish_moved(&first, self.cause);
                Ok(())
            }
            Err(DeviceError::DeviceGone) => Err(BlockError::CapacityGone),
            Err(_) => self.give_zone_up(first).await,
        }
    }

    /// A segment was refused: no more goes to its zone.
    async fn give_zone_up(&mut self, first: Flying) -> Result<(), BlockError> {
        self.refused_in_a_row += 1;
        if WRITE_TRIES < self.refused_in_a_row {
            return Err(BlockError::CapacityGone);
        }
        let zone = first.begun.zone;
        self.refused.push_back(first);
        // Those behind it are refused, too.
        let (behind, others): (VecDeque<_>, VecDeque<_>) =
            self.flying.drain(..).partition(|flying| flying.begun.zone == zone);
        self.flying = others;
        for mut flying in behind {
            let answer = (&mut flying.begun.call).await;
            self.inner.end_segment(&flying.begun, &answer);
            match answer {
                Ok(_) => self.inner.publish_moved(&flying, self.cause),
                Err(_) => self.refused.push_back(flying),
            }
        }
        for stream in &mut self.streams {
            stream.open.take_if(|open| open.zone == zone);
        }
        self.inner.abandon(zone).await;
        Ok(())
    }
}

impl Inner {
    /// The device has what was moved: the map names it, unless somebody has written the block meanwhile.
    fn publish_moved(&self, flying: &Flying, cause: Cause) {
        let mut state = self.state.borrow_mut();
        for (n, Moved { entry, from }) in (0..).zip(&flying.moved) {
            let Entry { key, .. } = *entry;
            let tenant = self.tenant_of_key(key);
            let stats = state.tenant_mut(tenant);
            let block = BLOCK_BYTES as u64;
            // The header counts for the tenant of its first block.
            let header = if n == 0 { block } else { 0 };
            stats.metadata_bytes += header;
            stats.capacity_written_bytes += header + block;
            match (key.kind(), cause) {
                (Kind::Page, _) => stats.map_bytes += block,
                (Kind::Table, _) => stats.metadata_bytes += block,
                (_, Cause::Compaction) => stats.compacted_bytes += block,
                (_, Cause::Collection) => stats.collected_bytes += block,
            }
            let is_current = state.map.get(key) == *from;
            if is_current || (self.has(Planted::CompactionStale) && cause == Cause::Compaction) {
                state.publish(&self.layout, tenant, key, flying.begun.data.plus(n));
            }
        }
    }

    pub(crate) fn tenant_of_key(&self, key: Key) -> u16 {
        if key == Key::TABLE { 0 } else { self.tenant_of(key.export()) }
    }

    /// Reads blocks for ourselves; `None` when the device cannot.
    async fn read_own(
        &self,
        spot: Spot,
        blocks: u32,
        buffer: Buffer,
    ) -> Result<Option<Buffer>, BlockError> {
        let (zone, at) = self.layout.locate(spot);
        let tier = self.layout.tier_of(zone);
        let (lba, blocks) = (self.layout.lba(zone, at), Blocks(u64::from(blocks)));
        match self.port(tier).call(Command::Read { lba, blocks, buffer }).await {
            Ok(Answer::Read(buffer)) => Ok(Some(buffer)),
            Err(DeviceError::DeviceGone) => Err(gone(tier)),
            _ => {
                self.state.borrow_mut().stats.read_errors += 1;
                Ok(None)
            }
        }
    }
}
