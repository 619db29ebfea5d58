//! Zone writer: writes the segments of a zone in order, then its footer.
//!
//! Each open zone has at most one write in flight, as a zoned device demands. It has a writer task
//! only while there is something to write.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, Payload, ZoneId, index, low_u32};
use zonal_device::{Answer, Command, DeviceError, ZoneAction, ZoneState};

use crate::backpressure::segment_blocks_for;
use crate::events::ZoneChange;
use crate::format::footer::{TRAILER_BYTES, Trailer};
use crate::format::manifest::Manifest;
use crate::format::record::descriptor_bytes;
use crate::format::segment::Header;
use crate::log::{FOOTER_PIECE, Inner};
use crate::mutation::Mutation;
use crate::segment::{OpenSegment, SealedSegment};
use crate::state::ActiveSlot;
use crate::{Stream, ZoneUse};

/// Write queue limit: sealed segments that wait for one zone. A longer queue would only hide that
/// the device is slower than the stream. With the segment in flight and the open one, a zone has at
/// most four segments in memory.
pub(crate) const QUEUE_MAX: usize = 2;

/// Writer of one open zone.
pub(crate) struct Writer {
    pub(crate) stream: Stream,
    pub(crate) slot: ActiveSlot,
    pub(crate) sequence: u64,
    /// Block at which the next segment to be sealed begins.
    pub(crate) position: Blocks,
    pub(crate) next_segment: u32,
    /// `crc` of the last written header.
    pub(crate) previous: u32,
    /// `crc` of the header in the zone's first block.
    pub(crate) first_crc: Option<u32>,
    pub(crate) open: Option<OpenSegment>,
    pub(crate) queue: VecDeque<SealedSegment>,
    in_flight: usize,
    is_running: bool,
    /// The zone takes no more segments. The footer follows the queued ones.
    pub(crate) finishing: bool,
    /// Encoded descriptors of all records so far.
    pub(crate) footer: Vec<u8>,
    pub(crate) footer_records: u32,
}

enum Step {
    Write(SealedSegment),
    Footer,
    Rest,
}

impl Writer {
    pub(crate) fn new(stream: Stream, slot: ActiveSlot, sequence: u64, capacity: Blocks) -> Self {
        assert!(Blocks(0) < capacity);
        Self {
            stream,
            slot,
            sequence,
            position: Blocks(0),
            next_segment: 0,
            previous: 0,
            first_crc: None,
            open: None,
            queue: VecDeque::new(),
            in_flight: 0,
            is_running: false,
            finishing: false,
            footer: Vec::new(),
            footer_records: 0,
        }
    }

    /// Segments in the queue and in flight.
    pub(crate) fn load(&self) -> usize {
        self.queue.len() + self.in_flight
    }

    /// Descriptor bytes of the footer if the zone ended now.
    pub(crate) fn footer_bytes(&self) -> usize {
        self.footer.len() + self.open.as_ref().map_or(0, OpenSegment::descriptor_bytes)
    }

    /// True when the zone has room for a new segment with a record of `len` bytes, and for its
    /// footer.
    pub(crate) fn takes_segment(&self, len: u32, capacity: Blocks) -> bool {
        let footer = Trailer::blocks_for(self.footer.len() + descriptor_bytes(len));
        !self.finishing && self.position + segment_blocks_for(len) + footer <= capacity
    }

    fn next_step(&mut self) -> Step {
        if let Some(segment) = self.queue.pop_front() {
            self.in_flight = 1;
            return Step::Write(segment);
        }
        self.in_flight = 0;
        if self.finishing && self.open.is_none() {
            return Step::Footer;
        }
        self.is_running = false;
        Step::Rest
    }
}

impl Inner {
    /// Opens a segment on a zone that has none, and starts its linger timer.
    pub(crate) fn open_segment(self: &Rc<Self>, zone: ZoneId) {
        let mut state = self.state.borrow_mut();
        let writer = state.writers.get_mut(&zone).expect("open zones have a writer");
        if writer.open.is_some() {
            return;
        }
        let number = writer.next_segment;
        writer.next_segment += 1;
        writer.open = Some(OpenSegment::new(number));
        let (inner, sequence) = (self.clone(), writer.sequence);
        let deadline = self.ports.clock.now() + self.settings.linger;
        self.ports.spawner.spawn(async move {
            inner.ports.clock.sleep_until(deadline).await;
            inner.end_linger(zone, sequence, number);
        });
    }

    fn end_linger(self: &Rc<Self>, zone: ZoneId, sequence: u64, number: u32) {
        let mut state = self.state.borrow_mut();
        let Some(writer) = state.writers.get(&zone) else { return };
        let is_this = |segment: &OpenSegment| segment.number == number;
        if writer.sequence != sequence || !writer.open.as_ref().is_some_and(is_this) {
            return;
        }
        state.stats.segments_lingered += 1;
        state.seal_open_segment(zone);
        drop(state);
        self.kick(zone);
    }

    /// Starts the zone's writer task unless it is running.
    pub(crate) fn kick(self: &Rc<Self>, zone: ZoneId) {
        let mut state = self.state.borrow_mut();
        let Some(writer) = state.writers.get_mut(&zone) else { return };
        if core::mem::replace(&mut writer.is_running, true) {
            return;
        }
        drop(state);
        self.ports.spawner.spawn(self.clone().drain(zone));
    }

    async fn drain(self: Rc<Self>, zone: ZoneId) {
        loop {
            let step = {
                let mut state = self.state.borrow_mut();
                let Some(writer) = state.writers.get(&zone) else { return };
                if writer.queue.is_empty()
                    && writer.open.as_ref().is_some_and(OpenSegment::is_urgent)
                {
                    state.seal_open_segment(zone);
                }
                let Some(writer) = state.writers.get_mut(&zone) else { return };
                writer.next_step()
            };
            match step {
                Step::Write(segment) => {
                    let fate = segment.fate.clone();
                    let bytes = segment.record_bytes;
                    if self.settings.has(Mutation::PublishedEarly) {
                        fate.decide(Ok(()));
                    }
                    let outcome = self.write_segment(zone, segment).await;
                    self.state.borrow_mut().backlog_bytes -= bytes;
                    fate.decide(outcome);
                    self.room.wake();
                    if let Err(error) = outcome {
                        return self.abandon(zone, error).await;
                    }
                }
                Step::Footer => {
                    return match self.write_footer(zone).await {
                        Ok(()) => self.end_writer(zone),
                        Err(error) => self.abandon(zone, error).await,
                    };
                }
                Step::Rest => return,
            }
        }
    }

    async fn write_segment(&self, zone: ZoneId, segment: SealedSegment) -> Result<(), DeviceError> {
        let front_blocks = segment.front_blocks();
        let mut front = self.fronts.take(front_blocks).await;
        let front_bytes = index(front_blocks.bytes().0);
        let header_bytes = usize::from(segment.header_blocks) * BLOCK_BYTES;
        let (head, packed) = front.bytes_mut()[..front_bytes].split_at_mut(header_bytes);
        let (manifest, first_crc) = self.write_header(zone, &segment, head);
        packed.fill(0);
        for (at, data) in &segment.packed {
            packed[*at..at + data.len()].copy_from_slice(data.as_bytes());
        }
        let mut data = vec![front.freeze(front_bytes)];
        let (flush, start) = (segment.flush, self.segment_start(zone, &segment));
        data.extend(segment.whole);
        self.write(zone, start, data).await?;
        {
            let mut state = self.state.borrow_mut();
            state.stats.segments += 1;
            state.fills.note_segment(zone, (first_crc, segment.number + 1), manifest);
        }
        if flush && !self.settings.has(Mutation::FlushForgotten) {
            self.flush().await?;
        }
        Ok(())
    }

    /// Flushes the device's volatile write cache. Everything that is written by now is durable.
    pub(crate) async fn flush(&self) -> Result<(), DeviceError> {
        let written = self.state.borrow().fills.before_flush();
        self.ports.device.call(Command::Flush).await?;
        self.state.borrow_mut().fills.flushed(written, self.ports.checksum);
        Ok(())
    }

    fn manifest(&self) -> Manifest {
        let suspect_below = self.ports.generations.suspect_below();
        self.state.borrow_mut().fills.manifest(suspect_below)
    }

    /// Encodes a segment's header. Returns the number of its manifest, and the checksum of the
    /// zone's first header.
    fn write_header(&self, zone: ZoneId, segment: &SealedSegment, out: &mut [u8]) -> (u64, u32) {
        let manifest = self.manifest();
        let mut state = self.state.borrow_mut();
        let writer = state.writers.get_mut(&zone).expect("open zones have a writer");
        let header = Header {
            identity: self.identity,
            zone,
            zone_sequence: writer.sequence,
            segment: segment.number,
            header_blocks: segment.header_blocks,
            payload_blocks: segment.payload_blocks,
            record_count: segment.record_count(),
            previous: writer.previous,
            session: self.session,
            descriptor_crc: 0,
            crc: 0,
        };
        let contents = (&manifest, &segment.descriptors[..]);
        writer.previous = header.encode(contents, self.ports.checksum, out);
        (manifest.number, *writer.first_crc.get_or_insert(writer.previous))
    }

    /// Block at which the segment begins. Segments are written in order, so all queued segments lie
    /// between its end and the writer's position.
    fn segment_start(&self, zone: ZoneId, segment: &SealedSegment) -> Blocks {
        let state = self.state.borrow();
        let writer = &state.writers[&zone];
        let behind: u64 = writer.queue.iter().map(|waiting| waiting.blocks().0).sum();
        Blocks(writer.position.0 - behind - segment.blocks().0)
    }

    pub(crate) async fn write(
        &self,
        zone: ZoneId,
        start: Blocks,
        data: Vec<Payload>,
    ) -> Result<(), DeviceError> {
        let bytes: usize = data.iter().map(Payload::len).sum();
        let lba = self.geometry.zone_start(zone) + start;
        let answer = self.ports.device.call(Command::Write { lba, data }).await;
        let mut state = self.state.borrow_mut();
        match answer {
            Ok(_) => state.stats.device_written_bytes += bytes as u64,
            Err(_) => state.stats.write_errors += 1,
        }
        answer.map(drop)
    }

    /// Writes the footer, which fills the rest of the zone: zeros, a manifest, the descriptors of all
    /// records, the trailer.
    async fn write_footer(&self, zone: ZoneId) -> Result<(), DeviceError> {
        let manifest = self.manifest();
        let (mut position, trailer, contents) = {
            let mut state = self.state.borrow_mut();
            let writer = state.writers.get_mut(&zone).expect("open zones have a writer");
            let descriptors = core::mem::take(&mut writer.footer);
            let contents = [&manifest.encode()[..], &descriptors].concat();
            let trailer = Trailer {
                identity: self.identity,
                zone,
                zone_sequence: writer.sequence,
                record_count: writer.footer_records,
                descriptor_bytes: low_u32(descriptors.len()),
                descriptor_crc: self.ports.checksum.of(0, &contents),
                segment_count: writer.next_segment,
                first_crc: writer.first_crc.unwrap_or(0),
            };
            (writer.position, trailer.encode(self.ports.checksum), contents)
        };
        let capacity = self.geometry.zone_capacity;
        let end = index(capacity.bytes().0);
        let contents_at = end - TRAILER_BYTES - contents.len();
        while position < capacity {
            let blocks = FOOTER_PIECE.min(capacity - position);
            let mut piece = self.fronts.take(blocks).await;
            let from = index(position.bytes().0);
            let len = index(blocks.bytes().0);
            let bytes = &mut piece.bytes_mut()[..len];
            bytes.fill(0);
            overlay(bytes, from, contents_at, &contents);
            overlay(bytes, from, end - TRAILER_BYTES, &trailer);
            self.write(zone, position, vec![piece.freeze(len)]).await?;
            position += blocks;
        }
        let is_flush_due = self.state.borrow_mut().fills.note_footer(zone, manifest.number);
        if is_flush_due {
            self.flush().await?;
        }
        Ok(())
    }

    /// Seals a full zone: releases its active slot and makes it a candidate for reclaim.
    pub(crate) fn end_writer(&self, zone: ZoneId) {
        let mut state = self.state.borrow_mut();
        let Some(writer) = state.writers.remove(&zone) else { return };
        if !self.settings.has(Mutation::SlotLeaked) {
            state.slots.release(writer.slot);
        }
        let entry = state.zone_mut(zone);
        entry.usage = ZoneUse::Sealed;
        let sealed =
            ZoneChange::Sealed { records: entry.record_count, record_bytes: entry.record_bytes };
        state.newly_sealed.push(zone);
        state.note(self.ports.clock.now(), zone, sealed);
        drop(state);
        self.note_change_of_use();
    }

    /// Ends a zone after a failed write. Earlier segments stay readable, queued segments are lost.
    /// Finishing the zone frees its active resource on the device. If the zone is broken, its reset
    /// by reclaim fails.
    async fn abandon(&self, zone: ZoneId, error: DeviceError) {
        self.lose_what_waits(zone, error);
        let report = Command::Report { first: zone, count: 1 };
        let state = match self.ports.device.call(report).await {
            Ok(Answer::Report(zones)) => zones.first().map(|report| report.state),
            _ => None,
        };
        if state.is_some_and(ZoneState::is_active) {
            let finish = Command::Manage { zone, action: ZoneAction::Finish };
            let _ = self.ports.device.call(finish).await;
        }
        self.end_writer(zone);
    }

    fn lose_what_waits(&self, zone: ZoneId, error: DeviceError) {
        let mut state = self.state.borrow_mut();
        state.is_gone |= error == DeviceError::DeviceGone;
        state.seal_open_segment(zone);
        let Some(writer) = state.writers.get_mut(&zone) else { return };
        writer.finishing = true;
        let lost = core::mem::take(&mut writer.queue);
        state.backlog_bytes -= lost.iter().map(|segment| segment.record_bytes).sum::<u64>();
        drop(state);
        for segment in lost {
            segment.fate.decide(Err(error));
        }
        self.room.wake();
    }
}

/// Copies the overlap of `source` and `piece`. `at` and `from` are their byte offsets in the zone.
fn overlay(piece: &mut [u8], from: usize, at: usize, source: &[u8]) {
    let begin = at.max(from);
    let end = (at + source.len()).min(from + piece.len());
    if begin < end {
        piece[begin - from..end - from].copy_from_slice(&source[begin - at..end - at]);
    }
}
