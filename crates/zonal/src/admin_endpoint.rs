//! What the admin endpoints of `zonal serve` and `zonal block` have in common: responses, the page
//! at `/ui/`, the live view with its viewers, the history, and the wear of the drives.

mod document;
mod history;
mod merge_patch;
mod page;
mod recording;
mod responses;
mod viewers;
mod wear;

pub(crate) use document::{Document, ZoneGroup, without_nulls};
pub(crate) use history::{HistoryKind, Recorder, Sample, Span};
pub(crate) use page::file;
pub(crate) use recording::{MAGIC as RECORDING_MAGIC, Recording, beginning, is_special};
pub(crate) use responses::{
    Body, JSON, PLAIN, answer, digits, json, not_allowed, of_another_site, streamed, turned_away,
};
pub(crate) use viewers::Viewers;
pub(crate) use wear::{WatchedDrive, watch_wear};

use std::time::Duration;

/// Concurrent connections; more wait to be accepted. 64: a few monitoring systems, and the viewers.
pub(crate) const CONNECTIONS_MAX: usize = 64;

/// Timeout for the TLS handshake, and for the head of a request, also on a kept-alive connection.
/// 30 s: longer than the usual interval between two scrapes.
pub(crate) const HEAD_PATIENCE: Duration = Duration::from_secs(30);

/// Pause after a failed `accept`, which is mostly a lack of file descriptors.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
