//! Configuration: parsed in layers, checked once, trusted after.
//!
//! `raw` is what people write, `layers` lays flags over file over defaults, and [`Config::load`] checks
//! the whole. A failure names the key and says what to write instead. Nothing is touched here; only
//! files that hold secrets are read.

mod block;
mod check;
mod chunk;
mod door;
mod freshness;
mod keep;
mod keys;
mod layers;
mod log;
mod origin_spec;
mod origins;
mod place;
mod prefix;
mod raw;
mod stores;
#[cfg(test)]
mod tests;
mod variables;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing_subscriber::filter::Targets;
use zonal_base::{Bytes, Nanos};
use zonal_gateway::{
    AccessRules, Authorization, Certificate, Domains, FreshnessRules, Keep, KeepRules, Pins,
    VendorHeaders, WouldRefuse,
};
use zonal_host::ChunkRules;
use zonal_hostdev::DeviceSpec;
use zonal_s3::sigv4::Credentials;

use crate::door::Door;

pub(crate) use block::{BlockConfig, BlockFlags, Devices};
pub(crate) use keys::Key;
pub(crate) use origin_spec::OriginSpec;
pub(crate) use raw::Flags;

/// What `zonal serve` does.
#[derive(Debug)]
pub(crate) struct Config {
    /// Where to keep what is not placed elsewhere.
    pub(crate) data_dir: PathBuf,
    /// Address of the S3 endpoint.
    pub(crate) listen: SocketAddr,
    /// Region that clients sign for.
    pub(crate) region: String,
    /// Who decides whether a request may have what it asks for.
    pub(crate) authorization: Authorization,
    pub(crate) would_refuse: WouldRefuse,
    /// Whose subdomains are buckets.
    pub(crate) domains: Domains,
    /// Headers that the table of operations does not know.
    pub(crate) vendor_headers: VendorHeaders,
    /// Who may come in; `None`: make a pair.
    pub(crate) keys: Option<KeyPair>,
    /// The file that holds their secret key, where one is named.
    pub(crate) secret_key_file: Option<PathBuf>,
    /// Who may come in besides.
    pub(crate) more_keys: Vec<Key>,
    /// HTTPS; `None`: plain HTTP.
    pub(crate) certificate: Option<Certificate>,
    /// Address of metrics and health.
    pub(crate) admin: SocketAddr,
    /// Who is let in there.
    pub(crate) door: Door,
    /// The object stores: at least one.
    pub(crate) origins: Vec<Origin>,
    /// The devices: at least one.
    pub(crate) devices: Vec<Device>,
    /// What anybody may do.
    pub(crate) access: AccessRules,
    /// How fresh answers must be.
    pub(crate) freshness: FreshnessRules,
    /// What is kept.
    pub(crate) keep: Keeping,
    /// What objects are cut into whose names begin with a prefix.
    pub(crate) chunks: Arc<ChunkRules>,
    /// Bounds of the endpoint.
    pub(crate) limits: zonal_gateway::Limits,
    /// How to log.
    pub(crate) log: Log,
}

/// An access key and its secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct KeyPair {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
}

impl fmt::Debug for KeyPair {
    /// Never prints a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({}, ..)", self.access_key)
    }
}

/// An object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// `None`: a folder of our own with a few objects. Then there is no other origin.
    pub(crate) spec: Option<OriginSpec>,
    /// What logs and metrics call it.
    pub(crate) name: String,
    /// What clients see of it; empty: all.
    pub(crate) buckets: Vec<String>,
    /// Names that are no buckets of it.
    pub(crate) reserved: Vec<String>,
    /// `None`: requests are not signed.
    pub(crate) credentials: Option<Credentials>,
    /// They are those that AWS's own tools would take, and nobody named them to Zonal.
    pub(crate) has_keys_of_environment: bool,
    /// Keys, their secret or authorities stand in a file that was named.
    pub(crate) has_file: bool,
    pub(crate) limits: zonal_origin::Limits,
}

impl Origin {
    /// The same place with the same bounds, whoever asks and whoever vouches for it.
    fn without_keys(&self) -> Self {
        Self {
            limits: zonal_origin::Limits { authorities: None, ..self.limits.clone() },
            spec: self.spec.as_ref().map(OriginSpec::without_keys),
            credentials: None,
            has_keys_of_environment: false,
            has_file: false,
            ..self.clone()
        }
    }
}

/// A device and how it is used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// `None`: a file of our own.
    pub(crate) spec: Option<DeviceSpec>,
    /// `None`: as many as it was formatted with, or else one for each core.
    pub(crate) shards: Option<usize>,
    /// What is kept.
    pub(crate) policy: zonal_policy::Spec,
    pub(crate) chunk: Bytes,
    /// Memory of each shard for chunks that wait before flash or are read often.
    pub(crate) dram: Bytes,
    /// Buffer memory of each shard.
    pub(crate) buffers: Bytes,
    /// How far ahead of a reader that goes front to back is fetched.
    pub(crate) prefetch: Bytes,
    /// How long a read of it is waited for.
    pub(crate) patience: Nanos,
    /// How long it has to answer well before it is used again.
    pub(crate) rejoin: Nanos,
}

/// What is kept whatever the policy says, and what is not kept at all.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Keeping {
    pub(crate) rules: KeepRules,
    /// How much of each device may be pinned.
    pub(crate) pinned_percent: u32,
    /// What is pinned by order, as the file has it.
    pub(crate) pins: Arc<Pins>,
    pub(crate) pins_file: PathBuf,
    /// It is not one of our own.
    pub(crate) is_pins_file_named: bool,
}

impl Keeping {
    /// Whether nothing is to be pinned.
    pub(crate) fn pins_nothing(&self) -> bool {
        self.pins.is_empty() && self.rules.rules().all(|rule| rule != Keep::Pin)
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    pub(crate) level: Targets,
    /// Where each request leaves a line; `None`: nowhere.
    pub(crate) access: Option<AccessTo>,
}

/// Where the access log is written.
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
    /// Gathers and checks.
    pub(crate) fn load(flags: &Flags) -> Result<Self, ConfigError> {
        variables::refuse_unknown(std::env::vars_os())?;
        Self::of(flags, &|name| std::env::var(name).ok())
    }

    fn of(flags: &Flags, variable: check::Variables<'_>) -> Result<Self, ConfigError> {
        let all = layers::gather(flags)?;
        check::check(&all, variable).map_err(|error| {
            let alone = Flags { config: flags.config.clone(), ..Flags::default() };
            match layers::gather(&alone) {
                Ok(alone) => place::placed(error, flags.config.as_deref(), (&all, &alone)),
                Err(_) => error,
            }
        })
    }

    /// Whether the origins are the same places with the same bounds, whoever asks there.
    fn has_origins_of(&self, other: &Self) -> bool {
        let places = |config: &Self| {
            let origins = config.origins.iter();
            origins.map(Origin::without_keys).collect::<Vec<_>>()
        };
        places(self) == places(other)
    }

    /// The keys whose values a running process cannot change, and that differ.
    pub(crate) fn fixed_that_differ(&self, other: &Self) -> Vec<&'static str> {
        let differ = [
            ("data-dir", self.data_dir != other.data_dir),
            ("endpoint.listen", self.listen != other.listen),
            ("endpoint.region", self.region != other.region),
            ("endpoint.authorization", self.authorization != other.authorization),
            ("endpoint.would-refuse", self.would_refuse != other.would_refuse),
            ("endpoint.access-key (there, or not)", self.keys.is_some() != other.keys.is_some()),
            (
                "endpoint.keys-file (there, or not)",
                self.more_keys.is_empty() != other.more_keys.is_empty(),
            ),
            (
                "endpoint.certificate-file (there, or not)",
                self.certificate.is_some() != other.certificate.is_some(),
            ),
            ("admin.listen", self.admin != other.admin),
            ("origin (but for its keys and authorities)", !self.has_origins_of(other)),
            ("device", self.devices != other.devices),
            ("keep.pinned", self.keep.pinned_percent != other.keep.pinned_percent),
            ("keep.pins-file", self.keep.pins_file != other.keep.pins_file),
            ("limits", self.limits != other.limits),
            ("log.format", self.log.format != other.log.format),
            ("log.access", self.log.access != other.log.access),
        ];
        differ.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }
}

/// What is wrong with the configuration, and what to write instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// `section.key`; empty when the file as a whole is meant.
    key: &'static str,
    /// Which of several sections, from 0.
    nth: usize,
    why: String,
    /// File and line, when it is known that the value came from there.
    place: String,
}

impl ConfigError {
    fn new(key: &'static str, why: impl fmt::Display) -> Self {
        Self { key, nth: 0, why: why.to_string(), place: String::new() }
    }

    /// What `toml` found in `text`, with its line.
    fn syntax(error: &toml::de::Error, text: &str) -> Self {
        let at = error.span().map(|span| span.start);
        let mut place = at.map_or(String::new(), |at| format!("line {}: ", place::line(text, at)));
        let mut why = error.message().replace('\n', " ");
        // What is no field has told its name.
        if let Some(key) =
            at.filter(|_| why.starts_with("invalid")).and_then(|at| place::key_at(text, at))
        {
            place += &format!("{key}: ");
        }
        if why.ends_with("map, expected a sequence") {
            why += ": write it in double brackets, as [[origin]]";
        }
        Self { key: "", nth: 0, why, place }
    }

    /// The same of another of several sections.
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
