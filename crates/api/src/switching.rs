//! JSON of `zonal cache on|off` and its admin endpoint.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Path on the admin endpoint that turns the cache off (POST).
pub const OFF_PATH: &str = "/cache/off";

/// Path on the admin endpoint that turns the cache on (POST).
pub const ON_PATH: &str = "/cache/on";

/// Whether reads are served from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CachingState {
    On,
    Off,
}

impl fmt::Display for CachingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

/// Response to the command.
#[derive(Debug, Serialize, Deserialize)]
pub struct Switched {
    /// The new state.
    pub cache: CachingState,
    /// The state before the command.
    pub was: CachingState,
}
