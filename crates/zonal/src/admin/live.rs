//! Live view: the state of Zonal as server-sent events, once a second, to several viewers.
//!
//! 1. The first viewer starts the sampler; without viewers nothing is sampled.
//! 2. A new viewer gets the whole document, and the recent events.
//! 3. Each second all viewers get what has changed, as one merge patch, and the new events.
//! 4. A viewer that does not keep up is disconnected. It may connect again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use zonal_host::contained;

use super::events::Reader;
use super::live_document::Document;
use super::{Admin, Body, PLAIN, answer, head};
use crate::api::events::Event;

/// Interval of the samples.
const EVERY: Duration = Duration::from_secs(1);

/// Viewers at a time. 16: each holds one of the endpoint's connections, and monitoring systems need
/// some, too.
const VIEWERS_MAX: usize = 16;

/// Messages that wait for one viewer: two for each of the last eight seconds.
const BEHIND_MAX: usize = 16;

/// Events that a new viewer gets.
const RECENT_MAX: usize = 1000;

/// The viewers, and the sampler that serves them.
#[derive(Clone)]
pub(super) struct Viewers {
    permits: Arc<Semaphore>,
    waiting: Arc<Mutex<Waiting>>,
    /// Wakes the sampler for a new viewer.
    joined: Arc<Notify>,
}

#[derive(Default)]
struct Waiting {
    /// Viewers that have not got the document.
    new: Vec<Viewer>,
    /// `None` when it has ended, because all viewers had gone.
    sampler: Option<JoinHandle<()>>,
}

/// One viewer.
struct Viewer {
    messages: mpsc::Sender<Bytes>,
    /// Ends the connection, also while the client reads nothing.
    cut: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

impl Viewer {
    /// Queues messages; false when the viewer has gone or is too slow.
    fn tell(&self, messages: &[Bytes]) -> bool {
        let told = messages.iter().all(|message| self.messages.try_send(message.clone()).is_ok());
        if !told {
            self.cut.notify_one();
        }
        told
    }
}

impl Default for Viewers {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(VIEWERS_MAX)),
            waiting: Arc::default(),
            joined: Arc::default(),
        }
    }
}

impl Viewers {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_new(&self) -> Vec<Viewer> {
        std::mem::take(&mut self.waiting().new)
    }

    /// Ends the sampler if no viewer is waiting. The next viewer starts another one.
    fn end(&self) -> bool {
        let mut waiting = self.waiting();
        if waiting.new.is_empty() {
            waiting.sampler = None;
        }
        waiting.sampler.is_none()
    }
}

impl Admin {
    /// Adds a viewer. `cut` ends its connection.
    pub(super) fn live(&self, cut: &Arc<Notify>) -> Response<Body> {
        let Ok(permit) = self.viewers.permits.clone().try_acquire_owned() else {
            let why = format!("{VIEWERS_MAX} viewers are connected: close one\n");
            return answer(StatusCode::SERVICE_UNAVAILABLE, PLAIN, why);
        };
        let (messages, mut queue) = mpsc::channel(BEHIND_MAX);
        let mut waiting = self.viewers.waiting();
        waiting.new.push(Viewer { messages, cut: cut.clone(), _permit: permit });
        // A sampler that has panicked is finished, too.
        if waiting.sampler.as_ref().is_none_or(JoinHandle::is_finished) {
            waiting.sampler = Some(tokio::spawn(contained(self.clone().sample_for_viewers())));
        }
        drop(waiting);
        self.viewers.joined.notify_one();
        let frames = futures_util::stream::poll_fn(move |cx| {
            queue.poll_recv(cx).map(|message| message.map(|message| Ok(Frame::data(message))))
        });
        let mut response = head("text/event-stream", StreamBody::new(frames).boxed_unsync());
        // nginx would hold the events back until its buffer is full.
        response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    /// Samples as long as there are viewers.
    async fn sample_for_viewers(self) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut viewers: Vec<Viewer> = Vec::new();
        let (mut last, mut news) = (Document::default(), Reader::default());
        let mut recent: VecDeque<Event> = VecDeque::new();
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    if viewers.is_empty() && self.viewers.end() {
                        return;
                    }
                    let Some(node) = self.node.get() else { return };
                    let Some(document) = self.live_document(node, &last).await else { return };
                    let mut messages = vec![message("patch", &document.patch_from(&last))];
                    // Shards that do not answer are not waited for twice.
                    let events = match document.is_complete {
                        true => news.read(&node.client, &self.origin_events).await,
                        false => None,
                    };
                    let events = events.unwrap_or_default();
                    messages.extend((!events.is_empty()).then(|| message("events", &events)));
                    recent.extend(events);
                    recent.drain(..recent.len().saturating_sub(RECENT_MAX));
                    viewers.retain(|viewer| viewer.tell(&messages));
                    last = document;
                }
                () = self.viewers.joined.notified() => {}
            }
            let new = if last.is_empty() { Vec::new() } else { self.viewers.take_new() };
            if !new.is_empty() {
                let first = [message("document", &last.whole()), message("events", &recent)];
                viewers.extend(new.into_iter().filter(|viewer| viewer.tell(&first)));
            }
        }
    }
}

/// A server-sent event.
fn message(event: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).expect("text and numbers are JSON");
    format!("event: {event}\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_viewer_that_does_not_keep_up_is_cut_off() {
        let viewers = Viewers::default();
        let permit = viewers.permits.clone().try_acquire_owned().unwrap();
        let (messages, queue) = mpsc::channel(BEHIND_MAX);
        let viewer = Viewer { messages, cut: Arc::default(), _permit: permit };
        let cut = viewer.cut.clone();
        let both = [message("patch", &1), message("events", &[2])];
        assert_eq!(&both[0][..], b"event: patch\ndata: 1\n\n");
        assert!((0..BEHIND_MAX / 2).all(|_| viewer.tell(&both)));
        assert!(!viewer.tell(&both), "it has read nothing");
        cut.notified().await;
        drop((viewer, queue));
        assert_eq!(viewers.permits.available_permits(), VIEWERS_MAX);
    }
}
