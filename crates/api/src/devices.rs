//! `GET /api/v1/devices`: the devices and their state.

use serde::Serialize;

use crate::stats::DeviceStats;

/// Path on the admin endpoint.
pub const PATH: &str = "/api/v1/devices";

#[derive(Debug, Serialize)]
pub struct Devices {
    /// In the order of the configuration.
    pub devices: Vec<DeviceStats>,
}
