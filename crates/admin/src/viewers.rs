//! Live view: the state as server-sent events, once a second, to several viewers.
//!
//! 1. The first viewer wakes the sampler; without viewers nothing is sampled.
//! 2. A new viewer gets the whole document, and the recent events.
//! 3. Each second all viewers get what has changed, as one merge patch, and the new events.
//! 4. A viewer that does not keep up is disconnected. It may connect again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Interval, MissedTickBehavior};

use crate::{Body, PLAIN, answer, streamed};
use zonal_api::Document;

/// Interval of the samples.
const EVERY: Duration = Duration::from_secs(1);

/// Viewers at a time. 16: each holds one of the endpoint's connections, and monitoring systems need
/// some, too.
const VIEWERS_MAX: usize = 16;

/// Messages that wait for one viewer: two for each of the last eight seconds.
const BEHIND_MAX: usize = 16;

/// Events that a new viewer gets.
const RECENT_MAX: usize = 1000;

/// The viewers of an endpoint; clones share them.
#[derive(Clone)]
pub struct Viewers {
    permits: Arc<Semaphore>,
    /// Viewers that have not got the document.
    new: Arc<Mutex<Vec<Viewer>>>,
    /// Wakes the sampler for a new viewer.
    joined: Arc<Notify>,
}

/// One viewer.
struct Viewer {
    messages: mpsc::Sender<Bytes>,
    /// Ends the connection, also while the client reads nothing.
    cut: Arc<Notify>,
    /// One of the places; `None` for a recording, which holds no connection.
    _permit: Option<OwnedSemaphorePermit>,
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
        let permits = Arc::new(Semaphore::new(VIEWERS_MAX));
        Self { permits, new: Arc::default(), joined: Arc::default() }
    }
}

impl Viewers {
    /// Adds a viewer. `cut` ends its connection.
    pub fn join(&self, cut: &Arc<Notify>) -> Response<Body> {
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            let why = format!("{VIEWERS_MAX} viewers are connected: close one\n");
            return answer(StatusCode::SERVICE_UNAVAILABLE, PLAIN, why);
        };
        let mut response = streamed("text/event-stream", self.subscribe(cut, Some(permit)));
        // nginx would hold the events back until its buffer is full.
        response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    /// Messages for a viewer. They end when it does not keep up.
    pub fn subscribe(
        &self,
        cut: &Arc<Notify>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> mpsc::Receiver<Bytes> {
        let (messages, queue) = mpsc::channel(BEHIND_MAX);
        self.newcomers().push(Viewer { messages, cut: cut.clone(), _permit: permit });
        self.joined.notify_one();
        queue
    }

    /// Those to whom one sampler tells. Requires: there is no other sampler.
    pub fn audience<Z>(&self) -> Audience<Z> {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (watching, recent) = (Vec::new(), VecDeque::new());
        Audience { viewers: self.clone(), ticks, watching, last: Document::default(), recent }
    }

    fn newcomers(&self) -> MutexGuard<'_, Vec<Viewer>> {
        self.new.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The viewers as their sampler knows them.
pub struct Audience<Z> {
    viewers: Viewers,
    ticks: Interval,
    watching: Vec<Viewer>,
    /// What the viewers know.
    last: Document<Z>,
    recent: VecDeque<Value>,
}

impl<Z: Clone + PartialEq + Serialize> Audience<Z> {
    /// Waits until a sample is due: at once for the first viewer, and then each second.
    pub async fn sample_due(&mut self) {
        loop {
            if self.watching.is_empty() && self.viewers.newcomers().is_empty() {
                self.last = Document::default();
                self.viewers.joined.notified().await;
                self.ticks.reset_immediately();
            }
            tokio::select! {
                _ = self.ticks.tick() => return,
                () = self.viewers.joined.notified() => self.welcome(),
            }
        }
    }

    /// The last sample.
    pub const fn last(&self) -> &Document<Z> {
        &self.last
    }

    /// Sends what has changed, and new events.
    pub fn tell(&mut self, document: Document<Z>, events: &[impl Serialize]) {
        let patch = message("patch", &document.patch_from(&self.last));
        let news = (!events.is_empty()).then(|| message("events", &events));
        let messages: Vec<Bytes> = [patch].into_iter().chain(news).collect();
        self.recent.extend(events.iter().map(|event| serde_json::json!(event)));
        self.recent.drain(..self.recent.len().saturating_sub(RECENT_MAX));
        self.watching.retain(|viewer| viewer.tell(&messages));
        self.last = document;
        self.welcome();
    }

    /// Sends the document to new viewers.
    fn welcome(&mut self) {
        if self.last.is_empty() {
            return;
        }
        let new = std::mem::take(&mut *self.viewers.newcomers());
        if !new.is_empty() {
            let first = [message("document", &self.last.whole()), message("events", &self.recent)];
            self.watching.extend(new.into_iter().filter(|viewer| viewer.tell(&first)));
        }
    }
}

/// A server-sent event.
pub(crate) fn message(event: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).expect("text and numbers are JSON");
    format!("event: {event}\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document(at_ns: u64) -> Document<u8> {
        Document::new(json!({ "at_ns": at_ns }), Vec::new())
    }

    #[tokio::test]
    async fn a_viewer_that_does_not_keep_up_is_cut_off() {
        let viewers = Viewers::default();
        let permit = viewers.permits.clone().try_acquire_owned().unwrap();
        let (messages, queue) = mpsc::channel(BEHIND_MAX);
        let viewer = Viewer { messages, cut: Arc::default(), _permit: Some(permit) };
        let cut = viewer.cut.clone();
        let both = [message("patch", &1), message("events", &[2])];
        assert_eq!(&both[0][..], b"event: patch\ndata: 1\n\n");
        assert!((0..BEHIND_MAX / 2).all(|_| viewer.tell(&both)));
        assert!(!viewer.tell(&both), "it has read nothing");
        cut.notified().await;
        drop((viewer, queue));
        assert_eq!(viewers.permits.available_permits(), VIEWERS_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn samples_are_due_only_while_somebody_watches() {
        let viewers = Viewers::default();
        let mut audience = viewers.audience();
        let minute = Duration::from_secs(60);
        assert!(tokio::time::timeout(minute, audience.sample_due()).await.is_err());
        let watched: Vec<_> = (0..VIEWERS_MAX).map(|_| viewers.join(&Arc::default())).collect();
        assert_eq!(viewers.join(&Arc::default()).status(), StatusCode::SERVICE_UNAVAILABLE);
        audience.sample_due().await;
        audience.tell(document(1), &["opened"]);
        assert_eq!(audience.watching.len(), VIEWERS_MAX);
        drop(watched);
        audience.sample_due().await;
        audience.tell(document(2), &[] as &[&str]);
        assert!(tokio::time::timeout(minute, audience.sample_due()).await.is_err());
        assert!(audience.last().is_empty(), "nothing is kept for nobody");
        assert_eq!(viewers.permits.available_permits(), VIEWERS_MAX);
        let _watched = viewers.join(&Arc::default());
        audience.sample_due().await;
        audience.tell(document(3), &["sealed"]);
        assert_eq!(audience.recent, ["opened", "sealed"], "a new viewer gets the recent ones, too");
    }
}
