//! Authentication errors, with S3's codes and messages.

use http::StatusCode;
use zonal_s3::S3Error;
use zonal_s3::sigv4::Timestamp;

/// Why authentication failed. No request of this kind can succeed unchanged, so each variant is
/// something for the client to correct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuthError {
    /// No signature: sign the request.
    Anonymous,
    /// No signature, and `response-*` parameters: S3 has a message of its own for that. Sign the
    /// request.
    AnonymousOverrides,
    /// Signed both in the header and in the query, or a header of the signature is given twice.
    Ambiguous(&'static str),
    /// Signature Version 2 or another scheme: sign with `AWS4-HMAC-SHA256`.
    Unsupported(Scheme),
    /// The `Authorization` header cannot be parsed, or its scope is for another endpoint.
    Header {
        /// What is wrong with it.
        why: String,
        /// The region of this endpoint, if the request is signed for another one: clients retry
        /// with it.
        region: Option<String>,
    },
    /// The query of a presigned URL cannot be parsed, or its scope is for another endpoint.
    Query(String),
    /// `x-amz-date` and `Date` are missing or invalid.
    NoDate,
    /// The clocks of client and gateway differ by more than 15 minutes.
    Skewed {
        /// Time of signing, as the client wrote it.
        request_time: String,
        /// Time on the gateway's clock.
        now: Timestamp,
    },
    /// The presigned URL has expired.
    Expired {
        /// Its validity in seconds.
        expires_seconds: u64,
        /// The last second in which it was valid.
        expired_at: Timestamp,
        /// Time on the gateway's clock.
        now: Timestamp,
    },
    /// The date of the presigned URL is in the future.
    NotYet,
    /// The access key does not exist.
    UnknownKey(String),
    /// Temporary credentials with a session token, which this endpoint does not issue.
    Token,
    /// These headers must be signed and are not.
    NotSigned(Vec<String>),
    /// `Connection` names this header, which must reach the origin.
    TakenAway(String),
    /// `x-amz-content-sha256` is missing.
    NoPayloadHash,
    /// `x-amz-content-sha256` is neither a SHA-256 nor one of S3's placeholders.
    BadPayloadHash(String),
    /// The request is well-formed, but the signature does not match the secret key.
    Mismatch(Box<Mismatch>),
}

/// Signature scheme that this endpoint does not support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// `AWS key:signature`, or its parameters in the query.
    Version2,
    /// Another word before the first space.
    Other(String),
    /// No space, so no scheme. The value is the whole header.
    None(String),
}

/// What the gateway signed, so that the client can compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// Access key of the client.
    pub(crate) access_key: String,
    /// Signature of the client.
    pub(crate) signature: String,
    /// The string to sign, as the gateway computed it.
    pub(crate) string_to_sign: String,
    /// The canonical request whose hash is in the string to sign.
    pub(crate) canonical_request: String,
}

/// Permitted clock skew: 15 minutes, S3's own limit.
pub(super) const SKEW_SECONDS_MAX: u64 = 15 * 60;

impl From<AuthError> for S3Error {
    fn from(error: AuthError) -> Self {
        let denied =
            |message: &'static str| Self::new(StatusCode::FORBIDDEN, "AccessDenied", message);
        let invalid = |code, message: String| Self::new(StatusCode::BAD_REQUEST, code, message);
        match error {
            AuthError::Anonymous => denied("Access Denied."),
            AuthError::AnonymousOverrides => invalid(
                "InvalidRequest",
                "Request specific response headers cannot be used for anonymous GET requests."
                    .to_owned(),
            ),
            AuthError::NoDate => {
                denied("AWS authentication requires a valid Date or x-amz-date header.")
            }
            AuthError::NotYet => denied("Request is not valid yet"),
            AuthError::Expired { expires_seconds, expired_at, now } => {
                denied("Request has expired.")
                    .with("X-Amz-Expires", expires_seconds.to_string())
                    .with("Expires", expired_at.iso8601())
                    .with("ServerTime", now.iso8601())
            }
            AuthError::NotSigned(names) => {
                denied("There were headers present in the request which were not signed")
                    .with("HeadersNotSigned", names.join(", "))
            }
            AuthError::TakenAway(name) => {
                let message = "The Connection header names a header that is not hop-by-hop.";
                invalid("InvalidArgument", message.to_owned())
                    .with("ArgumentName", "Connection")
                    .with("ArgumentValue", name)
            }
            AuthError::Ambiguous(why) => invalid("InvalidArgument", why.to_owned()),
            AuthError::Unsupported(scheme) => unsupported(scheme),
            AuthError::Header { why, region } => {
                let message = format!("The authorization header is malformed; {why}");
                let error = invalid("AuthorizationHeaderMalformed", message);
                match region {
                    Some(region) => error.with("Region", region),
                    None => error,
                }
            }
            AuthError::Query(why) => invalid("AuthorizationQueryParametersError", why),
            AuthError::Skewed { request_time, now } => skewed(request_time, now),
            AuthError::UnknownKey(access_key) => Self::new(
                StatusCode::FORBIDDEN,
                "InvalidAccessKeyId",
                "The AWS Access Key Id you provided does not exist in our records.",
            )
            .with("AWSAccessKeyId", access_key),
            AuthError::Token => {
                let message = "The provided token is malformed or otherwise invalid.";
                invalid("InvalidToken", message.to_owned())
            }
            AuthError::NoPayloadHash => {
                let message = "Missing required header for this request: x-amz-content-sha256";
                invalid("InvalidRequest", message.to_owned())
            }
            AuthError::BadPayloadHash(value) => bad_payload_hash(value),
            AuthError::Mismatch(mismatch) => does_not_match(*mismatch),
        }
    }
}

fn unsupported(scheme: Scheme) -> S3Error {
    let invalid = |code, message| S3Error::new(StatusCode::BAD_REQUEST, code, message);
    match scheme {
        Scheme::Version2 => invalid(
            "InvalidRequest",
            "The authorization mechanism you have provided is not supported. Please use \
             AWS4-HMAC-SHA256.",
        ),
        Scheme::Other(word) => invalid("InvalidArgument", "Unsupported Authorization Type")
            .with("ArgumentName", "Authorization")
            .with("ArgumentValue", word),
        Scheme::None(value) => invalid(
            "InvalidArgument",
            "Authorization header is invalid -- one and only one ' ' (space) required.",
        )
        .with("ArgumentName", "Authorization")
        .with("ArgumentValue", value),
    }
}

fn skewed(request_time: String, now: Timestamp) -> S3Error {
    let message = "The difference between the request time and the current time is too large.";
    S3Error::new(StatusCode::FORBIDDEN, "RequestTimeTooSkewed", message)
        .with("RequestTime", request_time)
        .with("ServerTime", now.iso8601())
        .with("MaxAllowedSkewMilliseconds", (SKEW_SECONDS_MAX * 1000).to_string())
}

fn bad_payload_hash(value: String) -> S3Error {
    let message = "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, \
                   STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, \
                   STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, \
                   STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, \
                   STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER or a valid sha256 value.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidArgument", message)
        .with("ArgumentName", "x-amz-content-sha256")
        .with("ArgumentValue", value)
}

fn does_not_match(mismatch: Mismatch) -> S3Error {
    let message = "The request signature we calculated does not match the signature you provided. \
                   Check your key and signing method.";
    S3Error::new(StatusCode::FORBIDDEN, "SignatureDoesNotMatch", message)
        .with("AWSAccessKeyId", mismatch.access_key)
        .with("SignatureProvided", mismatch.signature)
        .with("StringToSignBytes", hex_bytes(&mismatch.string_to_sign))
        .with("StringToSign", mismatch.string_to_sign)
        .with("CanonicalRequestBytes", hex_bytes(&mismatch.canonical_request))
        .with("CanonicalRequest", mismatch.canonical_request)
}

/// Bytes in hexadecimal, as S3 prints them, so that differences in white space are visible.
fn hex_bytes(text: &str) -> String {
    let bytes: Vec<String> = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}
