//! Request signer: signs in headers, or makes presigned URLs.

use std::fmt;

use http::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Uri};

use super::key::{KeyCache, Scope, Signature};
use super::{ALGORITHM, Timestamp, UNSIGNED_PAYLOAD, canonical_request, string_to_sign, uri};

/// S3 credentials: a key pair, and the session token of temporary credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Access key ID; sent in requests.
    pub access_key: String,
    /// Secret key; never sent and never printed.
    pub secret_key: String,
    /// Session token of temporary credentials; sent in requests.
    pub session_token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({}, ..)", self.access_key)
    }
}

/// Signs requests with one key pair for one region.
#[derive(Debug)]
pub struct Signer {
    credentials: Credentials,
    region: String,
    keys: KeyCache,
}

const SERVICE: &str = "s3";

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// The access key, the token or the region contains characters that no HTTP header can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusableCredentials;

impl fmt::Display for UnusableCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("access key, session token and region must be visible ASCII without spaces")
    }
}

impl std::error::Error for UnusableCredentials {}

impl Signer {
    /// Creates a signer for S3 in `region`.
    ///
    /// # Errors
    /// The access key, token or region is not visible ASCII, for example because it ends with a
    /// line end.
    pub fn new(credentials: Credentials, region: String) -> Result<Self, UnusableCredentials> {
        let token = credentials.session_token.as_deref().unwrap_or_default();
        let sent = [credentials.access_key.as_str(), token, &region];
        if !sent.iter().all(|text| text.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(UnusableCredentials);
        }
        Ok(Self { credentials, region, keys: KeyCache::default() })
    }

    /// Signs `request` in its headers. `payload_hash` is the SHA-256 of the body in hexadecimal, or
    /// a keyword such as [`UNSIGNED_PAYLOAD`].
    ///
    /// Requires: the request's URI has a host, or the request has a `Host` header.
    pub fn sign(&self, now: Timestamp, request: &mut Parts, payload_hash: &str) {
        let timestamp = now.to_string();
        let headers = &mut request.headers;
        if !headers.contains_key(HOST) {
            headers.insert(HOST, value(&host_of(&request.uri)));
        }
        headers.insert(DATE, value(&timestamp));
        headers.insert(CONTENT_SHA256, value(payload_hash));
        if let Some(token) = &self.credentials.session_token {
            headers.insert(SECURITY_TOKEN, secret_value(token));
        }
        headers.remove(AUTHORIZATION);
        let signed = headers_to_sign(headers);
        let query = request.uri.query().unwrap_or_default();
        let path = request.uri.path();
        let canonical =
            canonical_request(request.method.as_str(), path, query, &signed, payload_hash);
        let signature = self.signature(&timestamp, &canonical);
        let mut names = Vec::new();
        super::signed_headers(&signed, &mut names);
        let authorization = format!(
            "{ALGORITHM} Credential={}/{},SignedHeaders={},Signature={signature}",
            self.credentials.access_key,
            self.scope(&timestamp),
            String::from_utf8_lossy(&names),
        );
        headers.insert(AUTHORIZATION, secret_value(&authorization));
    }

    /// Presigned URL: its holder may send this one request for `expires_s` seconds.
    ///
    /// Requires: `url` has a scheme and a host.
    #[must_use]
    pub fn presign(&self, now: Timestamp, method: &Method, url: &Uri, expires_s: u32) -> String {
        let timestamp = now.to_string();
        let credential = format!("{}/{}", self.credentials.access_key, self.scope(&timestamp));
        let mut query = String::new();
        for (name, value) in uri::query_pairs(url.query().unwrap_or_default()) {
            query.push_str(&format!("{name}={value}&"));
        }
        query.push_str(&format!(
            "X-Amz-Algorithm={ALGORITHM}&X-Amz-Credential={}&X-Amz-Date={timestamp}\
             &X-Amz-Expires={expires_s}&X-Amz-SignedHeaders=host",
            uri::encode_query_value(&credential),
        ));
        if let Some(token) = &self.credentials.session_token {
            query.push_str("&X-Amz-Security-Token=");
            query.push_str(&uri::encode_query_value(token));
        }
        let host = host_of(url);
        let signed = [("host", host.as_bytes())];
        let canonical =
            canonical_request(method.as_str(), url.path(), &query, &signed, UNSIGNED_PAYLOAD);
        let signature = self.signature(&timestamp, &canonical);
        let scheme = url.scheme_str().unwrap_or("http");
        format!("{scheme}://{host}{}?{query}&X-Amz-Signature={signature}", url.path())
    }

    fn signature(&self, timestamp: &str, canonical_request: &[u8]) -> Signature {
        let scope = self.scope(timestamp);
        let text = string_to_sign(timestamp, &scope, canonical_request);
        self.keys.key(&self.credentials.secret_key, &scope).sign(&text)
    }

    fn scope<'a>(&'a self, timestamp: &'a str) -> Scope<'a> {
        Scope { date: &timestamp[..8], region: &self.region, service: SERVICE }
    }
}

/// The headers to sign, sorted by name: those that S3 requires (`host`, `x-amz-*`), and those that
/// change the meaning of a request. Headers that a proxy may modify are not signed.
fn headers_to_sign(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    let is_signed = |name: &str| {
        matches!(name, "host" | "date" | "range" | "content-type" | "content-md5")
            || name.starts_with("x-amz-")
            || name.starts_with("if-")
    };
    let mut signed: Vec<(&str, &[u8])> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .filter(|(name, _)| is_signed(name))
        .collect();
    // A stable sort: the values of one name keep their order.
    signed.sort_by_key(|(name, _)| *name);
    signed
}

/// The `Host` value that clients send: without the default port of the scheme.
fn host_of(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    match (uri.port_u16(), uri.scheme_str()) {
        (None, _) | (Some(80), Some("http")) | (Some(443), Some("https")) => host.to_owned(),
        (Some(port), _) => format!("{host}:{port}"),
    }
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("dates, hashes and hosts are visible ASCII")
}

fn secret_value(text: &str) -> HeaderValue {
    let mut value = HeaderValue::from_bytes(text.as_bytes())
        .expect("credentials and region were checked when the signer was made");
    value.set_sensitive(true);
    value
}
