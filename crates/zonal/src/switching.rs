//! JSON of `zonal cache on|off` and its admin endpoint.

use std::fmt;

use serde::{Deserialize, Serialize};
use zonal_gateway::Caching;

/// Path on the admin endpoint that turns the cache off (POST).
pub(crate) const OFF_PATH: &str = "/cache/off";

/// Path on the admin endpoint that turns the cache on (POST).
pub(crate) const ON_PATH: &str = "/cache/on";

/// Whether reads are served from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CachingState {
    On,
    Off,
}

impl From<Caching> for CachingState {
    fn from(caching: Caching) -> Self {
        match caching {
            Caching::On => Self::On,
            Caching::Off => Self::Off,
        }
    }
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
pub(crate) struct Switched {
    /// The new state.
    pub(crate) cache: CachingState,
    /// The state before the command.
    pub(crate) was: CachingState,
}
