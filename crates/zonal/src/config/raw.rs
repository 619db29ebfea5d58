//! Unvalidated configuration: the keys of the file, the flags and the environment variables.
//!
//! One structure per section serves all three: `serde` reads it from TOML, `clap` from flags and
//! environment variables. Every key is optional here; `config/zonal.toml`, which is compiled in,
//! has a default for each.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};
use toml::Spanned;

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
    pub(crate) log: Log,
}

/// Flags of `zonal serve`, and the variables behind them.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Flags {
    /// Configuration file; config/zonal.toml in the sources shows every key
    #[arg(long, value_name = "FILE", env = "ZONAL_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Where Zonal keeps what it makes itself: device, samples, access key
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
    pub(crate) log: Log,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Endpoint")]
pub(crate) struct Endpoint {
    /// Address of the S3 endpoint
    #[arg(long, value_name = "ADDR", env = "ZONAL_ENDPOINT_LISTEN")]
    pub(crate) listen: Option<String>,
    /// Region that clients sign for
    #[arg(long, env = "ZONAL_ENDPOINT_REGION")]
    pub(crate) region: Option<String>,
    /// Domain whose subdomains are buckets, as s3.example.com: virtual-hosted style (may be given several times)
    #[arg(
        id = "endpoint-domains",
        long = "domain",
        value_name = "DOMAIN",
        env = "ZONAL_ENDPOINT_DOMAINS"
    )]
    pub(crate) domains: Option<Vec<String>>,
    /// Who decides whether a request may have what it asks for: keys (those named here) or origin (as each request is signed)
    #[arg(long, value_name = "WHO", env = "ZONAL_ENDPOINT_AUTHORIZATION")]
    pub(crate) authorization: Option<String>,
    /// What becomes of requests that carry what is not known: refuse, or log (handed on, for one release)
    #[arg(long, value_name = "WHAT", env = "ZONAL_ENDPOINT_WOULD_REFUSE")]
    pub(crate) would_refuse: Option<String>,
    /// Access key of the clients
    #[arg(long, value_name = "KEY", env = "ZONAL_ENDPOINT_ACCESS_KEY")]
    pub(crate) access_key: Option<String>,
    /// Their secret key
    #[arg(long, value_name = "KEY", env = "ZONAL_ENDPOINT_SECRET_KEY", hide_env_values = true)]
    pub(crate) secret_key: Option<String>,
    /// File whose first line is their secret key
    #[arg(long, value_name = "FILE", env = "ZONAL_ENDPOINT_SECRET_KEY_FILE")]
    pub(crate) secret_key_file: Option<String>,
    /// File with more access keys, and what each may do; config/keys.toml in the sources shows its form
    #[arg(long, value_name = "FILE", env = "ZONAL_ENDPOINT_KEYS_FILE")]
    pub(crate) keys_file: Option<String>,
    /// HTTPS: file with the certificate and those that lead to it, in PEM form
    #[arg(long, value_name = "FILE", env = "ZONAL_ENDPOINT_CERTIFICATE_FILE")]
    pub(crate) certificate_file: Option<String>,
    /// HTTPS: file with the certificate's private key, in PEM form
    #[arg(long, value_name = "FILE", env = "ZONAL_ENDPOINT_PRIVATE_KEY_FILE")]
    pub(crate) private_key_file: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Headers")]
pub(crate) struct Headers {
    /// Header of reads that changes nothing about what is read, as x-amz-new: its reads are cached (may be given several times)
    #[arg(long = "harmless-header", value_name = "NAME", env = "ZONAL_HEADERS_HARMLESS")]
    pub(crate) harmless: Option<Vec<String>>,
    /// Header of writes that the origin needs and Zonal does not know, as x-rgw-new: it is handed on (may be given several times)
    #[arg(long = "passed-header", value_name = "NAME", env = "ZONAL_HEADERS_PASSED")]
    pub(crate) passed: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Admin")]
pub(crate) struct Admin {
    /// Address of metrics, health and readiness
    #[arg(id = "admin-listen", long = "admin", value_name = "ADDR", env = "ZONAL_ADMIN_LISTEN")]
    pub(crate) listen: Option<String>,
    /// Name under which it answers, besides IP addresses and localhost (may be given several times)
    #[arg(id = "admin-hosts", long = "admin-host", value_name = "NAME", env = "ZONAL_ADMIN_HOSTS")]
    pub(crate) hosts: Option<Vec<String>>,
    /// File whose first line is the token that orders need; without it, orders are taken from this machine only
    #[arg(
        id = "admin-token-file",
        long = "admin-token-file",
        value_name = "FILE",
        env = "ZONAL_ADMIN_TOKEN_FILE"
    )]
    pub(crate) token_file: Option<String>,
    /// HTTPS: file with its certificate and those that lead to it, in PEM form
    #[arg(
        id = "admin-certificate-file",
        long = "admin-certificate-file",
        value_name = "FILE",
        env = "ZONAL_ADMIN_CERTIFICATE_FILE"
    )]
    pub(crate) certificate_file: Option<String>,
    /// HTTPS: file with the certificate's private key, in PEM form
    #[arg(
        id = "admin-private-key-file",
        long = "admin-private-key-file",
        value_name = "FILE",
        env = "ZONAL_ADMIN_PRIVATE_KEY_FILE"
    )]
    pub(crate) private_key_file: Option<String>,
}

/// One origin in a file; flags change the keys of all origins.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Origins")]
pub(crate) struct Origin {
    /// Flags name origins by their specs.
    #[arg(skip)]
    pub(crate) spec: Option<String>,
    /// What logs and metrics call it [without it: its spec]
    #[arg(id = "origin-name", long, value_name = "NAME", env = "ZONAL_ORIGIN_NAME")]
    pub(crate) name: Option<String>,
    /// A bucket that clients see of it; without any, all (may be given several times)
    #[arg(
        id = "origin-buckets",
        long = "origin-bucket",
        value_name = "BUCKET",
        env = "ZONAL_ORIGIN_BUCKETS"
    )]
    pub(crate) buckets: Option<Vec<String>>,
    /// A name at the origin that is no bucket: requests for it are refused (may be given several times)
    #[arg(
        id = "origin-reserved",
        long = "origin-reserved",
        value_name = "NAME",
        env = "ZONAL_ORIGIN_RESERVED"
    )]
    pub(crate) reserved: Option<Vec<String>>,
    /// Access key at the origin [without it: AWS_ACCESS_KEY_ID]
    #[arg(id = "origin-access-key", long, value_name = "KEY", env = "ZONAL_ORIGIN_ACCESS_KEY")]
    pub(crate) access_key: Option<String>,
    /// Secret key at the origin [without it: AWS_SECRET_ACCESS_KEY, AZURE_STORAGE_KEY]
    #[arg(
        id = "origin-secret-key",
        long,
        value_name = "KEY",
        env = "ZONAL_ORIGIN_SECRET_KEY",
        hide_env_values = true
    )]
    pub(crate) secret_key: Option<String>,
    /// File whose first line is the secret key at the origin
    #[arg(
        id = "origin-secret-key-file",
        long,
        value_name = "FILE",
        env = "ZONAL_ORIGIN_SECRET_KEY_FILE"
    )]
    pub(crate) secret_key_file: Option<String>,
    /// PEM file with the authorities that may have signed its certificate [without it: the system's]
    #[arg(id = "origin-ca-file", long, value_name = "FILE", env = "ZONAL_ORIGIN_CA_FILE")]
    pub(crate) ca_file: Option<String>,
    /// Reads under way at once
    #[arg(id = "origin-reads", long, value_name = "N", env = "ZONAL_ORIGIN_READS")]
    pub(crate) reads: Option<u32>,
    /// Forwarded requests under way at once
    #[arg(id = "origin-forwards", long, value_name = "N", env = "ZONAL_ORIGIN_FORWARDS")]
    pub(crate) forwards: Option<u32>,
    /// Until a connection stands
    #[arg(id = "origin-connect", long, value_name = "TIME", env = "ZONAL_ORIGIN_CONNECT")]
    pub(crate) connect: Option<String>,
    /// Until the answer to a read begins
    #[arg(id = "origin-answer", long, value_name = "TIME", env = "ZONAL_ORIGIN_ANSWER")]
    pub(crate) answer: Option<String>,
    /// Until the answer to a forwarded request begins
    #[arg(
        id = "origin-forward-answer",
        long,
        value_name = "TIME",
        env = "ZONAL_ORIGIN_FORWARD_ANSWER"
    )]
    pub(crate) forward_answer: Option<String>,
    /// Silence within an answer
    #[arg(id = "origin-stall", long, value_name = "TIME", env = "ZONAL_ORIGIN_STALL")]
    pub(crate) stall: Option<String>,
    /// Repetitions of a read that failed
    #[arg(id = "origin-retries", long, value_name = "N", env = "ZONAL_ORIGIN_RETRIES")]
    pub(crate) retries: Option<u32>,
    /// Ask a second time when a read is not answered after this: a time, or p95; empty: never
    #[arg(id = "origin-hedge", long, value_name = "WHEN", env = "ZONAL_ORIGIN_HEDGE")]
    pub(crate) hedge: Option<String>,
}

/// Flags name origins, and change the other keys of all of them.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Origins")]
pub(crate) struct OriginFlags {
    /// Object store: s3:URL?region=R&path-style=true, file:DIR, or to be only read: gcs:BUCKET,
    /// azure:CONTAINER?account=A, https://HOST/PATH (may be given several times)
    #[arg(id = "origin-spec", long = "origin", value_name = "SPEC", env = "ZONAL_ORIGIN_SPEC")]
    pub(crate) specs: Vec<String>,
    #[command(flatten)]
    pub(crate) each: Origin,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Limits")]
pub(crate) struct Limits {
    /// Connections open at once
    #[arg(long = "limits-connections", value_name = "N", env = "ZONAL_LIMITS_CONNECTIONS")]
    pub(crate) connections: Option<u32>,
    /// Writes forwarded at once
    #[arg(long = "limits-writes", value_name = "N", env = "ZONAL_LIMITS_WRITES")]
    pub(crate) writes: Option<u32>,
    /// Silence between two requests on a connection
    #[arg(long = "limits-idle", value_name = "TIME", env = "ZONAL_LIMITS_IDLE")]
    pub(crate) idle: Option<String>,
    /// From the first byte of a request to the end of its head
    #[arg(long = "limits-head", value_name = "TIME", env = "ZONAL_LIMITS_HEAD")]
    pub(crate) head: Option<String>,
    /// A client takes nothing of its answer
    #[arg(long = "limits-write", value_name = "TIME", env = "ZONAL_LIMITS_WRITE")]
    pub(crate) write: Option<String>,
    /// A client sends nothing of its request's body
    #[arg(long = "limits-upload", value_name = "TIME", env = "ZONAL_LIMITS_UPLOAD")]
    pub(crate) upload: Option<String>,
    /// From the order to stop until requests that are not done are cut
    #[arg(long = "limits-drain", value_name = "TIME", env = "ZONAL_LIMITS_DRAIN")]
    pub(crate) drain: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Log")]
pub(crate) struct Log {
    /// text or json
    #[arg(id = "log-format", long, value_name = "FORMAT", env = "ZONAL_LOG_FORMAT")]
    pub(crate) format: Option<String>,
    /// error, warn, info, debug or trace; also by crate: info,zonal_host=debug
    #[arg(id = "log-level", long, value_name = "LEVEL", env = "ZONAL_LOG_LEVEL")]
    pub(crate) level: Option<String>,
    /// Access log: a file to append to, or - for standard output [without it: none]
    #[arg(id = "log-access", long = "access-log", value_name = "PATH", env = "ZONAL_LOG_ACCESS")]
    pub(crate) access: Option<String>,
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
    /// Device: file:PATH?size=8GiB&zone=64MiB, block:/dev/NAME or emulator:zn540?zones=8&backing=PATH (may be given several times)
    #[arg(id = "device", long, value_name = "SPEC", env = "ZONAL_DEVICE_SPEC")]
    pub(crate) specs: Vec<String>,
    /// Threads that share each device
    #[arg(long, value_name = "N", env = "ZONAL_DEVICE_SHARDS")]
    pub(crate) shards: Option<String>,
    /// What is kept when space is needed, as zone-lru or zdrop?vop=50%
    #[arg(long, value_name = "POLICY", env = "ZONAL_DEVICE_POLICY")]
    pub(crate) policy: Option<String>,
    /// What is fetched and kept as a unit
    #[arg(long, value_name = "SIZE", env = "ZONAL_DEVICE_CHUNK")]
    pub(crate) chunk: Option<String>,
    /// Memory of each shard for chunks that wait before flash or are read often; 0: none
    #[arg(long, value_name = "SIZE", env = "ZONAL_DEVICE_DRAM")]
    pub(crate) dram: Option<String>,
    /// Buffer memory of each shard
    #[arg(long, value_name = "SIZE", env = "ZONAL_DEVICE_BUFFERS")]
    pub(crate) buffers: Option<String>,
    /// How far ahead of a reader that goes front to back is fetched; 0: not at all
    #[arg(long, value_name = "SIZE", env = "ZONAL_DEVICE_PREFETCH")]
    pub(crate) prefetch: Option<String>,
    /// How long a read of the device is waited for; then the origin is asked
    #[arg(id = "device-patience", long, value_name = "TIME", env = "ZONAL_DEVICE_PATIENCE")]
    pub(crate) patience: Option<String>,
    /// How long an isolated device has to answer well before it is used again
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
    /// How fresh answers must be: revalidate, ttl=TIME or immutable, and settings as in ttl=60s?missing=10s
    #[arg(
        id = "freshness",
        long = "freshness",
        value_name = "FRESHNESS",
        env = "ZONAL_FRESHNESS_DEFAULT"
    )]
    pub(crate) default: Option<String>,
    /// Another rule for objects whose BUCKET/KEY begins with PREFIX (may be given several times)
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
    /// What anybody may do, whatever his key: none, read, write or read-write
    #[arg(id = "access", long = "access", value_name = "ACCESS", env = "ZONAL_ACCESS_DEFAULT")]
    pub(crate) default: Option<String>,
    /// Another rule for objects whose BUCKET/KEY begins with PREFIX (may be given several times)
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
    /// How much of each device may be pinned
    #[arg(id = "keep-pinned", long, value_name = "SHARE", env = "ZONAL_KEEP_PINNED")]
    pub(crate) pinned: Option<String>,
    /// File with what is pinned by order: zonal cache pin and unpin write it
    #[arg(long = "keep-pins-file", value_name = "FILE", env = "ZONAL_KEEP_PINS_FILE")]
    pub(crate) pins_file: Option<String>,
    /// pin, never or policy for objects whose BUCKET/KEY begins with PREFIX (may be given several times)
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
    /// Another chunk size for objects whose BUCKET/KEY begins with PREFIX (may be given several times)
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
