//! End-to-end tests of the binary: start, HTTP requests, shutdown, kill.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access_log;
mod admin;
mod api;
mod block;
mod chunks;
mod cloud;
mod config;
mod crash;
mod credentials;
mod defaults;
mod descriptors;
mod device;
mod emulated;
mod harness;
mod http;
mod isolated;
mod links;
mod lost_zones;
mod ls;
mod metrics;
mod mistakes;
mod nbd;
mod origin_check;
mod origin_health;
mod packaging;
mod panics;
mod pin;
mod prefixes;
mod price;
mod purge;
mod record;
mod refusals;
mod reload;
mod scrub;
mod serve;
mod service_manager;
mod stats;
mod stuck_output;
mod switch;
mod upgrade;
mod viewer;
mod warm;
mod zoned;
