//! Configuration: merged from layers, validated once, then passed on as valid types.
//!
//! `raw` has the keys as written, `layers` merges them by precedence (flag, file, default), and
//! [`Config::load`] validates the result. An error names the key and a valid replacement. Loading
//! changes nothing on the system; it reads only the configuration and the files that it names, such
//! as secrets, certificates and pins.

mod accounts;
mod admin_security;
mod block;
mod bucket_url;
mod check;
mod chunk;
mod client;
mod credentials;
mod effective;
mod error_position;
mod freshness;
mod keep;
mod keys;
mod layers;
mod log;
mod origin_spec;
mod origins;
mod prefix;
mod price;
mod raw;
mod sample;
mod scrub;
mod stores;
#[cfg(test)]
mod tests;
mod toml_advice;
mod variables;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing_subscriber::filter::Targets;
use zonal_base::{Bytes, Nanos};
use zonal_credentials::{AssumedRole, CredentialSource};
use zonal_gateway::{
    AccessRules, Authorization, Certificate, Domains, FreshnessRules, Keep, KeepRules, Pins,
    VendorHeaders, WouldRefuse,
};
use zonal_host::ChunkRules;
use zonal_hostdev::DeviceSpec;
use zonal_origin::AccountUnit;
use zonal_s3::sigv4::Credentials;

use toml_advice::ErrorPlace;

pub(crate) use self::keys::KeyEntry;
pub(crate) use accounts::name_of as account_unit_name;
pub(crate) use admin_security::AdminSecurity;
pub(crate) use block::{BlockConfig, BlockFlags, DEFAULTS as BLOCK_SAMPLE, Devices};
pub(crate) use client::{ClientConfig, ClientFlags, ClientKeys};
pub(crate) use effective::{Effective, Setting, Source};
pub(crate) use layers::DEFAULTS as CACHE_SAMPLE;
pub(crate) use origin_spec::{OriginSpec, StoreSpec};
pub(crate) use price::Prices;
pub(crate) use raw::{Flags, OriginsOnly};
pub(crate) use sample::{Entry, Key, assignment, entries, keys, schema};
pub(crate) use scrub::ScrubSettings;
pub(crate) use variables::WRONG_FLAGS;

/// Validated configuration of `zonal serve`.
#[derive(Debug)]
pub(crate) struct Config {
    /// Data directory: holds whatever has no path of its own.
    pub(crate) data_dir: PathBuf,
    /// Listening address of the S3 endpoint.
    pub(crate) listen: SocketAddr,
    /// AWS region in the clients' SigV4 credential scope.
    pub(crate) region: String,
    /// Whether Zonal or the origin authorizes requests.
    pub(crate) authorization: Authorization,
    pub(crate) would_refuse: WouldRefuse,
    /// Domains for virtual-hosted-style requests: their subdomains are buckets.
    pub(crate) domains: Domains,
    /// Vendor-specific request headers that are allowed in addition to the table of operations.
    pub(crate) vendor_headers: VendorHeaders,
    /// The main access key; `None`: use the pair of the data directory, generated at the first
    /// start.
    pub(crate) keys: Option<KeyPair>,
    /// The file with the secret of `keys`, if the configuration names one.
    pub(crate) secret_key_file: Option<PathBuf>,
    /// Additional access keys, each with its access rules.
    pub(crate) more_keys: Vec<KeyEntry>,
    /// TLS certificate of the S3 endpoint; `None`: plain HTTP.
    pub(crate) certificate: Option<Certificate>,
    /// Certificate file of the S3 endpoint.
    pub(crate) certificate_file: Option<PathBuf>,
    /// Listening address of the admin endpoint.
    pub(crate) admin: SocketAddr,
    /// Access control of the admin endpoint.
    pub(crate) admin_security: AdminSecurity,
    /// Certificate file of the admin endpoint; `None`: plain HTTP.
    pub(crate) admin_certificate_file: Option<PathBuf>,
    /// Origins (object stores), at least one.
    pub(crate) origins: Vec<Origin>,
    /// Cache devices, at least one.
    pub(crate) devices: Vec<Device>,
    /// Access rules for all clients: a request must be allowed by these and by the rules of its
    /// key.
    pub(crate) access: AccessRules,
    /// Freshness rules: when a cached object is revalidated with the origin.
    pub(crate) freshness: FreshnessRules,
    /// Retention rules and pins.
    pub(crate) keep: Retention,
    /// Chunk size by object-name prefix.
    pub(crate) chunks: Arc<ChunkRules>,
    /// Limits of the S3 endpoint: connections, timeouts and the like.
    pub(crate) limits: zonal_gateway::Limits,
    pub(crate) scrub: ScrubSettings,
    /// What the origins charge, to compute savings.
    pub(crate) prices: Prices,
    /// What the accounts of requests are kept by.
    pub(crate) accounts: AccountUnit,
    /// Format, level and access log.
    pub(crate) log: Log,
}

/// An access key and its secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct KeyPair {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
}

impl fmt::Debug for KeyPair {
    /// Omits the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({}, ..)", self.access_key)
    }
}

/// An origin (object store).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// `None`: the sample folder in the data directory. Then there is no other origin.
    pub(crate) spec: Option<OriginSpec>,
    /// Name in logs and metrics.
    pub(crate) name: String,
    /// Buckets that clients can access; empty: all.
    pub(crate) buckets: Vec<String>,
    /// Path segments that are not buckets of this origin.
    pub(crate) reserved: Vec<String>,
    pub(crate) keys: OriginKeys,
    /// A named file holds the access key, its secret or the certificate authorities, so a reload
    /// may change them.
    pub(crate) has_file: bool,
    pub(crate) limits: zonal_origin::OriginLimits,
}

/// Keys for signing the requests to an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OriginKeys {
    /// No keys: an S3 endpoint gets unsigned requests. Other origins have their keys in the spec.
    Anonymous,
    /// These keys, for ever.
    Static(Credentials),
    /// Keys that providers have, and renew.
    Renewed {
        source: CredentialSource,
        role: Option<AssumedRole>,
        /// `AWS_ACCESS_KEY_ID`, if the source may take it.
        of_environment: Option<String>,
    },
}

impl OriginKeys {
    /// The access key that is known before any provider is asked.
    pub(crate) fn access_key(&self) -> Option<&str> {
        match self {
            Self::Anonymous => None,
            Self::Static(keys) => Some(&keys.access_key),
            Self::Renewed { source: CredentialSource::Static(keys), .. } => Some(&keys.access_key),
            Self::Renewed { of_environment, .. } => of_environment.as_deref(),
        }
    }
}

impl Origin {
    /// The origin without credentials and certificate authorities: the part that a reload must not
    /// change.
    fn without_keys(&self) -> Self {
        Self {
            limits: zonal_origin::OriginLimits { ca_roots: None, ..self.limits.clone() },
            spec: self.spec.as_ref().map(OriginSpec::without_keys),
            keys: OriginKeys::Anonymous,
            has_file: false,
            ..self.clone()
        }
    }
}

/// A cache device and its settings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// `None`: a file in the data directory.
    pub(crate) spec: Option<DeviceSpec>,
    /// Number of shards; `None`: as formatted, or one per core on a new device.
    pub(crate) shards: Option<usize>,
    /// Admission and eviction policy.
    pub(crate) policy: zonal_policy::Spec,
    pub(crate) chunk: Bytes,
    /// Bytes of DRAM per shard for chunks that wait for a flash write or are read often.
    pub(crate) dram: Bytes,
    /// Bytes of I/O buffers per shard.
    pub(crate) buffers: Bytes,
    /// Prefetch distance for sequential readers, in bytes.
    pub(crate) prefetch: Bytes,
    /// Timeout of a device read.
    pub(crate) patience: Nanos,
    /// Time without faults after which an isolated device is readmitted.
    pub(crate) rejoin: Nanos,
}

/// Retention: rules by prefix that override the policy, and the operator's pins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    pub(crate) rules: KeepRules,
    /// Share of each device that may be pinned, in percent.
    pub(crate) pinned_percent: u32,
    /// Objects and prefixes that the operator has pinned, read from the pins file.
    pub(crate) pins: Arc<Pins>,
    pub(crate) pins_file: PathBuf,
    /// The configuration names the pins file; otherwise it is the one in the data directory.
    pub(crate) is_pins_file_named: bool,
}

impl Retention {
    /// Whether neither the pins file nor a rule pins anything.
    pub(crate) fn pins_nothing(&self) -> bool {
        self.pins.is_empty() && self.rules.rules().all(|rule| rule != Keep::Pin)
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    pub(crate) level: Targets,
    /// Target of the access log; `None`: no access log.
    pub(crate) access: Option<AccessTo>,
    /// File of the recording; `None`: nothing is recorded.
    pub(crate) record: Option<PathBuf>,
}

/// Target of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AccessTo {
    StandardOutput,
    File(PathBuf),
}

impl fmt::Display for AccessTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StandardOutput => f.write_str("standard output"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Config {
    /// Merges the layers and validates the result. An unknown `ZONAL_*` environment variable is
    /// refused.
    pub(crate) fn load(flags: &Flags) -> Result<Self, ConfigError> {
        variables::refuse_unknown(std::env::vars_os())?;
        Self::of(flags, &|name| std::env::var(name).ok())
    }

    /// Origin reads of prefetch, and as many of a warm-up, that may be in flight: a quarter of the
    /// limit of the origin with the lowest. At least half of the slots are left to clients.
    pub(crate) fn background_reads(&self) -> usize {
        let limits = self.origins.iter().map(|origin| origin.limits.concurrent_reads);
        limits.min().unwrap_or_default() / 4
    }

    fn of(flags: &Flags, variable: check::Variables<'_>) -> Result<Self, ConfigError> {
        checked(flags, |all| check::check(all, variable))
    }

    /// Whether both configurations have the same origins and limits, apart from credentials and
    /// authorities.
    fn has_origins_of(&self, other: &Self) -> bool {
        let places = |config: &Self| {
            let origins = config.origins.iter();
            origins.map(Origin::without_keys).collect::<Vec<_>>()
        };
        places(self) == places(other)
    }

    /// Configuration keys that differ and that a reload cannot change.
    pub(crate) fn fixed_that_differ(&self, other: &Self) -> Vec<&'static str> {
        let differ = [
            ("data-dir", self.data_dir != other.data_dir),
            ("endpoint.listen", self.listen != other.listen),
            ("endpoint.region", self.region != other.region),
            ("endpoint.authorization", self.authorization != other.authorization),
            ("endpoint.would-refuse", self.would_refuse != other.would_refuse),
            ("endpoint.access-key (added or removed)", self.keys.is_some() != other.keys.is_some()),
            (
                "endpoint.keys-file (added or removed)",
                self.more_keys.is_empty() != other.more_keys.is_empty(),
            ),
            (
                "endpoint.certificate-file (added or removed)",
                self.certificate.is_some() != other.certificate.is_some(),
            ),
            ("admin.listen", self.admin != other.admin),
            ("origin (other than keys and CAs)", !self.has_origins_of(other)),
            ("device", self.devices != other.devices),
            ("keep.pinned", self.keep.pinned_percent != other.keep.pinned_percent),
            ("keep.pins-file", self.keep.pins_file != other.keep.pins_file),
            ("limits", self.limits != other.limits),
            ("scrub", self.scrub != other.scrub),
            ("accounts", self.accounts != other.accounts),
            ("log.format", self.log.format != other.log.format),
            ("log.access", self.log.access != other.log.access),
            ("log.record", self.log.record != other.log.record),
        ];
        differ.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }
}

/// The origins of a configuration, merged and validated as [`Config::load`] does.
pub(crate) fn load_origins(flags: &OriginsOnly) -> Result<Vec<Origin>, ConfigError> {
    variables::refuse_unknown(std::env::vars_os())?;
    let OriginsOnly { config, origin } = flags.clone();
    let variable = |name: &str| std::env::var(name).ok();
    checked(&Flags { config, origin, ..Flags::default() }, |all| {
        origins::origins(&all.origin, &variable)
    })
}

/// Merges the layers and validates the result. An error names the line of the file.
fn checked<T>(
    flags: &Flags,
    check: impl FnOnce(&raw::File) -> check::Checked<T>,
) -> Result<T, ConfigError> {
    let all = layers::gather(flags)?;
    check(&all).map_err(|error| {
        let alone = Flags { config: flags.config.clone(), ..Flags::default() };
        match layers::gather(&alone) {
            Ok(alone) => error_position::placed(error, flags.config.as_deref(), (&all, &alone)),
            Err(_) => error,
        }
    })
}

/// A configuration error: the key, the reason and a valid replacement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// `section.key`; empty if the error concerns the file as a whole.
    key: &'static str,
    /// Index of the section among repeated ones (`[[origin]]`), from 0.
    nth: usize,
    why: String,
    /// File and line, if the value is known to come from a file.
    place: String,
}

impl ConfigError {
    fn new(key: &'static str, why: impl fmt::Display) -> Self {
        Self { key, nth: 0, why: why.to_string(), place: String::new() }
    }

    /// An error of the TOML parser in `text`, with its line. `sample` describes its keys.
    fn syntax(error: &toml::de::Error, (text, sample): (&str, &str)) -> Self {
        let at = error.span().map(|span| span.start);
        let mut place =
            at.map_or(String::new(), |at| format!("line {}: ", error_position::line(text, at)));
        let mut why = error.message().replace('\n', " ");
        // Only messages that start with `invalid` lack the name of the field.
        if let Some(key) = at
            .filter(|_| why.starts_with("invalid"))
            .and_then(|at| error_position::key_at(text, at))
        {
            place += &format!("{key}: ");
        }
        let key = at.and_then(|at| error_position::key_at(text, at));
        let line = at.map_or("", |at| error_position::text_of_line(text, at));
        let place_of_error = ErrorPlace { key: key.as_deref(), line, sample };
        if let Some(advice) = toml_advice::advice(&why, &place_of_error) {
            why += &format!(": {advice}");
        }
        Self { key: "", nth: 0, why, place }
    }

    /// The same error for the section with index `nth`.
    fn of(self, nth: usize) -> Self {
        Self { nth, ..self }
    }

    fn in_file(self, path: &Path) -> Self {
        Self { place: format!("{}: {}", path.display(), self.place), ..self }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.why)
    }
}
