//! Scrubber: verifies the flash of all devices in the background, and when an operator asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use zonal_api::scrubbing::{DamagedZone, ScrubStats};
use zonal_host::{Client, ShardStats};

use crate::config::ScrubSettings;

/// Runs one scrub at a time.
pub(super) struct Scrubber {
    settings: ScrubSettings,
    asked: Notify,
    /// True from the request for a scrub, or its beginning, until its end.
    is_running: AtomicBool,
    /// End of the last scrub, in seconds since 1970. 0: none has ended.
    ended: AtomicU64,
}

impl Scrubber {
    pub(super) fn new(settings: ScrubSettings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            asked: Notify::new(),
            is_running: AtomicBool::new(false),
            ended: AtomicU64::new(0),
        })
    }

    /// Starts a scrub now. False if one is running.
    pub(super) fn ask(&self) -> bool {
        let starts = !self.is_running.swap(true, Ordering::Relaxed);
        if starts {
            self.asked.notify_one();
        }
        starts
    }

    /// Scrubs until the process ends.
    pub(super) async fn run(self: Arc<Self>, client: Client, devices: Vec<String>) {
        loop {
            match self.settings.every {
                Some(every) => {
                    let _ = tokio::time::timeout(every, self.asked.notified()).await;
                }
                None => self.asked.notified().await,
            }
            self.is_running.store(true, Ordering::Relaxed);
            tracing::info!(bytes_per_second = self.settings.rate.0, "a scrub begins");
            client.scrub(self.settings.rate).await;
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            self.ended.store(now.map_or(0, |since| since.as_secs()), Ordering::Relaxed);
            tell(&self.stats(&devices, &client.stats().await));
            self.is_running.store(false, Ordering::Relaxed);
        }
    }

    pub(super) fn stats(&self, devices: &[String], shards: &[ShardStats]) -> ScrubStats {
        let ended = self.ended.load(Ordering::Relaxed);
        let mut sum = ScrubStats {
            running: self.is_running.load(Ordering::Relaxed),
            ended_seconds: (ended != 0).then_some(ended),
            ..ScrubStats::default()
        };
        for shard in shards {
            let Some(device) = devices.get(shard.device) else { continue };
            let scrub = &shard.scrub;
            sum.zones += u64::from(scrub.zones);
            sum.zones_done += u64::from(scrub.zones_done);
            sum.read_bytes += scrub.read_bytes;
            sum.records += scrub.records;
            sum.damaged_records += scrub.damaged_records;
            sum.damaged_metadata += scrub.damaged_metadata;
            if scrub.is_broken_off && !sum.broken_off.contains(device) {
                sum.broken_off.push(device.clone());
            }
            let first = zones_before(shard, shards);
            let damaged = scrub.damaged_zones.iter();
            sum.damaged_zones.extend(damaged.map(|zone| DamagedZone {
                device: device.clone(),
                zone: first + u64::from(zone.0),
            }));
        }
        sum
    }
}

/// Zones of the device in front of the shard's.
fn zones_before(shard: &ShardStats, all: &[ShardStats]) -> u64 {
    let before = |of: &&ShardStats| of.device == shard.device && of.shard < shard.shard;
    all.iter().filter(before).flat_map(|of| of.zones).map(u64::from).sum()
}

/// Logs the end of a scrub.
fn tell(scrub: &ScrubStats) {
    let ScrubStats { records, damaged_records, damaged_metadata, .. } = *scrub;
    if !scrub.broken_off.is_empty() {
        let devices = scrub.broken_off.join(", ");
        tracing::warn!(
            records,
            devices,
            "a scrub broke off: a device failed or was late, or Zonal is stopping"
        );
    }
    for DamagedZone { device, zone } in &scrub.damaged_zones {
        tracing::warn!(device, zone, "a scrub found damage in a zone");
    }
    match scrub.damaged() {
        0 if !scrub.broken_off.is_empty() => {}
        0 => tracing::info!(records, "a scrub ended: everything is intact"),
        _ => tracing::error!(
            records,
            damaged_records,
            damaged_metadata,
            "a scrub found damage: damaged records are fetched again when they are read; check the \
             device"
        ),
    }
}
