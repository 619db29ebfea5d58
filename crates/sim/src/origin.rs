//! Simulated origin: delayed, and sometimes faulty.
//!
//! An answer depends on the object and on the number of its requests, so a history without one step
//! leaves the answers for other objects unchanged.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use zonal_base::{Nanos, RangeSpec, Rng, Ticket, mix64};
use zonal_cache::{Fetch, Fetched, ObjectName, OriginFault, StreamId};

use crate::oracle::{Content, Object, VARYING};

/// Objects, shared by the origin, the actors and the oracle.
pub(crate) type Objects = Rc<RefCell<BTreeMap<ObjectName, Object>>>;

pub(crate) struct FaultyOrigin {
    objects: Objects,
    chance: u64,
    /// Number of requests per object.
    asked: BTreeMap<u64, u64>,
    /// One request in this many fails; 0: none.
    fault_rate: u64,
    answers: BTreeMap<(Nanos, u64), (Ticket, Fetched)>,
    streams: BTreeMap<StreamId, Stream>,
    next: u64,
}

struct Stream {
    object: Object,
    content: Content,
    range: Range<u64>,
    /// Offset at which the body breaks off; `None`: it is complete.
    breaks_at: Option<u64>,
}

impl FaultyOrigin {
    pub(crate) fn new(objects: Objects, chance: u64, fault_rate: u64) -> Self {
        let (answers, streams, asked) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { objects, chance, asked, fault_rate, answers, streams, next: 0 }
    }

    /// Evaluates a request now and answers later, so that the answer may be outdated when it
    /// arrives.
    pub(crate) fn start(&mut self, now: Nanos, ticket: Ticket, fetch: Fetch) {
        let mut rng = self.rng_for(&fetch);
        let is_faulty = self.fault_rate != 0 && rng.one_in(self.fault_rate);
        let answer = match fetch {
            Fetch::Head { object } => self.head(&object, is_faulty.then_some(&mut rng)),
            Fetch::Get { object, range, version } => {
                let ignores_ranges = rng.one_in(8);
                let range = if ignores_ranges { RangeSpec::Whole } else { range };
                let version = version.as_ref().map_or("", |version| &version.etag);
                self.get(&object, (&range, version), is_faulty.then_some(&mut rng))
            }
            Fetch::More { stream } => self.more(stream, &mut rng),
            Fetch::Close { stream } => {
                self.streams.remove(&stream);
                Fetched::End
            }
        };
        let delay = match rng.below(3200) {
            0 => 20_000_000_000,
            1..8 => 3_000_000_000,
            8..320 => 20_000_000,
            320..1280 => 2_000_000,
            _ => 200_000,
        };
        let at = now + Nanos(rng.below(delay) + 10_000);
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

    /// Bodies that were opened and have neither ended nor been closed.
    pub(crate) fn open_streams(&self) -> usize {
        self.streams.len()
    }

    fn rng_for(&mut self, fetch: &Fetch) -> Rng {
        let object = match fetch {
            Fetch::Head { object } | Fetch::Get { object, .. } => {
                self.objects.borrow().get(object).map(|object| object.id)
            }
            Fetch::More { stream } | Fetch::Close { stream } => {
                self.streams.get(stream).map(|stream| stream.object.id)
            }
        };
        let object = object.unwrap_or(u64::MAX);
        let count = self.asked.entry(object).or_default();
        *count += 1;
        Rng::new(mix64(self.chance ^ mix64(object)) ^ mix64(*count))
    }

    fn head(&self, name: &ObjectName, faulty: Option<&mut Rng>) -> Fetched {
        if let Some(rng) = faulty {
            return Fetched::Failed(fault(rng));
        }
        let objects = self.objects.borrow();
        match objects.get(name).and_then(|object| Some((object, object.now?))) {
            None => Fetched::Failed(OriginFault::NotFound),
            Some((object, content)) => {
                let mut head = object.head(content);
                if object.has_varying_head() {
                    let asked = self.asked.get(&object.id).copied().unwrap_or_default();
                    head.headers.insert(0, (VARYING.into(), asked.to_string().into_bytes().into()));
                }
                Fetched::Head(head)
            }
        }
    }

    /// Head and bytes, both of the current content.
    fn get(
        &mut self,
        name: &ObjectName,
        (range, wanted): (&RangeSpec, &str),
        faulty: Option<&mut Rng>,
    ) -> Fetched {
        let mut head = match self.head(name, None) {
            Fetched::Head(head) => head,
            failed => return failed,
        };
        head.is_partial = *range != RangeSpec::Whole;
        let range = range.in_object(head.size);
        if range.is_empty() {
            if !wanted.is_empty() && *wanted != *head.etag {
                return Fetched::Failed(OriginFault::Changed);
            }
            let id = StreamId(self.next);
            self.next += 1;
            let object = self.objects.borrow()[name].clone();
            let content = object.now.expect("it has a head");
            let stream = Stream { object, content, range: range.clone(), breaks_at: None };
            self.streams.insert(id, stream);
            return Fetched::Object { head, range, stream: id };
        }
        match self.open(name, range.clone(), wanted, faulty) {
            Ok(stream) => Fetched::Object { head, range, stream },
            Err(fault) => Fetched::Failed(fault),
        }
    }

    fn open(
        &mut self,
        name: &ObjectName,
        range: Range<u64>,
        wanted: &str,
        faulty: Option<&mut Rng>,
    ) -> Result<StreamId, OriginFault> {
        let mut breaks = None;
        if let Some(rng) = faulty {
            if rng.one_in(2) {
                return Err(fault(rng));
            }
            breaks = Some(rng.below(range.end - range.start));
        }
        let object = self.objects.borrow().get(name).cloned();
        let Some((object, content)) = object.and_then(|object| object.now.map(|now| (object, now)))
        else {
            return Err(OriginFault::NotFound);
        };
        // Without If-Match a store sends its current version.
        if !wanted.is_empty() && *wanted != *object.head(content).etag {
            return Err(OriginFault::Changed);
        }
        let breaks_at = breaks.map(|after| range.start + after);
        let id = StreamId(self.next);
        self.next += 1;
        self.streams.insert(id, Stream { object, content, range, breaks_at });
        Ok(id)
    }

    fn more(&mut self, id: StreamId, rng: &mut Rng) -> Fetched {
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
        let end = most.min(stream.range.start + 1 + rng.below(12_000));
        let bytes = stream.object.bytes(stream.content, stream.range.start..end);
        stream.range.start = end;
        Fetched::Data(bytes.into())
    }
}

fn fault(rng: &mut Rng) -> OriginFault {
    match rng.below(5) {
        0 => OriginFault::Busy,
        1 => OriginFault::Unreachable,
        2 => OriginFault::Lied,
        3 => OriginFault::Denied,
        _ => OriginFault::Status(500),
    }
}
