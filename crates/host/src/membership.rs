//! Membership: the list of devices and their placement, agreed at start and persisted on every
//! device.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::WeakSender;
use tokio::sync::{Mutex, oneshot};
use tokio::time::timeout;
use zonal_cache::PlacementEpochs;
use zonal_zonelog::{Generations, OpenMode};

use crate::StartError;
use crate::device_supervisor::DeviceSupervisor;
use crate::node::{NodeDevice, random_id};
use crate::request::Request;
use crate::roster::{
    self, Change, DEVICES_MAX, DeviceRecord, Id, MembershipOutcome, Roster, SplitBrain,
};
use crate::routes::Routes;
use crate::shard::ShardStarted;

/// Time limit for writing the roster to a device: 5 s. Removals wait for it, and a device that
/// takes longer is about to be isolated.
const KEEP_MAX: Duration = Duration::from_secs(5);

/// The roster is not on all present devices.
#[derive(Debug)]
pub(crate) struct NotKept;

/// Current membership, shared by the device supervisors of a node.
#[derive(Debug)]
pub(crate) struct Membership(Mutex<Current>);

#[derive(Debug)]
struct Current {
    roster: Roster,
    /// By log: the shard that writes the roster to the log's device.
    writers: BTreeMap<Id, WeakSender<Request>>,
}

impl Membership {
    /// Membership of a node that has started. Requires: the roster is on every device.
    pub(crate) fn new(roster: Roster, writers: BTreeMap<Id, WeakSender<Request>>) -> Self {
        Self(Mutex::new(Current { roster, writers }))
    }

    /// Records on all other devices that this device is offline and receives no removals.
    ///
    /// # Errors
    /// When one of them does not store it, or there is no other device.
    pub(crate) async fn note_away(&self, log: Id) -> Result<(), NotKept> {
        let mut current = self.0.lock().await;
        current.change(Change::Away(log)).await?;
        let others = current.roster.present().count();
        if others == 0 { Err(NotKept) } else { Ok(()) }
    }

    /// Records that the device receives removals again and missed none.
    ///
    /// # Errors
    /// When a device does not store it: the next start still treats this device as offline.
    pub(crate) async fn note_in(&self, log: Id) -> Result<(), NotKept> {
        self.0.lock().await.change(Change::In(log)).await
    }

    /// Records that a device was wiped.
    ///
    /// # Errors
    /// When a device does not store it.
    ///
    /// Requires: the change is [`Change::Emptied`].
    pub(crate) async fn note_emptied(&self, change: Change) -> Result<(), NotKept> {
        let mut current = self.0.lock().await;
        if let Change::Emptied { log, as_log, .. } = change
            && let Some(writer) = current.writers.remove(&log)
        {
            current.writers.insert(as_log, writer);
        }
        current.change(change).await
    }

    /// Placement epochs that the buckets would have after a change.
    pub(crate) async fn homes_after(&self, change: Change) -> PlacementEpochs {
        self.0.lock().await.roster.with(change, Id::default()).since()
    }

    /// Placement epochs of the buckets.
    pub(crate) async fn homes(&self) -> PlacementEpochs {
        self.0.lock().await.roster.since()
    }
}

impl Current {
    /// Applies a change. The change stays in memory even if a device does not store it: the next
    /// change builds on it.
    async fn change(&mut self, change: Change) -> Result<(), NotKept> {
        let id = random_id().map_err(|_| NotKept)?;
        self.roster = self.roster.with(change, id);
        let present: Vec<Id> = self.roster.present().collect();
        let writers = present.iter().filter_map(|log| Some((*log, self.writers.get(log)?.clone())));
        let writers: BTreeMap<Id, WeakSender<Request>> = writers.collect();
        let kept = keep(&self.roster, &writers).await;
        if kept.len() == present.len() { Ok(()) } else { Err(NotKept) }
    }
}

/// Agrees on the membership at start: compares the rosters of the devices, wipes devices that
/// missed removals, sets the routes, and creates a supervisor for each device.
///
/// # Errors
/// When devices were used apart (split brain), or one does not start or does not store the roster.
pub(crate) async fn agree_membership(
    devices: Vec<NodeDevice>,
    begun: Vec<ShardStarted>,
    (shards, routes, generations): (&[WeakSender<Request>], &Routes, &Generations),
    mode: OpenMode,
) -> Result<Vec<DeviceSupervisor>, StartError> {
    if DEVICES_MAX < devices.len() {
        return Err(StartError::TooMany);
    }
    let mut places = Vec::with_capacity(devices.len());
    for device in &devices {
        let first = places.last().map_or(0, |(first, count)| first + count);
        places.push((first, usize::from(device.shard_count)));
    }
    let found: Vec<DeviceRecord> = devices
        .iter()
        .zip(&places)
        .map(|(device, (first, _))| device.found(&begun[*first]))
        .collect();
    let mut new_logs = Vec::with_capacity(devices.len());
    for _ in &devices {
        new_logs.push(random_id()?);
    }
    let convened = roster::agree_membership(&found, generations.next(), (random_id()?, &new_logs));
    let MembershipOutcome { roster, is_news, is_emptied, logs } =
        convened.map_err(|SplitBrain { one, other }| {
            let spec = |at: usize| devices[at].settings.spec.clone();
            StartError::SplitBrain { specs: Box::new([spec(one), spec(other)]) }
        })?;
    let writer_of = |(log, (first, _)): (&Id, &(usize, usize))| (*log, shards[*first].clone());
    let writers: BTreeMap<Id, WeakSender<Request>> =
        logs.iter().zip(&places).map(writer_of).collect();
    let place_of = |log| places[logs.iter().position(|known| *known == log).unwrap_or(0)];
    routes.set(roster.homes().map(place_of));
    let convention = Arc::new(Membership::new(roster.clone(), writers.clone()));
    let mut keepers = Vec::with_capacity(devices.len());
    for (at, device) in devices.into_iter().enumerate() {
        let (first, count) = places[at];
        let of_node = (convention.clone(), generations.clone());
        let mut keeper = DeviceSupervisor::new(
            (device, found[at].log),
            shards[first..first + count].to_vec(),
            of_node,
        );
        if is_emptied[at] {
            keeper.empty(logs[at]).await?;
        }
        keepers.push(keeper);
    }
    for shard in shards.iter().filter_map(WeakSender::upgrade) {
        let _ = shard.send(Request::SetPlacementEpochs(roster.since())).await;
    }
    // With `OpenMode::Format` the roster is not stored: a formatted device is not part of a node
    // yet.
    if is_news && mode == OpenMode::Recover {
        let kept = keep(&roster, &writers).await;
        if let Some(at) = logs.iter().position(|log| !kept.contains(log)) {
            return Err(StartError::Roster { spec: keepers[at].spec() });
        }
    }
    keepers.iter().for_each(DeviceSupervisor::keep_drive);
    Ok(keepers)
}

impl NodeDevice {
    fn found(&self, ShardStarted { log, roster, .. }: &ShardStarted) -> DeviceRecord {
        let roster = roster.as_deref().and_then(Roster::decode);
        DeviceRecord { log: *log, shard_count: self.shard_count, is_new: self.is_new, roster }
    }
}

/// Writes the roster to all devices concurrently. Returns the logs of the devices that have stored
/// it.
pub(crate) async fn keep(roster: &Roster, writers: &BTreeMap<Id, WeakSender<Request>>) -> Vec<Id> {
    let bytes: Arc<[u8]> = roster.encode().into();
    let mut under_way = Vec::with_capacity(writers.len());
    for (log, writer) in writers {
        let (reply, kept) = oneshot::channel();
        let request = Request::Keep { roster: bytes.clone(), reply };
        if let Some(writer) = writer.upgrade()
            && timeout(KEEP_MAX, writer.send(request)).await.is_ok()
        {
            under_way.push((*log, kept));
        }
    }
    let mut all = Vec::with_capacity(under_way.len());
    for (log, kept) in under_way {
        if let Ok(Ok(Ok(()))) = timeout(KEEP_MAX, kept).await {
            all.push(log);
        }
    }
    all
}
