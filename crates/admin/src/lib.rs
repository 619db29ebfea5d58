//! Admin endpoints: access control, responses, the page at `/ui/`, viewers of the live view,
//! recordings and their player, the history.
//!
//! Uses: `api` for the documents, `host` for the clock.
//! Knows nothing of: the engines, configuration; which documents an endpoint has.
//! Read in this order: `access` (who may do what), `responses`, `page`, `viewers` (the live view),
//! `recording` (a viewer that is a file), `writer` (a recording of a simulation), `player` (shows a
//! recording), `history`.

mod access;
mod history;
mod page;
mod player;
mod recording;
mod responses;
mod viewers;
mod writer;

pub use access::{
    AccessDenied, AccessLevel, AdminAccess, TOKEN_CHARACTERS_MIN, is_of_another_site,
};
pub use history::{HistoryKind, Recorder, Sample, Span};
pub use page::file;
pub use player::{Player, PlayerError};
pub use recording::Recording;
pub use responses::{
    Body, JSON, PLAIN, answer, digits, json, not_allowed, of_another_site, streamed, turned_away,
};
pub use viewers::Viewers;
pub use writer::RecordingWriter;

use std::time::Duration;

/// Concurrent connections; more wait to be accepted. 64: a few monitoring systems, and the viewers.
pub const CONNECTIONS_MAX: usize = 64;

/// Timeout for the TLS handshake, and for the head of a request, also on a kept-alive connection.
/// 30 s: longer than the usual interval between two scrapes.
pub const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// Pause after a failed `accept`, which is mostly a lack of file descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
