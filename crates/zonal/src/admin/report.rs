//! Progress reports of long orders: JSON lines as they come.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use super::Phase;

/// Lines that wait to be sent.
pub(super) const LINES_MAX: usize = 64;

/// Until a line is taken.
const READER_PATIENCE: Duration = Duration::from_secs(60);

/// False once the work should end, its report without a sum.
pub(super) fn is_serving(phase: &watch::Receiver<Phase>) -> bool {
    *phase.borrow() == Phase::Serving
}

/// False when nobody reads it.
pub(super) async fn tell(report: &mpsc::Sender<Bytes>, line: &impl Serialize) -> bool {
    let json = serde_json::to_string(line).expect("text and numbers are JSON");
    report.send_timeout((json + "\n").into(), READER_PATIENCE).await.is_ok()
}
