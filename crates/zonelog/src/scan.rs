//! What is in a zone, read without changing it: from its footer or, where there is none, from header to
//! header.
//!
//! A walk goes from each header to where its segment ends. Where no header stands, the last segment may
//! be torn: it is verified to the last byte, and left out if it is. On a zoned device the log may have
//! gone on behind a torn write, which it cannot take back: the walk looks for that, too.

use alloc::vec::Vec;

use zonal_base::{BLOCK_BYTES, Blocks, ZoneId, index};
use zonal_device::{
    Answer, Command, Completion, DeviceError, Geometry, Kind as DeviceKind, ZoneReport,
};
use zonal_runtime::Call;

use crate::format::checks::GRANULE_BYTES;
use crate::format::footer::{TRAILER_BYTES, Trailer};
use crate::format::segment::Header;
use crate::log::{FOOTER_PIECE, Ports};
use crate::read::Span;
use crate::segment::SEGMENT_BLOCKS_MAX;
use crate::{Descriptor, Extent};

/// Reads zones without changing them.
pub(crate) struct Scanner<'a> {
    pub(crate) ports: &'a Ports,
    pub(crate) geometry: &'a Geometry,
}

/// What a zone holds.
pub(crate) struct Scan {
    pub(crate) zone: ZoneId,
    /// The header in the zone's first block, be its segment whole or torn.
    pub(crate) first: Header,
    pub(crate) records: Vec<Descriptor>,
    pub(crate) segments: Vec<Header>,
    pub(crate) ending: Ending,
}

/// How a zone ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With a footer.
    Footer,
    /// Without: segments reach up to here.
    Open(Blocks),
}

/// A walk from header to header.
struct Walk {
    zone: ZoneId,
    first: Header,
    /// Blocks of the zone that can be read.
    readable: Blocks,
    position: Blocks,
    segments: Vec<Header>,
    /// Of segments that are known to be whole.
    records: Vec<Descriptor>,
    /// Of the last segment, which may be torn.
    last: Vec<Descriptor>,
}

impl Scanner<'_> {
    /// What one zone holds. `first` is the header in its first block.
    pub(crate) async fn scan(
        &self,
        report: ZoneReport,
        first: Header,
    ) -> Result<Scan, DeviceError> {
        let capacity = self.geometry.zone_capacity;
        let conventional = self.geometry.kind == DeviceKind::Conventional;
        let may_end = conventional || report.written == capacity;
        if may_end && let Some(scan) = self.footer(report.zone, first).await? {
            return Ok(scan);
        }
        let readable = if conventional { capacity } else { report.written };
        self.walk(report.zone, readable, first).await
    }

    async fn footer(&self, zone: ZoneId, first: Header) -> Result<Option<Scan>, DeviceError> {
        let capacity = self.geometry.zone_capacity;
        let last = self.read(zone, capacity - Blocks(1), Blocks(1)).await?;
        let checksum = self.ports.checksum;
        let trailer = last.and_then(|block| Trailer::decode(&block, checksum).ok());
        let Some(trailer) = trailer.filter(|trailer| trailer.ends(zone, &first)) else {
            return Ok(None);
        };
        let len = trailer.descriptor_bytes as usize;
        let blocks = Trailer::blocks_for(len);
        if capacity < blocks {
            return Ok(None);
        }
        let Some(bytes) = self.read(zone, capacity - blocks, blocks).await? else {
            return Ok(None);
        };
        let end = bytes.len() - TRAILER_BYTES;
        let records = trailer.descriptors(&bytes[end - len..end], checksum).ok();
        let (segments, ending) = (Vec::new(), Ending::Footer);
        Ok(records.map(|records| Scan { zone, first, records, segments, ending }))
    }

    async fn walk(
        &self,
        zone: ZoneId,
        readable: Blocks,
        first: Header,
    ) -> Result<Scan, DeviceError> {
        let mut walk = Walk {
            zone,
            first,
            readable,
            position: Blocks(0),
            segments: Vec::new(),
            records: Vec::new(),
            last: Vec::new(),
        };
        loop {
            if let Some((header, records)) = self.next_header(&walk, walk.position).await? {
                walk.step(header, records);
                continue;
            }
            match self.is_intact(zone, &walk.last).await? {
                true => walk.keep_last(),
                false => walk.cut_last(),
            }
            match self.header_behind_gap(&walk).await? {
                Some((at, header, records)) => {
                    walk.position = at;
                    walk.step(header, records);
                }
                None => break,
            }
        }
        let Walk { records, segments, position, .. } = walk;
        Ok(Scan { zone, first, records, segments, ending: Ending::Open(position) })
    }

    /// The header of the walk's next segment, if it stands at `at` and its segment fits into the zone.
    async fn next_header(
        &self,
        walk: &Walk,
        at: Blocks,
    ) -> Result<Option<(Header, Vec<Descriptor>)>, DeviceError> {
        if walk.readable <= at {
            return Ok(None);
        }
        let block = self.read(walk.zone, at, Blocks(1)).await?;
        let header = block.and_then(|block| Header::peek(&block, self.ports.checksum).ok());
        match header.filter(|header| walk.expects(header)) {
            Some(header) if at + header.blocks() <= walk.readable => {
                let len = Blocks(u64::from(header.header_blocks));
                let bytes = self.read(walk.zone, at, len).await?;
                Ok(bytes.and_then(|bytes| Header::decode(&bytes, self.ports.checksum).ok()))
            }
            _ => Ok(None),
        }
    }

    /// The next segment, if the log went on with it behind a torn one. On a conventional device it writes
    /// over what is torn.
    async fn header_behind_gap(
        &self,
        walk: &Walk,
    ) -> Result<Option<(Blocks, Header, Vec<Descriptor>)>, DeviceError> {
        if self.geometry.kind == DeviceKind::Conventional || walk.readable <= walk.position {
            return Ok(None);
        }
        let gap = (walk.readable - walk.position).min(SEGMENT_BLOCKS_MAX);
        let Some(bytes) = self.read(walk.zone, walk.position, gap).await? else {
            return Ok(None);
        };
        for (n, block) in (0..).zip(bytes.chunks(BLOCK_BYTES)).skip(1) {
            let header = Header::peek(block, self.ports.checksum);
            if header.is_ok_and(|header| walk.expects(&header)) {
                let at = walk.position + Blocks(n);
                let next = self.next_header(walk, at).await?;
                if let Some((header, records)) = next {
                    return Ok(Some((at, header, records)));
                }
            }
        }
        Ok(None)
    }

    /// True when every granule of these records can be read and fits its check.
    async fn is_intact(&self, zone: ZoneId, records: &[Descriptor]) -> Result<bool, DeviceError> {
        for record in records.iter().filter(|record| 0 < record.len) {
            let extent = Extent { zone, offset: record.offset, len: record.len };
            if self.geometry.zone_capacity.bytes().0 < extent.byte_offset() + u64::from(record.len)
            {
                return Ok(false);
            }
            for from in (0..record.len).step_by(GRANULE_BYTES) {
                let span = Span::of(extent, &(from..from + 1));
                match self.start(zone, span.start(extent), span.blocks).await.await {
                    Ok(Answer::Read(buffer)) => {
                        let name = (self.ports.checksum, record.key);
                        if !span.fits(&buffer, name, &record.checks) {
                            return Ok(false);
                        }
                    }
                    Err(error @ DeviceError::DeviceGone) => return Err(error),
                    _ => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    /// Blocks of a zone; `None` when they cannot be read.
    async fn read(
        &self,
        zone: ZoneId,
        at: Blocks,
        blocks: Blocks,
    ) -> Result<Option<Vec<u8>>, DeviceError> {
        let mut bytes = Vec::with_capacity(index(blocks.bytes().0));
        let mut done = Blocks(0);
        while done < blocks {
            let piece = FOOTER_PIECE.min(blocks - done).min(self.ports.buffers.pool().largest());
            match self.start(zone, at + done, piece).await.await {
                Ok(Answer::Read(buffer)) => {
                    bytes.extend_from_slice(&buffer.bytes()[..index(piece.bytes().0)]);
                }
                Err(error @ DeviceError::DeviceGone) => return Err(error),
                _ => return Ok(None),
            }
            done += piece;
        }
        Ok(Some(bytes))
    }

    /// Asks for blocks of a zone.
    pub(crate) async fn start(
        &self,
        zone: ZoneId,
        at: Blocks,
        blocks: Blocks,
    ) -> Call<Command, Completion> {
        let buffer = self.ports.buffers.take_reserved(blocks).await;
        let lba = self.geometry.zone_start(zone) + at;
        self.ports.device.call(Command::Read { lba, blocks, buffer })
    }
}

impl Walk {
    /// True when this is the header of the segment that was written after those found so far.
    fn expects(&self, header: &Header) -> bool {
        let Header { identity, zone_sequence, .. } = self.first;
        let previous = self.segments.last().map_or(0, |header| header.crc);
        (header.identity, header.zone, header.zone_sequence) == (identity, self.zone, zone_sequence)
            && (header.segment as usize, header.previous) == (self.segments.len(), previous)
    }

    /// Goes on to the next segment: the one before it was written to its end.
    fn step(&mut self, header: Header, records: Vec<Descriptor>) {
        self.keep_last();
        self.last = records;
        self.position += header.blocks();
        self.segments.push(header);
    }

    fn keep_last(&mut self) {
        self.records.append(&mut self.last);
    }

    fn cut_last(&mut self) {
        self.last.clear();
        if let Some(torn) = self.segments.pop() {
            self.position = self.position - torn.blocks();
        }
    }
}
