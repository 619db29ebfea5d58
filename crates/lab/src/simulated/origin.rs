//! Origin model: has every object, and answers after a configured time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use zonal_base::{
    BLOCK_BYTES, Blocks, Bytes, Contents, Nanos, Pool, PoolClass, Tag, Ticket, index, mix64,
};
use zonal_cache::{Fetch, Fetched, ObjectName, OriginFault, OriginHead, StreamId};

/// Size of an object that holds keys: 1 GiB, so that few heads cover many chunks.
pub(super) const OBJECT: Bytes = Bytes::mib(1024);

/// Sizes of the trace objects that readers request now: all that the origin knows of them.
///
/// A trace is read as requests are needed, and the sizes of its objects are not kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted(Rc<RefCell<BTreeMap<u64, (Bytes, u32)>>>);

impl Wanted {
    /// Sets the size of the object until [`Wanted::leave`]. The last caller wins.
    pub(super) fn enter(&self, id: u64, size: Bytes) {
        let mut objects = self.0.borrow_mut();
        let (known, count) = objects.entry(id).or_default();
        (*known, *count) = (size, *count + 1);
    }

    pub(super) fn leave(&self, id: u64) {
        let mut objects = self.0.borrow_mut();
        if let Some((_, count)) = objects.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                objects.remove(&id);
            }
        }
    }

    fn size(&self, id: u64) -> Option<Bytes> {
        self.0.borrow().get(&id).map(|(size, _)| *size)
    }
}

/// Identity of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called {
    /// Object that holds drawn keys.
    OfKeys(u64),
    /// Object of a trace.
    Own(u64),
}

const OF_KEYS: &str = "simulated";
const OWN: &str = "recorded";

impl Called {
    pub(super) fn name(self) -> ObjectName {
        match self {
            Self::OfKeys(number) => ObjectName::new(OF_KEYS, &number.to_string()),
            Self::Own(id) => ObjectName::new(OWN, &format!("{id:x}")),
        }
    }

    fn of(name: &ObjectName) -> Option<Self> {
        match name.bucket() {
            OF_KEYS => name.key().parse().ok().map(Self::OfKeys),
            _ => u64::from_str_radix(name.key(), 16).ok().map(Self::Own),
        }
    }

    /// Tag of the block at byte `at`, in the version with this size.
    pub(super) const fn tag_at(self, size: u64, at: u64) -> Tag {
        let source = match self {
            Self::OfKeys(number) => number,
            Self::Own(id) => mix64(id ^ mix64(size)),
        };
        Tag { source, block: Blocks(at / BLOCK_BYTES as u64) }
    }
}

/// Bytes of one body frame.
const FRAME: Bytes = Bytes::kib(64);

/// Most frames in flight: 64 MiB.
const FRAMES_MAX: u32 = 1024;

/// Response times of the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginTimes {
    /// Time to the head of an object, or to the start of a body.
    pub question: Nanos,
    /// Time for each 64 KiB of a body, once the body has started.
    pub frame: Nanos,
}

impl OriginTimes {
    /// Times for whole objects. A body starts after `latency` and has the bandwidth of S3 in paper
    /// 000. S3 took 40.6 ms for 64 KiB and 5.41 s for 512 MiB: 0.656 ms for each further 64 KiB.
    #[must_use]
    pub const fn for_objects(latency: Nanos) -> Self {
        Self { question: latency, frame: Nanos::micros(656) }
    }

    /// The same time for the start and for each frame.
    #[must_use]
    pub const fn each(time: Nanos) -> Self {
        Self { question: time, frame: time }
    }

    /// A chunk is complete after `latency`. A chunk longer than a frame arrives evenly over that
    /// time, from the first moment on.
    #[must_use]
    pub const fn for_chunks(chunk: Bytes, latency: Nanos) -> Self {
        if chunk.0 <= FRAME.0 {
            return Self { question: latency, frame: Nanos(0) };
        }
        Self { question: Nanos(0), frame: Nanos(latency.0 / (chunk.0 / FRAME.0)) }
    }
}

pub(super) struct SimulatedOrigin {
    times: OriginTimes,
    wanted: Wanted,
    /// Pending answers by due time, then by request number.
    answers: BTreeMap<(Nanos, u64), (Ticket, Fetched)>,
    asked: u64,
    /// Open bodies by stream number. `None`: the number is free.
    bodies: Vec<Option<Body>>,
    free: Vec<StreamId>,
    frames: Pool,
}

struct Body {
    object: Called,
    /// Size of the object's version in bytes.
    size: u64,
    rest: Range<u64>,
}

impl SimulatedOrigin {
    pub(super) fn new(times: OriginTimes, wanted: Wanted) -> Self {
        let class = PoolClass { blocks: FRAME.blocks_ceil(), count: FRAMES_MAX };
        Self {
            times,
            wanted,
            answers: BTreeMap::new(),
            asked: 0,
            bodies: Vec::new(),
            free: Vec::new(),
            frames: Pool::holding(Contents::Tags, &[class], Box::new(|| ())),
        }
    }

    pub(super) fn start(&mut self, now: Nanos, ticket: Ticket, fetch: Fetch) {
        let is_frame = matches!(fetch, Fetch::More { .. });
        let takes = if is_frame { self.times.frame } else { self.times.question };
        let answer = match fetch {
            Fetch::Head { object } => {
                match Called::of(&object).and_then(|object| self.head(object)) {
                    Some(head) => Fetched::Head(head),
                    None => Fetched::Failed(OriginFault::NotFound),
                }
            }
            Fetch::Get { object, range, .. } => {
                match Called::of(&object).and_then(|object| Some((object, self.head(object)?))) {
                    Some((object, head)) => {
                        let (size, range) = (head.size, range.in_object(head.size));
                        let stream = self.open(Body { object, size, rest: range.clone() });
                        Fetched::Object { head, range, stream }
                    }
                    None => Fetched::Failed(OriginFault::NotFound),
                }
            }
            Fetch::More { stream } => self.more(stream),
            Fetch::Close { stream } => {
                if self.bodies[index(stream.0)].take().is_some() {
                    self.free.push(stream);
                }
                Fetched::End
            }
        };
        self.asked += 1;
        self.answers.insert((now + takes, self.asked), (ticket, answer));
    }

    pub(super) fn poll(&mut self, now: Nanos) -> Option<(Ticket, Fetched)> {
        self.next_event().filter(|due| *due <= now)?;
        self.answers.pop_first().map(|(_, answer)| answer)
    }

    pub(super) fn next_event(&self) -> Option<Nanos> {
        self.answers.keys().next().map(|(due, _)| *due)
    }

    fn head(&self, object: Called) -> Option<OriginHead> {
        let (size, etag) = match object {
            Called::OfKeys(_) => (OBJECT, "\"1\"".into()),
            // Another size is another version.
            Called::Own(id) => self.wanted.size(id).map(|size| (size, format!("\"{size}\"")))?,
        };
        Some(OriginHead { size: size.0, etag: etag.into(), ..OriginHead::default() })
    }

    fn open(&mut self, body: Body) -> StreamId {
        let stream = self.free.pop().unwrap_or_else(|| {
            self.bodies.push(None);
            StreamId(self.bodies.len() as u64 - 1)
        });
        self.bodies[index(stream.0)] = Some(body);
        stream
    }

    fn more(&mut self, stream: StreamId) -> Fetched {
        let Some(body) = &mut self.bodies[index(stream.0)] else { return Fetched::End };
        let len = FRAME.0.min(body.rest.end - body.rest.start);
        // Other bodies hold all frames, so the origin answers like a busy store.
        let Some(mut frame) = self.frames.take(Bytes(len).blocks_ceil()) else {
            return Fetched::Failed(OriginFault::Busy);
        };
        let blocks = 0..index(Bytes(len).blocks_ceil().0);
        frame.set_tags(blocks, body.object.tag_at(body.size, body.rest.start));
        body.rest.start += len;
        Fetched::Data(frame.freeze(index(len)).into_bytes())
    }
}
