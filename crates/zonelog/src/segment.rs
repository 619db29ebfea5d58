//! Open segment: gathers records for one write, and wakes their appenders when the write is on
//! flash.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, OnceCell};

use zonal_base::{BLOCK_BYTES, Blocks, Payload, low_u32};
use zonal_device::DeviceError;
use zonal_runtime::Event;

use crate::format::record::{self, RECORD_BYTES_MAX};
use crate::format::segment::{HEADER_BLOCKS_MAX, Header};
use crate::{Descriptor, Extent, Record, Urgency};

/// Most blocks of header and packed records together. They are copied into one buffer in front of
/// the larger records.
pub(crate) const FRONT_BLOCKS: Blocks = Blocks(8);

/// Blocks of the longest segment. A torn write is no longer than this.
pub(crate) const SEGMENT_BLOCKS_MAX: Blocks =
    Blocks(FRONT_BLOCKS.0 + RECORD_BYTES_MAX as u64 / BLOCK_BYTES as u64);

/// A segment in memory that still takes records.
pub(crate) struct OpenSegment {
    /// Number of the segment in its zone, from 0.
    pub(crate) number: u32,
    records: Vec<Gathered>,
    descriptor_bytes: usize,
    packed_bytes: usize,
    whole_blocks: u64,
    pub(crate) fate: Rc<WriteOutcome>,
    urgency: Urgency,
}

struct Gathered {
    descriptor: Descriptor,
    data: Payload,
}

/// A complete segment that waits for its write.
pub(crate) struct SealedSegment {
    pub(crate) number: u32,
    pub(crate) header_blocks: u8,
    pub(crate) payload_blocks: u16,
    pub(crate) descriptors: Vec<u8>,
    /// Packed records with their byte offset in the packed area, each aligned to [`Extent::UNIT`].
    pub(crate) packed: Vec<(usize, Payload)>,
    pub(crate) whole: Vec<Payload>,
    /// True when the device must flush before the records are acknowledged.
    pub(crate) flush: bool,
    pub(crate) fate: Rc<WriteOutcome>,
    pub(crate) record_bytes: u64,
}

/// Outcome of a segment's write, shared with the appenders of all its records.
#[derive(Default)]
pub(crate) struct WriteOutcome {
    outcome: Cell<Option<Result<(), DeviceError>>>,
    /// Descriptors with their final offsets, known when the segment is sealed.
    records: OnceCell<Vec<Descriptor>>,
    changed: Event,
}

impl WriteOutcome {
    pub(crate) fn decide(&self, outcome: Result<(), DeviceError>) {
        self.outcome.set(Some(outcome));
        self.changed.notify_all();
    }

    pub(crate) async fn decided(&self) -> Result<(), DeviceError> {
        loop {
            if let Some(outcome) = self.outcome.get() {
                return outcome;
            }
            self.changed.wait().await;
        }
    }

    /// Descriptor of the record in a slot. Requires: the segment was written.
    pub(crate) fn descriptor(&self, slot: usize) -> &Descriptor {
        &self.records.get().expect("sealed before it was written")[slot]
    }
}

impl OpenSegment {
    pub(crate) fn new(number: u32) -> Self {
        Self {
            number,
            records: Vec::new(),
            descriptor_bytes: 0,
            packed_bytes: 0,
            whole_blocks: 0,
            fate: Rc::default(),
            urgency: Urgency::Linger,
        }
    }

    pub(crate) const fn descriptor_bytes(&self) -> usize {
        self.descriptor_bytes
    }

    /// Blocks of the segment with its present records.
    pub(crate) const fn blocks(&self) -> Blocks {
        let packed = self.packed_bytes.div_ceil(BLOCK_BYTES) as u64;
        Blocks(Header::blocks_for(self.descriptor_bytes) + packed + self.whole_blocks)
    }

    /// Blocks of the segment with one more record of `len` bytes; `None` when the record exceeds a
    /// limit of segments, regardless of the room in the zone.
    pub(crate) fn blocks_with(&self, len: u32, segment_blocks: Blocks) -> Option<Blocks> {
        let header = Header::blocks_for(self.descriptor_bytes + record::descriptor_bytes(len));
        let (packed, whole) = if Record::is_packed(len) {
            (self.packed_bytes + packed_size(len), self.whole_blocks)
        } else {
            (self.packed_bytes, self.whole_blocks + whole_blocks(len))
        };
        let packed = packed.div_ceil(BLOCK_BYTES) as u64;
        let fits = header <= u64::from(HEADER_BLOCKS_MAX)
            && header + packed <= FRONT_BLOCKS.0
            && packed + whole <= segment_blocks.0;
        fits.then_some(Blocks(header + packed + whole))
    }

    /// Adds a record and returns its slot. Requires: [`OpenSegment::blocks_with`] returned `Some`.
    pub(crate) fn push(&mut self, descriptor: Descriptor, data: Payload) -> usize {
        let len = descriptor.len;
        self.descriptor_bytes += record::descriptor_bytes(len);
        if Record::is_packed(len) {
            assert!(data.len() == len as usize);
            self.packed_bytes += packed_size(len);
        } else {
            assert!(data.len() as u64 == whole_blocks(len) * BLOCK_BYTES as u64);
            self.whole_blocks += whole_blocks(len);
        }
        self.records.push(Gathered { descriptor, data });
        self.records.len() - 1
    }

    /// Raises the urgency of the segment.
    pub(crate) fn hurry(&mut self, urgency: Urgency) {
        self.urgency = self.urgency.max(urgency);
    }

    /// True when the segment is written as soon as the zone's write in flight has ended.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgency != Urgency::Linger
    }

    /// Lays the records out. `start` is the block in the zone at which the segment begins.
    pub(crate) fn seal(self, start: Blocks) -> SealedSegment {
        let header_blocks = Header::blocks_for(self.descriptor_bytes);
        let packed_blocks = self.packed_bytes.div_ceil(BLOCK_BYTES) as u64;
        let base = (start.0 + header_blocks) * BLOCK_BYTES as u64;
        let (mut packed_at, mut whole_at) = (0, packed_blocks * BLOCK_BYTES as u64);
        let (mut packed, mut whole) = (Vec::new(), Vec::new());
        let mut descriptors = Vec::with_capacity(self.descriptor_bytes);
        let mut records = Vec::with_capacity(self.records.len());
        let mut record_bytes = 0;
        for Gathered { mut descriptor, data } in self.records {
            record_bytes += u64::from(descriptor.len);
            let at = if Record::is_packed(descriptor.len) {
                let at = packed_at;
                packed_at += packed_size(descriptor.len);
                packed.push((at, data));
                at as u64
            } else {
                let at = whole_at;
                whole_at += data.len() as u64;
                whole.push(data);
                at
            };
            let units = (base + at) / Extent::UNIT as u64;
            descriptor.offset = low_u32(zonal_base::index(units));
            record::encode(&descriptor, &mut descriptors);
            records.push(descriptor);
        }
        assert!(descriptors.len() == self.descriptor_bytes);
        let known = self.fate.records.set(records);
        assert!(known.is_ok(), "a segment is sealed once");
        SealedSegment {
            number: self.number,
            header_blocks: u8::try_from(header_blocks).expect("at most HEADER_BLOCKS_MAX"),
            payload_blocks: u16::try_from(packed_blocks + self.whole_blocks)
                .expect("at most SEGMENT_BLOCKS_MAX"),
            descriptors,
            packed,
            whole,
            flush: self.urgency == Urgency::Durable,
            fate: self.fate,
            record_bytes,
        }
    }
}

impl SealedSegment {
    pub(crate) fn blocks(&self) -> Blocks {
        Blocks(u64::from(self.header_blocks) + u64::from(self.payload_blocks))
    }

    pub(crate) fn front_blocks(&self) -> Blocks {
        let whole: usize = self.whole.iter().map(Payload::len).sum();
        self.blocks() - Blocks((whole / BLOCK_BYTES) as u64)
    }

    pub(crate) fn record_count(&self) -> u16 {
        let count = self.packed.len() + self.whole.len();
        u16::try_from(count).expect("no more than fit into HEADER_BLOCKS_MAX")
    }
}

const fn packed_size(len: u32) -> usize {
    (len as usize).next_multiple_of(Extent::UNIT)
}

const fn whole_blocks(len: u32) -> u64 {
    (len as u64).div_ceil(BLOCK_BYTES as u64)
}
