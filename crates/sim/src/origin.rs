//! The simulated origin: late, and sometimes wrong.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use zonal_base::{Nanos, Rng, Ticket};
use zonal_cache::{Fetch, Fetched, ObjectName, OriginFault, StreamId};

use crate::oracle::{Content, Object};

/// The objects, shared by the origin, the actors and the oracle.
pub(crate) type Objects = Rc<RefCell<BTreeMap<ObjectName, Object>>>;

pub(crate) struct Origin {
    objects: Objects,
    rng: Rng,
    /// One request in so many goes wrong; 0: none does.
    fault_rate: u64,
    answers: BTreeMap<(Nanos, u64), (Ticket, Fetched)>,
    streams: BTreeMap<StreamId, Stream>,
    next: u64,
}

struct Stream {
    object: Object,
    content: Content,
    range: Range<u64>,
    /// Where it breaks off, if it does.
    breaks_at: Option<u64>,
}

impl Origin {
    pub(crate) fn new(objects: Objects, seed: u64, fault_rate: u64) -> Self {
        let (answers, streams) = (BTreeMap::new(), BTreeMap::new());
        Self { objects, rng: Rng::new(seed), fault_rate, answers, streams, next: 0 }
    }

    /// Looks at the objects now, answers later: what it says may be old when it arrives.
    pub(crate) fn start(&mut self, now: Nanos, ticket: Ticket, fetch: Fetch) {
        let is_faulty = self.fault_rate != 0 && self.rng.one_in(self.fault_rate);
        let answer = match fetch {
            Fetch::Head { object } => self.head(&object, is_faulty),
            Fetch::Open { object, range, etag } => self.open(&object, range, &etag, is_faulty),
            Fetch::More { stream } => self.more(stream),
            Fetch::Close { stream } => {
                self.streams.remove(&stream);
                Fetched::End
            }
        };
        let delay = match self.rng.below(400) {
            0 => 3_000_000_000,
            1..40 => 20_000_000,
            40..160 => 2_000_000,
            _ => 200_000,
        };
        let at = now + Nanos(self.rng.below(delay) + 10_000);
        self.next += 1;
        self.answers.insert((at, self.next), (ticket, answer));
    }

    pub(crate) fn poll(&mut self, now: Nanos) -> Option<(Ticket, Fetched)> {
        let first = self.answers.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }

    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.answers.keys().next().map(|(at, _)| *at)
    }

    /// Bodies that were opened and neither ended nor closed.
    pub(crate) fn open_streams(&self) -> usize {
        self.streams.len()
    }

    fn head(&mut self, name: &ObjectName, is_faulty: bool) -> Fetched {
        if is_faulty {
            return Fetched::Failed(self.fault());
        }
        let objects = self.objects.borrow();
        match objects.get(name).and_then(|object| Some((object, object.now?))) {
            None => Fetched::Failed(OriginFault::NotFound),
            Some((object, content)) => Fetched::Head(object.head(content)),
        }
    }

    fn open(
        &mut self,
        name: &ObjectName,
        range: Range<u64>,
        wanted: &str,
        is_faulty: bool,
    ) -> Fetched {
        if is_faulty && self.rng.one_in(2) {
            return Fetched::Failed(self.fault());
        }
        let object = self.objects.borrow().get(name).cloned();
        let Some((object, content)) = object.and_then(|object| object.now.map(|now| (object, now)))
        else {
            return Fetched::Failed(OriginFault::NotFound);
        };
        // Without If-Match a store sends what it has.
        if !wanted.is_empty() && *wanted != *object.head(content).etag {
            return Fetched::Failed(OriginFault::Changed);
        }
        let len = range.end - range.start;
        let breaks_at = is_faulty.then(|| range.start + self.rng.below(len));
        let id = StreamId(self.next);
        self.next += 1;
        self.streams.insert(id, Stream { object, content, range, breaks_at });
        Fetched::Opened(id)
    }

    fn more(&mut self, id: StreamId) -> Fetched {
        let Some(stream) = self.streams.get_mut(&id) else { return Fetched::End };
        if stream.breaks_at.is_some_and(|at| at <= stream.range.start) {
            self.streams.remove(&id);
            return Fetched::Failed(OriginFault::Broken);
        }
        if stream.range.is_empty() {
            self.streams.remove(&id);
            return Fetched::End;
        }
        let most = stream.breaks_at.unwrap_or(stream.range.end).min(stream.range.end);
        let end = most.min(stream.range.start + 1 + self.rng.below(12_000));
        let bytes = stream.object.bytes(stream.content, stream.range.start..end);
        stream.range.start = end;
        Fetched::Data(bytes.into())
    }

    fn fault(&mut self) -> OriginFault {
        let faults =
            [OriginFault::Busy, OriginFault::Unreachable, OriginFault::Lied, OriginFault::Denied];
        faults[usize::try_from(self.rng.below(4)).unwrap_or(0)]
    }
}

/// Names of the objects of a world.
pub(crate) fn names(objects: &Objects) -> Vec<ObjectName> {
    objects.borrow().keys().cloned().collect::<BTreeSet<_>>().into_iter().collect()
}
