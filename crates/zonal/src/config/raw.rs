//! Unvalidated configuration: the keys of the file, the flags and the environment variables.
//!
//! One structure per section serves all three: `serde` reads it from TOML, `clap` from flags and
//! environment variables. Every key is optional here; `config/zonal.toml`, which is compiled in,
//! has a default for each.

mod limits;
mod origin;

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};
use toml::Spanned;

pub(crate) use limits::Limits;
pub(crate) use origin::{Origin, OriginFlags};

/// A configuration file, or the merge of several layers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct File {
    pub(crate) data_dir: Option<String>,
    pub(crate) endpoint: Endpoint,
    pub(crate) headers: Headers,
    pub(crate) admin: Admin,
    pub(crate) origin: Vec<Origin>,
    pub(crate) device: Vec<Device>,
    pub(crate) access: Access,
    pub(crate) freshness: Freshness,
    pub(crate) keep: Keep,
    pub(crate) chunk: Chunk,
    pub(crate) limits: Limits,
    pub(crate) scrub: Scrub,
    pub(crate) price: Price,
    pub(crate) accounts: Accounts,
    pub(crate) log: Log,
}

/// Those of [`Flags`] that name the origins, for commands that need no more.
#[derive(Clone, Debug, Args)]
pub(crate) struct OriginsOnly {
    /// Configuration file of zonal serve
    #[arg(long, value_name = "FILE", env = "ZONAL_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) origin: OriginFlags,
}

/// Flags of `zonal serve`, and the variables behind them.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Flags {
    /// Configuration file; `zonal config init -` prints one with every key
    #[arg(long, value_name = "FILE", env = "ZONAL_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Data directory for generated files: default device, sample objects, access key
    #[arg(long, value_name = "DIR", env = "ZONAL_DATA_DIR")]
    pub(crate) data_dir: Option<String>,
    #[command(flatten)]
    pub(crate) endpoint: Endpoint,
    #[command(flatten)]
    pub(crate) headers: Headers,
    #[command(flatten)]
    pub(crate) admin: Admin,
    #[command(flatten)]
    pub(crate) origin: OriginFlags,
    #[command(flatten)]
    pub(crate) device: DeviceFlags,
    #[command(flatten)]
    pub(crate) access: AccessFlags,
    #[command(flatten)]
    pub(crate) freshness: FreshnessFlags,
    #[command(flatten)]
    pub(crate) keep: KeepFlags,
    #[command(flatten)]
    pub(crate) chunk: ChunkFlags,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) scrub: Scrub,
    #[command(flatten)]
    pub(crate) price: Price,
    #[command(flatten)]
    pub(crate) accounts: Accounts,
    #[command(flatten)]
    pub(crate) log: Log,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Endpoint")]
pub(crate) struct Endpoint {
    /// Listen address of the S3 endpoint
    #[arg(long, value_name = "ADDR", env = "ZONAL_ENDPOINT_LISTEN")]
    pub(crate) listen: Option<String>,
    /// Region in the signatures of clients
    #[arg(long, env = "ZONAL_ENDPOINT_REGION")]
    pub(crate) region: Option<String>,
    /// Domain for virtual-hosted-style requests (BUCKET.DOMAIN), as s3.example.com (repeatable)
    #[arg(
        id = "endpoint-domains",
        long = "domain",
        value_name = "DOMAIN",
        env = "ZONAL_ENDPOINT_DOMAINS"
    )]
    pub(crate) domains: Option<Vec<String>>,
    /// Authorization of requests: keys (configured here) or origin (checks the client's signature)
    #[arg(long, value_name = "WHO", env = "ZONAL_ENDPOINT_AUTHORIZATION")]
    pub(crate) authorization: Option<String>,
    /// Handling of unknown operations, parameters and headers: refuse, or log (log and forward)
    #[arg(long, value_name = "WHAT", env = "ZONAL_ENDPOINT_WOULD_REFUSE")]
    pub(crate) would_refuse: Option<String>,
    /// Access key of clients
    #[arg(long, value_name = "KEY", env = "ZONAL_ENDPOINT_ACCESS_KEY")]
    pub(crate) access_key: Option<String>,
    /// Secret key of clients
    #[arg(long, value_name = "KEY", env = "ZONAL_ENDPOINT_SECRET_KEY", hide_env_values = true)]
    pub(crate) secret_key: Option<String>,
    /// Secret key file: its first line is the secret key of clients
    #[arg(long, value_name = "FILE", env = "ZONAL_ENDPOINT_SECRET_KEY_FILE")]
    pub(crate) secret_key_file: Option<String>,
    /// Keys file: more access keys, each with its own access; see config/keys.toml in the sources
    #[arg(long, value_name = "FILE", env = "ZONAL_ENDPOINT_KEYS_FILE")]
    pub(crate) keys_file: Option<String>,
    /// TLS certificate chain of the S3 endpoint, a PEM file; enables HTTPS
    #[arg(long, value_name = "FILE", env = "ZONAL_ENDPOINT_CERTIFICATE_FILE")]
    pub(crate) certificate_file: Option<String>,
    /// TLS private key of the certificate, a PEM file
    #[arg(long, value_name = "FILE", env = "ZONAL_ENDPOINT_PRIVATE_KEY_FILE")]
    pub(crate) private_key_file: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Headers")]
pub(crate) struct Headers {
    /// Vendor header that does not change reads, as x-amz-new: these reads are cached (repeatable)
    #[arg(long = "harmless-header", value_name = "NAME", env = "ZONAL_HEADERS_HARMLESS")]
    pub(crate) harmless: Option<Vec<String>>,
    /// Unknown vendor header of writes that Zonal forwards, such as x-rgw-new (repeatable)
    #[arg(long = "passed-header", value_name = "NAME", env = "ZONAL_HEADERS_PASSED")]
    pub(crate) passed: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Admin")]
pub(crate) struct Admin {
    /// Listen address of the admin endpoint: metrics, health, readiness, commands
    #[arg(id = "admin-listen", long = "admin", value_name = "ADDR", env = "ZONAL_ADMIN_LISTEN")]
    pub(crate) listen: Option<String>,
    /// Host name that the admin endpoint accepts besides IP addresses and localhost (repeatable)
    #[arg(id = "admin-hosts", long = "admin-host", value_name = "NAME", env = "ZONAL_ADMIN_HOSTS")]
    pub(crate) hosts: Option<Vec<String>>,
    /// Token file: its first line is the token for commands [without it: only from this machine]
    #[arg(
        id = "admin-token-file",
        long = "admin-token-file",
        value_name = "FILE",
        env = "ZONAL_ADMIN_TOKEN_FILE"
    )]
    pub(crate) token_file: Option<String>,
    /// TLS certificate chain of the admin endpoint, a PEM file; enables HTTPS
    #[arg(
        id = "admin-certificate-file",
        long = "admin-certificate-file",
        value_name = "FILE",
        env = "ZONAL_ADMIN_CERTIFICATE_FILE"
    )]
    pub(crate) certificate_file: Option<String>,
    /// TLS private key of the certificate, a PEM file
    #[arg(
        id = "admin-private-key-file",
        long = "admin-private-key-file",
        value_name = "FILE",
        env = "ZONAL_ADMIN_PRIVATE_KEY_FILE"
    )]
    pub(crate) private_key_file: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Scrub")]
pub(crate) struct Scrub {
    /// Time between two scrubs, which read and verify everything; never: only zonal cache scrub
    #[arg(
        id = "scrub-every",
        long = "scrub",
        value_name = "TIME|never",
        env = "ZONAL_SCRUB_EVERY"
    )]
    pub(crate) every: Option<String>,
    /// Maximum bytes that a scrub reads from each device in a second
    #[arg(id = "scrub-rate", long, value_name = "SIZE", env = "ZONAL_SCRUB_RATE")]
    pub(crate) rate: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Prices")]
pub(crate) struct Price {
    /// Price of a million GET and HEAD requests to the origin, to show savings, such as "0.40 USD"
    #[arg(id = "price-reads", long, value_name = "PRICE", env = "ZONAL_PRICE_READS")]
    pub(crate) reads: Option<String>,
    /// Price of a GiB received from the origin, to show savings, such as "0.09 USD"
    #[arg(id = "price-received", long, value_name = "PRICE", env = "ZONAL_PRICE_RECEIVED")]
    pub(crate) received: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Accounts")]
pub(crate) struct Accounts {
    /// Accounts of requests and savings by: bucket, prefix, prefix:N (N parts of the key) or object
    #[arg(id = "accounts-by", long, value_name = "WHAT", env = "ZONAL_ACCOUNTS_BY")]
    pub(crate) by: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Log")]
pub(crate) struct Log {
    /// Log format: text or json
    #[arg(id = "log-format", long, value_name = "FORMAT", env = "ZONAL_LOG_FORMAT")]
    pub(crate) format: Option<String>,
    /// Log level: error, warn, info, debug or trace; also per crate: info,zonal_host=debug
    #[arg(id = "log-level", long, value_name = "LEVEL", env = "ZONAL_LOG_LEVEL")]
    pub(crate) level: Option<String>,
    /// Access log: a file to append to, or - for standard output [without it: none]
    #[arg(id = "log-access", long = "access-log", value_name = "PATH", env = "ZONAL_LOG_ACCESS")]
    pub(crate) access: Option<String>,
    /// Recording for zonal play: a file to append to [without it: none]
    #[arg(id = "log-record", long = "record", value_name = "FILE", env = "ZONAL_LOG_RECORD")]
    pub(crate) record: Option<String>,
}

/// A `[[device]]` section of the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Device {
    pub(crate) spec: Option<String>,
    pub(crate) shards: Option<String>,
    pub(crate) policy: Option<String>,
    pub(crate) chunk: Option<String>,
    pub(crate) dram: Option<String>,
    pub(crate) buffers: Option<String>,
    pub(crate) prefetch: Option<String>,
    pub(crate) patience: Option<String>,
    pub(crate) rejoin: Option<String>,
}

/// Flags name devices, and change the other keys of all of them.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Devices")]
pub(crate) struct DeviceFlags {
    /// Device: file:PATH?size=8GiB&zone=64MiB, block:/dev/NAME, zns:/dev/NAME or
    /// emulator:zn540?zones=8&backing=PATH (repeatable)
    #[arg(id = "device", long, value_name = "SPEC", env = "ZONAL_DEVICE_SPEC")]
    pub(crate) specs: Vec<String>,
    /// Number of shards (threads) of each device
    #[arg(long, value_name = "N", env = "ZONAL_DEVICE_SHARDS")]
    pub(crate) shards: Option<String>,
    /// Eviction policy, such as flow, zone-lru or zdrop?vop=50%
    #[arg(long, value_name = "POLICY", env = "ZONAL_DEVICE_POLICY")]
    pub(crate) policy: Option<String>,
    /// Chunk size: the unit of fetching and caching
    #[arg(long, value_name = "SIZE", env = "ZONAL_DEVICE_CHUNK")]
    pub(crate) chunk: Option<String>,
    /// DRAM tier of each shard, for chunks on probation and frequently read chunks; 0: none
    #[arg(long, value_name = "SIZE", env = "ZONAL_DEVICE_DRAM")]
    pub(crate) dram: Option<String>,
    /// I/O buffer memory of each shard
    #[arg(long, value_name = "SIZE", env = "ZONAL_DEVICE_BUFFERS")]
    pub(crate) buffers: Option<String>,
    /// Prefetch distance of sequential readers; 0: no prefetch
    #[arg(long, value_name = "SIZE", env = "ZONAL_DEVICE_PREFETCH")]
    pub(crate) prefetch: Option<String>,
    /// Read timeout of the device; after it, the bytes come from the origin
    #[arg(id = "device-patience", long, value_name = "TIME", env = "ZONAL_DEVICE_PATIENCE")]
    pub(crate) patience: Option<String>,
    /// Probe window: an isolated device is used again after this long without a fault
    #[arg(id = "device-rejoin", long, value_name = "TIME", env = "ZONAL_DEVICE_REJOIN")]
    pub(crate) rejoin: Option<String>,
}

/// The `[freshness]` section.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Freshness {
    pub(crate) default: Option<String>,
    pub(crate) rules: Option<Vec<FreshnessRule>>,
}

/// Freshness of objects whose `BUCKET/KEY` begins with `prefix`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FreshnessRule {
    pub(crate) prefix: String,
    pub(crate) freshness: String,
}

/// Flags give a rule as PREFIX=FRESHNESS.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Freshness")]
pub(crate) struct FreshnessFlags {
    /// Default freshness: revalidate, ttl=TIME or immutable, with settings as in
    /// ttl=60s?missing=10s
    #[arg(
        id = "freshness",
        long = "freshness",
        value_name = "FRESHNESS",
        env = "ZONAL_FRESHNESS_DEFAULT"
    )]
    pub(crate) default: Option<String>,
    /// Freshness rule for objects whose BUCKET/KEY begins with PREFIX (repeatable)
    #[arg(
        id = "freshness-rule",
        long = "freshness-rule",
        value_name = "PREFIX=FRESHNESS",
        env = "ZONAL_FRESHNESS_RULES"
    )]
    pub(crate) rules: Vec<String>,
}

/// The `[access]` section: upper limit on the access of every key.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Access {
    pub(crate) default: Option<String>,
    pub(crate) rules: Option<Vec<AccessRule>>,
}

/// Flags give a rule as PREFIX=ACCESS.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Access")]
pub(crate) struct AccessFlags {
    /// Default access for all keys: none, read, write or read-write
    #[arg(id = "access", long = "access", value_name = "ACCESS", env = "ZONAL_ACCESS_DEFAULT")]
    pub(crate) default: Option<String>,
    /// Access rule for objects whose BUCKET/KEY begins with PREFIX (repeatable)
    #[arg(
        id = "access-rule",
        long = "access-rule",
        value_name = "PREFIX=ACCESS",
        env = "ZONAL_ACCESS_RULES"
    )]
    pub(crate) rules: Vec<String>,
}

/// The `[keep]` section: retention rules that override the policy.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Keep {
    pub(crate) pinned: Option<String>,
    pub(crate) pins_file: Option<String>,
    pub(crate) rules: Option<Vec<KeepRule>>,
}

/// Retention of objects whose `BUCKET/KEY` begins with `prefix`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeepRule {
    pub(crate) prefix: String,
    pub(crate) keep: String,
}

/// Flags give a rule as PREFIX=KEEP.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Keep")]
pub(crate) struct KeepFlags {
    /// Maximum pinned share of each device
    #[arg(id = "keep-pinned", long, value_name = "SHARE", env = "ZONAL_KEEP_PINNED")]
    pub(crate) pinned: Option<String>,
    /// Pins file, written by zonal cache pin and unpin
    #[arg(long = "keep-pins-file", value_name = "FILE", env = "ZONAL_KEEP_PINS_FILE")]
    pub(crate) pins_file: Option<String>,
    /// Keep rule (pin, never or policy) for objects whose BUCKET/KEY begins with PREFIX
    /// (repeatable)
    #[arg(
        id = "keep-rule",
        long = "keep-rule",
        value_name = "PREFIX=KEEP",
        env = "ZONAL_KEEP_RULES"
    )]
    pub(crate) rules: Vec<String>,
}

/// The `[chunk]` section: chunk sizes by prefix.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Chunk {
    pub(crate) rules: Option<Vec<ChunkRule>>,
}

/// Chunk size of objects whose `BUCKET/KEY` begins with `prefix`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChunkRule {
    pub(crate) prefix: String,
    pub(crate) chunk: String,
}

/// Flags give a rule as PREFIX=SIZE.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Chunks")]
pub(crate) struct ChunkFlags {
    /// Chunk size of objects whose BUCKET/KEY begins with PREFIX (repeatable)
    #[arg(
        id = "chunk-rule",
        long = "chunk-rule",
        value_name = "PREFIX=SIZE",
        env = "ZONAL_CHUNK_RULES"
    )]
    pub(crate) rules: Vec<String>,
}

/// The access-keys file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeysFile {
    #[serde(default)]
    pub(crate) key: Vec<Spanned<Key>>,
}

/// One access key. Exactly one of the three `secret_key` fields must be set.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Key {
    pub(crate) access_key: Option<String>,
    pub(crate) secret_key: Option<String>,
    pub(crate) secret_key_file: Option<String>,
    pub(crate) secret_key_variable: Option<String>,
    pub(crate) access: Option<String>,
    pub(crate) rules: Vec<AccessRule>,
}

/// Access to objects whose `BUCKET/KEY` begins with `prefix`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccessRule {
    pub(crate) prefix: String,
    pub(crate) access: String,
}
