//! How a device stands: what its shards have against it, and what its keeper decided.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use zonal_device::Trouble;

/// What will be known of the device at the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// It is told everything.
    In,
    /// A shard would rather do without it.
    Undecided,
    /// It is not told of removals, and there is nothing that would say so.
    Unknown,
}

/// Shared by the shards of a device and its keeper.
#[derive(Debug)]
pub(crate) struct Standing {
    trouble: Mutex<Option<Trouble>>,
    record: watch::Sender<Record>,
    isolations: AtomicU64,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            trouble: Mutex::default(),
            record: watch::Sender::new(Record::In),
            isolations: AtomicU64::new(0),
        }
    }
}

impl Standing {
    /// A shard would rather do without the device. The first word counts.
    pub(crate) fn report(&self, trouble: Trouble) {
        let mut known = self.trouble();
        known.get_or_insert(trouble);
        if self.record() == Record::In {
            self.isolations.fetch_add(1, Ordering::Relaxed);
            self.record.send_replace(Record::Undecided);
        }
    }

    /// The device is tried again: what was held against it is forgotten.
    pub(crate) fn forget(&self) {
        *self.trouble() = None;
    }

    /// The device is told everything from now on, if its shards have nothing against it.
    pub(crate) fn join(&self) {
        let known = self.trouble();
        let record = if known.is_some() { Record::Undecided } else { Record::In };
        self.isolations.fetch_add(known.is_some().into(), Ordering::Relaxed);
        self.record.send_replace(record);
    }

    /// Waits until a shard would rather do without the device.
    pub(crate) async fn reported(&self) -> Option<Trouble> {
        // The sender lives as long as this does.
        let _ = self.record.subscribe().wait_for(|record| *record != Record::In).await;
        *self.trouble()
    }

    /// What the next start will know of it while it is away.
    pub(crate) fn decide(&self, record: Record) {
        self.record.send_replace(record);
    }

    fn record(&self) -> Record {
        *self.record.borrow()
    }

    /// How often the device was isolated.
    pub(crate) fn isolations(&self) -> u64 {
        self.isolations.load(Ordering::Relaxed)
    }

    fn trouble(&self) -> MutexGuard<'_, Option<Trouble>> {
        // Nothing panics while it is held.
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
