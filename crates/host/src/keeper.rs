//! Device supervisor: isolates a failing device and readmits it after a probe window without faults.
//!
//! 1. All shards of the device go on without it, and close it when it has answered all that it was asked.
//! 2. It is probed: one small read in a second, on a thread of its own, which may hang as long as it likes.
//! 3. When all probes of the stated time were answered in time, it is opened anew, as at a start, and judged.
//! 4. Its shards come up on it. When one of them cannot, they all go on without it.
//!
//! A device that is isolated again and again has to answer well for longer each time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::WeakSender;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use zonal_base::Nanos;
use zonal_cache::Homes;
use zonal_hostdev::{DeviceSpec, Drive};
use zonal_zonelog::{Generations, OpenMode};

use crate::StartError;
use crate::convention::Convention;
use crate::node::{Device, DeviceSettings, random_id};
use crate::opened::Opened;
use crate::request::{Rejoin, Request};
use crate::roster::{Change, Id};
use crate::standing::{Record, Standing};

/// How long a read is waited for when nobody says otherwise: 1 s. An NVMe drive answers within milliseconds, also while
/// it cleans up; a client gives up after some seconds.
pub const PATIENCE: Nanos = Nanos::secs(1);

/// How long a device has to answer well when nobody says otherwise.
pub const REJOIN: Nanos = Nanos::secs(10);

/// From one probe to the next.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// A device that was isolated within this time of its last joining has to answer well for twice as long.
const RELAPSE: Duration = Duration::from_secs(3600);

/// ... but for no more than so many times as long.
const REJOIN_TIMES_MAX: u32 = 64;

/// Who keeps one device.
pub(crate) struct Keeper {
    settings: DeviceSettings,
    log: Id,
    /// `None` while it is closed.
    drive: Option<Arc<Drive>>,
    standing: Arc<Standing>,
    shards: Vec<WeakSender<Request>>,
    convention: Arc<Convention>,
    generations: Generations,
    probes: u64,
}

/// After so many probes it is tried again to have others say that the device is away.
const RECORD_AGAIN: u64 = 8;

/// Why a device does not join again.
enum Refused {
    /// It did not come up: it is tried again.
    Failed(StartError),
    /// It has another log than before.
    Exchanged,
}

impl Keeper {
    pub(crate) fn new(
        (device, log): (Device, Id),
        shards: Vec<WeakSender<Request>>,
        (convention, generations): (Arc<Convention>, Generations),
    ) -> Self {
        let Device { settings, drive, standing, .. } = device;
        // It was formatted for them.
        let settings = DeviceSettings { shards: Some(shards.len()), ..settings };
        let drive = Some(drive);
        Self { settings, log, drive, standing, shards, convention, generations, probes: 0 }
    }

    /// Empties the device of a node that has not served anybody yet. `log` is the one that it has from then on.
    ///
    /// # Errors
    /// When its shards do not come up.
    pub(crate) async fn empty(&mut self, log: Id) -> Result<(), StartError> {
        tracing::warn!(
            device = %self.settings.spec,
            "the device was away while others of the node were used, and has missed removals: it is emptied"
        );
        self.each_shard(|_| Request::Isolate).await;
        let drive = self.drive.clone();
        self.release().await;
        let Some(drive) = drive else { return Ok(()) };
        self.drive = Some(drive.clone());
        self.come_up(&drive, (log, OpenMode::Format), Homes::default()).await?;
        self.log = log;
        Ok(())
    }

    /// Which device it is.
    pub(crate) fn spec(&self) -> DeviceSpec {
        self.settings.spec.clone()
    }

    /// The node has started: a file that was made for it stays.
    pub(crate) fn keep_drive(&self) {
        if let Some(drive) = &self.drive {
            drive.keep();
        }
    }

    /// Keeps it until the node ends.
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
            "the device is isolated: what it holds comes from the origin until it answers well again"
        );
        self.each_shard(|_| Request::Isolate).await;
        self.record_away().await;
    }

    /// Sees to it that the next start knows that the device has missed removals.
    async fn record_away(&self) {
        let noted = self.convention.note_away(self.log).await;
        self.standing.decide(if noted.is_ok() { Record::Away } else { Record::Unknown });
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
                tracing::warn!(device = %self.settings.spec, why = refused, "the device answers, but does not join again");
                told = Some(refused);
            }
        }
        tracing::info!(device = %self.settings.spec, "the device answers well and is used again");
    }

    /// Waits until all probes of so long a time were answered in time.
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
        // From here on the shards say again what they have against it.
        self.standing.forget();
        let kept = match mode {
            OpenMode::Recover => {
                let homes = self.convention.homes().await;
                self.come_up(&drive, (self.log, mode), homes).await.map_err(Refused::Failed)?;
                self.standing.decide(Record::Undecided);
                self.convention.note_in(self.log).await
            }
            OpenMode::Format => {
                let log = random_id().map_err(Refused::Failed)?;
                let emptied =
                    Change::Emptied { log: self.log, as_log: log, since: self.generations.next() };
                let homes = self.convention.homes_after(emptied).await;
                self.come_up(&drive, (log, mode), homes).await.map_err(Refused::Failed)?;
                self.standing.decide(Record::Undecided);
                self.log = log;
                self.convention.note_emptied(emptied).await
            }
        };
        if kept.is_err() {
            let device = &self.settings.spec;
            tracing::warn!(%device, "not all devices know that it is used again: after a restart it may be emptied");
        }
        self.standing.join();
        Ok(())
    }

    /// The next life of all its shards.
    async fn come_up(
        &self,
        drive: &Arc<Drive>,
        (log, mode): (Id, OpenMode),
        homes: Homes,
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
            // A shard that ended says nothing, and so will the node.
            outcome = outcome.and(reply.await.unwrap_or(Ok(())));
        }
        if outcome.is_err() {
            self.each_shard(|_| Request::Isolate).await;
        }
        outcome
    }

    /// Waits until nobody has the device open any more.
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

    /// Opens the device as at a start.
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
            // A drive that has nothing on it is another one, in the place of this.
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
                f.write_str("it does not hold what it held: restart to use it as it is")
            }
        }
    }
}

/// Carries out what a device may hang in, on a thread that nobody waits for. `None` when there is no thread to be had.
async fn aside<T: Send + 'static>(task: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, outcome) = oneshot::channel();
    let thread = std::thread::Builder::new().name("zonal-keeper".into());
    thread.spawn(move || drop(done.send(task()))).ok()?;
    outcome.await.ok()
}
