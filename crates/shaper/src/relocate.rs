//! Relocation: moves live blocks out of a zone; shared by compaction and garbage collection.
//!
//! 1. Read the zone's segments in order (`zone_read`): whole segments, or only the blocks that the map
//!    still names.
//! 2. Verify the blocks and gather them by tenant into segments, which are appended to the tenant's
//!    open zone.
//! 3. When the device completes the write, the map names the new address of each block that no
//!    client overwrote meanwhile.
//! 4. Each run of moves ends with a header without entries in every zone that was written: it
//!    repeats the last segment, which can do without its own header then. Only after that are the
//!    old copies given up.
//! 5. Blocks under a damaged header are found through the map instead (`metadata`).

mod metadata;
mod publish;
mod zone_read;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, Contents, Payload, ZoneId};
use zonal_device::{Completion, DeviceError};

use crate::format::{DATA_BLOCKS, Entry, EntryKind, FRONT_BLOCKS, Key, SEED, SEGMENT_BLOCKS};
use crate::hot_retention::Sender;
use crate::layout::PhysAddr;
use crate::refused::Writer;
use crate::shaper::Inner;
use crate::tier::{OpenZone, SubmittedSegment, blocks_of};
use crate::zones::Stream;
use crate::{BlockError, Tier};

/// Segments of one mover in flight: the device has the next one while the mover gathers another.
const FLYING_MAX: usize = 3;

/// Why blocks move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Compaction: out of a buffer zone.
    Compaction,
    /// Garbage collection: out of a capacity zone with little live data.
    Collection,
}

impl Cause {
    const fn writer(self) -> Writer {
        match self {
            Self::Compaction => Writer::Compaction,
            Self::Collection => Writer::Collection,
        }
    }

    const fn stream(self) -> Stream {
        match self {
            Self::Compaction => Stream::Compaction,
            Self::Collection => Stream::Collection,
        }
    }
}

/// Moves blocks to the capacity tier, with a separate stream for each tenant if there are enough.
pub(crate) struct Mover {
    inner: Rc<Inner>,
    cause: Cause,
    streams: Vec<MoveStream>,
    /// Hot blocks, copied back into the buffer.
    again: Sender,
    flying: VecDeque<InFlightSegment>,
    /// Segments that the device refused, to be written again.
    refused: VecDeque<InFlightSegment>,
    refused_in_a_row: u32,
    /// Blocks of the zone being emptied that cannot be read, and stay where they are.
    unreadable: BTreeSet<PhysAddr>,
    /// Zones that blocks of the zone being emptied were written to.
    into: Vec<ZoneId>,
}

#[derive(Default)]
struct MoveStream {
    open: Option<OpenZone>,
    gathered: Option<Gathered>,
}

/// A segment being filled.
struct Gathered {
    buffer: Buffer,
    moved: Vec<MovingBlock>,
}

/// A block being moved.
#[derive(Clone, Copy)]
pub(crate) struct MovingBlock {
    pub(crate) entry: Entry,
    /// Old address. The move is published only if the map still names it.
    pub(crate) from: PhysAddr,
}

struct InFlightSegment {
    begun: SubmittedSegment,
    stream: usize,
    moved: Vec<MovingBlock>,
    data: Payload,
}

impl Mover {
    pub(crate) fn new(inner: Rc<Inner>, cause: Cause) -> Self {
        let streams = (0..inner.streams_per_mover()).map(|_| MoveStream::default()).collect();
        let (flying, refused) = (VecDeque::new(), VecDeque::new());
        Self {
            inner,
            cause,
            streams,
            again: Sender::default(),
            flying,
            refused,
            refused_in_a_row: 0,
            unreadable: BTreeSet::new(),
            into: Vec::new(),
        }
    }

    pub(crate) const fn inner(&self) -> &Rc<Inner> {
        &self.inner
    }

    /// Continues zones that an earlier opening left partly filled. Requires: nothing was moved yet,
    /// and there are no more such zones than streams.
    pub(crate) fn resume(&mut self, half_full: &[OpenZone]) {
        for (stream, open) in self.streams.iter_mut().zip(half_full) {
            stream.open = Some(open.clone());
            self.inner.state.borrow_mut().zone_mut(open.zone).stream = self.cause.stream();
        }
    }

    /// Writes all gathered blocks, and waits until they are on the device and in the map, and no
    /// zone depends on its last header.
    pub(crate) async fn finish(&mut self) -> Result<(), BlockError> {
        for stream in 0..self.streams.len() {
            self.seal(stream).await?;
        }
        loop {
            while !self.flying.is_empty() {
                self.settle().await?;
            }
            self.send_refused().await?;
            if self.flying.is_empty() && !self.repeat_last_segments().await {
                self.inner.note_rewritten(self.cause.writer());
                return Ok(());
            }
        }
    }

    /// Submits a header without entries to each zone in which no header repeats the last segment.
    /// True if there was one.
    pub(crate) async fn repeat_last_segments(&mut self) -> bool {
        for stream in 0..self.streams.len() {
            let open = self.streams[stream].open.as_ref();
            if open.is_some_and(|open| open.is_exposed() && 0 < open.room(&self.inner.layout)) {
                self.begin(stream, Vec::new(), Payload::default()).await;
            }
        }
        !self.flying.is_empty()
    }

    /// Stops the mover: waits for segments in flight, and leaves all other blocks where they are.
    pub(crate) async fn abandon(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.gathered = None);
        let _ = self.again.finish(&self.inner).await;
        while !self.flying.is_empty() {
            // Blocks of a refused segment stay live at their old address.
            let _ = self.settle().await;
        }
        self.refused.clear();
    }

    async fn move_block(
        &mut self,
        moved: MovingBlock,
        found: Option<(&Buffer, usize)>,
    ) -> Result<(), BlockError> {
        let Entry { key, sequence, check } = moved.entry;
        let checksum = self.inner.checksum();
        let fits = |(buffer, at): &(&Buffer, usize)| {
            let part = *at..at + BLOCK_BYTES;
            key.kind() == EntryKind::Lost || buffer.checksum(checksum, &SEED, part) == check
        };
        let intact = found.filter(fits);
        let mut again = None;
        if found.is_some() && intact.is_none() && key.kind() == EntryKind::Data {
            // The data may have been damaged on their way.
            let alone = self.inner.own.take(Blocks(1)).await;
            let read = self.inner.read_own(moved.from, 1, alone).await?;
            again = read.filter(|buffer| fits(&(buffer, 0)));
            if again.is_none() {
                self.inner.note_corrupt(key, moved.from);
            }
        }
        let intact = intact.or(again.as_ref().map(|buffer| (buffer, 0)));
        if intact.is_none() && self.keeps(key, moved.from) {
            return Ok(());
        }
        match intact {
            Some(found) if self.again.wants(&self.inner, &moved) => {
                self.again.push(&self.inner, moved, found).await
            }
            Some((buffer, at)) => self.push(moved, &buffer.bytes()[at..at + BLOCK_BYTES]).await,
            None => self.move_lost(key, sequence, moved.from).await,
        }
    }

    pub(crate) async fn push_new(
        &mut self,
        key: Key,
        sequence: u64,
        from: PhysAddr,
        block: &Buffer,
    ) -> Result<(), BlockError> {
        let check = block.checksum(self.inner.checksum(), &SEED, 0..BLOCK_BYTES);
        let moved = MovingBlock { entry: Entry { key, sequence, check }, from };
        self.push(moved, &block.bytes()[..BLOCK_BYTES]).await
    }

    /// Adds a block to the segment of its tenant's stream.
    async fn push(&mut self, moved: MovingBlock, block: &[u8]) -> Result<(), BlockError> {
        let key = moved.entry.key;
        let tenant = self.inner.tenant_of_key(key);
        let stream = usize::from(tenant) % self.streams.len();
        if self.streams[stream].gathered.is_none() {
            let buffer = self.inner.own.take(Blocks(SEGMENT_BLOCKS)).await;
            self.streams[stream].gathered = Some(Gathered { buffer, moved: Vec::new() });
        }
        let gathered = self.streams[stream].gathered.as_mut().expect("made just now");
        let to = gathered.moved.len() * BLOCK_BYTES;
        gathered.buffer.copy_from(to, block);
        gathered.moved.push(moved);
        if gathered.moved.len() == DATA_BLOCKS { self.seal(stream).await } else { Ok(()) }
    }

    /// Submits the stream's segment.
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

    /// Writes refused segments to another zone.
    async fn send_refused(&mut self) -> Result<(), BlockError> {
        while let Some(InFlightSegment { stream, moved, data, .. }) = self.refused.pop_front() {
            self.send(stream, moved, data).await?;
        }
        Ok(())
    }

    /// Submits blocks as one segment, or as several when the zone has too little room.
    async fn send(
        &mut self,
        stream: usize,
        mut moved: Vec<MovingBlock>,
        mut data: Payload,
    ) -> Result<(), BlockError> {
        while !moved.is_empty() {
            self.let_collection_go_first().await?;
            self.inner.wait_for_map_room().await?;
            self.open(stream).await?;
            (moved, data) = self.begin(stream, moved, data).await;
        }
        Ok(())
    }

    /// Backpressure: compaction waits until garbage collection has made room.
    async fn let_collection_go_first(&mut self) -> Result<(), BlockError> {
        if self.cause != Cause::Compaction {
            return Ok(());
        }
        loop {
            {
                let state = self.inner.state.borrow();
                if let Some(error) = state.stopped() {
                    return Err(error);
                }
                if !state.is_ahead_of_collection(&self.inner) {
                    return Ok(());
                }
            }
            // First wait for segments in flight, and for the headers that repeat them, so that a
            // flush can cover them: recovery verifies everything from the first unsettled segment
            // on.
            if !self.flying.is_empty() {
                self.settle().await?;
            } else if !self.repeat_last_segments().await {
                self.inner.work.wait().await;
            }
        }
    }

    /// Submits one segment of as many of the blocks as fit, and returns the others. Requires: the
    /// stream's zone is open and has room for a header.
    async fn begin(
        &mut self,
        stream: usize,
        mut moved: Vec<MovingBlock>,
        data: Payload,
    ) -> (Vec<MovingBlock>, Payload) {
        let front = self.inner.own.take(FRONT_BLOCKS).await;
        let open = self.streams[stream].open.as_mut().expect("opened before it was gathered for");
        let room = open.segment_room(&self.inner.layout, moved.len());
        // None, when the zone has no room but for the header that closes it, or the header none
        // beside its echo: then it is written alone.
        let count = room.entries.min(room.blocks).min(moved.len());
        let rest = moved.split_off(count);
        let rest_data = data.slice(count * BLOCK_BYTES..data.len());
        let data = data.slice(0..count * BLOCK_BYTES);
        let entries = moved.iter().map(|moved| moved.entry).collect();
        let pieces = pieces(&data, self.inner.settings.contents);
        let begun =
            self.inner.begin_segment((self.cause.writer(), open, room), entries, pieces, front);
        self.note_room();
        self.flying.push_back(InFlightSegment { begun, stream, moved, data });
        (rest, rest_data)
    }

    /// Writes a header with this entry and no blocks, and waits for it. Requires: no segment is in
    /// flight.
    pub(crate) async fn write_header(&mut self, entry: Entry) -> Result<(), BlockError> {
        loop {
            self.open(0).await?;
            let front = self.inner.own.take(FRONT_BLOCKS).await;
            let open = self.streams[0].open.as_mut().expect("it has room for a header");
            let room = open.segment_room(&self.inner.layout, 1);
            if room.entries == 0 {
                // Alone beside the echo of a full segment: the next echo is empty.
                self.begin(0, Vec::new(), Payload::default()).await;
                self.settle().await?;
                continue;
            }
            let begun = self.inner.begin_segment(
                (self.cause.writer(), open, room),
                vec![entry],
                Vec::new(),
                front,
            );
            self.note_room();
            let (moved, data) = (Vec::new(), Payload::default());
            let mut flying = InFlightSegment { begun, stream: 0, moved, data };
            let answer = self.answer(&mut flying).await;
            match answer {
                Ok(_) => {
                    self.refused_in_a_row = 0;
                    self.inner.publish_moved(&flying, self.cause);
                    return Ok(());
                }
                Err(error) => self.give_zone_up(flying, error).await?,
            }
        }
    }

    fn note_room(&self) {
        let open = self.streams.iter().filter_map(|stream| stream.open.as_ref());
        let room = open.map(|open| u64::from(open.room(&self.inner.layout))).sum();
        self.inner.state.borrow_mut().mover_room[self.cause as usize] = room;
    }

    /// Opens a zone for the stream, with room for a header and a block, and the header that closes
    /// it.
    async fn open(&mut self, stream: usize) -> Result<(), BlockError> {
        loop {
            let open = self.streams[stream].open.as_ref();
            match open.map(|open| open.room(&self.inner.layout)) {
                Some(0) => {
                    // The zone is full once its last write completes. Only then is its active-zone
                    // slot free.
                    let zone = self.streams[stream].open.as_ref().map(|open| open.zone);
                    while self.flying.iter().any(|flying| Some(flying.begun.zone()) == zone) {
                        self.settle().await?;
                    }
                    if let Some(full) = self.streams[stream].open.take() {
                        self.inner.seal_zone(full.zone);
                    }
                }
                Some(1 | 2) => drop(self.begin(stream, Vec::new(), Payload::default()).await),
                Some(_) => return Ok(()),
                None => {
                    self.streams[stream].open = Some(self.take_zone().await?);
                    self.note_room();
                }
            }
        }
    }

    async fn take_zone(&mut self) -> Result<OpenZone, BlockError> {
        if self.cause == Cause::Compaction {
            return self.inner.zone_for_compaction().await.map(OpenZone::new);
        }
        if let Some(zone) = self.inner.open_zone(Stream::Collection) {
            return Ok(OpenZone::new(zone));
        }
        // Prefer a zone shared with another tenant to failing.
        let has_room = |open: &OpenZone| 2 < open.room(&self.inner.layout);
        let other =
            self.streams.iter_mut().find_map(|stream| stream.open.take_if(|open| has_room(open)));
        other.ok_or(BlockError::NoSpace)
    }

    /// Waits for the oldest segment in flight.
    async fn settle(&mut self) -> Result<(), BlockError> {
        let Some(mut first) = self.flying.pop_front() else { return Ok(()) };
        let answer = self.answer(&mut first).await;
        match answer {
            Ok(_) => {
                self.refused_in_a_row = 0;
                self.publish(&first);
                Ok(())
            }
            Err(error) => self.give_zone_up(first, error).await,
        }
    }

    fn publish(&mut self, flying: &InFlightSegment) {
        self.inner.publish_moved(flying, self.cause);
        let zone = self.inner.layout.zone_id(flying.begun.zone());
        if !flying.moved.is_empty() && !self.into.contains(&zone) {
            self.into.push(zone);
        }
    }

    /// Waits for the answer of a segment, and records it.
    async fn answer(&self, flying: &mut InFlightSegment) -> Completion {
        let answer = self.inner.written(&mut flying.begun.write, self.refused_in_a_row).await;
        self.inner.end_segment(&flying.begun, &answer);
        answer
    }

    /// Handles a refused segment: its zone is closed.
    async fn give_zone_up(
        &mut self,
        first: InFlightSegment,
        error: DeviceError,
    ) -> Result<(), BlockError> {
        self.refused_in_a_row += 1;
        if let Some(verdict) = self.inner.verdict(Tier::Capacity, error, self.refused_in_a_row) {
            return Err(verdict);
        }
        self.inner.wait_after_refusal(self.refused_in_a_row).await;
        let zone = first.begun.zone();
        self.refused.push_back(first);
        // Later segments of that zone are usually refused, too.
        let (behind, others): (VecDeque<_>, VecDeque<_>) =
            self.flying.drain(..).partition(|flying| flying.begun.zone() == zone);
        self.flying = others;
        for mut flying in behind {
            let answer = (&mut flying.begun.write.call).await;
            self.inner.end_segment(&flying.begun, &answer);
            match answer {
                Ok(_) => self.publish(&flying),
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

/// Splits the data into pieces for the device. Devices that keep only tags keep the first tag of
/// each piece, so there each unrelated block is a piece of its own.
fn pieces(data: &Payload, contents: Contents) -> Vec<Payload> {
    match contents {
        _ if data.is_empty() => Vec::new(),
        Contents::Bytes => vec![data.clone()],
        Contents::Tags => blocks_of(data),
    }
}
