//! The part of the configuration of `zonal serve` that its clients need: address, region, key pair.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::check::{Checked, Variables, address, given, main_key, more_keys, path, text};
use super::raw::{Endpoint, Flags};
use super::{ConfigError, KeyPair, layers, raw, variables};

/// Flags of `zonal env`: those of [`Flags`] that clients depend on.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClientFlags {
    /// Configuration file of zonal serve
    #[arg(long, value_name = "FILE", env = "ZONAL_CONFIG")]
    config: Option<PathBuf>,
    /// Data directory of zonal serve, with the access key that it generated
    #[arg(long, value_name = "DIR", env = "ZONAL_DATA_DIR")]
    data_dir: Option<String>,
    #[command(flatten)]
    endpoint: Endpoint,
}

#[derive(Debug)]
pub(crate) struct ClientConfig {
    /// Listening address of the S3 endpoint.
    pub(crate) listen: SocketAddr,
    pub(crate) region: String,
    /// Certificate file of the endpoint; `None`: plain HTTP.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) keys: ClientKeys,
}

/// Where clients get a valid key pair.
#[derive(Debug)]
pub(crate) enum ClientKeys {
    /// A configured pair: the main one, or the first of the keys file.
    Pair(KeyPair),
    /// The pair that a start generated in this data directory.
    Generated(PathBuf),
    /// The origin authorizes requests: use its keys.
    OfOrigin,
}

impl ClientConfig {
    /// Merges the layers as [`Config::load`](super::Config::load) does, and validates the part that
    /// clients need.
    pub(crate) fn load(flags: &ClientFlags) -> Result<Self, ConfigError> {
        variables::refuse_unknown(std::env::vars_os())?;
        let ClientFlags { config, data_dir, endpoint } = flags.clone();
        let file = layers::gather(&Flags { config, data_dir, endpoint, ..Flags::default() })?;
        Self::of(&file, &|name| std::env::var(name).ok())
    }

    fn of(file: &raw::File, variable: Variables<'_>) -> Checked<Self> {
        let endpoint = &file.endpoint;
        let main = main_key(endpoint)?;
        let mut more = more_keys(text(&endpoint.keys_file), main.as_ref(), variable)?.into_iter();
        let data_dir = given("data-dir", &file.data_dir)?;
        let keys = match main.or_else(|| more.next().map(|key| key.pair)) {
            _ if text(&endpoint.authorization) == "origin" => ClientKeys::OfOrigin,
            Some(pair) => ClientKeys::Pair(pair),
            None => ClientKeys::Generated(data_dir.into()),
        };
        Ok(Self {
            listen: address("endpoint.listen", &endpoint.listen)?,
            region: given("endpoint.region", &endpoint.region)?.to_owned(),
            certificate: path(&endpoint.certificate_file),
            keys,
        })
    }
}
