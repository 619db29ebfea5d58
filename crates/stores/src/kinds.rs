//! The kinds of stores, and the settings that open each.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use http::Uri;
use http::uri::Scheme;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::http::HttpBuilder;
use object_store::{RetryConfig, StaticCredentialProvider};
use zonal_origin::{HttpClient, Limits, ReadOnlyOrigin};

use crate::bucket::{Bucket, Lists};
use crate::wire::{Encoding, Wire};

/// A bucket of Google Cloud Storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gcs {
    /// Its name there.
    pub bucket: String,
    /// Where the service is; `None`: Google's own.
    pub endpoint: Option<Uri>,
    /// Who asks.
    pub keys: GcsKeys,
}

/// Who asks Google Cloud Storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GcsKeys {
    /// Nobody: the bucket is public.
    Anonymous,
    /// Whom a file names: a service account, or what `gcloud auth application-default login` wrote.
    File(PathBuf),
    /// Whoever this machine is to Google.
    Machine,
}

/// A container of Azure Blob Storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Azure {
    /// The storage account.
    pub account: String,
    /// Its name there.
    pub container: String,
    /// Where the account is; `None`: `https://ACCOUNT.blob.core.windows.net`.
    pub endpoint: Option<Uri>,
    /// Who asks.
    pub keys: AzureKeys,
}

/// Who asks Azure Blob Storage.
#[derive(Clone, PartialEq, Eq)]
pub enum AzureKeys {
    /// Nobody: the container is public.
    Anonymous,
    /// The holder of the account's key, in base64.
    Account(String),
    /// The holder of a shared access signature, as `sv=...&sig=...`.
    Signature(String),
    /// Whoever this machine is to Azure.
    Machine,
}

impl fmt::Debug for AzureKeys {
    /// Never prints a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Account(_) => "Account(..)",
            Self::Signature(_) => "Signature(..)",
            Self::Machine => "Machine",
        })
    }
}

/// The files below a URL. There are no lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Web {
    url: Uri,
}

impl FromStr for Web {
    type Err = String;

    /// Reads `http://HOST[:PORT][/PATH]` or the same with `https`.
    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || format!("{text:?} is no URL: write http(s)://HOST[:PORT][/PATH]");
        let url: Uri = text.parse().map_err(|_| fail())?;
        let is_sound = is_http(&url) && url.query().is_none() && !text.contains(['@', '#']);
        if is_sound { Ok(Self { url }) } else { Err(fail()) }
    }
}

impl fmt::Display for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// Whether a URL has all that a server is found by.
fn is_http(url: &Uri) -> bool {
    let schemes = [Scheme::HTTP, Scheme::HTTPS];
    url.scheme().is_some_and(|scheme| schemes.contains(scheme))
        && url.host().is_some_and(|host| !host.is_empty())
}

/// Why a store could not be opened.
#[derive(Debug)]
pub enum StoreOpenError {
    /// HTTPS is wanted, and the system has no root certificates that could be read.
    NoRootCertificates(std::io::Error),
    /// A key, a file of keys or a name is none.
    Unusable(object_store::Error),
}

impl fmt::Display for StoreOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRootCertificates(error) => {
                write!(f, "HTTPS needs root certificates, and the system has none: {error}")
            }
            Self::Unusable(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StoreOpenError {}

impl From<object_store::Error> for StoreOpenError {
    fn from(error: object_store::Error) -> Self {
        Self::Unusable(error)
    }
}

/// Whoever asks tries again: one place decides how often.
fn once() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

fn wire(scheme: &Scheme, limits: &Limits, encoding: Encoding) -> Result<Wire, StoreOpenError> {
    let client = HttpClient::open(scheme, limits).map_err(StoreOpenError::NoRootCertificates)?;
    Ok(Wire::new(client, encoding))
}

/// What must be spoken to reach an endpoint, and whoever hands out tokens for it.
fn scheme_of(endpoint: Option<&Uri>, asks_for_tokens: bool) -> Scheme {
    match endpoint.and_then(Uri::scheme) {
        Some(scheme) if !asks_for_tokens => scheme.clone(),
        _ => Scheme::HTTPS,
    }
}

/// Without the slash at its end, which both builders would double.
fn base(endpoint: &Uri) -> String {
    endpoint.to_string().trim_end_matches('/').to_owned()
}

impl Gcs {
    /// Whether a certificate is looked at, here or where tokens are handed out.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.scheme() == Scheme::HTTPS
    }

    fn scheme(&self) -> Scheme {
        scheme_of(self.endpoint.as_ref(), self.keys != GcsKeys::Anonymous)
    }

    /// Shows the bucket to clients as `name`; nothing is sent yet.
    ///
    /// # Errors
    /// A file of keys that cannot be read, or no root certificates.
    pub fn open(&self, name: String, limits: Limits) -> Result<ReadOnlyOrigin, StoreOpenError> {
        let mut builder = GoogleCloudStorageBuilder::new()
            .with_bucket_name(&self.bucket)
            .with_retry(once())
            .with_http_connector(wire(&self.scheme(), &limits, Encoding::AsStored)?);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_base_url(&base(endpoint));
        }
        builder = match &self.keys {
            GcsKeys::Anonymous => {
                let nobody = GcpCredential { bearer: String::new() };
                let nobody = Arc::new(StaticCredentialProvider::new(nobody));
                builder.with_credentials(nobody).with_skip_signature(true)
            }
            GcsKeys::File(path) => builder.with_application_credentials(path.to_string_lossy()),
            GcsKeys::Machine => builder,
        };
        let store = Arc::new(builder.build()?);
        let bucket = Bucket::new(store.clone(), Lists::Paged(store));
        Ok(ReadOnlyOrigin::new(Box::new(bucket), name, limits))
    }
}

impl Azure {
    /// Whether a certificate is looked at, here or where tokens are handed out.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.scheme() == Scheme::HTTPS
    }

    fn scheme(&self) -> Scheme {
        scheme_of(self.endpoint.as_ref(), self.keys == AzureKeys::Machine)
    }

    /// Shows the container to clients as `name`; nothing is sent yet.
    ///
    /// # Errors
    /// A key that is none, or no root certificates.
    pub fn open(&self, name: String, limits: Limits) -> Result<ReadOnlyOrigin, StoreOpenError> {
        let mut builder = MicrosoftAzureBuilder::new()
            .with_account(&self.account)
            .with_container_name(&self.container)
            .with_retry(once())
            .with_http_connector(wire(&self.scheme(), &limits, Encoding::AsAsked)?);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(base(endpoint)).with_allow_http(true);
        }
        builder = match &self.keys {
            AzureKeys::Anonymous => builder.with_skip_signature(true),
            AzureKeys::Account(key) => builder.with_access_key(key),
            AzureKeys::Signature(signature) => {
                builder.with_config(AzureConfigKey::SasKey, signature)
            }
            AzureKeys::Machine => builder,
        };
        let store = Arc::new(builder.build()?);
        let bucket = Bucket::new(store.clone(), Lists::Paged(store));
        Ok(ReadOnlyOrigin::new(Box::new(bucket), name, limits))
    }
}

impl Web {
    /// Whether a certificate is looked at.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.scheme() == Scheme::HTTPS
    }

    fn scheme(&self) -> Scheme {
        scheme_of(Some(&self.url), false)
    }

    /// Shows the files to clients as objects of a bucket `name`; nothing is sent yet.
    ///
    /// # Errors
    /// No root certificates.
    pub fn open(&self, name: String, limits: Limits) -> Result<ReadOnlyOrigin, StoreOpenError> {
        let store = HttpBuilder::new()
            .with_url(base(&self.url))
            .with_retry(once())
            .with_http_connector(wire(&self.scheme(), &limits, Encoding::AsAsked)?)
            .build()?;
        let bucket = Bucket::new(Arc::new(store), Lists::None);
        Ok(ReadOnlyOrigin::new(Box::new(bucket), name, limits))
    }
}
