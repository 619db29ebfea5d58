//! Actors of a history: readers of all speeds, writers through the gateway and past it, and device
//! faults.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use zonal_base::{Bytes, Nanos, RangeSpec, mix64};
use zonal_cache::{
    Cache, Freshness, FreshnessPolicy, Head, HeadSource, InitialFetch, InvalidationTarget,
    LookupError, ObjectName, Opened, OpenedRead, PendingInvalidations, ReadError, ReadHints,
    Reader, RemoveError, RetentionClass,
};
use zonal_policy::SampleRank;
use zonal_runtime::{Clock, Spawner};
use zonal_watch::Request;

use crate::drive::Fault;
use crate::history::{Actor, Change, Op, ReadStep, ScanStep, Step, WHOLE, WriteStep};
use crate::oracle::{Answered, Content, Object, Tag, judge};
use crate::origin::Objects;
use crate::pin_oracle::PinOracle;
use crate::read_client::{End, Heard, ReadClient};
use crate::trace::Trace;
use crate::violation::{ViolationKind, Wrong};

/// State that all actors of one life share.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) cache: Cache,
    /// Removals while the device is isolated.
    pub(crate) pending_invalidations: Rc<PendingInvalidations>,
    pub(crate) clock: Clock,
    pub(crate) spawner: Spawner,
    /// Object names, by their number in the history.
    pub(crate) names: Rc<[ObjectName]>,
    pub(crate) objects: Objects,
    pub(crate) faults: Rc<RefCell<Vec<Fault>>>,
    pub(crate) wrong: Rc<RefCell<Option<Wrong>>>,
    pub(crate) acting: Rc<Cell<u32>>,
    pub(crate) tally: Rc<RefCell<HistoryCounts>>,
    pub(crate) pin_oracle: Rc<RefCell<PinOracle>>,
    pub(crate) trace: Trace,
}

/// Counts of the work that a history did. A simulation that does no work finds no bugs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryCounts {
    pub(crate) reads: u64,
    pub(crate) reads_cached: u64,
    pub(crate) reads_failed: u64,
    pub(crate) writes: u64,
}

impl HistoryCounts {
    fn note_read(&mut self, heard: &Heard, is_whole: bool) {
        self.reads += 1;
        self.reads_cached += u64::from(heard.all_cached.get());
        self.reads_failed += u64::from(!is_whole);
    }
}

impl Stage {
    /// Starts all actors of a life.
    pub(crate) fn enter_all(&self, steps: &[Step]) {
        for steps in steps.chunk_by(|one, next| one.actor == next.actor) {
            self.enter(act(self.clone(), steps.to_vec()));
        }
    }

    /// Starts `actor`. The life ends after all actors have ended.
    pub(crate) fn enter(&self, actor: impl Future<Output = ()> + 'static) {
        self.acting.set(self.acting.get() + 1);
        let acting = self.acting.clone();
        self.spawner.spawn(async move {
            actor.await;
            acting.set(acting.get() - 1);
        });
    }

    fn accuse(&self, wrong: Wrong) {
        self.wrong.borrow_mut().get_or_insert(wrong);
    }

    async fn pause(&self, pause: Nanos) {
        self.clock.sleep_until(self.clock.now() + pause).await;
    }

    fn change<T>(&self, name: &ObjectName, by: impl FnOnce(&mut Object) -> T) -> T {
        by(self.objects.borrow_mut().get_mut(name).expect("objects stay in the list"))
    }

    /// Removes as the host does: a removal for an isolated shard is recorded as pending. Other
    /// devices of the node are not simulated.
    async fn remove(&self, name: &ObjectName) -> Result<(), RemoveError> {
        self.remove_any(&InvalidationTarget::Object(name.clone())).await
    }

    async fn remove_any(&self, target: &InvalidationTarget) -> Result<(), RemoveError> {
        match self.cache.remove_any(target).await {
            Err(RemoveError) => self.pending_invalidations.note(target),
            removed => removed,
        }
    }

    /// Counts a read that was begun at `asked`, and shows it to the watcher.
    fn note_read(&self, heard: &Heard, is_whole: bool, asked: Nanos) {
        self.tally.borrow_mut().note_read(heard, is_whole);
        if let (Some(first), Some(from)) = (heard.first_byte.get(), heard.from.get()) {
            let request = Request::Get { from, is_hit: heard.all_cached.get() };
            let size = Bytes(heard.bytes.borrow().len() as u64);
            self.trace.watched.answered(request, size, first.since(asked));
        }
    }

    fn note(&self, actor: Actor, what: std::fmt::Arguments<'_>) {
        self.trace.note(self.clock.now(), actor, what);
    }
}

async fn act(stage: Stage, steps: Vec<Step>) {
    let up = stage.clock.now();
    for step in steps {
        stage.clock.sleep_until(up + step.at).await;
        stage.note(step.actor, format_args!("begins to {}", step.deed));
        match step.deed {
            Op::Read(read) => {
                let outcome = perform_read(&stage, &read, |size| range_of(&read, size)).await;
                stage.note(step.actor, format_args!("{outcome}"));
            }
            Op::Scan(scan) => perform_scan(&stage, step.actor, &scan).await,
            Op::Write(write) => {
                let name = &stage.names[write.object];
                stage.change(name, |object| object.writes_begun += 1);
                let is_done = perform_write(&stage, &write).await;
                stage.change(name, |object| object.writes_ended += 1);
                let outcome = if is_done { "acknowledged" } else { "not acknowledged" };
                stage.note(step.actor, format_args!("{outcome}"));
            }
            Op::Fault(fault) => stage.faults.borrow_mut().push(fault),
        }
    }
}

/// Largest number of versions that may be replaced during one read.
const OPENS_MAX: u32 = 4;

async fn perform_scan(stage: &Stage, actor: Actor, scan: &ScanStep) {
    for number in 0..scan.count {
        let number = if scan.is_disordered { number ^ 1 } else { number };
        let range = |size: u64| (number * scan.len).min(size)..((number + 1) * scan.len).min(size);
        let outcome = perform_read(stage, &scan.read, range).await;
        stage.note(actor, format_args!("{outcome}"));
        stage.pause(scan.pause).await;
    }
}

/// Returns the outcome of the read, for the trace.
async fn perform_read(
    stage: &Stage,
    step: &ReadStep,
    range_of: impl Fn(u64) -> Range<u64>,
) -> String {
    let name = &stage.names[step.object];
    let begun = stage.objects.borrow()[name].clone();
    let mut trust = FreshnessPolicy {
        absence: step.absence,
        stale_if_error: step.stale_if_error,
        stale_while_revalidate: step.stale_while_revalidate,
        ..step.freshness.into()
    };
    let asked = stage.clock.now();
    for _ in 0..OPENS_MAX {
        let opening = open(stage, name, (trust, &begun), &range_of);
        let opened = match step.head_patience {
            Some(patience) => within(&stage.clock, patience, opening).await,
            None => Some(opening.await),
        };
        let (head, fetches) = match opened {
            // The host passes the body on, and nothing of it is cached.
            Some(Ok(OpenedRead {
                opened: Opened { found: HeadSource::Uncacheable(_), .. },
                ..
            })) => {
                return past_the_cache(stage, name, &begun);
            }
            Some(Ok(OpenedRead { opened, fetches, .. })) => (opened.head, fetches),
            Some(Err(error @ (LookupError::NotFound | LookupError::Absent))) => {
                return missing(stage, name, &begun, error);
            }
            Some(Err(LookupError::NoEtag)) => return past_the_cache(stage, name, &begun),
            Some(Err(error)) => return format!("no head: {error:?}"),
            None => return "gave up waiting for the head".into(),
        };
        if begun.tag != Tag::Strong {
            let what = format!("object {}: cached without a strong ETag", begun.id);
            stage.accuse(ViolationKind::WrongHead.wrong(what));
        }
        let range = range_of(head.size);
        let heard = start_read(stage, step, (&head, range.clone(), fetches), begun.retention());
        let end = heard.end().await;
        let bytes = heard.bytes.borrow();
        let is_whole = matches!(end, End::Whole);
        let got = range.start..range.start + bytes.len() as u64;
        let answered = Answered {
            head: &head,
            range: if is_whole { range.clone() } else { got },
            bytes: &bytes,
            oldest_allowed: oldest_allowed(&begun, trust),
        };
        let verdict = judge(&stage.objects.borrow()[name], &answered);
        stage.note_read(&heard, is_whole, asked);
        if let Err(wrong) = verdict {
            stage.accuse(wrong);
        }
        if is_whole && heard.all_on_flash.get() {
            stage.pin_oracle.borrow_mut().note(name, &begun, (&head, range.clone()));
        }
        if !matches!(end, End::Failed(ReadError::Changed)) {
            let cached = if heard.all_cached.get() { "cached" } else { "not all cached" };
            return format!(
                "{end:?}, {} bytes of {range:?} of {}, {cached}",
                bytes.len(),
                head.etag
            );
        }
        trust.head = Freshness::Revalidate;
    }
    "gave up: the object changes all the time".into()
}

/// Opens the object as the host does: most reads ask for head and bytes at once.
async fn open(
    stage: &Stage,
    name: &ObjectName,
    (trust, begun): (FreshnessPolicy, &Object),
    range_of: &impl Fn(u64) -> Range<u64>,
) -> Result<OpenedRead, LookupError> {
    let chance = mix64(stage.clock.now().0 ^ begun.id);
    if chance & 3 == 0 {
        let opened = stage.cache.open(name, trust, begun.retention()).await?;
        return Ok(OpenedRead { opened, fetches: 0..0, body: None });
    }
    // The client may know the object of another size.
    let size = begun.now.map_or(0, |content| content.size);
    let range = match range_of(size) {
        range if range == (0..size) => RangeSpec::Whole,
        range => RangeSpec::Int(range),
    };
    let range_of = |head: &Head| range_of(head.size);
    let rank = SampleRank::of(chance);
    let hints = ReadHints { retention: begun.retention(), is_confirmed: false, rank };
    let reader = Reader { range, range_of: &range_of, hints, others: None };
    stage.cache.open_to_read(name, trust, &reader).await
}

/// Oldest content that a read may see. If each read asks the origin, it is the one at its begin.
fn oldest_allowed(begun: &Object, trust: FreshnessPolicy) -> (u64, u64) {
    let may_be_stale = trust.stale_if_error != Nanos(0) || trust.stale_while_revalidate != Nanos(0);
    if trust.head != Freshness::Revalidate || may_be_stale {
        return begun.oldest_allowed;
    }
    let current = begun.now.map_or(begun.next_version, |content| content.version);
    begun.oldest_allowed.max((current, 0))
}

/// Read past the cache: the host asks the origin for the object, and tells the cache the ETag.
fn past_the_cache(stage: &Stage, name: &ObjectName, begun: &Object) -> String {
    if begun.tag == Tag::Strong {
        stage.cache.note_etag(name);
    }
    "past the cache".into()
}

/// The cache reports a missing object. `begun` is the object's state when the read began.
fn missing(stage: &Stage, name: &ObjectName, begun: &Object, error: LookupError) -> String {
    let object = &stage.objects.borrow()[name];
    if !object.was_deleted {
        let what = format!("object {}: not found, but it was there", object.id);
        stage.accuse(ViolationKind::NotFound.wrong(what));
    }
    let may_be_remembered = begun.may_be_absent || begun.deletions != object.deletions;
    if error == LookupError::Absent && !may_be_remembered {
        let what = format!("object {}: absent, but it was written", object.id);
        stage.accuse(ViolationKind::NotFound.wrong(what));
    }
    if error == LookupError::Absent { "absent".into() } else { "not found".into() }
}

/// Starts a read as the host does for a GET, when version and range are known.
fn start_read(
    stage: &Stage,
    step: &ReadStep,
    (head, range, fetches): (&Arc<Head>, Range<u64>, Range<u64>),
    retention: RetentionClass,
) -> Rc<Heard> {
    let name = &stage.names[step.object];
    if let Some(ahead) = stage.cache.note_asked(name, head, &range) {
        stage.cache.prefetch(name, head, &ahead.bytes, &ahead.wasted);
    }
    let (consumer, heard) = ReadClient::new(stage.clock.clone(), step);
    let (cache, name, head) = (stage.cache.clone(), name.clone(), head.clone());
    let (clock, drop_after) = (stage.clock.clone(), step.drop_after);
    let chance = mix64(clock.now().0);
    let keeping =
        ReadHints { retention, is_confirmed: chance & 1 == 0, rank: SampleRank::of(chance) };
    // A task of its own, as in the real host. Some tasks are dropped before their end.
    stage.spawner.spawn(async move {
        let reading = cache.read(
            &name,
            &head,
            (range, InitialFetch::Started(fetches)),
            keeping,
            Box::new(consumer),
        );
        match drop_after {
            Some(patience) => drop(within(&clock, patience, reading).await),
            None => reading.await,
        }
    });
    heard
}

fn range_of(step: &ReadStep, size: u64) -> Range<u64> {
    let Some((one, other)) = step.range.filter(|_| 0 < size) else { return 0..size };
    let [one, other] = [one, other].map(|part| part * size / WHOLE);
    one.min(other)..one.max(other) + 1
}

/// True if the write was acknowledged.
async fn perform_write(stage: &Stage, step: &WriteStep) -> bool {
    let name = &stage.names[step.object];
    stage.tally.borrow_mut().writes += 1;
    let [before, after] = step.pauses;
    match step.change {
        Change::Forsaken(patience) => {
            let _ = within(&stage.clock, patience, stage.remove(name)).await;
            false
        }
        Change::OverwriteBehind { size } => {
            stage.change(name, |object| object.overwrite(size));
            false
        }
        Change::Purge => {
            let content = stage.change(name, Object::repair);
            stage.pause(before).await;
            acknowledge(stage, name, content).await
        }
        Change::PurgeBelow { cut } => purge_below(stage, (name, cut), before).await,
        Change::Overwrite { size } => {
            if stage.remove(name).await.is_err() {
                return false;
            }
            stage.pause(before).await;
            let content = stage.change(name, |object| object.overwrite(size));
            stage.pause(after).await;
            acknowledge(stage, name, Some(content)).await
        }
        Change::Delete { size } => {
            if stage.remove(name).await.is_err() {
                return false;
            }
            stage.pause(before).await;
            let next = stage.change(name, Object::delete);
            let is_done = acknowledge(stage, name, Some(next)).await;
            stage.pause(after).await;
            stage.change(name, |object| object.now.is_none().then(|| object.overwrite(size)));
            is_done
        }
    }
}

/// Purges a prefix; true if acknowledged. The write to `name` is recorded already. The writes to
/// the other objects below the prefix are recorded here.
async fn purge_below(stage: &Stage, (name, cut): (&ObjectName, usize), pause: Nanos) -> bool {
    let (text, bucket) = (name.as_str(), name.bucket().len() + 1);
    let prefix = &text[..(text.len() - cut).max(bucket)];
    let below: Vec<&ObjectName> =
        stage.names.iter().filter(|other| other.as_str().starts_with(prefix)).collect();
    let others = || below.iter().filter(|other| **other != name);
    others().for_each(|other| stage.change(other, |object| object.writes_begun += 1));
    let contents: Vec<_> = below.iter().map(|other| stage.change(other, Object::repair)).collect();
    stage.pause(pause).await;
    let is_removed = stage.remove_any(&InvalidationTarget::Below(prefix.into())).await.is_ok();
    for (other, content) in below.iter().zip(contents) {
        if let Some(content) = content.filter(|_| is_removed) {
            stage.change(other, |object| object.acknowledged(content));
        }
    }
    others().for_each(|other| stage.change(other, |object| object.writes_ended += 1));
    is_removed
}

async fn acknowledge(stage: &Stage, name: &ObjectName, content: Option<Content>) -> bool {
    let is_removed = stage.remove(name).await.is_ok();
    if let Some(content) = content.filter(|_| is_removed) {
        stage.change(name, |object| object.acknowledged(content));
    }
    is_removed
}

/// Output of `future` if it completes in time; otherwise the future is dropped.
async fn within<T>(clock: &Clock, patience: Nanos, future: impl Future<Output = T>) -> Option<T> {
    let mut sleep = clock.sleep_until(clock.now() + patience);
    let mut future = std::pin::pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Pin::new(&mut sleep).poll(cx).map(|()| None),
    })
    .await
}
