//! Device supervisor: isolates a failing device and readmits it after a probe window without
//! faults.
//!
//! 1. All shards stop using the device. They close it when it has completed all its commands.
//! 2. The supervisor probes it with one small read per second, on a separate thread that may hang.
//! 3. When all probes of the window completed in time, it opens the device and checks its contents,
//!    as at a start.
//! 4. The shards reopen their logs on it. If one of them fails, all continue without the device.
//!
//! The window doubles each time a device is isolated again soon after it joined.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::WeakSender;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use zonal_base::Nanos;
use zonal_cache::PlacementEpochs;
use zonal_hostdev::{DeviceSpec, Drive};
use zonal_zonelog::{Generations, OpenMode};

use crate::StartError;
use crate::device_health::{DeviceHealth, HealthRecord};
use crate::device_open::Opened;
use crate::membership::Membership;
use crate::node::{DeviceSettings, NodeDevice, random_id};
use crate::request::{Rejoin, Request};
use crate::roster::{Change, Id};

/// Default read timeout: 1 s. An NVMe drive answers within milliseconds, even during garbage
/// collection; a client gives up after some seconds.
pub const READ_TIMEOUT: Nanos = Nanos::secs(1);

/// Default probe window: how long an isolated device must answer in time before it is used again.
pub const PROBE_WINDOW: Nanos = Nanos::secs(10);

/// Interval of the probes.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// A device isolated again within this time after it joined needs twice the previous probe window.
const RELAPSE: Duration = Duration::from_secs(3600);

/// Maximum factor on the probe window.
const REJOIN_TIMES_MAX: u32 = 64;

/// Supervisor of one device.
pub(crate) struct DeviceSupervisor {
    settings: DeviceSettings,
    log: Id,
    /// `None` while the device is closed.
    drive: Option<Arc<Drive>>,
    standing: Arc<DeviceHealth>,
    shards: Vec<WeakSender<Request>>,
    convention: Arc<Membership>,
    generations: Generations,
    probes: u64,
}

/// Probes after which the supervisor retries to record on other devices that this one is offline.
const RECORD_AGAIN: u64 = 8;

/// Why a device is not readmitted.
enum Refused {
    /// It could not be opened: retry after another probe window.
    Failed(StartError),
    /// It has another log than before: another device took its place.
    Exchanged,
}

impl DeviceSupervisor {
    pub(crate) fn new(
        (device, log): (NodeDevice, Id),
        shards: Vec<WeakSender<Request>>,
        (convention, generations): (Arc<Membership>, Generations),
    ) -> Self {
        let NodeDevice { settings, drive, standing, .. } = device;
        // Reopen with the same number of shards, because the device was formatted for it.
        let settings = DeviceSettings { shards: Some(shards.len()), ..settings };
        let drive = Some(drive);
        Self { settings, log, drive, standing, shards, convention, generations, probes: 0 }
    }

    /// Wipes the device of a node that has not served requests yet. `log`: identity of its new log.
    ///
    /// # Errors
    /// When its shards cannot format it.
    pub(crate) async fn empty(&mut self, log: Id) -> Result<(), StartError> {
        tracing::warn!(
            device = %self.settings.spec,
            "device erased: it was offline while other devices of the node were in use, and has \
             missed invalidations"
        );
        self.each_shard(|_| Request::Isolate).await;
        let drive = self.drive.clone();
        self.release().await;
        let Some(drive) = drive else { return Ok(()) };
        self.drive = Some(drive.clone());
        self.open_cache(&drive, (log, OpenMode::Format), PlacementEpochs::default()).await?;
        self.log = log;
        Ok(())
    }

    /// Spec of the supervised device.
    pub(crate) fn spec(&self) -> DeviceSpec {
        self.settings.spec.clone()
    }

    /// Keeps a backing file that this start created. Until then a failed start removes it.
    pub(crate) fn keep_drive(&self) {
        if let Some(drive) = &self.drive {
            drive.keep();
        }
    }

    /// Supervises the device until the node ends.
    pub(crate) async fn keep(mut self) {
        let (mut joined_at, mut times) = (None, 1);
        loop {
            let trouble = self.standing.reported().await;
            let is_relapse = joined_at.is_some_and(|at: Instant| at.elapsed() < RELAPSE);
            times = if is_relapse { (times * 2).min(REJOIN_TIMES_MAX) } else { 1 };
            self.isolate(trouble.map(|trouble| trouble.to_string()).unwrap_or_default()).await;
            self.return_when_well(times).await;
            joined_at = Some(Instant::now());
        }
    }

    async fn isolate(&mut self, why: String) {
        tracing::error!(
            device = %self.settings.spec,
            why,
            "device isolated: the origin serves its data until the device answers without faults"
        );
        self.standing.note_event(Some(why));
        self.each_shard(|_| Request::Isolate).await;
        self.record_away().await;
    }

    /// Records on the other devices that this one is offline and misses removals, so that the next
    /// start knows it.
    async fn record_away(&self) {
        let noted = self.convention.note_away(self.log).await;
        self.standing.decide(if noted.is_ok() {
            HealthRecord::Away
        } else {
            HealthRecord::Unknown
        });
    }

    async fn return_when_well(&mut self, times: u32) {
        let mut told = None;
        loop {
            self.wait_until_well(self.settings.rejoin.duration() * times).await;
            let refused = match self.rejoin().await {
                Ok(()) => break,
                Err(refused) => refused.to_string(),
            };
            if told.as_ref() != Some(&refused) {
                let device = &self.settings.spec;
                tracing::warn!(%device, why = refused, "device not readmitted: it cannot rejoin");
                told = Some(refused);
            }
        }
        self.standing.note_event(None);
        tracing::info!(device = %self.settings.spec, "device readmitted: in use again");
    }

    /// Waits until all probes of a window of this length completed in time.
    async fn wait_until_well(&mut self, time: Duration) {
        let mut well_since = None;
        loop {
            sleep(PROBE_EVERY).await;
            let asked_at = Instant::now();
            if self.standing.is_unknown() && self.probes.is_multiple_of(RECORD_AGAIN) {
                self.record_away().await;
            }
            let is_well =
                self.probe().await && asked_at.elapsed() <= self.settings.patience.duration();
            if !is_well {
                well_since = None;
            } else if time <= well_since.get_or_insert(asked_at).elapsed() {
                return;
            }
        }
    }

    async fn probe(&mut self) -> bool {
        let (spec, number) = (self.settings.spec.clone(), self.probes);
        self.probes += 1;
        aside(move || zonal_hostdev::probe(&spec, number))
            .await
            .is_some_and(|probed| probed.is_ok())
    }

    async fn rejoin(&mut self) -> Result<(), Refused> {
        self.release().await;
        let (drive, mode) = self.reopen().await?;
        self.drive = Some(drive.clone());
        // From here on the shards report new faults.
        self.standing.forget();
        let kept = match mode {
            OpenMode::Recover => {
                let homes = self.convention.homes().await;
                self.open_cache(&drive, (self.log, mode), homes).await.map_err(Refused::Failed)?;
                self.standing.decide(HealthRecord::Undecided);
                self.convention.note_in(self.log).await
            }
            OpenMode::Format => {
                let log = random_id().map_err(Refused::Failed)?;
                let emptied =
                    Change::Emptied { log: self.log, as_log: log, since: self.generations.next() };
                let homes = self.convention.homes_after(emptied).await;
                self.open_cache(&drive, (log, mode), homes).await.map_err(Refused::Failed)?;
                self.standing.decide(HealthRecord::Undecided);
                self.log = log;
                self.convention.note_emptied(emptied).await
            }
        };
        if kept.is_err() {
            let device = &self.settings.spec;
            tracing::warn!(
                %device,
                "readmission not recorded on all devices: a restart may erase this device"
            );
        }
        self.standing.join();
        Ok(())
    }

    /// Has all shards reopen the device. If one fails, all stop using it.
    async fn open_cache(
        &self,
        drive: &Arc<Drive>,
        (log, mode): (Id, OpenMode),
        homes: PlacementEpochs,
    ) -> Result<(), StartError> {
        let mut replies = Vec::with_capacity(self.shards.len());
        self.each_shard(|_| {
            let (reply, outcome) = oneshot::channel();
            replies.push(outcome);
            let (drive, homes) = (drive.clone(), homes.clone());
            Request::Rejoin(Rejoin { drive, log, mode, homes, reply })
        })
        .await;
        let mut outcome = Ok(());
        for reply in replies {
            // A shard that ended does not reply: the node is stopping, too.
            outcome = outcome.and(reply.await.unwrap_or(Ok(())));
        }
        if outcome.is_err() {
            self.each_shard(|_| Request::Isolate).await;
        }
        outcome
    }

    /// Waits until all shards have closed the device.
    async fn release(&mut self) {
        let mut replies = Vec::with_capacity(self.shards.len());
        self.each_shard(|_| {
            let (reply, released) = oneshot::channel();
            replies.push(released);
            Request::Release { reply }
        })
        .await;
        for released in replies {
            let _ = released.await;
        }
        self.drive = None;
    }

    /// Opens the device and checks its contents, as at a start.
    async fn reopen(&self) -> Result<(Arc<Drive>, OpenMode), Refused> {
        let settings = self.settings.clone();
        let opened = aside(move || {
            let Opened { drive, log, .. } = Opened::open(&settings, OpenMode::Recover)?;
            Ok((Arc::new(drive.claim()?), log))
        });
        let opened = opened.await.unwrap_or_else(|| Err(StartError::Thread("no thread".into())));
        let (drive, log) = opened.map_err(Refused::Failed)?;
        match log {
            Some(log) if log != self.log => Err(Refused::Exchanged),
            Some(_) if !self.standing.has_overflowed() => Ok((drive, OpenMode::Recover)),
            // Format the device: it is blank, so another one took its place, or it missed more
            // removals than were recorded.
            Some(_) | None => {
                drive.keep();
                Ok((drive, OpenMode::Format))
            }
        }
    }

    async fn each_shard(&self, mut request: impl FnMut(usize) -> Request) {
        for (number, shard) in self.shards.iter().enumerate() {
            if let Some(shard) = shard.upgrade() {
                let _ = shard.send(request(number)).await;
            }
        }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Exchanged => {
                f.write_str("its contents have changed: restart to use the device as it is")
            }
        }
    }
}

/// Runs a device operation that may hang on a separate thread. `None` when no thread can be
/// created.
async fn aside<T: Send + 'static>(task: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, outcome) = oneshot::channel();
    let thread = std::thread::Builder::new().name("zonal-probe".into());
    thread.spawn(move || drop(done.send(task()))).ok()?;
    outcome.await.ok()
}
