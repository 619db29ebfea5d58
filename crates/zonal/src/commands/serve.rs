//! `zonal serve`: from start to stop.
//!
//! 1. Check the configuration, and take both addresses. Nothing was touched yet.
//! 2. Find or make what was not named: keys, origin, device.
//! 3. Open the devices, start a shard on each thread and the endpoint with it.
//! 4. Say where it is.
//! 5. Told to stop, let requests end, put what was admitted on flash, and go.

use std::pin::pin;
use std::process;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use zonal_gateway::{AccessKeys, OriginBackend};
use zonal_host::{DeviceSettings, Node, NodeSettings, ObjectName};
use zonal_origin::{FolderOrigin, Origin, S3Origin};
use zonal_zonelog::OpenMode;

use super::print;
use crate::admin::{Admin, Observed, Phase};
use crate::config::{Config, Device, Flags, KeyPair, OriginSpec};
use crate::failure::Failure;
use crate::front::Front;
use crate::greeting::{Greeting, Secret};
use crate::home::{Home, KeysFrom, samples};
use crate::listeners::Address;
use crate::{logging, survey};

/// Serve S3 from a cache on local flash
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    flags: Flags,
}

const EXAMPLES: &str = "\
Examples:
  zonal serve
  zonal serve --device 'file:/var/cache/zonal?size=200GiB' \\
      --origin 's3:https://s3.eu-west-1.amazonaws.com?region=eu-west-1&path-style=false'

A flag goes before its environment variable, that before the configuration file, that before the default.
Sizes need a unit (KiB, MiB, GiB, TiB), times too (ms, s, min, h).";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let config = Config::load(&args.flags).map_err(Failure::request)?;
    logging::start(&config.log);
    super::runtime()?.block_on(serve(config))
}

async fn serve(config: Config) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let endpoint = Address::take(config.listen, "--listen (endpoint.listen)")?;
    let admin_address = Address::take(config.admin, "--admin (admin.listen)")?;
    let addresses = (endpoint.socket_address(), admin_address.socket_address());

    let (phase, phases) = watch::channel(Phase::Starting);
    let admin = Admin::new(phases);
    let admin_listener = admin_address.listen().and_then(TcpListener::from_std);
    let admin_listener = admin_listener.map_err(Failure::work)?;
    tokio::spawn(admin.clone().serve(admin_listener));

    let mut start = pin!(start(&config, endpoint));
    let started = tokio::select! {
        started = &mut start => started?,
        // Nothing is under way yet: what is on flash is as it was.
        () = signals.next() => return Ok(()),
    };
    let Started { node, front, origin, found } = started;
    let devices: Vec<String> = found.devices.iter().map(|of| of.spec.to_string()).collect();
    let shards = node.client().shard_count();
    tracing::info!(endpoint = %addresses.0, admin = %addresses.1, ?devices, shards, "serving");
    admin.observe(Observed {
        client: node.client().clone(),
        front: front.clone(),
        origin,
        devices,
    });
    phase.send_replace(Phase::Serving);
    print::text(&greeting(&config, &found, addresses).text())?;

    signals.next().await;
    tracing::info!("told to stop: requests that are under way may end");
    phase.send_replace(Phase::Draining);
    tokio::spawn(async move {
        signals.next().await;
        tracing::warn!("told to stop again: stopping at once");
        process::exit(1);
    });
    front.drain().await;
    node.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// A Zonal that is up.
struct Started {
    node: Node,
    front: Front,
    origin: Arc<Origin>,
    found: Found,
}

/// What the configuration did not name, found or made.
struct Found {
    /// Holds the lock of the data directory.
    _home: Option<Home>,
    keys: KeyPair,
    secret: Secret,
    origin: OriginSpec,
    devices: Vec<DeviceSettings>,
}

async fn start(config: &Config, endpoint: Address) -> Result<Started, Failure> {
    let found = Found::find(config)?;
    let Found { keys, origin, devices, .. } = &found;
    for device in devices {
        survey::refuse_foreign(&device.spec)?;
    }
    let origin = Arc::new(open_origin(origin, config)?);
    let gateway = zonal_gateway::Config {
        region: config.region.clone(),
        access_keys: AccessKeys::one(&*keys.access_key, &*keys.secret_key),
        freshness: config.freshness.clone(),
        limits: config.limits,
    };
    let (front, listening) = Front::new(endpoint, gateway, origin.clone());
    let settings = NodeSettings { devices: devices.clone(), mode: OpenMode::Recover };
    let backend = Arc::new(OriginBackend::new(origin.clone()));
    let node = Node::start(&settings, backend, Some(front.on_each_shard())).await;
    let node = node.map_err(Failure::work)?;
    if let Err(failure) = listening.everywhere(node.client().shard_count()).await {
        node.stop().await;
        return Err(failure);
    }
    Ok(Started { node, front, origin, found })
}

fn open_origin(spec: &OriginSpec, config: &Config) -> Result<Origin, Failure> {
    let (credentials, limits) = (config.origin.credentials.clone(), config.origin.limits.clone());
    match spec {
        OriginSpec::Folder(root) => {
            FolderOrigin::open(root.clone(), &limits).map(Origin::from).map_err(|error| {
                Failure::work(format!("the origin's folder {}: {error}", root.display()))
            })
        }
        OriginSpec::S3 { endpoint, region } => {
            if credentials.is_none() {
                tracing::warn!("no keys for the origin are known: requests are sent unsigned");
            }
            S3Origin::open(endpoint.clone(), region.clone(), credentials, limits)
                .map(Origin::from)
                .map_err(|error| Failure::work(format!("the origin {endpoint}: {error}")))
        }
    }
}

impl Found {
    fn find(config: &Config) -> Result<Self, Failure> {
        let is_all_named = config.keys.is_some()
            && config.origin.spec.is_some()
            && config.devices.iter().all(|device| device.spec.is_some());
        let home = match is_all_named {
            true => None,
            false => Some(Home::open(&config.data_dir)?),
        };
        let needed = || home.as_ref().expect("it was opened because something was not named");
        let (keys, secret) = match &config.keys {
            Some(keys) => (keys.clone(), Secret::Given),
            None => match needed().keys()? {
                (keys, KeysFrom::Made) => (keys, Secret::Printed),
                (keys, KeysFrom::Kept(path)) => (keys, Secret::Kept(path)),
            },
        };
        let origin = match &config.origin.spec {
            Some(spec) => spec.clone(),
            None => OriginSpec::Folder(needed().origin()?),
        };
        let settings = |device: &Device| {
            let spec = match &device.spec {
                Some(spec) => spec.clone(),
                None => needed().flash()?,
            };
            let Device { shards, chunk, buffers, .. } = *device;
            Ok(DeviceSettings { spec, shards, policy: device.policy.clone(), chunk, buffers })
        };
        let devices = config.devices.iter().map(settings).collect::<Result<_, Failure>>()?;
        Ok(Self { _home: home, keys, secret, origin, devices })
    }
}

fn greeting<'a>(
    config: &'a Config,
    found: &'a Found,
    (endpoint, admin): (std::net::SocketAddr, std::net::SocketAddr),
) -> Greeting<'a> {
    let has_samples = config.origin.spec.is_none();
    let path = match has_samples {
        true => format!("/{}/{}", samples::BUCKET, samples::LARGE_KEY),
        // Whatever the origin has: its buckets.
        false => "/".to_owned(),
    };
    let sample = ObjectName::new(samples::BUCKET, samples::LARGE_KEY);
    let devices: Vec<String> = found.devices.iter().map(|d| d.spec.to_string()).collect();
    Greeting {
        endpoint,
        admin,
        region: &config.region,
        keys: &found.keys,
        secret: &found.secret,
        freshness: config.freshness.of(&sample),
        path,
        about: format!("{}, cached on {}", found.origin, devices.join(" and ")),
    }
}

/// Orders to stop: SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::work);
        let terminate = listen(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
        }
    }
}
