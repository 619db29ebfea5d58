//! foyer as the cache under test, with its default settings.
//!
//! Four settings differ: O_DIRECT (the default is buffered, which measures the page cache on a
//! machine with free memory), the size on disk, 64 MiB of memory weighed by bytes, and a metrics
//! registry, the only place with its count of drops.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes as Value;
use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder,
    PsyncIoEngineConfig, Source as FoyerSource,
};
use mixtrics::registry::prometheus_0_14::PrometheusMetricsRegistry;
use prometheus::Registry;
use zonal_base::{Bytes, index};
use zonal_lab::bench::{BenchError, Counters, Source, Subject, Work, write_bandwidth};
use zonal_lab::{Check, Generator};

/// DRAM tier: foyer does not work without one.
pub(crate) const MEMORY: Bytes = Bytes::mib(64);

/// Version in the manifest.
pub(crate) const VERSION: &str = "0.22.6";

/// Name in foyer's metrics.
const NAME: &str = "foyer";

/// A foyer cache on a folder.
pub(crate) struct FoyerSubject {
    cache: HybridCache<u64, Value>,
    registry: Registry,
    folder: PathBuf,
    capacity: Bytes,
    value: Bytes,
    generator: Arc<Generator>,
}

impl FoyerSubject {
    pub(crate) async fn open(
        folder: PathBuf,
        capacity: Bytes,
        value: Bytes,
    ) -> Result<Self, foyer::Error> {
        let registry = Registry::new();
        let metrics = PrometheusMetricsRegistry::new(registry.clone());
        let device = FsDeviceBuilder::new(&folder)
            .with_capacity(index(capacity.0))
            .with_direct(true)
            .build()?;
        let cache = HybridCacheBuilder::new()
            .with_name(NAME)
            .with_metrics_registry(Box::new(metrics))
            .memory(index(MEMORY.0))
            .with_weighter(|_key: &u64, value: &Value| size_of::<u64>() + value.len())
            .storage()
            .with_io_engine_config(PsyncIoEngineConfig::new())
            .with_engine_config(BlockEngineConfig::new(device))
            .build()
            .await?;
        let generator = Arc::default();
        Ok(Self { cache, registry, folder, capacity, value, generator })
    }

    pub(crate) async fn close(&self) -> Result<(), foyer::Error> {
        self.cache.close().await
    }

    /// Counter of a family with this value of the label `op`.
    fn counted(&self, family: &str, op: &str) -> u64 {
        let families = self.registry.gather();
        let family = families.iter().find(|found| found.name() == family);
        let metrics = family.map(|family| family.get_metric()).unwrap_or_default();
        let of_op = metrics.iter().find(|metric| {
            metric.get_label().iter().any(|label| label.name() == "op" && label.value() == op)
        });
        of_op.map_or(0, |metric| whole(metric.get_counter().get_value()))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
fn whole(count: f64) -> u64 {
    count as u64
}

impl Subject for FoyerSubject {
    fn describe(&self) -> Vec<(&'static str, String)> {
        vec![
            ("name", NAME.into()),
            ("version", VERSION.into()),
            ("folder", self.folder.display().to_string()),
            ("memory", MEMORY.to_string()),
            ("engine", "psync, O_DIRECT".into()),
        ]
    }

    fn capacity(&self) -> Bytes {
        self.capacity
    }

    fn origin(&self) -> &Generator {
        &self.generator
    }

    fn place(&self, _task: usize, work: Work) {
        tokio::spawn(work);
    }

    /// foyer has no range reads: reads the whole value, and checks the range.
    async fn get(&self, key: u64, range: Range<u64>, check: &mut Check) -> Result<Source, String> {
        let (generator, whole) = (self.generator.clone(), self.value.0);
        let fetch = move || async move {
            Ok::<_, foyer::Error>(Value::from(generator.make(key, 0..whole)))
        };
        let entry = self.cache.get_or_fetch(&key, fetch).await;
        let entry = entry.map_err(|error| format!("get of key {key:x}: {error}"))?;
        check.take(&entry.value()[index(range.start)..index(range.end)]);
        Ok(match entry.source() {
            FoyerSource::Outer => Source::Miss,
            FoyerSource::Memory => Source::Dram,
            FoyerSource::Disk => Source::Flash,
        })
    }

    async fn contains(&self, key: u64) -> bool {
        self.cache.contains(&key)
    }

    async fn settle(&self) {
        self.cache.storage().wait().await;
    }

    async fn counters(&self) -> Counters {
        let storage = |op| self.counted("foyer_storage_op_total", op);
        let inner = |op| self.counted("foyer_storage_inner_op_total", op);
        let refused = inner("buffer_overflow") + inner("channel_overflow");
        let skipped = self.counted("foyer_storage_block_engine_op_total", "enqueue_skip");
        let enqueued = storage("enqueue").saturating_sub(skipped);
        let statistics = self.cache.statistics();
        Counters {
            dram_hits: self.counted("foyer_memory_op_total", "hit"),
            flash_hits: storage("hit"),
            misses: storage("miss"),
            admitted_bytes: enqueued.saturating_sub(refused) * self.value.0,
            refused_bytes: refused * self.value.0,
            device_written_bytes: statistics.disk_write_bytes() as u64,
            device_read_bytes: statistics.disk_read_bytes() as u64,
            ..Counters::default()
        }
    }

    async fn write_bandwidth(&self) -> Result<u64, BenchError> {
        write_bandwidth(&self.folder)
    }
}
