//! Origin driver: runs the requests of a shard's origin port against a [`Backend`] on the shard's
//! own runtime.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Notify;
use zonal_base::{RangeSpec, Ticket};
use zonal_cache::{
    Fetch, Fetched, Head, InitialFetch, ObjectName, OriginFault, OriginHead, StreamId, UnreadBody,
};
use zonal_runtime::Port;

use crate::contained;
use crate::get::HandedBody;

/// A boxed future that is `Send`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An object store that the cache reads from.
pub trait Backend: Send + Sync + 'static {
    /// HEAD of an object.
    fn head(&self, object: ObjectName) -> BoxFuture<'_, Result<OriginHead, OriginFault>>;

    /// GET of the head of an object and of bytes of it. `version` pins its version, with `If-Match`:
    /// fails if the response has another ETag.
    fn get_object(
        &self,
        object: ObjectName,
        range: RangeSpec,
        version: Option<Arc<Head>>,
    ) -> BoxFuture<'_, Result<ObjectBody, OriginFault>>;
}

/// The head of an object, and a body with bytes of it.
pub struct ObjectBody {
    /// Metadata of the object.
    pub head: OriginHead,
    /// Bytes of the object in the body. May start before the requested bytes, if the origin ignores
    /// ranges.
    pub range: Range<u64>,
    /// Yields exactly the bytes of `range`, or fails.
    pub body: Box<dyn BodyStream>,
}

impl fmt::Debug for ObjectBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { head, range, .. } = self;
        f.debug_struct("ObjectBody")
            .field("head", head)
            .field("range", range)
            .finish_non_exhaustive()
    }
}

/// The body of a GET.
pub trait BodyStream: Send {
    /// The next bytes, never empty; `None` after the last.
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, OriginFault>>>;
}

/// Executes the commands of the engine's origin port.
#[derive(Clone)]
pub(crate) struct OriginDriver {
    backend: Arc<dyn Backend>,
    port: Port<Fetch, Fetched>,
    streams: Rc<Streams>,
}

#[derive(Default)]
struct Streams {
    open: RefCell<HashMap<StreamId, StreamState>>,
    next: Cell<u64>,
}

enum StreamState {
    Idle(Box<dyn BodyStream>),
    /// A task waits for the next bytes. It ends when it is notified.
    Reading(Rc<Notify>),
}

impl OriginDriver {
    pub(crate) fn new(backend: Arc<dyn Backend>, port: Port<Fetch, Fetched>) -> Self {
        Self { backend, port, streams: Rc::default() }
    }

    /// Starts all queued commands. True when there were some.
    pub(crate) fn start_all(&self) -> bool {
        let mut any = false;
        while let Some((ticket, fetch)) = self.port.take() {
            any = true;
            let unanswered = PendingCommand { port: self.port.clone(), ticket };
            let answered = self.clone().answer(fetch);
            tokio::task::spawn_local(contained(async move {
                unanswered.complete(answered.await);
            }));
        }
        any
    }

    /// Takes a body out of this shard's streams, for another shard.
    pub(crate) fn hand_over(&self, body: UnreadBody) -> Option<Box<HandedBody>> {
        let (stream, range) = body.take();
        self.streams.take(stream).map(|body| Box::new(HandedBody { body, range }))
    }

    /// Adds a body of another shard to this shard's streams.
    pub(crate) fn adopt(&self, HandedBody { body, range }: HandedBody) -> InitialFetch {
        InitialFetch::Body(self.streams.add(body), range)
    }

    async fn answer(self, fetch: Fetch) -> Fetched {
        match fetch {
            Fetch::Head { object } => match self.backend.head(object).await {
                Ok(head) => Fetched::Head(head),
                Err(fault) => Fetched::Failed(fault),
            },
            Fetch::Get { object, range, version } => {
                match self.backend.get_object(object, range, version).await {
                    Ok(ObjectBody { head, range, body }) => {
                        Fetched::Object { head, range, stream: self.streams.add(body) }
                    }
                    Err(fault) => Fetched::Failed(fault),
                }
            }
            Fetch::More { stream } => self.more(stream).await,
            Fetch::Close { stream } => {
                self.streams.close(stream);
                Fetched::End
            }
        }
    }

    async fn more(&self, stream: StreamId) -> Fetched {
        let Some((mut body, closed)) = self.streams.begin_read(stream) else {
            return Fetched::End;
        };
        let next = tokio::select! {
            next = body.next() => next,
            () = closed.notified() => None,
        };
        match next {
            Some(Ok(bytes)) => {
                self.streams.end_read(stream, Some(body));
                Fetched::Data(bytes)
            }
            Some(Err(fault)) => {
                self.streams.end_read(stream, None);
                Fetched::Failed(fault)
            }
            None => {
                self.streams.end_read(stream, None);
                Fetched::End
            }
        }
    }
}

/// A command that the engine waits for. A panic completes it with an error.
struct PendingCommand {
    port: Port<Fetch, Fetched>,
    ticket: Ticket,
}

impl PendingCommand {
    fn complete(&self, answer: Fetched) {
        self.port.complete(self.ticket, answer);
    }
}

impl Drop for PendingCommand {
    /// A panic caused by a response fails this command only.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.complete(Fetched::Failed(OriginFault::Lied));
        }
    }
}

impl Streams {
    fn add(&self, body: Box<dyn BodyStream>) -> StreamId {
        let id = StreamId(self.next.get());
        self.next.set(id.0 + 1);
        self.open.borrow_mut().insert(id, StreamState::Idle(body));
        id
    }

    /// Takes the body out during the read: the engine has one `More` in flight per stream.
    fn begin_read(&self, stream: StreamId) -> Option<(Box<dyn BodyStream>, Rc<Notify>)> {
        let mut open = self.open.borrow_mut();
        let closed = Rc::new(Notify::new());
        match open.insert(stream, StreamState::Reading(closed.clone())) {
            Some(StreamState::Idle(body)) => Some((body, closed)),
            Some(reading) => {
                open.insert(stream, reading);
                None
            }
            None => {
                open.remove(&stream);
                None
            }
        }
    }

    /// Puts the body back, unless the stream was closed during the read. `None`: the body has
    /// ended.
    fn end_read(&self, stream: StreamId, body: Option<Box<dyn BodyStream>>) {
        let mut open = self.open.borrow_mut();
        match body {
            Some(body) if open.contains_key(&stream) => {
                open.insert(stream, StreamState::Idle(body));
            }
            _ => drop(open.remove(&stream)),
        }
    }

    /// Takes an idle body out for good.
    fn take(&self, stream: StreamId) -> Option<Box<dyn BodyStream>> {
        match self.open.borrow_mut().remove(&stream) {
            Some(StreamState::Idle(body)) => Some(body),
            Some(StreamState::Reading(_)) | None => None,
        }
    }

    /// Drops the body. Ends a read in flight.
    fn close(&self, stream: StreamId) {
        if let Some(StreamState::Reading(closed)) = self.open.borrow_mut().remove(&stream) {
            closed.notify_one();
        }
    }
}
