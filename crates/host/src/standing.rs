//! Device health: faults reported by the shards, and the supervisor's verdict.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// It is not told of removals: other devices say so.
    Away,
    /// It is not told of removals, and there is nothing that would say so.
    Unknown,
}

/// Shared by the shards of a device and its keeper.
#[derive(Debug)]
pub(crate) struct Standing {
    trouble: Mutex<Option<Trouble>>,
    record: watch::Sender<Record>,
    isolations: AtomicU64,
    has_overflowed: AtomicBool,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            trouble: Mutex::default(),
            record: watch::Sender::new(Record::In),
            isolations: AtomicU64::new(0),
            has_overflowed: AtomicBool::new(false),
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
        self.has_overflowed.store(false, Ordering::Release);
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

    /// What was decided, as soon as it is.
    pub(crate) async fn decided(&self) -> Record {
        let mut records = self.record.subscribe();
        let decided = records.wait_for(|record| *record != Record::Undecided).await;
        decided.map_or(Record::Unknown, |record| *record)
    }

    /// True when nothing says that the device is away, and it is.
    pub(crate) fn is_unknown(&self) -> bool {
        self.record() == Record::Unknown
    }

    /// A shard has missed more removals than it could note: the device has to be emptied.
    pub(crate) fn note_overflow(&self) {
        self.has_overflowed.store(true, Ordering::Release);
    }

    /// True when the device has to be emptied before it joins again.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.has_overflowed.load(Ordering::Acquire)
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
