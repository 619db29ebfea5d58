//! Progress reports of long-running commands: JSON lines, streamed as results arrive.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use super::Phase;

/// Lines that may wait to be sent.
pub(super) const LINES_MAX: usize = 64;

/// Longest wait for the client to accept a line.
const READER_PATIENCE: Duration = Duration::from_secs(60);

/// False during a shutdown: the command must stop, and its report ends without totals.
pub(super) fn is_serving(phase: &watch::Receiver<Phase>) -> bool {
    *phase.borrow() == Phase::Serving
}

/// Sends a line; false if the client has disconnected or has stalled.
pub(super) async fn tell(report: &mpsc::Sender<Bytes>, line: &impl Serialize) -> bool {
    let json = serde_json::to_string(line).expect("text and numbers are JSON");
    report.send_timeout((json + "\n").into(), READER_PATIENCE).await.is_ok()
}
