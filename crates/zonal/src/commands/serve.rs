//! `zonal serve`: runs the cache server from start-up through reloads to graceful shutdown.
//!
//! 1. Validate the configuration, open the access log, and bind both addresses. So far no device
//!    has been touched.
//! 2. Find or create what the configuration does not name: device, keys, origin. A failed start
//!    removes what it created.
//! 3. Open the devices, start a shard on each thread and the S3 endpoint on all of them.
//! 4. Print the banner, and notify the service manager.
//! 5. On SIGHUP, reload: apply the new rules, and use the new origin credentials from then on.
//!    Without any file to reload, stop, unless SIGHUP was ignored at the start.
//! 6. On a stop signal, let running requests finish, write admitted chunks to flash, and exit.

use std::fs::File;
use std::io::stderr;
use std::net::SocketAddr;
use std::pin::pin;
use std::process;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use zonal_cli::{Failure, exit_code};
use zonal_gateway::{AccessLog, Authorization, OriginBackend};
use zonal_host::{ChunkRules, Client, DeviceSettings, Node, NodeSettings};
use zonal_hostdev::DeviceSpec;
use zonal_origin::Origins;
use zonal_zonelog::OpenMode;

use crate::access_log::Writer;
use crate::admin::{Admin, Observed, ObservedDevice, Phase};
use crate::banner::{self, Banner};
use crate::config::{
    AccessTo, Config, Device, Flags, KeyPair, Log, LogFormat, Origin, OriginKeys, OriginSpec,
    Retention, StoreSpec,
};
use crate::data_dir::{DataDir, samples};
use crate::descriptors;
use crate::frontend::Frontend;
use crate::listeners::{Address, PassedSockets};
use crate::logging::{self, Level};
use crate::origins::{self, OpenedOrigin};
use crate::panics;
use crate::pins::PinsFile;
use crate::reload::{self, Reloader};
use crate::service_manager::{self, ServiceState};
use crate::signals::{SignalAction, Signals};

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
  zonal serve --listen :9000 --origin 's3://lake?region=eu-west-1'

Precedence: flag, environment variable, configuration file, default.
Sizes need a unit (KiB, MiB, GiB, TiB). Times need a unit (ms, s, min, h).";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut config = Config::load(&args.flags).map_err(Failure::request)?;
    let level = logging::start(&config.log);
    panics::watch();
    descriptors::raise(&mut config);
    warn_of_less_ahead(&config);
    tell_of_web_servers(&config);
    let writer = config.log.access.as_ref().map(Writer::start).transpose()?;
    let served = super::runtime()?.block_on(serve(&config, &args.flags, (&level, writer.as_ref())));
    writer.into_iter().for_each(Writer::end);
    logging::flush();
    served
}

/// Warns about devices whose buffers limit prefetch to less than configured.
fn warn_of_less_ahead(config: &Config) {
    for Device { prefetch, buffers, .. } in &config.devices {
        let ahead = zonal_host::prefetch_window(*prefetch, *buffers);
        if ahead < *prefetch {
            tracing::warn!(
                %prefetch,
                ahead = %ahead.rounded(),
                %buffers,
                "prefetch limited: device.buffers is too small for device.prefetch. Raise \
                 device.buffers (--buffers), or lower device.prefetch (--prefetch)"
            );
        }
    }
}

/// An S3 endpoint without its scheme is a web server, with one bucket and without lists.
fn tell_of_web_servers(config: &Config) {
    for Origin { spec, buckets, .. } in &config.origins {
        if let Some(OriginSpec::Store(StoreSpec::Web(web))) = spec {
            let url = web.to_string();
            let url = url.trim_end_matches('/');
            tracing::info!(
                origin = url,
                bucket = buckets[0],
                "a web server is the origin: it is read-only and has no lists. If it speaks S3, \
                 write s3:{url}"
            );
        }
    }
}

async fn serve(
    config: &Config,
    flags: &Flags,
    (level, writer): (&Level, Option<&Writer>),
) -> Result<(), Failure> {
    let access_log = writer.map(Writer::log);
    let mut signals = Signals::listen()?;
    let recording = super::recording(config.log.record.as_deref())?;
    let mut passed = PassedSockets::take()?;
    let endpoint = passed.s3(config.listen)?;
    let admin_address = passed.admin(config.admin)?;
    let addresses = (endpoint.socket_address(), admin_address.socket_address());

    let (phase, phases) = watch::channel(Phase::Starting);
    let admin =
        Admin::new(config.admin_security.clone(), (config.scrub, config.prices.clone()), phases);
    let admin_listener = admin_address.listen().and_then(TcpListener::from_std);
    let admin_listener = admin_listener.map_err(Failure::work)?;
    tokio::spawn(admin.clone().serve(admin_listener));

    let mut start = pin!(start(config, endpoint, access_log));
    let started = tokio::select! {
        started = &mut start => started?,
        // No requests are running yet, so the process can exit at once; cached data is unchanged.
        () = signals.stop() => return Ok(()),
    };
    let Started { node, front, origins, pins, found } = started;
    tell_of_start(addresses, node.client(), found.devices.len()).await;
    admin.observe(Observed {
        client: node.client().clone(),
        front: front.clone(),
        origins: origins.clone(),
        pins: pins.clone(),
        background_reads: config.background_reads(),
        devices: found.devices.iter().map(ObservedDevice::of).collect(),
    });
    recording.into_iter().for_each(|recording| admin.record(recording));
    phase.send_replace(Phase::Serving);
    let env_command = banner::env_command(flags, addresses.0);
    greet(&config.log, banner(config, (&found, env_command), addresses).text())?;
    service_manager::notify(ServiceState::Serving);

    let reloader = Reloader::new(flags, config, found.own_keys.clone());
    loop {
        match signals.next().await {
            SignalAction::HangUp if reloader.has_files() => {
                service_manager::notify(ServiceState::Reloading);
                access_log.iter().for_each(|log| log.reopen());
                let client = node.client();
                let taken = {
                    let _unchanged = pins.hold();
                    reload(&reloader, (&front, client, &admin), level, (&origins, &found))
                };
                service_manager::notify(reloaded(client, taken).await);
            }
            // `nohup` asks for a process that outlives its terminal.
            SignalAction::HangUp if signals.ignores_hang_up() => {
                tracing::info!(
                    "SIGHUP ignored, as at the start (nohup): there is no file to reload"
                );
            }
            // Without any file to reload, SIGHUP means that the terminal was closed.
            SignalAction::HangUp | SignalAction::Stop => break,
        }
    }
    service_manager::notify(ServiceState::Stopping);
    tracing::info!("stopping: waiting for requests in flight");
    phase.send_replace(Phase::Draining);
    tokio::spawn(async move {
        signals.stop_at_once().await;
        tracing::warn!("stopping at once: second signal");
        logging::flush();
        process::exit(exit_code::FAILED.into());
    });
    front.drain().await;
    node.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// A started server.
struct Started {
    node: Node,
    front: Frontend,
    origins: Arc<Origins>,
    pins: Arc<PinsFile>,
    found: Provisioned,
}

/// Resources that the configuration does not name, found or created in the data directory.
struct Provisioned {
    /// The data directory; holds its lock.
    home: Option<DataDir>,
    /// Lock of the data directory, if only its pins file is used.
    _lock: Option<File>,
    /// A valid key pair for the banner; `None`: the origin authorizes requests.
    keys: Option<KeyPair>,
    /// The generated key pair, if the configuration names none.
    own_keys: Option<KeyPair>,
    /// Origins in the order of the configuration.
    origins: Vec<OriginSpec>,
    devices: Vec<DeviceSettings>,
}

async fn start(
    config: &Config,
    endpoint: Address,
    access_log: Option<&AccessLog>,
) -> Result<Started, Failure> {
    let mut found = Provisioned::find(config)?;
    let pins = PinsFile::open(config.keep.pins_file.clone()).map_err(Failure::work)?;
    let Provisioned { own_keys, origins, devices, .. } = &found;
    let (origins, renewers) = origins::open_all(origins, &config.origins)?;
    origins::keys::find(renewers).await?;
    origins.iter().for_each(|named| named.origin.stats().keep_accounts(config.accounts));
    let origins = Arc::new(origins);
    let gateway = zonal_gateway::Config {
        region: config.region.clone(),
        limits: config.limits,
        authorization: config.authorization,
        would_refuse: config.would_refuse,
        access_log: access_log.cloned(),
        accounts: config.accounts,
    };
    let runtime_config = reload::runtime_config(config, own_keys.as_ref());
    let (front, listening) = Frontend::new(endpoint, (gateway, runtime_config), origins.clone());
    let (devices, chunks) = (devices.clone(), config.chunks.clone());
    let prefetches = config.background_reads();
    let settings = NodeSettings { devices, chunks, prefetches, mode: OpenMode::Recover };
    let backend = Arc::new(OriginBackend::new(origins.clone()));
    let node = Node::start(&settings, backend, Some(front.on_each_shard())).await?;
    if let Err(failure) = listening.everywhere(node.client().shard_count()).await {
        node.stop().await;
        return Err(failure);
    }
    if let Some(home) = &mut found.home {
        home.keep();
    }
    Ok(Started { node, front, origins, pins: Arc::new(pins), found })
}

impl Provisioned {
    fn find(config: &Config) -> Result<Self, Failure> {
        let takes_keys = config.authorization == Authorization::Keys;
        let is_all_named = (config.keys.is_some() || !config.more_keys.is_empty() || !takes_keys)
            && config.origins.iter().all(|origin| origin.spec.is_some())
            && config.devices.iter().all(|device| device.spec.is_some());
        let (mut home, lock) = match is_all_named {
            true if config.keep.is_pins_file_named => (None, None),
            true => (None, DataDir::lock_pins_file(&config.data_dir)?),
            false => (Some(DataDir::open(&config.data_dir)?), None),
        };
        let mut devices = Vec::with_capacity(config.devices.len());
        for device in &config.devices {
            let spec = match &device.spec {
                Some(spec) => spec.clone(),
                None => needed(&mut home).flash()?,
            };
            devices.push(device_settings(device, spec, &config.keep));
        }
        let mut own_keys = None;
        let configured = config.keys.as_ref();
        let configured = configured.or(config.more_keys.first().map(|key| &key.pair));
        let keys = match configured {
            _ if !takes_keys => None,
            Some(keys) => Some(keys.clone()),
            None => {
                own_keys = Some(needed(&mut home).keys()?);
                own_keys.clone()
            }
        };
        if let Some(keys) = &keys {
            refuse_own_keys(config, keys)?;
        }
        let mut origins = Vec::with_capacity(config.origins.len());
        for origin in &config.origins {
            origins.push(match &origin.spec {
                Some(spec) => spec.clone(),
                None => OriginSpec::Folder(needed(&mut home).origin()?),
            });
        }
        Ok(Self { home, _lock: lock, keys, own_keys, origins, devices })
    }

    /// Opens the origins again with the reloaded credentials; `None` for folders.
    fn open_again(&self, config: &Config) -> Result<Vec<Option<OpenedOrigin>>, Failure> {
        if let Some(keys) = &self.keys {
            refuse_own_keys(config, keys)?;
        }
        let opened = config.origins.iter().map(|of| match &of.spec {
            None | Some(OriginSpec::Folder(_)) => Ok(None),
            // The spec of some stores contains credentials.
            Some(spec) => origins::open(spec, of).map(Some),
        });
        opened.collect()
    }
}

/// Settings of a device for the node.
pub(super) fn device_settings(
    device: &Device,
    spec: DeviceSpec,
    keep: &Retention,
) -> DeviceSettings {
    let Device { shards, chunk, dram, buffers, prefetch, patience, rejoin, .. } = *device;
    DeviceSettings {
        spec,
        shards,
        policy: device.policy.clone(),
        chunk,
        dram,
        pinned_percent: keep.pinned_percent,
        forgets_pins: keep.pins_nothing(),
        buffers,
        prefetch,
        patience,
        rejoin,
    }
}

fn needed(home: &mut Option<DataDir>) -> &mut DataDir {
    home.as_mut().expect("it was opened because something was not named")
}

/// Refuses origin credentials that are Zonal's own client key, which the origin cannot know. A user
/// who ran the printed export commands has this key in the AWS variables that also configure the
/// origin.
fn refuse_own_keys(config: &Config, keys: &KeyPair) -> Result<(), Failure> {
    let key = &keys.access_key;
    let with_this =
        config.origins.iter().filter(|origin| origin.keys.access_key() == Some(key.as_str()));
    for origin in with_this {
        if config.keys.is_none() && config.more_keys.is_empty() {
            return Err(Failure::request(format!(
                "origin.access-key: {key} is Zonal's own key for clients: name the origin's key \
                 with --origin-access-key and --origin-secret-key-file"
            )));
        }
        if !matches!(origin.keys, OriginKeys::Static(_)) {
            tracing::warn!(
                key,
                "AWS_ACCESS_KEY_ID, used at the origin, is also the clients' key: if the origin \
                 has another key, name it with --origin-access-key"
            );
        }
    }
    Ok(())
}

async fn tell_of_start(
    (endpoint, admin): (SocketAddr, SocketAddr),
    client: &Client,
    devices: usize,
) {
    let (shards, stats) = (client.shard_count(), client.stats().await);
    // Log the limit in bytes: `keep.pinned` is only a percentage.
    let pinned_bytes: u64 = stats.iter().map(|share| share.pinned.0).sum();
    let pinned_max_bytes: u64 = stats.iter().map(|share| share.pinned_max.0).sum();
    tracing::info!(%endpoint, %admin, devices, shards, pinned_bytes, pinned_max_bytes, "serving");
}

/// Prints the banner. It goes to standard error if standard output carries the access log, and
/// nowhere if standard error carries JSON as well.
fn greet(log: &Log, text: String) -> Result<(), Failure> {
    match (&log.access, log.format) {
        (Some(AccessTo::StandardOutput), LogFormat::Json) => Ok(()),
        (Some(AccessTo::StandardOutput), LogFormat::Text) => banner::print_to(stderr(), text),
        (Some(AccessTo::File(_)) | None, _) => banner::print(text),
    }
}

fn banner<'a>(
    config: &'a Config,
    (found, env_command): (&'a Provisioned, String),
    (endpoint, admin): (SocketAddr, SocketAddr),
) -> Banner<'a> {
    let has_samples = config.origins.iter().any(|origin| origin.spec.is_none());
    let path = match has_samples {
        true => format!("/{}/{}", samples::BUCKET, samples::SMALL_KEY),
        // Without samples, the path lists the origin's buckets.
        false => "/".to_owned(),
    };
    let devices: Vec<String> = found.devices.iter().map(|d| d.spec.to_string()).collect();
    let origins: Vec<String> = found.origins.iter().map(OriginSpec::to_string).collect();
    Banner {
        endpoint,
        certificate: config.certificate_file.as_deref(),
        admin,
        admin_certificate: config.admin_certificate_file.as_deref(),
        region: &config.region,
        keys: found.keys.as_ref(),
        env_command,
        path,
        about: format!("{}, cached on {}", origins.join(" and "), devices.join(" and ")),
    }
}

/// Applies the new chunk rules to the shards, if the reload was accepted. Returns the state for the
/// service manager.
async fn reloaded(client: &Client, taken: Option<Arc<ChunkRules>>) -> ServiceState {
    let Some(chunks) = taken else { return ServiceState::ReloadRefused };
    client.set_chunks(&chunks).await;
    tracing::info!("reload applied: the new configuration is in use");
    ServiceState::Serving
}

/// Reloads the configuration: applies rules, origin credentials, log level and admin access, or
/// nothing if there is an error. Returns the chunk rules for the shards; `None` if the
/// configuration was refused.
fn reload(
    reloader: &Reloader<'_>,
    (front, client, admin): (&Frontend, &Client, &Admin),
    level: &Level,
    (origins, found): (&Origins, &Provisioned),
) -> Option<Arc<ChunkRules>> {
    let gateway = front.gateway()?;
    let read = reloader.read().and_then(|(config, runtime_config)| {
        // Open everything before applying anything: an unusable key must change nothing.
        let opened = found.open_again(&config).map_err(|failure| failure.to_string())?;
        let refused = |refused| format!("chunk.rules: {refused}");
        client.check_chunks(&config.chunks).map_err(refused)?;
        Ok((config, runtime_config, opened))
    });
    match read {
        Ok((config, runtime_config, opened)) => {
            for (known, opened) in origins.iter().zip(opened) {
                let Some((origin, renewer)) = opened else { continue };
                known.origin.take_credentials(&origin);
                drop(renewer.map(origins::keys::keep_fresh));
            }
            level.set(config.log.level);
            gateway.set_runtime_config(runtime_config);
            admin.set_security(config.admin_security);
            admin.set_prices(config.prices);
            Some(config.chunks)
        }
        Err(why) => {
            gateway.stats().terms_refused.add(1);
            tracing::error!(
                %why,
                "reload refused: the previous configuration stays in use"
            );
            None
        }
    }
}
