//! Warm-up command: reads a list of objects into the cache, paced by the flash write bandwidth.
//!
//! 1. Open the object and look up its residency. Wait until the objects before it are nearly done.
//! 2. Read the missing ranges part by part, each once the write queue has room, and discard the
//!    bytes.
//! 3. Wait until they are on flash. Read refused chunks again, a few times.
//! 4. At the end of the list, look up all residencies again: later objects may have evicted earlier
//!    ones.

use std::collections::VecDeque;
use std::future::{poll_fn, ready};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use zonal_base::Bytes as Size;
use zonal_gateway::{Keep, RuntimeConfig};
use zonal_host::{
    Client, FreshnessPolicy, Head, Located, LookupError, ObjectName, Opened, ReadError, Residency,
    RetentionClass, ShardStats, contained,
};

use super::Phase;
use super::listed_objects::{ListedObjects, Next};
use super::report::{is_serving, tell};
use crate::reports::Listed;
use crate::warming::{WarmLine, WarmResult, WarmTotals};

/// Limit of objects fetched concurrently, however many the origin would take.
const FETCHING_MAX: usize = 8;

/// Origin requests of one object at a time: of two stripes, while one ends and the next begins.
const REQUESTS_OF_OBJECT: usize = 2;

/// Objects in progress: being fetched, or on their way to flash, which takes up to 0.2 s. 256: more
/// than a thousand small objects a second.
const UNDER_WAY_MAX: usize = 256;

/// Smallest range of one read, in bytes: a piece.
const PART_BYTES_MIN: u64 = 256 << 10;

/// Attempts to fetch missing data.
const ATTEMPTS: u32 = 4;

/// Poll interval for the write queue and for the residency of a part.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Longest wait for room in the write queue. After it, clients evidently fill the queue all the
/// time; the warm-up continues and reports refused data.
const ROOM_PATIENCE: Duration = Duration::from_secs(60);

/// Longest wait for data in memory to reach flash. Five times the time for which a segment waits
/// for more records.
const FLASH_PATIENCE: Duration = Duration::from_secs(1);

/// Wait before missing data is fetched again: a fetch still running to the end of its piece may
/// bring it.
const MISSING_PATIENCE: Duration = Duration::from_millis(200);

/// Longest wait at the end for the whole list to reach flash. Clients with constant misses prolong
/// it.
const SETTLE_PATIENCE: Duration = Duration::from_secs(30);

/// Reason for an object that is wholly on flash but not wholly pinned.
const ON_FLASH: &str = "on flash, but not fully pinned";

const REFUSED: &str = "not on flash: rejected, or evicted by later objects of this list";

/// Fraction of the smallest shard (1/4) that may be warmed beside an object before its line is
/// written. Objects that overtake a slow one must not evict its first pieces before its last ones
/// arrive.
const OVERTAKING_PART: u64 = 4;

/// State shared by all objects of a list.
pub(super) struct Warmer {
    client: Client,
    runtime_config: Arc<RuntimeConfig>,
    fetching: Semaphore,
}

/// One version of an object, and the range to warm.
struct Version {
    object: ObjectName,
    head: Arc<Head>,
    range: Range<u64>,
    retention: RetentionClass,
    /// Bytes per read: all concurrent reads together fill half of the write queue.
    part: u64,
}

/// Position of an object in its list, for ordering.
struct ListPosition {
    number: u64,
    /// Number of report lines written.
    written: watch::Receiver<u64>,
    /// Bytes that may be warmed concurrently with this object.
    room: u64,
}

impl ListPosition {
    /// Whether the object may be fetched. The estimate takes all unfinished objects before it to
    /// have its size. The first unfinished object never waits.
    fn has_come(&self, size: u64) -> bool {
        (self.number - *self.written.borrow()).saturating_mul(size) <= self.room
    }

    async fn come(&mut self, size: u64) {
        while !self.has_come(size) && self.written.changed().await.is_ok() {}
    }
}

/// Objects in progress, in the order of the list. Dropping the queue aborts them.
struct InProgress(VecDeque<JoinHandle<Finished>>);

/// Result from which a line of the report is built.
enum Finished {
    Object(WarmResult, Option<Version>),
    Prefix(Listed),
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl Warmer {
    /// A warmer that has at most `requests_max` origin requests in flight, or those of one object.
    pub(super) fn new(
        (client, runtime_config): (Client, Arc<RuntimeConfig>),
        requests_max: usize,
    ) -> Arc<Self> {
        let fetching = (requests_max / REQUESTS_OF_OBJECT).clamp(1, FETCHING_MAX);
        Arc::new(Self { client, runtime_config, fetching: Semaphore::new(fetching) })
    }

    /// Runs until the list is done. It stops early, and the report lacks its totals, if the client
    /// disconnects or the server shuts down.
    pub(super) async fn warm(
        self: Arc<Self>,
        mut names: ListedObjects,
        report: mpsc::Sender<Bytes>,
        phase: watch::Receiver<Phase>,
        _place: OwnedSemaphorePermit,
    ) {
        let mut under_way = InProgress(VecDeque::with_capacity(UNDER_WAY_MAX));
        let (mut done, mut sum) = (Vec::new(), WarmTotals::default());
        let (written, lines) = watch::channel(0);
        let (room, mut number) = (self.room().await, 0);
        loop {
            while under_way.0.len() < UNDER_WAY_MAX {
                under_way.0.push_back(match names.next().await {
                    Some(Next::Object(object, range)) => {
                        let turn = ListPosition { number, written: lines.clone(), room };
                        tokio::spawn(contained(self.clone().one(object, range, turn)))
                    }
                    Some(Next::Prefix(listed)) => tokio::spawn(ready(Finished::Prefix(listed))),
                    None => break,
                });
                number += 1;
            }
            let Some(first) = under_way.0.front_mut() else { break };
            let ended = tokio::select! {
                ended = first => ended,
                () = report.closed() => return,
            };
            under_way.0.pop_front();
            let line = match ended {
                Ok(Finished::Object(told, version)) => {
                    done.push((told.clone(), version));
                    WarmLine::Object(told)
                }
                Ok(Finished::Prefix(listed)) => {
                    sum.prefixes_cut += u64::from(listed.why.is_some());
                    WarmLine::Prefix(listed)
                }
                Err(_) => return,
            };
            if !is_serving(&phase) || !tell(&report, &line).await {
                return;
            }
            written.send_modify(|count| *count += 1);
        }
        // This times out if clients miss all the time; the totals then show what has not reached
        // flash.
        let _ = timeout(SETTLE_PATIENCE, self.client.settle()).await;
        for (told, version) in &done {
            let now = match version {
                Some(version) => Some(self.residency(version).await),
                None => None,
            };
            sum.add(told, now);
        }
        if is_serving(&phase) {
            tell(&report, &WarmLine::Sum(sum)).await;
        }
    }

    /// Bytes that may be warmed concurrently with an object, in the worst case that all of it lands
    /// on one shard.
    async fn room(&self) -> u64 {
        let stats = self.client.stats().await;
        let shares = stats.iter().map(|share| {
            share.zones.iter().map(|&count| u64::from(count)).sum::<u64>() * share.zone_capacity.0
        });
        // A lost shard takes no data.
        shares.filter(|&bytes| 0 < bytes).min().unwrap_or_default() / OVERTAKING_PART
    }

    async fn one(
        self: Arc<Self>,
        object: ObjectName,
        range: Option<Range<u64>>,
        turn: ListPosition,
    ) -> Finished {
        let name = object.as_str().to_owned();
        let mut told = WarmResult { name, ..WarmResult::default() };
        let mut version = None;
        let outcome = self.put_on_flash((&object, range), turn, &mut told, &mut version).await;
        if let Some(version) = &version {
            if version.retention == RetentionClass::Pinned {
                self.pin(version).await;
            }
            let Residency { on_flash, pinned, .. } = self.residency(version).await;
            (told.on_flash, told.pinned) = (on_flash, pinned);
        }
        let is_to_be_pinned =
            version.as_ref().is_some_and(|version| version.retention == RetentionClass::Pinned);
        let is_whole = version.is_some() && told.on_flash == told.size;
        told.why = outcome.err().filter(|_| !is_whole);
        if is_to_be_pinned && told.pinned < told.size {
            let but = told.why.take().unwrap_or_else(|| ON_FLASH.to_owned());
            told.why = Some(self.not_pinned(told.size - told.pinned).await + &but);
        }
        Finished::Object(told, version)
    }

    /// Reason why `missing` bytes are not pinned; empty if pins have room.
    async fn not_pinned(&self, missing: u64) -> String {
        let stats = self.client.stats().await;
        let has_room =
            |share: &ShardStats| share.pinned.0 + missing.min(PART_BYTES_MIN) <= share.pinned_max.0;
        if stats.iter().all(has_room) {
            return String::new();
        }
        let [pinned, most] =
            [|share: &ShardStats| share.pinned.0, |share: &ShardStats| share.pinned_max.0]
                .map(|of| Size(stats.iter().map(of).sum()).rounded());
        format!("pin limit reached: {pinned} of {most} (keep.pinned) are in use; ")
    }

    /// Fetches an object until it is on flash. The error is the reason why part of it is not.
    async fn put_on_flash(
        &self,
        wanted: (&ObjectName, Option<Range<u64>>),
        mut turn: ListPosition,
        told: &mut WarmResult,
        found: &mut Option<Version>,
    ) -> Result<(), String> {
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            // The semaphore is fair, so objects are fetched in the order of the list.
            let mut permit = self.fetching.acquire().await;
            if found.is_none() {
                let version = self.open(&wanted).await?;
                told.size = version.range.end - version.range.start;
                told.was_on_flash = self.residency(&version).await.on_flash;
                *found = Some(version);
            }
            let Some(version) = &found else { break };
            if !turn.has_come(told.size) {
                drop(permit);
                turn.come(told.size).await;
                permit = self.fetching.acquire().await;
            }
            let fetched = self.fetch(version, &mut told.fetched).await;
            drop(permit);
            match fetched {
                Ok(()) => match self.land(version).await {
                    Fetched::Whole => return Ok(()),
                    Fetched::InMemory => return Err("in memory only".to_owned()),
                    // Give up once the fetches would exceed twice the size: an object that does not
                    // fit would evict earlier objects again and again.
                    Fetched::Missing
                        if 2 * told.size < told.fetched + self.missing(version).await =>
                    {
                        return Err(REFUSED.to_owned());
                    }
                    Fetched::Missing => REFUSED.clone_into(&mut why),
                },
                Err(ReadError::Changed) => {
                    "the object keeps changing at the origin".clone_into(&mut why);
                    *found = None;
                }
                Err(ReadError::Overloaded) => {
                    "overloaded".clone_into(&mut why);
                    sleep(FLASH_PATIENCE).await;
                }
                Err(ReadError::Origin(fault)) => return Err(format!("origin error: {fault}")),
                Err(ReadError::Gone) => return Err("the cache is shutting down".to_owned()),
            }
        }
        Err(why)
    }

    /// Pins data that was on flash before: this warm-up did not read it, so no read has pinned it.
    async fn pin(&self, version: &Version) {
        let Version { object, head, range, retention, .. } = version;
        self.client.set_retention(object, head, range.clone(), *retention).await;
    }

    /// Bytes of the range that are not on flash.
    async fn missing(&self, version: &Version) -> u64 {
        version.range.end - version.range.start - self.residency(version).await.on_flash
    }

    async fn open(
        &self,
        (object, wanted): &(&ObjectName, Option<Range<u64>>),
    ) -> Result<Version, String> {
        let retention = match self.runtime_config.keep_of(object) {
            Keep::Policy => RetentionClass::Warmed,
            Keep::Pin => RetentionClass::Pinned,
            Keep::Never => return Err("not cached: a keep rule says never".to_owned()),
        };
        let Opened { head, .. } =
            self.head(object, self.runtime_config.freshness.of(object).of_get(), retention).await?;
        let all = 0..head.size;
        let range = wanted.clone().map_or(all, |range| range.start..range.end.min(head.size));
        if range.end < range.start || (wanted.is_some() && range.is_empty()) {
            return Err(format!("the range begins beyond the object's {} bytes", head.size));
        }
        let first = range.start..range.end.min(range.start + 1);
        let located = self.client.locate(object, &head, first).await.unwrap_or_default();
        let part = (located.backlog_max.0 / 2 / FETCHING_MAX as u64).max(PART_BYTES_MIN);
        // Powers of two, so that the parts align with pieces.
        let part = 1 << part.ilog2();
        Ok(Version { object: (*object).clone(), head, range, retention, part })
    }

    async fn head(
        &self,
        object: &ObjectName,
        trust: FreshnessPolicy,
        retention: RetentionClass,
    ) -> Result<Opened, String> {
        for _ in 1..ATTEMPTS {
            match self.client.open(object, trust, retention).await {
                Err(LookupError::Overloaded) => sleep(FLASH_PATIENCE).await,
                answer => return answer.map_err(why_not_opened),
            }
        }
        self.client.open(object, trust, retention).await.map_err(why_not_opened)
    }

    /// Reads the parts of the range that are not on flash.
    async fn fetch(&self, version: &Version, fetched: &mut u64) -> Result<(), ReadError> {
        let Version { object, head, range, retention, part } = version;
        let mut at = range.start;
        while at < range.end {
            let end = ((at / part + 1) * part).min(range.end);
            let found = self.await_room(version, at..end).await?;
            if found.on_flash < end - at {
                let mut reading = self.client.read(object, head, at..end, *retention).await?;
                while let Some(bytes) = poll_fn(|cx| reading.poll_next(cx)).await {
                    drop(bytes?);
                }
                *fetched += end - at - found.on_flash - found.in_memory;
            }
            at = end;
        }
        Ok(())
    }

    /// Waits until the backlog of admitted data fills at most half of the write queue.
    async fn await_room(
        &self,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Residency, ReadError> {
        let until = Instant::now() + ROOM_PATIENCE;
        loop {
            let located = self.client.locate(&version.object, &version.head, range.clone()).await;
            let Located { residency, backlog, backlog_max } = located.ok_or(ReadError::Gone)?;
            if backlog.0 <= backlog_max.0 / 2 || until < Instant::now() {
                return Ok(residency);
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Waits until the range is on flash, or will not get there.
    async fn land(&self, version: &Version) -> Fetched {
        let size = version.range.end - version.range.start;
        let Version { object, head, range, .. } = version;
        let begin = Instant::now();
        loop {
            let located = self.client.locate(object, head, range.clone()).await;
            let Located { residency, backlog, .. } = located.unwrap_or_default();
            let Residency { on_flash, in_memory, .. } = residency;
            let patience = match backlog.0 {
                _ if on_flash == size => return Fetched::Whole,
                _ if on_flash + in_memory < size => MISSING_PATIENCE,
                0 => FLASH_PATIENCE,
                _ => ROOM_PATIENCE,
            };
            if patience < begin.elapsed() {
                return match on_flash + in_memory < size {
                    true => Fetched::Missing,
                    false => Fetched::InMemory,
                };
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Residency of the range; all zero during a shutdown.
    async fn residency(&self, version: &Version) -> Residency {
        let Version { object, head, range, .. } = version;
        let located = self.client.locate(object, head, range.clone()).await;
        located.unwrap_or_default().residency
    }
}

/// Result of a fetch.
enum Fetched {
    Whole,
    /// The rest is in memory: it waits for a flash write, or is held because it is read often.
    InMemory,
    Missing,
}

fn why_not_opened(error: LookupError) -> String {
    match error {
        LookupError::NotFound
        | LookupError::NoSuchKey
        | LookupError::HeadNotFound
        | LookupError::Absent => "not found".to_owned(),
        LookupError::NoEtag => "not cacheable: the origin sends no strong ETag".to_owned(),
        LookupError::HeadersTooLong => "not cacheable: its headers are too long".to_owned(),
        LookupError::TooLarge => "not cacheable: it is too large".to_owned(),
        LookupError::Gone => "the device is lost".to_owned(),
        LookupError::Late => "the device did not answer in time".to_owned(),
        LookupError::Origin(fault) => format!("origin error: {fault}"),
        LookupError::NotKnown => "not cached".to_owned(),
        LookupError::Overloaded => "overloaded".to_owned(),
    }
}
