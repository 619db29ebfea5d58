//! ZNSCCache simulation (paper 001) in virtual time: a cache that does one step after the other.
//!
//! A get looks up a chunk and reads it. On a miss it waits for the origin and writes the chunk.
//! Only then the next get starts.
//!
//! 1. The cache uses 1 GiB of each zone. It fills one zone from the first chunk to the last, then
//!    finishes it (`write`).
//! 2. After every get, if only [`ZONES_LEFT`] zone is not full, the cache empties the
//!    [`ZONES_EMPTIED`] zones that are oldest on average (`evict`).
//! 3. [`Habits`] are what the published code does besides. Without them the cache follows its
//!    paper, and finishes zones in the background, which the paper leaves to others.

mod answers;
mod habits;
mod line;

use zonal_base::{
    BLOCK_BYTES, Blocks, Bytes, Contents, Lba, Nanos, Payload, Pool, PoolClass, Rng, ZoneId, index,
    low_u32,
};
use zonal_device::{Command, ZoneAction, ZonedDevice};

use super::Turns;
use super::feed::{Ask, Feed, Load, What};
use super::measures::{Measures, Timed};
use super::world::Ground;
use crate::trace::NumberMap;
use answers::Answers;
pub use habits::{Habit, Habits};
use line::SerialDrive;

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct SequentialSettings {
    /// Size of every chunk: a power of two up to 1 GiB.
    pub chunk: Bytes,
    /// Bytes of one get: a chunk, or one of several equal parts of a chunk.
    pub get: Bytes,
    /// Number of zones that are used, from the first on.
    pub zones: u32,
    /// Geometric mean of the origin's latency, from the request to the last byte.
    pub origin_latency: Nanos,
    /// Standard deviation of the latencies, which are lognormal. 0: all are equal.
    pub origin_sd: Nanos,
    /// Virtual time after which no get starts.
    pub limit: Nanos,
    /// Habits of the published code that the cache has.
    pub habits: Habits,
    /// Costs of calls.
    pub host: HostCosts,
    /// Seed of the random numbers. Equal seeds give equal histories.
    pub seed: u64,
}

/// Costs of a read or write on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCosts {
    /// Time of a read or write call, without the drive.
    pub call: Nanos,
    /// Largest request in bytes that the kernel makes of a call.
    pub request: Bytes,
    /// Time to fault in fresh memory for a read, per MiB.
    pub touching: Nanos,
    /// Time to open the device, query its zones and close it.
    pub reopening: Nanos,
}

/// Result of a series of gets.
pub(crate) struct SequentialOutcome {
    pub(crate) hits: u64,
    pub(crate) took: Nanos,
    pub(crate) measures: Measures,
    pub(crate) chunks_written: u64,
    pub(crate) zones_finished: u64,
    /// When the first zone with data was emptied, since the start.
    pub(crate) first_emptied: Option<Nanos>,
    /// Lookups in the B-tree whose pages were read. 0 for other loads.
    pub(crate) lookups: u64,
}

/// Bytes of a zone that are used: the published code has trouble with more.
pub(crate) const ZONE_USED: Bytes = Bytes::mib(1024);

/// Number of zones that are not full at which eviction starts. `ZONES_EMPTIED` zones are emptied
/// each time.
pub(crate) const ZONES_LEFT: u32 = 1;
const ZONES_EMPTIED: usize = 2;

/// Blocks per write call of [`Habit::SmallWrites`].
const SMALL: Blocks = Blocks(1);

/// Number of a chunk slot. The slots of a zone are consecutive.
type ChunkSlot = u32;

/// A simulated ZNSCCache on a drive.
pub(crate) struct Sequential<D> {
    settings: SequentialSettings,
    line: SerialDrive<D>,
    pool: Pool,
    data: Payload,
    keys: Feed,
    chance: Rng,
    begun: Nanos,
    chunks_per_zone: u32,
    places: NumberMap<u64, ChunkSlot>,
    zones: Vec<Zone>,
    /// Zones that are not full. The last one is written next.
    open: Vec<u32>,
    origin: Answers,
    measures: Measures,
    hits: u64,
    zones_finished: u64,
    first_emptied: Option<Nanos>,
}

/// Contents of a zone.
#[derive(Clone, Debug, Default)]
struct Zone {
    /// Key of each chunk, and the time of its insertion or last use, since the start.
    chunks: Vec<(u64, Nanos)>,
    /// Sum of these times in nanoseconds.
    sum: u128,
}

impl<D: ZonedDevice> Sequential<D> {
    /// An empty cache on a zoned drive.
    ///
    /// Requires: `zones` is more than [`ZONES_LEFT`], the drive has as many, and each holds
    /// [`ZONE_USED`].
    pub(crate) fn new(
        ground: Ground<D>,
        settings: SequentialSettings,
        load: Load,
        stretch: Nanos,
    ) -> Self {
        let line = SerialDrive::new(ground);
        let geometry = *line.drive().geometry();
        assert!(ZONES_LEFT < settings.zones && settings.zones <= geometry.zone_count);
        assert!(ZONE_USED.blocks_ceil() <= geometry.zone_capacity);
        let blocks = settings.host.request.min(settings.chunk).blocks_ceil();
        let classes = [PoolClass { blocks, count: 2 }];
        let pool = Pool::holding(Contents::Tags, &classes, Box::new(|| ()));
        let data = pool.take(blocks).expect("nobody has taken one yet");
        let data = data.freeze(index(blocks.bytes().0));
        let begun = line.now();
        Self {
            settings,
            pool,
            data,
            keys: Feed::new(load),
            chance: Rng::new(Rng::new(settings.seed).next_u64()),
            begun,
            chunks_per_zone: low_u32(index(ZONE_USED.0 / settings.chunk.0)),
            places: NumberMap::default(),
            zones: vec![Zone::default(); settings.zones as usize],
            open: (0..settings.zones).rev().collect(),
            origin: Answers::new(settings.origin_latency, settings.origin_sd),
            measures: Measures::new(begun, stretch),
            hits: 0,
            zones_finished: 0,
            first_emptied: None,
            line,
        }
    }

    /// Runs gets until the keys end or the limit passes. `on_progress` receives the finished
    /// fraction from time to time.
    ///
    /// # Errors
    /// When the drive refuses a command, or the keys cannot be read.
    pub(crate) fn run(mut self, on_progress: &dyn Fn(f64)) -> Result<SequentialOutcome, String> {
        let turns = Turns::default();
        while self.since_begun() < self.settings.limit
            && let Some(ask) = self.keys.next(&mut self.chance)
        {
            let Ask { what: What::Key(key), due: None } = ask else {
                return Err("znsccache supports only keys, without objects or times".into());
            };
            self.get(key)?;
            self.evict()?;
            if turns.is_due() {
                let of_time = self.since_begun().0 as f64 / self.settings.limit.0 as f64;
                on_progress(self.keys.done().max(of_time));
            }
        }
        if let Some(why) = self.keys.failure() {
            return Err(why);
        }
        let took = self.since_begun();
        Ok(SequentialOutcome {
            hits: self.hits,
            took,
            chunks_written: self.measures.latency(Timed::Write).count,
            measures: self.measures,
            zones_finished: self.zones_finished,
            first_emptied: self.first_emptied,
            lookups: self.keys.lookups(),
        })
    }

    fn since_begun(&self) -> Nanos {
        self.line.now().since(self.begun)
    }

    fn get(&mut self, key: u64) -> Result<(), String> {
        let begun = self.line.now();
        let parts = self.settings.chunk.0 / self.settings.get.0;
        let (chunk, part) = (key / parts, key % parts);
        let found = self.places.get(&chunk).copied();
        match found {
            Some(place) => self.read(place, part)?,
            None => {
                let wait = self.origin.draw(&mut self.chance);
                self.line.sleep(wait)?;
                self.write(chunk)?;
            }
        }
        let now = self.line.now();
        self.measures.note_get(self.settings.get.0, found.is_some(), (begun, now));
        self.hits += u64::from(found.is_some());
        Ok(())
    }

    fn read(&mut self, place: ChunkSlot, part: u64) -> Result<(), String> {
        let begun = self.line.now();
        self.reopen()?;
        let get = self.settings.get;
        for (lba, blocks) in self.requests(place, (part, get), self.settings.host.request) {
            let buffer = self.pool.take(blocks).expect("the one before came back");
            self.line.call(Command::Read { lba, blocks, buffer })?;
        }
        let touching = Nanos((self.settings.host.touching.0 * get.0) >> 20);
        self.line.sleep(self.settings.host.call + touching)?;
        if !self.has(Habit::InsertEpoch) {
            let (now, zone) = (self.since_begun(), index(self.zone_of(place)));
            let zone = &mut self.zones[zone];
            let used = &mut zone.chunks[(place % self.chunks_per_zone) as usize].1;
            zone.sum += u128::from(now.since(*used).0);
            *used = now;
        }
        let now = self.line.now();
        self.measures.time(Timed::Read, now.since(begun));
        self.measures.stretch_at(now).read += get.0;
        Ok(())
    }

    fn write(&mut self, key: u64) -> Result<(), String> {
        let begun = self.line.now();
        let number = *self.open.last().ok_or("every zone is full")?;
        let zone = ZoneId(number);
        let chunk = low_u32(self.zones[number as usize].chunks.len());
        let place = number * self.chunks_per_zone + chunk;
        self.reopen()?;
        if self.has(Habit::Reopen) {
            self.line.call(Command::Manage { zone, action: ZoneAction::Open })?;
        }
        let piece = match self.has(Habit::SmallWrites) {
            true => SMALL.bytes(),
            false => self.settings.host.request,
        };
        for (lba, blocks) in self.requests(place, (0, self.settings.chunk), piece) {
            let data = vec![self.data.slice(0..index(blocks.bytes().0))];
            self.line.call(Command::Write { lba, data })?;
            self.line.sleep(self.settings.host.call)?;
        }
        if self.has(Habit::Reopen) {
            self.line.call(Command::Manage { zone, action: ZoneAction::Close })?;
        }
        let is_last = chunk + 1 == self.chunks_per_zone;
        if is_last {
            self.open.pop();
            self.finish(zone)?;
        }
        let now = self.line.now();
        self.measures.time(Timed::Write, now.since(begun));
        self.measures.stretch_at(now).written += self.settings.chunk.0;
        let inserted = self.since_begun();
        let held = &mut self.zones[number as usize];
        held.chunks.push((key, inserted));
        held.sum += u128::from(inserted.0);
        self.places.insert(key, place);
        Ok(())
    }

    fn finish(&mut self, zone: ZoneId) -> Result<(), String> {
        self.zones_finished += 1;
        if !self.has(Habit::FinishInLine) {
            return self.line.finish_behind(zone);
        }
        let begun = self.line.now();
        self.line.call(Command::Manage { zone, action: ZoneAction::Finish })?;
        self.measures.time(Timed::Finish, self.line.now().since(begun));
        Ok(())
    }

    /// Empties the oldest zones if too few zones are not full.
    fn evict(&mut self) -> Result<(), String> {
        if ZONES_LEFT < low_u32(self.open.len()) {
            return Ok(());
        }
        let empty_as_well = self.has(Habit::InsertEpoch);
        let mut oldest: Vec<(u128, u32)> = (0..self.settings.zones)
            .filter(|zone| empty_as_well || !self.open.contains(zone))
            .map(|zone| (self.zones[zone as usize].sum, zone))
            .collect();
        oldest.sort_unstable();
        self.reopen()?;
        for (_, number) in oldest.into_iter().take(ZONES_EMPTIED) {
            let Zone { chunks, .. } = std::mem::take(&mut self.zones[number as usize]);
            if !chunks.is_empty() {
                self.first_emptied.get_or_insert(self.since_begun());
            }
            for (key, _) in chunks {
                self.places.remove(&key);
            }
            let zone = ZoneId(number);
            self.line.settle(zone)?;
            self.line.call(Command::Manage { zone, action: ZoneAction::Reset })?;
            // A zone that was empty already is written before the others, as if it had just been
            // emptied.
            self.open.retain(|open| *open != number);
            self.open.push(number);
        }
        Ok(())
    }

    /// Costs of [`Habit::Reopen`] at the start of a read or write.
    fn reopen(&mut self) -> Result<(), String> {
        match self.has(Habit::Reopen) {
            true => self.line.sleep(self.settings.host.reopening),
            false => Ok(()),
        }
    }

    const fn has(&self, habit: Habit) -> bool {
        self.settings.habits.has(habit)
    }

    fn zone_of(&self, place: ChunkSlot) -> u64 {
        u64::from(place / self.chunks_per_zone)
    }

    /// Requests for one part of a chunk, each at most `piece` bytes. Every part has `length` bytes.
    fn requests(
        &self,
        place: ChunkSlot,
        (part, length): (u64, Bytes),
        piece: Bytes,
    ) -> impl Iterator<Item = (Lba, Blocks)> + use<D> {
        let (length, piece) = (length.blocks_ceil().0, piece.blocks_ceil().0);
        let zone = ZoneId(low_u32(index(self.zone_of(place))));
        let chunk = u64::from(place % self.chunks_per_zone) * self.settings.chunk.blocks_ceil().0;
        let offset = Blocks(chunk + part * length);
        let begin = self.line.drive().geometry().zone_start(zone) + offset;
        (0..length.div_ceil(piece)).map(move |number| {
            let at = number * piece;
            (begin + Blocks(at), Blocks(piece.min(length - at)))
        })
    }
}

const _: () = assert!(SMALL.0 == 1 && BLOCK_BYTES == 4096);

#[cfg(test)]
mod tests;
