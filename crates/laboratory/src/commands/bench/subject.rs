//! A node as the cache under test.

use std::future::poll_fn;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::spawn_local;
use zonal_base::Bytes;
use zonal_emulator::Model;
use zonal_host::{
    Client, FrontEndTask, Head, Node, NodeSettings, RetentionClass, ShardStats, StartError,
};
use zonal_hostdev::DeviceLocation;
use zonal_lab::bench::{BenchError, Counters, Source, Subject, Work, write_bandwidth};
use zonal_lab::{Check, Generator};

use super::origin::{MadeUp, object};

/// Loops that may wait for their start on one shard: the largest number of a run.
const STARTING_MAX: usize = 4096;

/// A node, and the channels to its threads.
pub(super) struct NodeSubject {
    client: Client,
    /// One per shard.
    threads: Vec<mpsc::Sender<Work>>,
    settings: NodeSettings,
    capacity: Bytes,
    /// Head of every object, as the gateway would find it.
    head: Arc<Head>,
    generator: Arc<Generator>,
}

impl NodeSubject {
    pub(super) async fn start(
        settings: &NodeSettings,
        capacity: Bytes,
        value: Bytes,
    ) -> Result<(Node, Self), StartError> {
        let generator = Arc::<Generator>::default();
        let (started, mut starting) = mpsc::channel(STARTING_MAX);
        let front: FrontEndTask = Arc::new(move |_shard, _client| {
            let started = started.clone();
            Box::pin(async move {
                let (sender, mut work) = mpsc::channel::<Work>(STARTING_MAX);
                let _ = started.send(sender).await;
                while let Some(work) = work.recv().await {
                    spawn_local(work);
                }
            })
        });
        let backend = Arc::new(MadeUp(generator.clone()));
        let node = Node::start(settings, backend, Some(front)).await?;
        let client = node.client().clone();
        let mut threads = Vec::with_capacity(client.shard_count());
        while threads.len() < client.shard_count() {
            let ended = || StartError::Thread("a shard's thread ended".into());
            threads.push(starting.recv().await.ok_or_else(ended)?);
        }
        let head = Head {
            size: value.0,
            etag: "\"made-up\"".into(),
            version_id: "".into(),
            last_modified: "".into(),
            headers: Vec::new(),
            salt: 0,
            chunk: None,
            is_partial: false,
        };
        let head = Arc::new(head);
        Ok((node, Self { client, threads, settings: settings.clone(), capacity, head, generator }))
    }
}

impl Subject for NodeSubject {
    fn describe(&self) -> Vec<(&'static str, String)> {
        let device = &self.settings.devices[0];
        vec![
            ("name", "zonal".into()),
            ("version", env!("CARGO_PKG_VERSION").into()),
            ("device", device.spec.to_string()),
            ("chunk", device.chunk.to_string()),
            ("policy", device.policy.to_string()),
            ("dram", device.dram.to_string()),
            ("shards", self.client.shard_count().to_string()),
        ]
    }

    fn capacity(&self) -> Bytes {
        self.capacity
    }

    fn origin(&self) -> &Generator {
        &self.generator
    }

    fn place(&self, task: usize, work: Work) {
        // A shard that ended drops the loop, which is reported where the loop is awaited.
        let _ = self.threads[task % self.threads.len()].try_send(work);
    }

    async fn get(&self, key: u64, range: Range<u64>, check: &mut Check) -> Result<Source, String> {
        let failed = |error| format!("get of key {key:x}: {error:?}");
        let mut reading = self
            .client
            .read(&object(key), &self.head, range, RetentionClass::Usual)
            .await
            .map_err(failed)?;
        while let Some(bytes) = poll_fn(|cx| reading.poll_next(cx)).await {
            check.take(&bytes.map_err(failed)?);
        }
        Ok(match (reading.all_on_flash, reading.all_cached) {
            (true, _) => Source::Flash,
            (false, true) => Source::Dram,
            (false, false) => Source::Miss,
        })
    }

    async fn contains(&self, key: u64) -> bool {
        self.client.is_cached(&object(key), &self.head, 0..self.head.size).await
    }

    async fn settle(&self) {
        self.client.settle().await;
    }

    async fn counters(&self) -> Counters {
        let shards = self.client.stats().await;
        shards.iter().map(counters_of).fold(Counters::default(), Counters::beside)
    }

    async fn write_bandwidth(&self) -> Result<u64, BenchError> {
        match &self.settings.devices[0].spec.place {
            DeviceLocation::File { path, .. } => {
                write_bandwidth(path.parent().unwrap_or(Path::new(".")))
            }
            DeviceLocation::Block { .. } | DeviceLocation::Zoned { .. } => Err(BenchError::Unfit(
                "--rate in percent would overwrite the block device: write --rate in bytes, such \
                 as --rate 400MiB"
                    .into(),
            )),
            DeviceLocation::Emulated { model, .. } => {
                let model = Model::by_name(model).expect("a device spec has a name that is known");
                Ok(model.write_bytes_per_s())
            }
        }
    }
}

fn counters_of(shard: &ShardStats) -> Counters {
    let (cache, log) = (&shard.cache, &shard.log);
    Counters {
        dram_hits: cache.pieces_dram_hits,
        flash_hits: cache.pieces_flash_hits,
        misses: cache.pieces - cache.pieces_dram_hits - cache.pieces_flash_hits,
        admitted_bytes: cache.admitted_bytes,
        refused_bytes: cache.refused_bytes,
        device_written_bytes: log.device_written_bytes,
        device_read_bytes: log.device_read_bytes,
        reclaims: log.zones_reset,
        foreground_waits: log.foreground_waits,
        evicted: cache.evicted,
        damaged: cache.damaged,
        records: shard.records,
        index_bytes: shard.index_memory.0,
        backlog_bytes: shard.backlog.0,
    }
}
