//! Origin specs: parses `s3:http://127.0.0.1:7070?region=us-east-1`, `file:DIR`, `gcs:BUCKET`,
//! `azure:CONTAINER?account=NAME`, `https://HOST/PATH`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;
use http::uri::Scheme;
use zonal_origin::{Addressing, Endpoint, OriginLimits, ReadOnlyOrigin};
use zonal_stores::{Azure, AzureKeys, Gcs, GcsKeys, StoreOpenError, Web};

/// An origin as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OriginSpec {
    /// A local folder; its direct subfolders are buckets.
    Folder(PathBuf),
    /// An S3 endpoint, and the region for SigV4.
    S3 { endpoint: Endpoint, region: String },
    /// A read-only store that serves one bucket.
    Store(StoreSpec),
}

/// A read-only store. Its credentials are [`Machine`](GcsKeys::Machine) unless the spec sets
/// others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreSpec {
    Gcs(Gcs),
    Azure(Azure),
    Web(Web),
}

impl StoreSpec {
    /// Name of the bucket at the store; web servers have none.
    pub(crate) fn bucket(&self) -> Option<&str> {
        match self {
            Self::Gcs(gcs) => Some(&gcs.bucket),
            Self::Azure(azure) => Some(&azure.container),
            Self::Web(_) => None,
        }
    }

    fn is_https(&self) -> bool {
        match self {
            Self::Gcs(gcs) => gcs.is_https(),
            Self::Azure(azure) => azure.is_https(),
            Self::Web(web) => web.is_https(),
        }
    }

    /// The same store without credentials, for comparison.
    fn without_keys(&self) -> Self {
        match self {
            Self::Gcs(gcs) => Self::Gcs(Gcs { keys: GcsKeys::Machine, ..gcs.clone() }),
            Self::Azure(azure) => Self::Azure(Azure { keys: AzureKeys::Machine, ..azure.clone() }),
            Self::Web(web) => Self::Web(web.clone()),
        }
    }

    /// Opens the store; clients see it as `bucket`.
    pub(crate) fn open(
        &self,
        bucket: &str,
        limits: OriginLimits,
    ) -> Result<ReadOnlyOrigin, StoreOpenError> {
        let bucket = bucket.to_owned();
        match self {
            Self::Gcs(gcs) => gcs.open(bucket, limits),
            Self::Azure(azure) => azure.open(bucket, limits),
            Self::Web(web) => web.open(bucket, limits),
        }
    }
}

/// Default region: the one that the AWS tools use.
const REGION: &str = "us-east-1";

const WRITE: &str = "write s3:https://HOST?region=REGION, file:DIR, gcs:BUCKET, azure:CONTAINER?account=NAME or \
                     https://HOST/PATH";

impl OriginSpec {
    /// The same origin without credentials, for comparison.
    pub(crate) fn without_keys(&self) -> Self {
        match self {
            Self::Store(store) => Self::Store(store.without_keys()),
            spec => spec.clone(),
        }
    }

    /// Whether the connection uses TLS, so that certificate authorities apply.
    pub(crate) fn is_https(&self) -> bool {
        match self {
            Self::Folder(_) => false,
            Self::S3 { endpoint, .. } => *endpoint.scheme() == Scheme::HTTPS,
            Self::Store(store) => store.is_https(),
        }
    }

    /// Whether the spec names a credentials file.
    pub(crate) const fn has_key_file(&self) -> bool {
        matches!(self, Self::Store(StoreSpec::Gcs(Gcs { keys: GcsKeys::File(_), .. })))
    }
}

impl FromStr for OriginSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("file", "")) => Err(format!("missing directory: {WRITE}")),
            Some(("file", path)) => Ok(Self::Folder(path.into())),
            Some(("s3", rest)) => s3(rest),
            Some(("gcs", rest)) => gcs(rest),
            Some(("azure", rest)) => azure(rest),
            Some(("http" | "https", _)) => Ok(Self::Store(StoreSpec::Web(text.parse()?))),
            _ => Err(format!("{text:?} is not an origin: {}", kind_of(text))),
        }
    }
}

/// The spec that a text without a kind most likely means.
fn kind_of(text: &str) -> String {
    let port = text.split_once(':').map(|(_, port)| port.trim_end_matches('/'));
    match port.is_some_and(|port| port.parse::<u16>().is_ok()) {
        true => format!("write s3:http://{text} for an S3 endpoint"),
        false if text.contains('/') => format!("write file:{text} for a folder"),
        false => WRITE.to_owned(),
    }
}

/// What to write instead of a URL that is no endpoint.
fn endpoint_advice(url: &str) -> Option<String> {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
        Some(_) => return None,
        None if url.is_empty() => return None,
        None => ("http", url),
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if let Some((_, host)) = host.rsplit_once('@') {
        // Neither name nor password is printed.
        return Some(format!(
            "write s3:{scheme}://{host}, and the keys with --origin-access-key and \
             --origin-secret-key-file"
        ));
    }
    if host == "storage.googleapis.com" && !path.is_empty() {
        return Some(format!("write gs://{path}"));
    }
    Some(match path.split('/').next().unwrap_or_default() {
        "" => format!("write s3:{scheme}://{host}"),
        bucket => format!(
            "the URL of an endpoint has no path: write s3:{scheme}://{host}, and name the bucket \
             with --origin-bucket {bucket} (origin.buckets)"
        ),
    })
}

fn s3(text: &str) -> Result<OriginSpec, String> {
    let (url, options) = text.split_once('?').unwrap_or((text, ""));
    let mut endpoint: Endpoint =
        url.parse().map_err(|error| endpoint_advice(url).unwrap_or_else(|| format!("{error}")))?;
    let mut region = REGION.to_owned();
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=').unwrap_or((option, "")) {
            ("region", name) if !name.is_empty() => region = name.to_owned(),
            ("path-style", "true") => endpoint = endpoint.addressed(Addressing::PathStyle),
            ("path-style", "false") => endpoint = endpoint.addressed(Addressing::VirtualHosted),
            _ => {
                return Err(format!(
                    "unknown origin option {option:?}: write region=REGION or path-style=true|false"
                ));
            }
        }
    }
    Ok(OriginSpec::S3 { endpoint, region })
}

/// Splits a spec into the name and its options.
fn split(text: &str) -> (&str, impl Iterator<Item = (&str, &str)>) {
    let (name, options) = text.split_once('?').unwrap_or((text, ""));
    let options = options.split('&').filter(|option| !option.is_empty());
    (name, options.map(|option| option.split_once('=').unwrap_or((option, ""))))
}

fn gcs(text: &str) -> Result<OriginSpec, String> {
    let (bucket, options) = split(text);
    if bucket.is_empty() {
        return Err("missing bucket: write gcs:BUCKET".to_owned());
    }
    let mut gcs = Gcs { bucket: bucket.to_owned(), endpoint: None, keys: GcsKeys::Machine };
    for (name, value) in options {
        match (name, value) {
            ("endpoint", url) => gcs.endpoint = Some(endpoint(url)?),
            ("anonymous", "true") => gcs.keys = GcsKeys::Anonymous,
            ("credentials", file) if !file.is_empty() => gcs.keys = GcsKeys::File(file.into()),
            _ => {
                return Err(format!(
                    "unknown option {name:?} for Google Cloud Storage: write credentials=FILE, \
                     anonymous=true or endpoint=URL"
                ));
            }
        }
    }
    Ok(OriginSpec::Store(StoreSpec::Gcs(gcs)))
}

fn azure(text: &str) -> Result<OriginSpec, String> {
    let (container, options) = split(text);
    let mut azure = Azure {
        account: String::new(),
        container: container.to_owned(),
        endpoint: None,
        keys: AzureKeys::Machine,
    };
    for (name, value) in options {
        match (name, value) {
            ("account", account) => azure.account = account.to_owned(),
            ("endpoint", url) => azure.endpoint = Some(endpoint(url)?),
            ("anonymous", "true") => azure.keys = AzureKeys::Anonymous,
            _ => {
                return Err(format!(
                    "unknown option {name:?} for Azure: write account=NAME, anonymous=true or \
                     endpoint=URL"
                ));
            }
        }
    }
    if azure.container.is_empty() || azure.account.is_empty() {
        return Err(
            "missing container or account name: write azure:CONTAINER?account=NAME".to_owned()
        );
    }
    Ok(OriginSpec::Store(StoreSpec::Azure(azure)))
}

/// Parses the endpoint of a self-hosted or emulated store.
fn endpoint(url: &str) -> Result<Uri, String> {
    // An endpoint must be valid as a web origin, too.
    let fail =
        |_| format!("{url:?} is not an endpoint: write endpoint=http(s)://HOST[:PORT][/PATH]");
    url.parse::<Web>().map_err(fail)?;
    url.parse().map_err(|error: http::uri::InvalidUri| error.to_string())
}

impl fmt::Display for OriginSpec {
    /// Short form for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(root) => write!(f, "the folder {}", root.display()),
            Self::S3 { endpoint, .. } => endpoint.fmt(f),
            Self::Store(StoreSpec::Gcs(gcs)) => write!(f, "gcs:{}", gcs.bucket),
            Self::Store(StoreSpec::Azure(Azure { container, account, .. })) => {
                write!(f, "azure:{container} of {account}")
            }
            Self::Store(StoreSpec::Web(web)) => web.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, &str), &str>) {
        let parsed = text.parse::<OriginSpec>();
        let shown = parsed.as_ref().map(|spec| match spec {
            OriginSpec::Folder(_) => (spec.to_string(), "none"),
            OriginSpec::S3 { region, .. } => (spec.to_string(), region.as_str()),
            OriginSpec::Store(_) => (spec.to_string(), "read"),
        });
        let shown = shown.as_ref().map(|(place, region)| (place.as_str(), *region));
        assert_eq!(shown.map_err(|error| error.as_str()), expected, "parsing {text:?}");
    }

    #[test]
    fn an_origin_is_an_endpoint_or_a_folder() {
        check("file:a/b", Ok(("the folder a/b", "none")));
        check("s3:http://127.0.0.1:7070", Ok(("http://127.0.0.1:7070", "us-east-1")));
        check(
            "s3:https://s3.eu-west-1.amazonaws.com?region=eu-west-1&path-style=false",
            Ok(("https://s3.eu-west-1.amazonaws.com", "eu-west-1")),
        );
    }

    #[test]
    fn a_store_that_is_only_read_is_one_bucket() {
        check("gcs:lake", Ok(("gcs:lake", "read")));
        check("gcs:lake?anonymous=true&endpoint=http://127.0.0.1:4443", Ok(("gcs:lake", "read")));
        check("gcs:lake?credentials=a/b.json", Ok(("gcs:lake", "read")));
        check("azure:c?account=a", Ok(("azure:c of a", "read")));
        check("https://h/a/b", Ok(("https://h/a/b", "read")));
        check("http://h:1", Ok(("http://h:1/", "read")));
        check("gcs:", Err("missing bucket: write gcs:BUCKET"));
        check(
            "azure:c",
            Err("missing container or account name: write azure:CONTAINER?account=NAME"),
        );
        check(
            "azure:?account=a",
            Err("missing container or account name: write azure:CONTAINER?account=NAME"),
        );
        check(
            "gcs:lake?region=r",
            Err("unknown option \"region\" for Google Cloud Storage: write credentials=FILE, \
                 anonymous=true or endpoint=URL"),
        );
        check(
            "azure:c?account=a&key=k",
            Err("unknown option \"key\" for Azure: write account=NAME, anonymous=true or \
                 endpoint=URL"),
        );
        check(
            "gcs:lake?endpoint=h",
            Err("\"h\" is not an endpoint: write endpoint=http(s)://HOST[:PORT][/PATH]"),
        );
        check("http://:80", Err("\"http://:80\" is not a URL: write http(s)://HOST[:PORT][/PATH]"));
        check(
            "https://h?q",
            Err("\"https://h?q\" is not a URL: write http(s)://HOST[:PORT][/PATH]"),
        );
    }

    #[test]
    fn errors_say_what_to_write_instead() {
        check("", Err(&format!("\"\" is not an origin: {WRITE}")));
        check("a/b", Err("\"a/b\" is not an origin: write file:a/b for a folder"));
        check(
            "minio:9000",
            Err("\"minio:9000\" is not an origin: write s3:http://minio:9000 for an S3 endpoint"),
        );
        check("file:", Err(&format!("missing directory: {WRITE}")));
        check("s3:host", Err("write s3:http://host"));
        check(
            "s3:http://h?zone=1",
            Err("unknown origin option \"zone=1\": write region=REGION or path-style=true|false"),
        );
    }

    proptest! {
        #[test]
        fn any_text_names_an_origin_or_is_refused_with_what_to_write(
            text in prop_oneof![
                "(s3|file|gcs|azure)?:?(https?://)?[a-z0-9.:@/-]{0,12}(\\?[a-z=&%-]{0,12})?",
                "s3:http://[a-z]{1,4}(:[0-9]{1,6})?(\\?(region=[a-z0-9-]{0,4}|path-style=(true|false)|&){0,4})?",
                "(gcs|azure):[a-z]{0,3}\\?((account|endpoint|anonymous|credentials)=(true|http://h|[a-z]{0,2})|&){0,4}",
                ".*",
            ],
        ) {
            match text.parse::<OriginSpec>() {
                Err(why) => prop_assert!(why.contains("write"), "{why}"),
                Ok(OriginSpec::Folder(path)) => prop_assert_eq!(format!("file:{}", path.display()), text),
                Ok(OriginSpec::S3 { endpoint, region }) => {
                    let url = text.strip_prefix("s3:").unwrap().split('?').next().unwrap();
                    let is_it = endpoint.to_string().eq_ignore_ascii_case(url.trim_end_matches('/'));
                    prop_assert!(is_it, "{endpoint} of {text:?}");
                    prop_assert!(!region.is_empty());
                }
                Ok(OriginSpec::Store(StoreSpec::Web(web))) => {
                    let (shown, text) = (web.to_string(), text.trim_end_matches('/'));
                    prop_assert_eq!(shown.trim_end_matches('/'), text);
                }
                Ok(OriginSpec::Store(store)) => {
                    let (_, rest) = text.split_once(':').unwrap();
                    let name = rest.split('?').next().unwrap();
                    prop_assert!(!name.is_empty() && store.bucket() == Some(name), "{store:?} of {text:?}");
                }
            }
        }
    }
}
