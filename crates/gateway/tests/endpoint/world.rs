//! Test fixture: a gateway with cache and origin, on loopback and in a temporary folder.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use zonal_base::Bytes;
use zonal_folder::FolderOrigin;
use zonal_gateway::{
    Access, AccessKeys, AccessRules, Authorization, CacheStatus, Config, Domains, FreshnessRules,
    Gateway, Keep, KeepRules, Limits, OriginBackend, RuntimeConfig, VendorHeaders, WouldRefuse,
    serve,
};
use zonal_host::{ChunkRules, DeviceSettings, Freshness, Node, NodeSettings};
use zonal_origin::{Origin, Origins};
use zonal_zonelog::OpenMode;

use crate::client::{ACCESS_KEY, REGION, SECRET_KEY};

/// The origin confirms the version at each read.
pub(crate) const REVALIDATE: Freshness = Freshness::Revalidate;

pub(crate) struct World {
    pub(crate) gateway: Gateway,
    pub(crate) address: SocketAddr,
    node: Option<Node>,
    folder: TempDir,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
}

fn config(limits: Limits) -> Config {
    let (authorization, would_refuse, accounts) = Default::default();
    let (region, access_log) = (REGION.into(), None);
    Config { region, limits, authorization, would_refuse, access_log, accounts }
}

impl World {
    /// A gateway over a folder with one bucket `b`.
    pub(crate) async fn start(freshness: Freshness) -> Self {
        Self::with_limits(freshness, Limits::default()).await
    }

    pub(crate) async fn with_limits(freshness: Freshness, limits: Limits) -> Self {
        Self::with_all_limits(freshness, limits, zonal_origin::OriginLimits::default()).await
    }

    pub(crate) async fn with_all_limits(
        freshness: Freshness,
        limits: Limits,
        of_origin: zonal_origin::OriginLimits,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("origin/b")).unwrap();
        let root = folder.path().join("origin");
        let origin = FolderOrigin::open(root, &of_origin).unwrap();
        Self::over(folder, Origin::from(origin).into(), freshness, limits).await
    }

    /// A gateway over any origins.
    pub(crate) async fn over_origin(origins: impl Into<Origins>, freshness: Freshness) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::over(folder, origins.into(), freshness, Limits::default()).await
    }

    /// A gateway with origin authorization. It has no keys, and `immutable` freshness, so it never
    /// revalidates by itself.
    pub(crate) async fn judged_by(origins: impl Into<Origins>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { authorization: Authorization::Origin, ..config(Limits::default()) };
        let world = Self::build(folder, origins.into(), Freshness::Immutable, config).await;
        world.change_terms(|runtime_config| {
            runtime_config.access_keys = AccessKeys::default();
            runtime_config.domains = Domains::default().with("gateway").unwrap();
        });
        world
    }

    /// A gateway with `would-refuse = "log"`.
    pub(crate) async fn that_logs(origins: impl Into<Origins>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { would_refuse: WouldRefuse::Log, ..config(Limits::default()) };
        Self::build(folder, origins.into(), REVALIDATE, config).await
    }

    /// A gateway over any origins, whose files may be in `folder`.
    pub(crate) async fn over(
        folder: TempDir,
        origins: Origins,
        freshness: Freshness,
        limits: Limits,
    ) -> Self {
        Self::build(folder, origins, freshness, config(limits)).await
    }

    async fn build(
        folder: TempDir,
        origins: Origins,
        freshness: Freshness,
        config: Config,
    ) -> Self {
        let origins = Arc::new(origins);
        let spec = format!("file:{}?size=64MiB&zone=4MiB", folder.path().join("device").display());
        let settings = NodeSettings {
            devices: vec![DeviceSettings {
                dram: Bytes::mib(8),
                spec: spec.parse().unwrap(),
                shards: Some(1),
                policy: "zone-fifo".parse().unwrap(),
                chunk: Bytes::kib(256),
                pinned_percent: 50,
                forgets_pins: false,
                buffers: Bytes::mib(32),
                prefetch: Bytes(0),
                patience: zonal_host::READ_TIMEOUT,
                rejoin: zonal_host::PROBE_WINDOW,
            }],
            chunks: Arc::new(ChunkRules::all(None)),
            prefetches: 0,
            mode: OpenMode::Recover,
        };
        let backend = Arc::new(OriginBackend::new(origins.clone()));
        let node = Node::start(&settings, backend, None).await.unwrap();
        let everything = AccessRules::all(Access::ReadWrite);
        let runtime_config = RuntimeConfig {
            access_keys: AccessKeys::default().with(ACCESS_KEY, SECRET_KEY, everything),
            domains: Domains::default(),
            access: AccessRules::all(Access::ReadWrite),
            freshness: FreshnessRules::all(freshness.into()),
            keep: KeepRules::all(Keep::Policy)
                .with("b/never/", Keep::Never)
                .with("b/pin/", Keep::Pin),
            pins: Arc::default(),
            vendor_headers: VendorHeaders::default(),
            certificate: None,
        };
        let gateway = Gateway::new(config, runtime_config, node.client().clone(), origins);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move { drop(stopped.await) };
        let server = tokio::spawn(serve(listener, gateway.clone(), shutdown));
        let (node, stop, server) = (Some(node), Some(stop), Some(server));
        Self { gateway, address, node, folder, stop, server }
    }

    /// Path of an object of bucket `b` in the folder origin.
    pub(crate) fn path(&self, key: &str) -> PathBuf {
        self.folder.path().join("origin/b").join(key)
    }

    /// Temporary folder of the test.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Writes an object at the origin without the gateway.
    pub(crate) fn put(&self, key: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Creates a new file, so that running reads keep the old version.
        let _ = std::fs::remove_file(&path);
        std::fs::write(path, bytes).unwrap();
    }

    /// Changes the terms while the gateway serves.
    pub(crate) fn change_terms(&self, change: impl FnOnce(&mut RuntimeConfig)) {
        let mut runtime_config = RuntimeConfig::clone(&self.gateway.runtime_config());
        change(&mut runtime_config);
        self.gateway.set_runtime_config(runtime_config);
    }

    /// Writes admitted chunks to flash.
    pub(crate) async fn settle(&self) {
        self.gateway_node().client().settle().await;
    }

    fn gateway_node(&self) -> &Node {
        self.node.as_ref().expect("the node runs")
    }

    /// Number of buffers that the cache has handed out.
    pub(crate) async fn buffers_in_use(&self) -> u64 {
        let stats = self.gateway_node().client().stats().await;
        stats.iter().map(|stats| stats.buffers_in_use).sum()
    }

    /// Stops the cache; the gateway continues.
    pub(crate) async fn lose_cache(&mut self) {
        self.node.take().expect("the node runs").stop().await;
    }

    /// Stops gateway and cache, and returns the folder with the device.
    pub(crate) async fn ended(mut self) -> TempDir {
        self.stop().await;
        self.lose_cache().await;
        self.folder
    }

    /// Begins the shutdown. The future resolves when the server has ended.
    pub(crate) fn stop(&mut self) -> impl Future<Output = ()> + use<> {
        drop(self.stop.take());
        let server = self.server.take().expect("the server runs");
        async move { server.await.unwrap() }
    }

    pub(crate) fn outcomes(&self, wanted: CacheStatus) -> u64 {
        let mut outcomes = self.gateway.stats().outcomes();
        outcomes.find(|(outcome, _)| *outcome == wanted).unwrap().1
    }
}

/// Bytes whose values depend on their position.
pub(crate) fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at ^ (at >> 7) ^ seed) % 251).unwrap();
    (0..bytes).map(byte).collect()
}

/// How slow this machine is now: the scheduling delay of a task, relative to a quiet machine. Tests
/// multiply their timeouts by it where a peer must be in time.
pub(crate) async fn slowness() -> u32 {
    const TURN: Duration = Duration::from_millis(5);
    let mut latest = TURN;
    for _ in 0..20 {
        let begun = Instant::now();
        tokio::time::sleep(TURN).await;
        latest = latest.max(begun.elapsed());
    }
    u32::try_from(latest.as_millis().div_ceil(TURN.as_millis())).unwrap().min(50)
}

/// Waits for an event that happens soon in another task.
pub(crate) async fn eventually(what: &str, happened: impl Fn() -> bool) {
    let wait = async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect(what);
}
