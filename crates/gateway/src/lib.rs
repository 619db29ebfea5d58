//! S3 endpoint: an HTTP/1.1 server, strict signature verification, and one file for each operation.
//!
//! Uses: `host`, `origin`, `s3`, `base`. Knows nothing of: devices, zones, chunks, policies,
//! configuration files. Read in this order: `server`, `connections`, `socket`, `gateway`,
//! `admission`, `domains`, `target`, `auth`, `api`, `copy_source`, `access`, `operation`,
//! `access_log`, `latencies`, `accounts`; then the paths: `get_object`, `head_object`, `list_buckets`, `forward`, `write`,
//! `delete_objects`, `as_signed`; then their rules: `representation`, `part_ranges`, `prefix`,
//! `cache_control`.
//!
//! Invariants:
//!
//! - Every request is authenticated and authorized before it is answered, a cache hit as well as a
//!   miss. Either the gateway checks it, or the origin does.
//! - A response has the bytes and the headers of one version. If the rest of it is not available,
//!   the gateway closes the connection, so that no client takes a part for the whole.
//! - Every read that begins after an acknowledged write sees that write.
//! - Clients are many and slow: everything that they hold or wait for is bounded in number, size
//!   and time.

mod access;
mod access_log;
mod accounts;
mod admission;
mod answer;
mod api;
mod auth;
mod backend;
mod body;
mod bypass;
mod cache_control;
mod concurrency_limits;
mod config;
mod connections;
mod copy_source;
mod delete_objects;
mod domains;
mod error;
mod fair_semaphore;
mod forward;
mod framing;
mod gateway;
mod get_object;
mod head_object;
mod ids;
mod latencies;
mod list_buckets;
mod operation;
mod origin_authorization;
mod owner_cache;
mod part_ranges;
mod pins;
mod prefix;
mod read;
mod representation;
mod request_id;
mod s3_request;
mod serve;
mod server;
mod socket;
mod stats;
mod target;
mod tls;
mod vendor_headers;
mod write;

pub use access::{Access, AccessRules};
pub use access_log::{AccessEntry, AccessEvent, AccessEvents, AccessLog, Trace};
pub use auth::AccessKeys;
pub use backend::OriginBackend;
pub use bypass::BypassReason;
pub use config::{Authorization, Caching, Config, Limits, RuntimeConfig, WouldRefuse};
pub use domains::{BadDomain, Domains};
pub use gateway::Gateway;
pub use latencies::{RequestLatencies, ServedFrom};
pub use operation::Operation;
pub use pins::Pins;
pub use prefix::{FreshnessRule, FreshnessRules, Keep, KeepRules};
pub use server::serve;
pub use stats::{CacheStatus, Stats};
pub use target::is_bucket_name;
pub use tls::{Certificate, CertificateError};
pub use vendor_headers::{BadVendorHeader, VendorHeaders};
