//! Zone scan: reads the records of a zone from its footer or, without one, from header to header.
//! It never writes.
//!
//! The walk goes from each header to the end of its segment. Where no header follows, the last
//! segment may be torn: the walk verifies all its granules and drops a torn segment. On a zoned
//! device the log cannot overwrite a torn write and continues behind it, so the walk searches there
//! for the next header. The walk ends at an unreadable block. Of the blocks behind it only the
//! tombstones count (`salvage`).

use alloc::vec::Vec;
use core::mem::take;
use core::ops::Range;

use zonal_base::{BLOCK_BYTES, Blocks, ZoneId, index, low_u32};
use zonal_device::{Answer, Command, Completion, DeviceError, DeviceKind, Geometry, ZoneReport};
use zonal_runtime::Call;

use crate::format::Malformed;
use crate::format::checks::GRANULE_BYTES;
use crate::format::footer::{TRAILER_BYTES, Trailer};
use crate::format::manifest::{Fill, Manifest};
use crate::format::segment::Header;
use crate::log::{FOOTER_PIECE, Ports};
use crate::read::Span;
use crate::segment::SEGMENT_BLOCKS_MAX;
use crate::{Descriptor, Extent};

/// Reads zones without writing to them.
pub(crate) struct Scanner<'a> {
    pub(crate) ports: &'a Ports,
    pub(crate) geometry: &'a Geometry,
}

/// Records and structure of one zone.
pub(crate) struct Scan {
    pub(crate) zone: ZoneId,
    /// Header in the zone's first block, whether its segment is whole or torn.
    pub(crate) first: Header,
    pub(crate) records: Vec<Descriptor>,
    pub(crate) segments: Vec<Header>,
    pub(crate) ending: ZoneEnd,
    /// The fill, as far as it is there.
    pub(crate) fill: Fill,
    /// Newest manifest of the zone.
    pub(crate) manifest: Option<Manifest>,
    /// Tombstones found behind an unreadable block.
    pub(crate) salvaged: Vec<Descriptor>,
}

/// End of a zone's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneEnd {
    /// The zone is full and has a footer.
    Footer,
    /// The zone has no footer. Its segments end at this block.
    Open(Blocks),
    /// The segments end at this block, and an unreadable or damaged block follows. It may become
    /// readable later, so the log never writes behind it.
    Unreadable(Blocks),
}

/// Result of looking for the next header.
enum Next {
    /// Header of the walk's next segment, and the block at which it begins.
    Segment(Blocks, Header, Manifest, Vec<Descriptor>),
    Nothing,
    /// A block that cannot be read, or a damaged header.
    Unreadable,
}

/// Completeness of a segment on flash.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SegmentState {
    Whole,
    Torn,
    /// The device failed to read a granule: completeness is unknown.
    Unreadable,
}

/// Contents of a zone's last blocks.
enum End {
    Footer(Trailer, Manifest, Vec<Descriptor>),
    Other,
    Unreadable,
}

/// State of a walk from header to header.
struct Walk {
    zone: ZoneId,
    first: Header,
    /// Number of segments that are known to have been written; 0: unknown. The last of them is
    /// damaged, not torn.
    known: u32,
    /// End of the blocks that may have been written.
    readable: Blocks,
    position: Blocks,
    segments: Vec<Header>,
    /// Manifest of the last header. It is valid even if that segment is torn.
    manifest: Option<Manifest>,
    /// Records of segments that are known to be whole.
    records: Vec<Descriptor>,
    /// Records of the last segment, which may be torn.
    last: Vec<Descriptor>,
}

impl Scanner<'_> {
    /// Scans one zone. `first` is the header in its first block.
    pub(crate) async fn scan(
        &self,
        report: ZoneReport,
        first: Header,
    ) -> Result<Scan, DeviceError> {
        self.scan_written(report, (first, 0)).await
    }

    /// Scans one zone to which at least `known` segments were written.
    pub(crate) async fn scan_written(
        &self,
        report: ZoneReport,
        (first, known): (Header, u32),
    ) -> Result<Scan, DeviceError> {
        let capacity = self.geometry.zone_capacity;
        // Before recovery, a conventional device does not know what was written.
        let readable = match known {
            0 => self.readable(&report).end,
            _ => report.written,
        };
        let may_end = readable == capacity;
        let end = match may_end {
            true => self.end(report.zone, &first).await?,
            false => End::Other,
        };
        match end {
            End::Footer(trailer, manifest, records) => Ok(Scan {
                zone: report.zone,
                first,
                records,
                segments: Vec::new(),
                ending: ZoneEnd::Footer,
                fill: fill_of(&first, trailer.segment_count),
                manifest: Some(manifest),
                salvaged: Vec::new(),
            }),
            End::Other => self.walk(report.zone, readable, (first, known)).await,
            End::Unreadable => {
                let mut scan = self.walk(report.zone, readable, (first, known)).await?;
                if let ZoneEnd::Open(position) = scan.ending {
                    scan.ending = ZoneEnd::Unreadable(position);
                }
                Ok(scan)
            }
        }
    }

    /// Range of blocks that may have been written.
    pub(crate) fn readable(&self, report: &ZoneReport) -> Range<Blocks> {
        let end = match self.geometry.kind {
            DeviceKind::Conventional => self.geometry.zone_capacity,
            DeviceKind::Zoned => report.written,
        };
        Blocks(0)..end
    }

    async fn end(&self, zone: ZoneId, first: &Header) -> Result<End, DeviceError> {
        let (capacity, checksum) = (self.geometry.zone_capacity, self.ports.checksum);
        let Some(last) = self.read(zone, capacity - Blocks(1), Blocks(1)).await? else {
            return Ok(End::Unreadable);
        };
        let trailer = Trailer::decode(&last, checksum).ok();
        let Some(trailer) = trailer.filter(|trailer| trailer.ends(zone, first)) else {
            return Ok(End::Other);
        };
        let len = trailer.contents_len();
        let blocks = Trailer::blocks_for(trailer.descriptor_bytes as usize);
        if capacity < blocks {
            return Ok(End::Other);
        }
        let Some(bytes) = self.read(zone, capacity - blocks, blocks).await? else {
            return Ok(End::Unreadable);
        };
        let end = bytes.len() - TRAILER_BYTES;
        // A power cut may have torn the footer.
        let contents = trailer.contents(&bytes[end - len..end], checksum);
        Ok(contents
            .map_or(End::Other, |(manifest, records)| End::Footer(trailer, manifest, records)))
    }

    async fn walk(
        &self,
        zone: ZoneId,
        readable: Blocks,
        (first, known): (Header, u32),
    ) -> Result<Scan, DeviceError> {
        let mut walk = Walk {
            zone,
            first,
            known,
            readable,
            position: Blocks(0),
            segments: Vec::new(),
            manifest: None,
            records: Vec::new(),
            last: Vec::new(),
        };
        let (ending, salvaged) = loop {
            match self.next(&mut walk).await? {
                Next::Segment(at, header, manifest, records) => {
                    walk.step(at, header, records);
                    walk.manifest = Some(manifest);
                }
                Next::Nothing => break (ZoneEnd::Open(walk.position), Vec::new()),
                Next::Unreadable => {
                    let rest = walk.position..readable;
                    let salvaged = self.tombstones(zone, first.identity, rest).await?;
                    break (ZoneEnd::Unreadable(walk.position), salvaged);
                }
            }
        };
        let Walk { records, segments, manifest, .. } = walk;
        let fill = fill_of(&first, low_u32(segments.len()));
        Ok(Scan { zone, first, records, segments, ending, fill, manifest, salvaged })
    }

    /// Finds the next segment. When none follows directly, first decides whether the last segment
    /// is whole or torn.
    async fn next(&self, walk: &mut Walk) -> Result<Next, DeviceError> {
        let next = self.segment_at(walk, walk.position).await?;
        if let Next::Segment(..) = next {
            return Ok(next);
        }
        let last = self.outcome(walk.zone, &walk.last).await?;
        let cut = match last {
            SegmentState::Whole => {
                walk.keep_last();
                None
            }
            SegmentState::Torn | SegmentState::Unreadable => walk.cut_last(),
        };
        let next = match (next, last) {
            (Next::Nothing, SegmentState::Whole | SegmentState::Torn) => {
                self.segment_behind_gap(walk).await?
            }
            _ => Next::Unreadable,
        };
        let is_last_written = low_u32(walk.segments.len()) + 1 == walk.known;
        if is_last_written && !matches!(next, Next::Segment(..)) {
            cut.into_iter().for_each(|(header, records)| walk.put_back(header, records));
        }
        Ok(next)
    }

    /// Returns the walk's next segment if its header is at `at` and the segment fits into the zone.
    async fn segment_at(&self, walk: &Walk, at: Blocks) -> Result<Next, DeviceError> {
        if walk.readable <= at {
            return Ok(Next::Nothing);
        }
        let Some(block) = self.read(walk.zone, at, Blocks(1)).await? else {
            return Ok(Next::Unreadable);
        };
        let header = match Header::peek(&block, self.ports.checksum) {
            Ok(header) if walk.expects(&header) => header,
            Ok(_) | Err(Malformed::Magic | Malformed::Version(_)) => return Ok(Next::Nothing),
            Err(Malformed::Checksum | Malformed::Fields) => return Ok(Next::Unreadable),
        };
        if walk.readable < at + header.blocks() {
            return Ok(Next::Nothing);
        }
        let len = Blocks(u64::from(header.header_blocks));
        let Some(bytes) = self.read(walk.zone, at, len).await? else {
            return Ok(Next::Unreadable);
        };
        Ok(match Header::decode(&bytes, self.ports.checksum) {
            Ok((header, manifest, records)) => Next::Segment(at, header, manifest, records),
            // A power cut may tear a header of several blocks, never a single block.
            Err(_) if Blocks(1) < len => Next::Nothing,
            Err(_) => Next::Unreadable,
        })
    }

    /// Returns the next segment if the log continued behind a torn one. On a conventional device
    /// the log overwrites the torn segment instead.
    async fn segment_behind_gap(&self, walk: &Walk) -> Result<Next, DeviceError> {
        if self.geometry.kind == DeviceKind::Conventional || walk.readable <= walk.position {
            return Ok(Next::Nothing);
        }
        let gap = (walk.readable - walk.position).min(SEGMENT_BLOCKS_MAX);
        let Some(bytes) = self.read(walk.zone, walk.position, gap).await? else {
            return Ok(Next::Unreadable);
        };
        for (n, block) in (0..).zip(bytes.chunks(BLOCK_BYTES)).skip(1) {
            let header = Header::peek(block, self.ports.checksum);
            if header.is_ok_and(|header| walk.expects(&header)) {
                let next = self.segment_at(walk, walk.position + Blocks(n)).await?;
                if !matches!(next, Next::Nothing) {
                    return Ok(next);
                }
            }
        }
        Ok(Next::Nothing)
    }

    /// Verifies the segment that holds these records: it is whole when every granule matches its
    /// checksum.
    async fn outcome(
        &self,
        zone: ZoneId,
        records: &[Descriptor],
    ) -> Result<SegmentState, DeviceError> {
        for record in records.iter().filter(|record| 0 < record.len) {
            let extent = Extent { zone, offset: record.offset, len: record.len };
            if self.geometry.zone_capacity.bytes().0 < extent.byte_offset() + u64::from(record.len)
            {
                return Ok(SegmentState::Torn);
            }
            for from in (0..record.len).step_by(GRANULE_BYTES) {
                let span = Span::of(extent, &(from..from + 1));
                match self.start(zone, span.start(extent), span.blocks).await.await {
                    Ok(Answer::Read(buffer)) => {
                        let name = (self.ports.checksum, record.key);
                        if !span.fits(&buffer, name, &record.checks) {
                            return Ok(SegmentState::Torn);
                        }
                    }
                    Err(error) if !is_of_blocks(error) => return Err(error),
                    _ => return Ok(SegmentState::Unreadable),
                }
            }
        }
        Ok(SegmentState::Whole)
    }

    /// Reads blocks of a zone; `None` when the device cannot read them.
    pub(crate) async fn read(
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
                Err(error) if !is_of_blocks(error) => return Err(error),
                _ => return Ok(None),
            }
            done += piece;
        }
        Ok(Some(bytes))
    }

    /// Submits a read of blocks of a zone.
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

/// True if a failed read says something about its blocks. A read that is late, or whose device is
/// gone, does not: a zone that reclaim took for unreadable would be reset with all that it holds.
pub(crate) const fn is_of_blocks(error: DeviceError) -> bool {
    !matches!(error, DeviceError::DeviceGone | DeviceError::TimedOut)
}

/// The fill that began with `first`, of which so many segments are there.
const fn fill_of(first: &Header, segments: u32) -> Fill {
    Fill { zone: first.zone, sequence: first.zone_sequence, first_crc: first.crc, segments }
}

impl Walk {
    /// True for the header of the segment that the log wrote right after the ones found so far.
    fn expects(&self, header: &Header) -> bool {
        let Header { identity, zone_sequence, .. } = self.first;
        let previous = self.segments.last().map_or(0, |header| header.crc);
        (header.identity, header.zone, header.zone_sequence) == (identity, self.zone, zone_sequence)
            && (header.segment as usize, header.previous) == (self.segments.len(), previous)
    }

    /// Moves to the next segment. Its header proves that the segment before it is whole, because
    /// the log has one write in flight per zone.
    fn step(&mut self, at: Blocks, header: Header, records: Vec<Descriptor>) {
        self.keep_last();
        self.last = records;
        self.position = at + header.blocks();
        self.segments.push(header);
    }

    fn keep_last(&mut self) {
        self.records.append(&mut self.last);
    }

    /// Drops the last segment. Returns its header and its records.
    fn cut_last(&mut self) -> Option<(Header, Vec<Descriptor>)> {
        let records = take(&mut self.last);
        let header = self.segments.pop()?;
        self.position = self.position - header.blocks();
        Some((header, records))
    }

    /// Keeps a segment that was dropped.
    fn put_back(&mut self, header: Header, mut records: Vec<Descriptor>) {
        self.records.append(&mut records);
        self.position += header.blocks();
        self.segments.push(header);
    }
}
