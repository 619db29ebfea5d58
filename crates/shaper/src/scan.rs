//! Zone scan: reads the first block of each zone, then header after header.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cell::RefCell;

use zonal_base::{BLOCK_BYTES, Blocks, Buffer, index, low_u32};
use zonal_device::{Answer, Command, Completion, DeviceError, DeviceKind, ZoneReport, ZoneState};
use zonal_runtime::Call;

use crate::format::{Entry, Header, Malformed, Shape};
use crate::layout::{Layout, Zone};
use crate::open::Identity;
use crate::{OpenError, Ports, Recovery, Tier};

/// Zones scanned concurrently: enough to keep a drive busy.
const WALKS: usize = 16;

/// Blocks per read where segments are short, as single client writes leave them.
const SPAN: u64 = 32;

/// Content of the first block of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    Blank,
    Ours {
        tier: Tier,
        shape: Shape,
        identity: Identity,
        number: u64,
        epoch: u64,
    },
    Version(u16),
    Features(u16),
    /// Unreadable, or ours by its magic and torn or damaged.
    Damaged,
    Foreign,
}

/// A segment found by the scan.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) zone: Zone,
    pub(crate) header: Header,
    /// Blocks of the zone that can have been written. Segment blocks beyond it are missing.
    pub(crate) limit: u32,
    /// Checksum of the header, which the next header in the zone repeats.
    pub(crate) sum: u32,
    /// True when its header is unreadable and this one was made from its echo.
    pub(crate) is_rebuilt: bool,
}

impl Segment {
    /// End of the segment in its zone, in blocks.
    pub(crate) fn end(&self) -> u32 {
        self.header.at + self.header.segment_blocks()
    }

    /// Entries with their position in the zone, in blocks. Entries without a block have that of the
    /// next one.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Entry, u32)> {
        let first = self.header.at + self.header.front_blocks();
        self.header.entries.iter().scan(first, |next, entry| {
            let at = *next;
            *next += u32::from(entry.key.kind().takes_block());
            Some((*entry, at))
        })
    }
}

/// Reads zones during recovery, and counts the reads.
pub(crate) struct Scanner<'a> {
    pub(crate) ports: &'a Ports,
    pub(crate) layout: &'a Layout,
    pub(crate) recovery: RefCell<Recovery>,
}

/// A part of a zone to be scanned from header to header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkStart {
    pub(crate) zone: Zone,
    /// Position of the first header, and checksum of the header before it; 0 if it is the first.
    pub(crate) at: u32,
    pub(crate) previous: u32,
    /// Blocks of the zone that can have been written.
    pub(crate) limit: u32,
}

/// The end of a scan before the end of what can have been written: no header of this zone follows
/// there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    /// Where the scan would have gone on.
    pub(crate) rest: WalkStart,
    /// True when the block is unreadable, or a header with a wrong checksum. Anything else is also
    /// what an end of the log looks like.
    pub(crate) is_damaged: bool,
}

/// Scan of one zone, from header to header.
struct Walk {
    rest: WalkStart,
    /// Length of the read in flight, in blocks.
    span: u64,
    call: Call<Command, Completion>,
}

/// Result of parsing one read of a scan.
enum Stepped {
    On(Walk),
    /// Everything that can have been written is read.
    End,
    Stop(Stop),
}

/// True if the header is one of a segment that was written here.
pub(crate) fn is_at(header: &Header, identity: Identity, place: (Zone, u32)) -> bool {
    // Number 0 is a mark: no segment follows it.
    header.identity == identity && (header.zone, header.at) == place && header.number != 0
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(ports: &'a Ports, layout: &'a Layout) -> Self {
        Self { ports, layout, recovery: RefCell::default() }
    }

    pub(crate) async fn report(&self, tier: Tier) -> Result<Vec<ZoneReport>, OpenError> {
        let place = self.layout.place(tier);
        let report = Command::Report { first: place.first, count: place.count };
        match self.port(tier).call(report).await {
            Ok(Answer::Report(zones)) => Ok(zones),
            Ok(_) => Err(OpenError::Device(tier, DeviceError::InvalidField)),
            Err(error) => Err(OpenError::Device(tier, error)),
        }
    }

    /// Reads the first blocks of all zones that may hold data.
    pub(crate) async fn firsts(
        &self,
        reports: &[Vec<ZoneReport>; 2],
    ) -> Result<Vec<(Zone, First)>, OpenError> {
        let mut zones: VecDeque<(Zone, ZoneReport)> = VecDeque::new();
        for (tier, reports) in Tier::ALL.into_iter().zip(reports) {
            zones.extend(self.layout.zones(tier).zip(reports.iter().copied()));
        }
        let (mut firsts, mut calls) = (Vec::new(), VecDeque::new());
        loop {
            while calls.len() < WALKS
                && let Some((zone, report)) = zones.pop_front()
            {
                if self.written(zone, &report) == 0 {
                    continue;
                }
                match self.read_beside((zone, 0), 1, calls.is_empty()).await {
                    Some(call) => calls.push_back((zone, call)),
                    None => {
                        zones.push_front((zone, report));
                        break;
                    }
                }
            }
            let Some((zone, call)) = calls.pop_front() else { return Ok(firsts) };
            firsts.push((zone, self.first(zone, call.await)?));
        }
    }

    fn first(&self, zone: Zone, answer: Completion) -> Result<First, OpenError> {
        let buffer = match answer {
            Ok(Answer::Read(buffer)) => buffer,
            Err(error @ DeviceError::DeviceGone) => {
                return Err(OpenError::Device(self.layout.tier_of(zone), error));
            }
            _ => return Ok(First::Damaged),
        };
        Ok(match self.decode(&buffer, 0) {
            Ok((Header { tier, shape, identity, number, epoch, .. }, _)) => {
                First::Ours { tier, shape, identity, number, epoch }
            }
            Err(Malformed::Blank) => First::Blank,
            Err(Malformed::Foreign) => First::Foreign,
            Err(Malformed::Version(version)) => First::Version(version),
            Err(Malformed::Features(features)) => First::Features(features),
            Err(Malformed::Damaged) => First::Damaged,
        })
    }

    /// Blocks of a zone that may have been written and can be read.
    pub(crate) fn written(&self, zone: Zone, report: &ZoneReport) -> u32 {
        let geometry = &self.layout.place(self.layout.tier_of(zone)).geometry;
        low_u32(index(match (report.state, geometry.kind) {
            (ZoneState::Offline, _) => 0,
            (_, DeviceKind::Zoned) => report.written.0,
            (_, DeviceKind::Conventional) => geometry.zone_capacity.0,
        }))
    }

    /// Scans zones concurrently, started in this order, and calls `found` with each segment.
    /// Returns where scans ended early.
    pub(crate) async fn walk(
        &self,
        starts: Vec<WalkStart>,
        identity: Identity,
        found: &mut dyn FnMut(Segment),
    ) -> Result<Vec<Stop>, OpenError> {
        let mut starts: VecDeque<_> = starts.into();
        let mut walks: VecDeque<Walk> = VecDeque::new();
        let mut stops = Vec::new();
        // Deadlock avoidance: `most` is the number of walks that have had a buffer. A failed read
        // frees its buffer, but its walk needs it again. If a new walk took it, the running walks
        // would wait for each other.
        let mut most = WALKS;
        loop {
            while walks.len() < most
                && let Some(rest) = starts.pop_front()
            {
                let span = SPAN.min(u64::from(rest.limit - rest.at));
                let place = (rest.zone, rest.at);
                let Some(call) = self.read_beside(place, span, walks.is_empty()).await else {
                    starts.push_front(rest);
                    most = walks.len();
                    break;
                };
                walks.push_back(Walk { rest, span, call });
            }
            let Some(mut walk) = walks.pop_front() else { return Ok(stops) };
            let answer = (&mut walk.call).await;
            match self.step(walk, answer, identity, found).await? {
                Stepped::On(on) => walks.push_back(on),
                Stepped::End => (),
                Stepped::Stop(stop) => stops.push(stop),
            }
        }
    }

    /// Parses all headers in a buffer, and reads on.
    async fn step(
        &self,
        mut walk: Walk,
        answer: Completion,
        identity: Identity,
        found: &mut dyn FnMut(Segment),
    ) -> Result<Stepped, OpenError> {
        let WalkStart { zone, limit, at: begin, .. } = walk.rest;
        let stop = |rest, is_damaged| Ok(Stepped::Stop(Stop { rest, is_damaged }));
        let buffer = match answer {
            Ok(Answer::Read(buffer)) => buffer,
            Err(error @ DeviceError::DeviceGone) => {
                return Err(OpenError::Device(self.layout.tier_of(zone), error));
            }
            // One of several blocks is unreadable: read the header alone.
            _ => {
                walk.span = 1;
                match self.read_alone(zone, begin).await? {
                    Some(buffer) => buffer,
                    None => return stop(walk.rest, true),
                }
            }
        };
        let read = low_u32(index(walk.span));
        let mut longest = 0;
        while walk.rest.at < begin + read {
            let at = index(u64::from(walk.rest.at - begin)) * BLOCK_BYTES;
            let (header, sum) = match self.decode(&buffer, at) {
                Ok(found) => found,
                Err(why) => return stop(walk.rest, why == Malformed::Damaged),
            };
            let belongs = is_at(&header, identity, (zone, walk.rest.at))
                && header.previous == walk.rest.previous;
            if !belongs {
                return stop(walk.rest, false);
            }
            let segment = Segment { zone, header, limit, sum, is_rebuilt: false };
            // Between two long segments there may be a header that repeats the first.
            if !segment.header.is_closing() {
                longest = segment.end() - walk.rest.at;
            }
            (walk.rest.at, walk.rest.previous) = (segment.end(), sum);
            found(segment);
        }
        if limit <= walk.rest.at {
            return Ok(Stepped::End);
        }
        // A long segment is usually followed by another one, so only its header is read.
        let span = match u64::from(longest) {
            0 => walk.span,
            longest if longest < SPAN => SPAN,
            _ => 1,
        };
        drop(buffer);
        walk.span = span.min(u64::from(limit - walk.rest.at));
        walk.call = self.read(zone, walk.rest.at, walk.span).await;
        Ok(Stepped::On(walk))
    }

    /// Reads a block that a longer read could not read. `None`: the device cannot read it.
    pub(crate) async fn read_alone(
        &self,
        zone: Zone,
        at: u32,
    ) -> Result<Option<Buffer>, OpenError> {
        match self.read(zone, at, 1).await.await {
            Ok(Answer::Read(buffer)) => Ok(Some(buffer)),
            Err(error @ DeviceError::DeviceGone) => {
                Err(OpenError::Device(self.layout.tier_of(zone), error))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn is_zoned(&self, zone: Zone) -> bool {
        self.layout.place(self.layout.tier_of(zone)).geometry.kind == DeviceKind::Zoned
    }

    pub(crate) fn decode(&self, buffer: &Buffer, at: usize) -> Result<(Header, u32), Malformed> {
        Header::decode(&buffer.bytes()[at..at + BLOCK_BYTES], self.ports.checksum)
    }

    /// Starts a read of another zone. `None` if there is no buffer and another read in
    /// flight will free one.
    async fn read_beside(
        &self,
        (zone, at): (Zone, u32),
        blocks: u64,
        is_alone: bool,
    ) -> Option<Call<Command, Completion>> {
        if is_alone {
            return Some(self.read(zone, at, blocks).await);
        }
        let buffer = self.ports.buffers.try_take(Blocks(blocks.max(SPAN)))?;
        Some(self.read_into(buffer, (zone, at), blocks))
    }

    /// Starts a read as soon as a buffer is free.
    pub(crate) async fn read(&self, zone: Zone, at: u32, blocks: u64) -> Call<Command, Completion> {
        // Every walk holds at most one buffer, all of one size. Running walks may use the pool's
        // reserve, new ones may not.
        let buffer = self.ports.buffers.take_reserved(Blocks(blocks.max(SPAN))).await;
        self.read_into(buffer, (zone, at), blocks)
    }

    fn read_into(
        &self,
        buffer: Buffer,
        (zone, at): (Zone, u32),
        blocks: u64,
    ) -> Call<Command, Completion> {
        let mut recovery = self.recovery.borrow_mut();
        recovery.read_bytes += Blocks(blocks).bytes().0;
        recovery.reads += 1;
        drop(recovery);
        let lba = self.layout.lba(zone, Blocks(u64::from(at)));
        let read = Command::Read { lba, blocks: Blocks(blocks), buffer };
        self.port(self.layout.tier_of(zone)).call(read)
    }

    pub(crate) async fn call(&self, tier: Tier, command: Command) -> Completion {
        self.port(tier).call(command).await
    }

    /// The device's report on a zone.
    pub(crate) fn report_of<'r>(
        &self,
        reports: &'r [Vec<ZoneReport>; 2],
        zone: Zone,
    ) -> &'r ZoneReport {
        match self.layout.tier_of(zone) {
            Tier::Buffer => &reports[0][index(u64::from(zone.0))],
            Tier::Capacity => &reports[1][index(u64::from(zone.0 - self.layout.buffer.count))],
        }
    }

    fn port(&self, tier: Tier) -> &zonal_runtime::Port<Command, Completion> {
        match tier {
            Tier::Buffer => &self.ports.buffer,
            Tier::Capacity => &self.ports.capacity,
        }
    }
}
