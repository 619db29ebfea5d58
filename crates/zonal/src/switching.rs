//! JSON of `zonal cache on|off` and its admin endpoint.

use std::fmt;

use serde::{Deserialize, Serialize};
use zonal_gateway::Caching;

/// Where the order to switch the cache off is posted.
pub(crate) const OFF_PATH: &str = "/cache/off";

/// And that to switch it on.
pub(crate) const ON_PATH: &str = "/cache/on";

/// Whether reads are answered from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    On,
    Off,
}

impl From<Caching> for State {
    fn from(caching: Caching) -> Self {
        match caching {
            Caching::On => Self::On,
            Caching::Off => Self::Off,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

/// The answer to an order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Switched {
    /// From now on.
    pub(crate) cache: State,
    /// Before.
    pub(crate) was: State,
}
