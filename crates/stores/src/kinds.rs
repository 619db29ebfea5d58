//! Kinds of stores, and the settings that open each.

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
use zonal_origin::{HttpClient, OriginLimits, ReadOnlyOrigin};

use crate::bucket::{Bucket, Lists};
use crate::transport::{Encoding, Transport};

/// Settings of a bucket in Google Cloud Storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gcs {
    /// Bucket name in Google Cloud Storage.
    pub bucket: String,
    /// Endpoint of the service. `None`: Google's own.
    pub endpoint: Option<Uri>,
    /// Credentials of the requests.
    pub keys: GcsKeys,
}

/// Credentials for Google Cloud Storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GcsKeys {
    /// Anonymous requests: the bucket is public.
    Anonymous,
    /// A credentials file: a service account key, or the output of `gcloud auth application-default
    /// login`.
    File(PathBuf),
    /// The machine's own identity at Google: application default credentials or the metadata
    /// server.
    Machine,
}

/// Settings of a container in Azure Blob Storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Azure {
    /// Storage account name.
    pub account: String,
    /// Container name in the account.
    pub container: String,
    /// Endpoint of the account. `None`: `https://ACCOUNT.blob.core.windows.net`.
    pub endpoint: Option<Uri>,
    /// Credentials of the requests.
    pub keys: AzureKeys,
}

/// Credentials for Azure Blob Storage.
#[derive(Clone, PartialEq, Eq)]
pub enum AzureKeys {
    /// Anonymous requests: the container is public.
    Anonymous,
    /// Access key of the account, in base64.
    Account(String),
    /// Shared access signature (SAS), as `sv=...&sig=...`.
    Signature(String),
    /// The machine's own identity at Azure (managed identity).
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

/// A web server: the files below a URL are objects. Web servers have no lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Web {
    url: Uri,
}

impl FromStr for Web {
    type Err = String;

    /// Parses `http://HOST[:PORT][/PATH]` or the same with `https`.
    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || format!("{text:?} is not a URL: write http(s)://HOST[:PORT][/PATH]");
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

/// True if the URL has the scheme HTTP or HTTPS and a host.
fn is_http(url: &Uri) -> bool {
    let schemes = [Scheme::HTTP, Scheme::HTTPS];
    url.scheme().is_some_and(|scheme| schemes.contains(scheme))
        && url.host().is_some_and(|host| !host.is_empty())
}

/// Error of opening a store.
#[derive(Debug)]
pub enum StoreOpenError {
    /// The scheme is HTTPS, and the system has no readable root certificates.
    NoRootCertificates(std::io::Error),
    /// A key, credentials file or name is invalid.
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

/// Disables the library's retries: only the retry budget of the origin decides on retries.
fn once() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

fn wire(
    scheme: &Scheme,
    limits: &OriginLimits,
    encoding: Encoding,
) -> Result<Transport, StoreOpenError> {
    let client = HttpClient::open(scheme, limits).map_err(StoreOpenError::NoRootCertificates)?;
    Ok(Transport::new(client, encoding))
}

/// The scheme that decides on root certificates: HTTPS if tokens are requested, because token
/// services may use it; otherwise the scheme of the endpoint. Default endpoints use HTTPS.
fn scheme_of(endpoint: Option<&Uri>, asks_for_tokens: bool) -> Scheme {
    match endpoint.and_then(Uri::scheme) {
        Some(scheme) if !asks_for_tokens => scheme.clone(),
        _ => Scheme::HTTPS,
    }
}

/// The URL without its final slash, which both builders would double.
fn base(endpoint: &Uri) -> String {
    endpoint.to_string().trim_end_matches('/').to_owned()
}

impl Gcs {
    /// True if certificates are verified, for the endpoint or for the token service.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.scheme() == Scheme::HTTPS
    }

    fn scheme(&self) -> Scheme {
        scheme_of(self.endpoint.as_ref(), self.keys != GcsKeys::Anonymous)
    }

    /// Opens the bucket as the read-only bucket `name`, without sending a request.
    ///
    /// # Errors
    /// An unreadable credentials file, or no root certificates.
    pub fn open(
        &self,
        name: String,
        limits: OriginLimits,
    ) -> Result<ReadOnlyOrigin, StoreOpenError> {
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
        let lists = Lists::Paged(store.clone());
        let bucket = Bucket { store, lists, has_suffix_ranges: true };
        Ok(ReadOnlyOrigin::new(Box::new(bucket), name, limits))
    }
}

impl Azure {
    /// True if certificates are verified, for the endpoint or for the token service.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.scheme() == Scheme::HTTPS
    }

    fn scheme(&self) -> Scheme {
        scheme_of(self.endpoint.as_ref(), self.keys == AzureKeys::Machine)
    }

    /// Opens the container as the read-only bucket `name`, without sending a request.
    ///
    /// # Errors
    /// An invalid key, or no root certificates.
    pub fn open(
        &self,
        name: String,
        limits: OriginLimits,
    ) -> Result<ReadOnlyOrigin, StoreOpenError> {
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
        let lists = Lists::Paged(store.clone());
        let bucket = Bucket { store, lists, has_suffix_ranges: false };
        Ok(ReadOnlyOrigin::new(Box::new(bucket), name, limits))
    }
}

impl Web {
    /// True if the server's certificate is verified.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.scheme() == Scheme::HTTPS
    }

    fn scheme(&self) -> Scheme {
        scheme_of(Some(&self.url), false)
    }

    /// Opens the files as objects of the read-only bucket `name`, without sending a request.
    ///
    /// # Errors
    /// No root certificates.
    pub fn open(
        &self,
        name: String,
        limits: OriginLimits,
    ) -> Result<ReadOnlyOrigin, StoreOpenError> {
        let store = HttpBuilder::new()
            .with_url(base(&self.url))
            .with_retry(once())
            .with_http_connector(wire(&self.scheme(), &limits, Encoding::AsAsked)?)
            .build()?;
        let (store, lists) = (Arc::new(store), Lists::None);
        let bucket = Bucket { store, lists, has_suffix_ranges: true };
        Ok(ReadOnlyOrigin::new(Box::new(bucket), name, limits))
    }
}
