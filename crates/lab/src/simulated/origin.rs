//! An origin that has every object, and takes its time to answer.

use std::collections::BTreeMap;
use std::ops::Range;

use zonal_base::{
    BLOCK_BYTES, Blocks, Buffer, Bytes, Contents, Nanos, Pool, PoolClass, Tag, Ticket, index,
};
use zonal_cache::{Fetch, Fetched, ObjectName, OriginFault, OriginHead, StreamId};

/// An object: 1 GiB, so that few heads stand for many chunks.
pub(super) const OBJECT: Bytes = Bytes::mib(1024);

/// What a body sends at once.
const FRAME: Bytes = Bytes::kib(64);

/// Frames under way: 64 MiB of them.
const FRAMES_MAX: u32 = 1024;

/// How long an origin takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginTimes {
    /// To say what an object is, or to begin with a body.
    pub question: Nanos,
    /// For each 64 KiB of a body, once it has begun.
    pub frame: Nanos,
}

impl OriginTimes {
    /// The same time for each of them.
    #[must_use]
    pub const fn each(time: Nanos) -> Self {
        Self { question: time, frame: time }
    }

    /// Whoever asks for a chunk has all of it after `latency`. What is longer than a frame comes evenly over that time, from
    /// the first moment on.
    #[must_use]
    pub const fn for_chunks(chunk: Bytes, latency: Nanos) -> Self {
        if chunk.0 <= FRAME.0 {
            return Self { question: latency, frame: Nanos(0) };
        }
        Self { question: Nanos(0), frame: Nanos(latency.0 / (chunk.0 / FRAME.0)) }
    }
}

pub(super) struct Origin {
    times: OriginTimes,
    /// By when they are due, and by the order of the questions.
    answers: BTreeMap<(Nanos, u64), (Ticket, Fetched)>,
    asked: u64,
    /// By the number of their stream; those that are over are free.
    bodies: Vec<Option<Body>>,
    free: Vec<StreamId>,
    frames: Pool,
}

struct Body {
    object: u64,
    rest: Range<u64>,
}

/// The name of the object with a number.
pub(super) fn name_of(object: u64) -> ObjectName {
    ObjectName::new("simulated", &object.to_string())
}

/// What the bytes of an object are, at a whole block.
pub(super) fn tag_at(object: u64, at: u64) -> Tag {
    Tag { source: object, block: Blocks(at / BLOCK_BYTES as u64) }
}

fn number_of(object: &ObjectName) -> Option<u64> {
    object.key().parse().ok()
}

impl Origin {
    pub(super) fn new(times: OriginTimes) -> Self {
        let class = PoolClass { blocks: FRAME.blocks_ceil(), count: FRAMES_MAX };
        Self {
            times,
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
            Fetch::Head { .. } => Fetched::Head(OriginHead {
                size: OBJECT.0,
                etag: "\"1\"".into(),
                ..OriginHead::default()
            }),
            Fetch::Open { object, range, .. } => match number_of(&object) {
                Some(object) => self.open(object, range),
                None => Fetched::Failed(OriginFault::NotFound),
            },
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

    fn open(&mut self, object: u64, rest: Range<u64>) -> Fetched {
        let stream = self.free.pop().unwrap_or_else(|| {
            self.bodies.push(None);
            StreamId(self.bodies.len() as u64 - 1)
        });
        self.bodies[index(stream.0)] = Some(Body { object, rest });
        Fetched::Opened(stream)
    }

    fn more(&mut self, stream: StreamId) -> Fetched {
        let Some(body) = &mut self.bodies[index(stream.0)] else { return Fetched::End };
        let len = FRAME.0.min(body.rest.end - body.rest.start);
        // Everybody else holds a frame: ask again later, as one does of a store that is busy.
        let Some(mut frame) = self.frames.take(Bytes(len).blocks_ceil()) else {
            return Fetched::Failed(OriginFault::Busy);
        };
        fill(&mut frame, body.object, body.rest.start, len);
        body.rest.start += len;
        Fetched::Data(frame.freeze(index(len)).into_bytes())
    }
}

fn fill(frame: &mut Buffer, object: u64, at: u64, len: u64) {
    let blocks = 0..index(Bytes(len).blocks_ceil().0);
    frame.set_tags(blocks, tag_at(object, at));
}
