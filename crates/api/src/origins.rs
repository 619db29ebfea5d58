//! `GET /api/v1/origins`: the origins and their health.

use serde::Serialize;

use crate::stats::OriginStats;

/// Path on the admin endpoint.
pub const PATH: &str = "/api/v1/origins";

#[derive(Debug, Serialize)]
pub struct Origins {
    /// In the order of the configuration.
    pub origins: Vec<OriginStats>,
}
