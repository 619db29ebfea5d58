//! Authentication: strict verification of AWS Signature Version 4.
//!
//! 1. [`signed_request`] parses the signature fields of the request and checks everything that needs
//!    no key.
//! 2. All headers that must be signed are signed: `host` and every `x-amz-*`. `Connection` names no
//!    header that has a meaning for the operation.
//! 3. The payload hash is a SHA-256, or one of S3's placeholders such as `UNSIGNED-PAYLOAD`.
//! 4. The signature equals the one that the secret key yields for all of this.

mod error;
mod keys;
mod signed_request;

pub(crate) use error::AuthError;
pub(crate) use keys::AccessKey;
pub use keys::AccessKeys;
pub(crate) use signed_request::PARAMETERS as PRESIGN_PARAMETERS;

use std::sync::Arc;

use http::header::{HOST, HeaderMap, HeaderName};
use http::request::Parts;
use zonal_s3::Query;
use zonal_s3::aws_chunked::SignatureChain;
use zonal_s3::hop_by_hop::named_by_connection;
use zonal_s3::sigv4::{
    self, EMPTY_SHA256, KeyCache, STREAMING_SIGNED_PAYLOAD, STREAMING_SIGNED_PAYLOAD_TRAILER,
    STREAMING_UNSIGNED_PAYLOAD_TRAILER, Scope, Signature, Timestamp, UNSIGNED_PAYLOAD,
};

use self::error::Mismatch;
use self::signed_request::{SignatureSource, SignedRequest, single};

/// SigV4 verifier for one region.
pub(crate) struct Verifier {
    region: String,
    signing_keys: KeyCache,
}

/// An authenticated request.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    /// Its access key.
    pub(crate) key: Arc<AccessKey>,
    /// The signed payload.
    pub(crate) payload: Payload,
}

/// What the signature says about the body.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// No body: the hash is that of zero bytes.
    Empty,
    /// SHA-256 of the body, in lower-case hexadecimal.
    Sha256(String),
    /// The body is not signed. The value is S3's placeholder, with or without a trailer.
    Unsigned(&'static str),
    /// The body comes in signed chunks. The value is S3's placeholder; the chain starts with the
    /// signature of the request head.
    Chunks(&'static str, Box<SignatureChain>),
}

impl Payload {
    /// The signed payload hash: a SHA-256, or one of S3's placeholders.
    pub(crate) fn stated(&self) -> &str {
        match self {
            Self::Empty => EMPTY_SHA256,
            Self::Sha256(hash) => hash,
            Self::Unsigned(word) | Self::Chunks(word, _) => word,
        }
    }
}

impl Verifier {
    /// Creates a verifier for clients that sign for `region`.
    pub(crate) fn new(region: String) -> Self {
        Self { region, signing_keys: KeyCache::default() }
    }

    /// Authenticates a request that is signed with one of `keys`.
    pub(crate) fn verify(
        &self,
        keys: &AccessKeys,
        request: &Parts,
        query: &Query<'_>,
        now: Timestamp,
    ) -> Result<Signed, AuthError> {
        let headers = &request.headers;
        let claim = SignedRequest::of(headers, query, &self.region, now)?;
        if headers.contains_key(&TOKEN_HEADER) || query.has(TOKEN_PARAMETER) {
            return Err(AuthError::Token);
        }
        let unknown = || AuthError::UnknownKey(claim.access_key.to_owned());
        let access_key = keys.get(claim.access_key).ok_or_else(unknown)?;
        let payload_hash = payload_hash(request, query, claim.place)?;
        let (signed, are_there) = signed_headers(request, claim.signed_headers, claim.place)?;
        nothing_is_taken_away(headers, claim.signed_headers)?;
        let path = request.uri.path();
        let raw_query = request.uri.query().unwrap_or_default();
        let canonical_request = sigv4::canonical_request(
            request.method.as_str(),
            path,
            raw_query,
            &signed,
            payload_hash,
        );
        let day = &claim.date[..signed_request::DAY_CHARS];
        let scope = Scope { date: day, region: &self.region, service: "s3" };
        let string_to_sign = sigv4::string_to_sign(claim.date, &scope, &canonical_request);
        let key = self.signing_keys.key(&access_key.secret, &scope);
        let signature = Signature::parse(claim.signature).filter(|_| are_there);
        let signature = signature.filter(|signature| key.verify(&string_to_sign, signature));
        let Some(signature) = signature else {
            return Err(AuthError::Mismatch(Box::new(Mismatch {
                access_key: claim.access_key.to_owned(),
                signature: claim.signature.to_owned(),
                string_to_sign,
                canonical_request: String::from_utf8_lossy(&canonical_request).into_owned(),
            })));
        };
        let known = |words: [&'static str; 2]| words.into_iter().find(|word| *word == payload_hash);
        let payload = if let Some(word) = known(UNSIGNED_WORDS) {
            Payload::Unsigned(word)
        } else if let Some(word) = known(CHUNKS_WORDS) {
            let (timestamp, scope) = (claim.date.to_owned(), scope.to_string());
            Payload::Chunks(word, Box::new(SignatureChain { key, timestamp, scope, signature }))
        } else if payload_hash == EMPTY_SHA256 {
            Payload::Empty
        } else {
            Payload::Sha256(payload_hash.to_owned())
        };
        Ok(Signed { key: access_key.clone(), payload })
    }
}

/// The payload hash that was signed.
fn payload_hash<'a>(
    request: &'a Parts,
    query: &'a Query<'_>,
    place: SignatureSource,
) -> Result<&'a str, AuthError> {
    let stated = single(&request.headers, &PAYLOAD_HEADER)?;
    let stated = match place {
        SignatureSource::Header => stated.ok_or(AuthError::NoPayloadHash)?,
        SignatureSource::Query => {
            stated.or(query.get(PAYLOAD_PARAMETER)).unwrap_or(UNSIGNED_PAYLOAD)
        }
    };
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_hash = stated.len() == SHA256_HEX_CHARS && stated.bytes().all(is_hex);
    if is_hash || UNSIGNED_WORDS.contains(&stated) || CHUNKS_WORDS.contains(&stated) {
        Ok(stated)
    } else {
        Err(AuthError::BadPayloadHash(stated.to_owned()))
    }
}

/// Header names and values.
type SignedHeaders<'a> = Vec<(&'a str, &'a [u8])>;

/// The signed headers with their values, in the order of their names, and whether all of them are
/// present. A missing one was removed on the way, or is meant to be added on the way: the signature
/// then fails.
fn signed_headers<'a>(
    request: &'a Parts,
    names: &'a str,
    place: SignatureSource,
) -> Result<(SignedHeaders<'a>, bool), AuthError> {
    let headers = &request.headers;
    let are_lower_case = !names.bytes().any(|byte| byte.is_ascii_uppercase());
    let names: Vec<&str> = names.split(';').collect();
    if !are_lower_case || !names.is_sorted_by(|a, b| a < b) {
        let why = "SignedHeaders must be lower-case names in alphabetical order.".to_owned();
        return Err(match place {
            SignatureSource::Header => AuthError::Header { why, region: None },
            SignatureSource::Query => AuthError::Query(why),
        });
    }
    single(headers, &HOST)?;
    all_are_signed(headers, &names)?;
    let mut signed = Vec::with_capacity(headers.len());
    let mut are_there = true;
    for name in names {
        let before = signed.len();
        signed.extend(headers.get_all(name).iter().map(|value| (name, value.as_bytes())));
        if signed.len() == before {
            signed.push((name, b"".as_slice()));
            are_there = false;
        }
    }
    Ok((signed, are_there))
}

/// S3's rule: `host` and every `x-amz-*` header must be among the signed `names`.
fn all_are_signed(headers: &HeaderMap, names: &[&str]) -> Result<(), AuthError> {
    let must_be_signed = |name: &str| name == HOST.as_str() || name.starts_with("x-amz-");
    let unsigned = headers.keys().map(HeaderName::as_str).chain([HOST.as_str()]);
    let mut unsigned: Vec<_> = unsigned
        .filter(|name| must_be_signed(name) && !names.contains(name))
        .map(str::to_owned)
        .collect();
    unsigned.sort();
    unsigned.dedup();
    if unsigned.is_empty() { Ok(()) } else { Err(AuthError::NotSigned(unsigned)) }
}

/// The same check for a request that the origin authenticates, because the origin may not enforce
/// this rule. A Signature Version 2 request covers every `x-amz-*` by itself. An anonymous request
/// has no signature that an added header could misuse.
pub(crate) fn nothing_is_added(headers: &HeaderMap, query: &Query<'_>) -> Result<(), AuthError> {
    let claimed =
        [signed_request::signed_in_header(headers)?, signed_request::signed_in_query(query)?];
    let mut claimed =
        claimed.into_iter().flatten().map(|names| names.split(';').collect::<Vec<_>>());
    claimed.try_for_each(|names| all_are_signed(headers, &names))
}

/// Refuses a `Connection` header that names a header with a meaning, such as a condition. Headers
/// named by `Connection` are hop-by-hop and are not forwarded. `Connection` is not signed, so an
/// attacker on the way could remove a signed header, and the origin would do something other than
/// what was signed.
fn nothing_is_taken_away(headers: &HeaderMap, signed: &str) -> Result<(), AuthError> {
    let decides = |name: &str| {
        matches!(name, "host" | "range")
            || ["x-amz-", "content-", "if-"].iter().any(|prefix| name.starts_with(prefix))
            || signed.split(';').any(|signed| signed == name)
    };
    let mut named = named_by_connection(headers).map(str::to_ascii_lowercase);
    named.find(|name| decides(name)).map_or(Ok(()), |name| Err(AuthError::TakenAway(name)))
}

const PAYLOAD_HEADER: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const PAYLOAD_PARAMETER: &str = "X-Amz-Content-Sha256";
const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-amz-security-token");
const TOKEN_PARAMETER: &str = "X-Amz-Security-Token";

/// Length of a SHA-256 in hexadecimal.
const SHA256_HEX_CHARS: usize = 64;

/// Placeholders for the hash of a body that is not signed.
const UNSIGNED_WORDS: [&str; 2] = [UNSIGNED_PAYLOAD, STREAMING_UNSIGNED_PAYLOAD_TRAILER];

/// Placeholders for the hash of a body with signed chunks. S3's ECDSA variants (SigV4A) are not
/// among them, because their keys do not exist here.
const CHUNKS_WORDS: [&str; 2] = [STREAMING_SIGNED_PAYLOAD, STREAMING_SIGNED_PAYLOAD_TRAILER];

#[cfg(test)]
mod tests;
