//! Device health: faults reported by the shards, and the supervisor's verdict.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use zonal_device::DeviceFault;

use crate::clock::RealClock;
use crate::events::{HealthEvent, HealthEvents};

/// Which state of the device the next start will find recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthRecord {
    /// It receives all removals.
    In,
    /// A shard reported a fault; the supervisor has not decided yet.
    Undecided,
    /// It is offline, and the other devices have recorded it.
    Away,
    /// It is offline, and no other device could record it.
    Unknown,
}

/// Health of one device, shared by its shards and its supervisor.
#[derive(Debug)]
pub(crate) struct DeviceHealth {
    trouble: Mutex<Option<DeviceFault>>,
    record: watch::Sender<HealthRecord>,
    isolations: AtomicU64,
    has_overflowed: AtomicBool,
    events: Mutex<HealthEvents>,
}

impl Default for DeviceHealth {
    fn default() -> Self {
        Self {
            trouble: Mutex::default(),
            record: watch::Sender::new(HealthRecord::In),
            isolations: AtomicU64::new(0),
            has_overflowed: AtomicBool::new(false),
            events: Mutex::default(),
        }
    }
}

impl DeviceHealth {
    /// Reports a fault from a shard. Only the first fault is kept.
    pub(crate) fn report(&self, trouble: DeviceFault) {
        let mut known = self.trouble();
        known.get_or_insert(trouble);
        if self.record() == HealthRecord::In {
            self.isolations.fetch_add(1, Ordering::Relaxed);
            self.record.send_replace(HealthRecord::Undecided);
        }
    }

    /// Clears the fault, because the device is tried again.
    pub(crate) fn forget(&self) {
        *self.trouble() = None;
    }

    /// Marks the device as in use, unless a shard has reported a new fault meanwhile.
    pub(crate) fn join(&self) {
        let known = self.trouble();
        self.has_overflowed.store(false, Ordering::Release);
        let record = if known.is_some() { HealthRecord::Undecided } else { HealthRecord::In };
        self.isolations.fetch_add(known.is_some().into(), Ordering::Relaxed);
        self.record.send_replace(record);
    }

    /// Waits until a shard reports a fault.
    pub(crate) async fn reported(&self) -> Option<DeviceFault> {
        // The wait cannot fail: the sender lives as long as `self`.
        let _ = self.record.subscribe().wait_for(|record| *record != HealthRecord::In).await;
        *self.trouble()
    }

    /// Sets the supervisor's verdict.
    pub(crate) fn decide(&self, record: HealthRecord) {
        self.record.send_replace(record);
    }

    fn record(&self) -> HealthRecord {
        *self.record.borrow()
    }

    /// Waits for the supervisor's verdict.
    pub(crate) async fn decided(&self) -> HealthRecord {
        let mut records = self.record.subscribe();
        let decided = records.wait_for(|record| *record != HealthRecord::Undecided).await;
        decided.map_or(HealthRecord::Unknown, |record| *record)
    }

    /// True while the device is offline and no other device has recorded it.
    pub(crate) fn is_unknown(&self) -> bool {
        self.record() == HealthRecord::Unknown
    }

    /// Notes that a shard missed more removals than it can record: the device must be wiped.
    pub(crate) fn note_overflow(&self) {
        self.has_overflowed.store(true, Ordering::Release);
    }

    /// True when the device must be wiped before it joins again.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.has_overflowed.load(Ordering::Acquire)
    }

    /// Number of isolations since the start of the node.
    pub(crate) fn isolations(&self) -> u64 {
        self.isolations.load(Ordering::Relaxed)
    }

    /// Records that the device was isolated, and why, or that it was readmitted.
    pub(crate) fn note_event(&self, isolated: Option<String>) {
        self.recent().push(RealClock::start().now(), isolated);
    }

    /// Isolations and readmissions that are still known, oldest first.
    pub(crate) fn events(&self) -> Vec<HealthEvent> {
        self.recent().all()
    }

    fn recent(&self) -> MutexGuard<'_, HealthEvents> {
        // No code panics while it holds the lock.
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self) -> MutexGuard<'_, Option<DeviceFault>> {
        // No code panics while it holds the lock.
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
