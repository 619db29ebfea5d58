//! Origin driver: runs the requests of a shard's origin port against a [`Backend`] on the shard's
//! own runtime.

use std::collections::HashMap;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use std::cell::{Cell, RefCell};
use zonal_base::Ticket;
use zonal_cache::{Fetch, Fetched, Head, ObjectName, OriginFault, OriginHead, StreamId};
use zonal_runtime::Port;

use crate::contained;

/// A boxed future that is `Send`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An object store that the cache reads from.
pub trait Backend: Send + Sync + 'static {
    /// HEAD of an object.
    fn head(&self, object: ObjectName) -> BoxFuture<'_, Result<OriginHead, OriginFault>>;

    /// GET of a range of one version, with `If-Match`. Fails if the response has another ETag. The
    /// body yields exactly the bytes of the range, or fails.
    fn get(
        &self,
        object: ObjectName,
        range: Range<u64>,
        version: Arc<Head>,
    ) -> BoxFuture<'_, Result<Box<dyn BodyStream>, OriginFault>>;
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
    open: RefCell<HashMap<StreamId, Box<dyn BodyStream>>>,
    next: Cell<u64>,
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

    async fn answer(self, fetch: Fetch) -> Fetched {
        match fetch {
            Fetch::Head { object } => match self.backend.head(object).await {
                Ok(head) => Fetched::Head(head),
                Err(fault) => Fetched::Failed(fault),
            },
            Fetch::Open { object, range, version } => {
                match self.backend.get(object, range, version).await {
                    Ok(body) => Fetched::Opened(self.streams.add(body)),
                    Err(fault) => Fetched::Failed(fault),
                }
            }
            Fetch::More { stream } => self.more(stream).await,
            Fetch::Close { stream } => {
                drop(self.streams.open.borrow_mut().remove(&stream));
                Fetched::End
            }
        }
    }

    async fn more(&self, stream: StreamId) -> Fetched {
        // The stream is taken out during the call: the engine has one `More` in flight per stream.
        let body = self.streams.open.borrow_mut().remove(&stream);
        let Some(mut body) = body else { return Fetched::End };
        match body.next().await {
            Some(Ok(bytes)) => {
                self.streams.open.borrow_mut().insert(stream, body);
                Fetched::Data(bytes)
            }
            Some(Err(fault)) => Fetched::Failed(fault),
            None => Fetched::End,
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
        self.open.borrow_mut().insert(id, body);
        id
    }
}
