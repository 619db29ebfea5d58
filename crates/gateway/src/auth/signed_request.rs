//! Signed request fields: access key, date, scope, signed headers and signature.
//!
//! They are in the `Authorization` header, or in the query of a presigned URL. This module parses
//! both and checks everything that needs no key.

use http::header::{AUTHORIZATION, DATE, HeaderMap, HeaderName};
use zonal_s3::Query;
use zonal_s3::sigv4::{ALGORITHM, Timestamp};

use super::error::{AuthError, SKEW_SECONDS_MAX, Scheme};

/// S3's asymmetric algorithm (SigV4A). It is not supported: its keys do not exist here.
const ALGORITHM_ECDSA: &str = "AWS4-ECDSA-P256-SHA256";

/// Maximum validity of a presigned URL: 7 days, S3's own limit.
const EXPIRES_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;

/// Where the signature is. The canonical query and the payload hash depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignatureSource {
    /// The `Authorization` header.
    Header,
    /// The query of a presigned URL.
    Query,
}

/// Signature fields that are well-formed and within their time. The signature itself is not
/// verified yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignedRequest<'a> {
    /// Where the signature is.
    pub(crate) place: SignatureSource,
    /// Access key id.
    pub(crate) access_key: &'a str,
    /// Names of the signed headers as the client wrote them, separated by `;`.
    pub(crate) signed_headers: &'a str,
    /// Signature in hexadecimal, as the client wrote it.
    pub(crate) signature: &'a str,
    /// Time of signing as the client wrote it: `yyyyMMddTHHmmssZ`.
    pub(crate) date: &'a str,
}

impl<'a> SignedRequest<'a> {
    /// Finds and checks the signature fields of a request to the endpoint in `region`, at `now`.
    pub(crate) fn of(
        headers: &'a HeaderMap,
        query: &'a Query<'_>,
        region: &str,
        now: Timestamp,
    ) -> Result<Self, AuthError> {
        let header = single(headers, &AUTHORIZATION)?;
        if PARAMETERS_V2.iter().any(|name| query.has(name)) {
            return Err(AuthError::Unsupported(Scheme::Version2));
        }
        match (header, PARAMETERS.iter().any(|name| query.has(name))) {
            (None, false) if query.iter().any(|(name, _)| name.starts_with("response-")) => {
                Err(AuthError::AnonymousOverrides)
            }
            (None, false) => Err(AuthError::Anonymous),
            (Some(_), true) => Err(AuthError::Ambiguous(TWO_MECHANISMS)),
            (Some(header), false) => Self::in_header(headers, header, region, now),
            (None, true) => Self::in_query(query, region, now),
        }
    }

    fn in_header(
        headers: &'a HeaderMap,
        header: &'a str,
        region: &str,
        now: Timestamp,
    ) -> Result<Self, AuthError> {
        let parts = Authorization::parse(header)?;
        let date = date_of(headers)?;
        let signed_at = Timestamp::parse(date).ok_or(AuthError::NoDate)?;
        if signed_at.unix_seconds().abs_diff(now.unix_seconds()) > SKEW_SECONDS_MAX {
            return Err(AuthError::Skewed { request_time: date.to_owned(), now });
        }
        let malformed = |why| AuthError::Header { why, region: None };
        let scope = Scope::parse(parts.credential).map_err(malformed)?;
        if scope.region != region {
            let why = format!("the region \"{}\" is wrong; expecting \"{region}\"", scope.region);
            return Err(AuthError::Header { why, region: Some(region.to_owned()) });
        }
        if scope.day != &date[..DAY_CHARS] {
            let why = "Invalid credential date. Date is not the same as X-Amz-Date.".to_owned();
            return Err(AuthError::Header { why, region: None });
        }
        Ok(Self {
            place: SignatureSource::Header,
            access_key: scope.access_key,
            signed_headers: parts.signed_headers,
            signature: parts.signature,
            date,
        })
    }

    fn in_query(query: &'a Query<'_>, region: &str, now: Timestamp) -> Result<Self, AuthError> {
        let [algorithm, credential, date, expires, signed_headers, signature] = PARAMETERS
            .map(|name| query.get(name).filter(|value| !value.is_empty()))
            .map(|value| value.ok_or_else(|| AuthError::Query(MISSING_PARAMETERS.to_owned())));
        let algorithm = algorithm?;
        if PARAMETERS.iter().any(|name| query.iter().filter(|(key, _)| key == name).count() > 1) {
            return Err(AuthError::Ambiguous(TWICE));
        }
        if algorithm != ALGORITHM {
            let supported = match algorithm {
                ALGORITHM_ECDSA => ALGORITHM,
                // S3's own message.
                _ => "AWS4-HMAC-SHA256 and AWS4-ECDSA-P256-SHA256",
            };
            let why = format!("X-Amz-Algorithm only supports \"{supported}\"");
            return Err(AuthError::Query(why));
        }
        let bad_scope =
            |why| AuthError::Query(format!("Error parsing the X-Amz-Credential parameter; {why}"));
        let scope = Scope::parse(credential?).map_err(bad_scope)?;
        if scope.region != region {
            let why = format!("the region \"{}\" is wrong; expecting \"{region}\"", scope.region);
            return Err(bad_scope(why));
        }
        let date = date?;
        let bad_date = || AuthError::Query(BAD_DATE.to_owned());
        let signed_at = Timestamp::parse(date).ok_or_else(bad_date)?;
        if scope.day != &date[..DAY_CHARS] {
            let why = format!(
                "Invalid credential date \"{}\". This date is not the same as X-Amz-Date: \"{}\".",
                scope.day,
                &date[..DAY_CHARS]
            );
            return Err(AuthError::Query(why));
        }
        let (signature, signed_headers) = (signature?, signed_headers?);
        in_time(signed_at, expires?, now)?;
        let access_key = scope.access_key;
        Ok(Self { place: SignatureSource::Query, access_key, signed_headers, signature, date })
    }
}

/// Checks the validity of a presigned URL: from its date (minus the permitted clock skew) until it
/// expires.
fn in_time(signed_at: Timestamp, expires: &str, now: Timestamp) -> Result<(), AuthError> {
    let query = |why: &str| Err(AuthError::Query(why.to_owned()));
    let is_number = !expires.starts_with('+');
    let Some(expires_seconds) = expires.parse::<i64>().ok().filter(|_| is_number) else {
        return query("X-Amz-Expires should be a number");
    };
    let Ok(expires_seconds) = u64::try_from(expires_seconds) else {
        return query("X-Amz-Expires must be non-negative");
    };
    if expires_seconds == 0 {
        return query("X-Amz-Expires must be at least 1 second");
    }
    if expires_seconds > EXPIRES_SECONDS_MAX {
        return query(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires \
             must be less than 604800 seconds",
        );
    }
    if signed_at.unix_seconds() > now.unix_seconds() + SKEW_SECONDS_MAX {
        return Err(AuthError::NotYet);
    }
    let expired_at = Timestamp::from_unix_seconds(signed_at.unix_seconds() + expires_seconds);
    if expired_at < now {
        return Err(AuthError::Expired { expires_seconds, expired_at, now });
    }
    Ok(())
}

/// Time of signing: `x-amz-date`, or else a `Date` header in the same form.
fn date_of(headers: &HeaderMap) -> Result<&str, AuthError> {
    match single(headers, &AMZ_DATE)? {
        Some(date) => Ok(date),
        None => single(headers, &DATE)?.ok_or(AuthError::NoDate),
    }
}

const AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");

/// Length of the day in a date: `yyyyMMdd`.
pub(crate) const DAY_CHARS: usize = 8;

/// A header of the signature. It must not occur twice: the gateway and the origin could read
/// different ones.
pub(crate) fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, AuthError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(AuthError::Ambiguous("A header of the signature is given twice."));
    }
    let not_text = AuthError::Ambiguous("A header of the signature is not text.");
    value.to_str().map(Some).map_err(|_| not_text)
}

/// Names of the signed headers in a Version 4 `Authorization` header. Empty if the header does not
/// list them; `None` for another kind of signature or none. The origin judges everything else about
/// the header.
pub(super) fn signed_in_header(headers: &HeaderMap) -> Result<Option<&str>, AuthError> {
    let Some(header) = single(headers, &AUTHORIZATION)? else { return Ok(None) };
    let (scheme, components) = header.trim().split_once(' ').unwrap_or((header, ""));
    if !scheme.starts_with("AWS4") {
        return Ok(None);
    }
    let mut named = components.split(',').filter_map(|it| it.trim().strip_prefix("SignedHeaders="));
    let names = named.next().unwrap_or_default();
    match named.next() {
        None => Ok(Some(names)),
        Some(_) => Err(AuthError::Ambiguous(TWICE)),
    }
}

/// The same for a presigned URL.
pub(super) fn signed_in_query<'a>(query: &'a Query<'_>) -> Result<Option<&'a str>, AuthError> {
    let mut named = query.iter().filter(|(name, _)| *name == "X-Amz-SignedHeaders");
    let names = named.next().map(|(_, names)| names);
    match named.next() {
        None => Ok(names.or_else(|| query.has("X-Amz-Signature").then_some(""))),
        Some(_) => Err(AuthError::Ambiguous(TWICE)),
    }
}

/// The three components of the header's value.
struct Authorization<'a> {
    credential: &'a str,
    signed_headers: &'a str,
    signature: &'a str,
}

impl<'a> Authorization<'a> {
    fn parse(header: &'a str) -> Result<Self, AuthError> {
        let Some((scheme, components)) = header.trim().split_once(' ') else {
            return Err(AuthError::Unsupported(Scheme::None(header.to_owned())));
        };
        match scheme {
            ALGORITHM => {}
            "AWS" => return Err(AuthError::Unsupported(Scheme::Version2)),
            _ => return Err(AuthError::Unsupported(Scheme::Other(scheme.to_owned()))),
        }
        let malformed = |why: String| AuthError::Header { why, region: None };
        let mut pairs = [("", ""); 3];
        if components.bytes().filter(|byte| *byte == b',').count() != pairs.len() - 1 {
            return Err(malformed(THREE_COMPONENTS.to_owned()));
        }
        for (pair, component) in pairs.iter_mut().zip(components.split(',')) {
            *pair = component.trim().split_once('=').filter(|(_, v)| !v.contains('=')).ok_or_else(
                || malformed(format!("the authorization component \"{component}\" is malformed.")),
            )?;
        }
        let find = |name: &str| {
            let pair = pairs.iter().find(|(key, value)| *key == name && !value.is_empty());
            pair.map(|(_, value)| *value).ok_or_else(|| malformed(format!("missing {name}.")))
        };
        Ok(Self {
            credential: find("Credential")?,
            signed_headers: find("SignedHeaders")?,
            signature: find("Signature")?,
        })
    }
}

/// Credential scope: `AKID/yyyyMMdd/region/s3/aws4_request`.
struct Scope<'a> {
    access_key: &'a str,
    day: &'a str,
    region: &'a str,
}

impl<'a> Scope<'a> {
    fn parse(credential: &'a str) -> Result<Self, String> {
        let mut parts = credential.split('/');
        let five = std::array::from_fn(|_| parts.next().unwrap_or_default());
        let [access_key, day, region, service, terminal] = five;
        if credential.bytes().filter(|byte| *byte == b'/').count() != five.len() - 1 {
            return Err("the Credential is mal-formed; expecting \
                        \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\"."
                .to_owned());
        }
        if service != "s3" {
            return Err(format!(
                "incorrect service \"{service}\". This endpoint belongs to \"s3\"."
            ));
        }
        if terminal != "aws4_request" {
            return Err(format!(
                "incorrect terminal \"{terminal}\". This endpoint uses \"aws4_request\"."
            ));
        }
        if !Timestamp::is_day(day) {
            return Err(format!(
                "incorrect date format \"{day}\". This date in the credential must be in the \
                 format \"yyyyMMdd\"."
            ));
        }
        Ok(Self { access_key, day, region })
    }
}

/// Parameters of a presigned URL, in the order in which `in_query` takes them.
pub(crate) const PARAMETERS: [&str; 6] = [
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-SignedHeaders",
    "X-Amz-Signature",
];

/// Parameters that only a Signature Version 2 presigned URL has.
const PARAMETERS_V2: [&str; 2] = ["AWSAccessKeyId", "Signature"];

const TWO_MECHANISMS: &str = "Only one auth mechanism allowed; only the X-Amz-Algorithm query \
                              parameter, Signature query string parameter or the Authorization \
                              header should be specified";
const MISSING_PARAMETERS: &str = "Query-string authentication version 4 requires the \
                                  X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, \
                                  X-Amz-SignedHeaders, and X-Amz-Expires parameters.";
const TWICE: &str = "A parameter of the signature is given twice.";
const THREE_COMPONENTS: &str =
    "the authorization header requires three components: Credential, SignedHeaders, and Signature.";
const BAD_DATE: &str = "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"";
