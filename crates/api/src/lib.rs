//! JSON documents of the API under `/api/v1/` and of recordings, and how they come from the engines.
//!
//! Uses: `host` and `shaper` for what the engines tell.
//! Knows nothing of: HTTP, sockets, files.
//! Read in this order: `live` (the state of a cache), `zones`, `events`; `shards` (how they come from
//! the shards of a cache); `block` (the same of a block device) and `tiers`; `document` and
//! `merge_patch` (the live view: what has changed); `stats`, `block_stats`, `latency`, `history`,
//! `prefixes`, `devices`, `origins`, `scrubbing`, `switching`.
//!
//! Readers are `zonal cache`, the page at `/ui/` and anybody's programs. `docs/api.md` documents the
//! fields for all of them.

#![allow(missing_docs, reason = "docs/api.md documents the fields; names say the rest")]

pub mod block;
pub mod block_stats;
pub mod devices;
mod document;
pub mod events;
pub mod history;
pub mod latency;
pub mod live;
mod merge_patch;
pub mod origins;
pub mod prefixes;
pub mod scrubbing;
pub mod shards;
pub mod stats;
pub mod switching;
pub mod tiers;
pub mod zones;

pub use document::{Document, NextVictim, ZoneGroup, without_nulls};
