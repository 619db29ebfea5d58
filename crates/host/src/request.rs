//! What a front end asks of a shard.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::oneshot;
use zonal_cache::{Freshness, Head, ObjectName, OpenError, Opened, RemoveError};

use crate::ShardStats;
use crate::pipe::PipeWriter;

pub(crate) enum Request {
    Open {
        object: ObjectName,
        freshness: Freshness,
        reply: oneshot::Sender<Result<Opened, OpenError>>,
    },
    Read {
        object: ObjectName,
        head: Arc<Head>,
        range: Range<u64>,
        to: PipeWriter,
    },
    /// Is all of the range cached?
    Probe {
        object: ObjectName,
        head: Arc<Head>,
        range: Range<u64>,
        reply: oneshot::Sender<bool>,
    },
    Remove {
        object: ObjectName,
        reply: oneshot::Sender<Result<(), RemoveError>>,
    },
    Stats {
        reply: oneshot::Sender<ShardStats>,
    },
    /// Put everything that was admitted on flash; `reply` when that is done.
    Settle {
        reply: oneshot::Sender<()>,
    },
    /// End the thread.
    Stop,
}
