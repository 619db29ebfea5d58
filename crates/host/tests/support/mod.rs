//! Settings of test nodes: each test changes what it is about.

use std::sync::Arc;

use zonal_base::Bytes;
use zonal_host::{ChunkRules, DeviceSettings, NodeSettings, PROBE_WINDOW, READ_TIMEOUT};
use zonal_zonelog::OpenMode;

/// A device of two shards without DRAM cache, pins and prefetch.
pub(crate) fn device(spec: &str) -> DeviceSettings {
    DeviceSettings {
        spec: spec.parse().expect("a device specification"),
        shards: Some(2),
        policy: "zone-fifo".parse().expect("a policy"),
        chunk: Bytes::kib(256),
        dram: Bytes(0),
        pinned_percent: 0,
        forgets_pins: false,
        buffers: Bytes::mib(16),
        prefetch: Bytes(0),
        patience: READ_TIMEOUT,
        rejoin: PROBE_WINDOW,
    }
}

/// A node of these devices.
pub(crate) fn node(devices: Vec<DeviceSettings>) -> NodeSettings {
    NodeSettings {
        devices,
        chunks: Arc::new(ChunkRules::all(None)),
        prefetches: 0,
        mode: OpenMode::Recover,
    }
}
