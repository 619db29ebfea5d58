//! `zonal block`: runs a block-device server from start-up to graceful shutdown.
//!
//! 1. Validate the configuration, and bind sockets and addresses. So far no device has been
//!    touched.
//! 2. Find or create the devices that the configuration does not name. A failed start removes what
//!    it created.
//! 3. Open the devices and recover their contents.
//! 4. Serve, print how to connect, and notify the service manager.
//! 5. On a stop signal, finish running requests, flush, and exit.

use std::net::SocketAddr;
use std::pin::pin;
use std::process;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet, LocalSet, spawn_local};
use zonal_admin::Recording;
use zonal_api::tiers;
use zonal_block::{
    BlockDevice, BlockError, BlockSettings, DamagedBlock, OpenMode, ReadFailures, Shaper,
};
use zonal_cli::{Failure, exit_code};
use zonal_export::{Listener, Server};
use zonal_host::contained;
use zonal_hostdev::DeviceSpec;

use super::admin::Admin;
use super::banner::Banner;
use super::failed_start;
use super::scrubber::Scrubber;
use crate::config::{BlockConfig, BlockFlags, Devices};
use crate::data_dir::DataDir;
use crate::listeners::Address;
use crate::local_socket::LocalSocket;
use crate::logging;
use crate::panics;
use crate::service_manager::{self, ServiceState};
use crate::signals::Signals;

/// Time between two lines in the log about failed reads.
const TELL_EVERY: Duration = Duration::from_secs(1);

pub(super) fn run(flags: &BlockFlags, mode: OpenMode) -> Result<(), Failure> {
    let config = BlockConfig::load(flags).map_err(Failure::request)?;
    logging::start(&config.log);
    panics::watch();
    let served = LocalSet::new().block_on(&crate::commands::runtime()?, serve(&config, mode));
    logging::flush();
    served
}

async fn serve(config: &BlockConfig, mode: OpenMode) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let recording = crate::commands::recording(config.log.record.as_deref())?;
    let mut home = home(config)?;
    let sockets = Sockets::take(config, home.as_ref())?;
    let admin_address = Address::take(config.admin, "--admin (admin.listen)")?;
    let settings = settings(config, || own_devices(home.as_mut()), mode)?;
    let block = {
        let mut start = pin!(BlockDevice::start(&settings));
        tokio::select! {
            started = &mut start => started.map_err(failed_start)?,
            // An aborted start leaves the devices as a crash would; the next start recovers them.
            () = signals.stop() => return Ok(()),
        }
    };
    if let Some(home) = &mut home {
        home.keep();
    }
    let server = Server::new(zonal_block::exports(&block), config.connections_max)
        .wrapping_connections(|connection| Box::pin(contained(connection)));
    let block = Rc::new(block);
    let scrubber = Scrubber::new(block.clone(), config.scrub);
    let of_admin = (block.clone(), scrubber.clone());
    let admin = Admin::new(config.admin_access.clone(), server.clone(), of_admin, &settings);
    let (admin, stop_admin) = start_admin(admin, &admin_address, recording)?;

    let told = spawn_local(tell_of_read_failures(block.shaper().clone()));
    let scrubbing = spawn_local(scrubber.run());
    let told_of_writes = spawn_local(tell_of_refused_writes(block.shaper().clone()));
    let (stop, stopping) = watch::channel(());
    let Sockets { local, address, listeners } = sockets;
    let mut serving = JoinSet::new();
    for listener in listeners {
        let (server, stopping) = (server.clone(), stopping.clone());
        serving.spawn_local(async move { server.serve(listener, stopping).await });
    }
    let banner = Banner {
        socket: local.as_ref().map(LocalSocket::path),
        address,
        admin: admin_address.socket_address(),
        exports: block.shaper().exports(),
        about: about(&settings),
    };
    crate::banner::print(banner.text())?;
    tell_of_recovery(&block);
    service_manager::notify(ServiceState::Serving);

    signals.stop().await;
    service_manager::notify(ServiceState::Stopping);
    tracing::info!("stopping: waiting for requests in flight");
    spawn_local(async move {
        signals.stop_at_once().await;
        tracing::warn!("stopping at once: second signal");
        logging::flush();
        process::exit(exit_code::FAILED.into());
    });
    stop.send_replace(());
    while serving.join_next().await.is_some() {}
    drop(local);
    let _ = stop_admin.send(());
    let _ = admin.await;
    for task in [told, scrubbing, told_of_writes] {
        task.abort();
        let _ = task.await;
    }
    drop(server);
    let Ok(block) = Rc::try_unwrap(block) else { unreachable!("whoever looked at it has gone") };
    let lost = lost(block.shaper());
    let closed = block.stop().await;
    closed.map_err(|error| Failure::work(format!("the devices could not be closed: {error}")))?;
    tracing::info!("stopped");
    // A supervisor must not take this for a clean end.
    lost.map_or(Ok(()), |error| Err(Failure::work(format!("{error} while it was served"))))
}

/// Why writes, or moves to the capacity tier, are impossible now.
fn lost(shaper: &Shaper) -> Option<BlockError> {
    let lost = shaper.failure().or_else(|| shaper.halted());
    lost.or_else(|| shaper.read_only().map(BlockError::ReadOnly))
}

/// Starts the admin endpoint. It ends after a message.
fn start_admin(
    admin: Admin,
    address: &Address,
    recording: Option<Recording>,
) -> Result<(JoinHandle<()>, oneshot::Sender<()>), Failure> {
    let listener = address.listen().and_then(tokio::net::TcpListener::from_std);
    let listener = listener.map_err(Failure::work)?;
    recording.into_iter().for_each(|recording| admin.record(recording));
    let (stop, stopped) = oneshot::channel();
    let stopped = async {
        let _ = stopped.await;
    };
    Ok((spawn_local(admin.serve(listener, stopped)), stop))
}

/// Opens the data directory, if devices or the socket are in it.
fn home(config: &BlockConfig) -> Result<Option<DataDir>, Failure> {
    let needs_socket = config.socket.is_none() && config.listen.is_none();
    match needs_socket || config.devices == Devices::Own {
        true => DataDir::open(&config.data_dir).map(Some),
        false => Ok(None),
    }
}

/// Bound listening sockets for NBD clients.
struct Sockets {
    local: Option<LocalSocket>,
    address: Option<SocketAddr>,
    listeners: Vec<Listener>,
}

impl Sockets {
    fn take(config: &BlockConfig, home: Option<&DataDir>) -> Result<Self, Failure> {
        let of_home = || home.filter(|_| config.listen.is_none()).map(DataDir::block_socket);
        let path = config.socket.clone().or_else(of_home);
        let mut all = Self { local: None, address: None, listeners: Vec::new() };
        if let Some(path) = path {
            let (socket, listener) = LocalSocket::take(&path, "--socket (nbd.socket)")?;
            all.local = Some(socket);
            all.listeners.push(Listener::Unix(listener.try_into().map_err(Failure::work)?));
        }
        if let Some(wanted) = config.listen {
            let address = Address::take(wanted, "--listen (nbd.listen)")?;
            let listener = address.listen().and_then(tokio::net::TcpListener::from_std);
            all.address = Some(address.socket_address());
            all.listeners.push(Listener::Tcp(listener.map_err(Failure::work)?));
        }
        Ok(all)
    }
}

fn own_devices(home: Option<&mut DataDir>) -> Result<(DeviceSpec, DeviceSpec), Failure> {
    home.expect("it was opened because no device was named").block_devices()
}

/// Settings of the block device. `own` names the default devices, buffer and capacity.
pub(in crate::commands) fn settings(
    config: &BlockConfig,
    own: impl FnOnce() -> Result<(DeviceSpec, DeviceSpec), Failure>,
    mode: OpenMode,
) -> Result<BlockSettings, Failure> {
    let (buffer, capacity) = match &config.devices {
        Devices::Own => {
            let (buffer, capacity) = own()?;
            (Some(buffer), capacity)
        }
        Devices::One(capacity) => (None, capacity.clone()),
        Devices::Two { buffer, capacity } => (Some(buffer.clone()), capacity.clone()),
    };
    Ok(BlockSettings {
        capacity,
        buffer,
        exports: config.exports.clone(),
        spare_percent: config.spare_percent,
        map_memory: config.map_memory,
        memory: config.memory,
        mode,
    })
}

/// Summary of the devices for the banner.
fn about(settings: &BlockSettings) -> String {
    let path = |place: &zonal_hostdev::DeviceLocation| place.path().display().to_string();
    let capacity = path(&settings.capacity.place);
    match &settings.buffer {
        Some(buffer) => format!("kept on {capacity}, written to {} first", path(&buffer.place)),
        None => format!("kept on {capacity}, written to its first zones first"),
    }
}

fn tell_of_recovery(block: &BlockDevice) {
    let recovery = block.shaper().recovery();
    tracing::info!(
        segments = recovery.segments,
        read_bytes = recovery.read_bytes,
        torn_blocks = recovery.torn_blocks,
        "serving"
    );
    if 0 < recovery.headers_rebuilt + recovery.trims_lost {
        tracing::warn!(
            headers_rebuilt = recovery.headers_rebuilt,
            trims_lost = recovery.trims_lost,
            "a device is damaged: blocks that cannot be read are errors until they are written"
        );
    }
}

/// Logs devices that take no writes, and that take them again.
async fn tell_of_refused_writes(shaper: Shaper) {
    let mut known = None;
    loop {
        let now = shaper.read_only_changed(known).await;
        match now {
            Some(tier) => tracing::error!("{}", tiers::takes_no_writes(tier)),
            None => tracing::info!("the devices take writes again"),
        }
        known = now;
    }
}

/// Logs blocks that do not fit their checksums, and blocks that could not be read when they were
/// moved.
async fn tell_of_read_failures(shaper: Shaper) {
    let mut known = ReadFailures::default();
    loop {
        let now = shaper.read_failures_beyond(known).await;
        if known.zones_kept < now.zones_kept {
            let zones = now.zones_kept;
            tracing::warn!(zones, "zones are kept because blocks in them cannot be read");
        }
        if known.blocks_lost < now.blocks_lost {
            let blocks = now.blocks_lost;
            tracing::error!(blocks, "blocks are lost: they are errors until they are written");
        }
        if let Some(corrupt) = now.last_corrupt
            && known.checksum_errors < now.checksum_errors
        {
            let DamagedBlock { export, block, tier, lba } = corrupt;
            tracing::error!(
                export = shaper.exports()[usize::from(export.0)].name,
                block = block.0,
                device = tier.name(),
                lba = lba.0,
                count = now.checksum_errors - known.checksum_errors,
                "a block does not fit its checksum: the device returned other data than were written"
            );
        }
        known = now;
        // A client may read damaged blocks over and over.
        tokio::time::sleep(TELL_EVERY).await;
    }
}
