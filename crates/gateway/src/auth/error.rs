//! Authentication errors, as S3 words them.

use http::StatusCode;
use zonal_s3::S3Error;
use zonal_s3::sigv4::Timestamp;

/// A request that is not let in. Nobody retries these unchanged, so the variants follow what the
/// client has to mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuthError {
    /// No signature at all: sign the request.
    Anonymous,
    /// No signature at all, and headers of the answer are asked for: S3 has words of its own for that.
    AnonymousOverrides,
    /// Signed in the header and in the query at once, or a header that must be single is not.
    Ambiguous(&'static str),
    /// Signature Version 2 and other schemes: sign with `AWS4-HMAC-SHA256`.
    Unsupported(Scheme),
    /// The `Authorization` header cannot be read, or its scope is not this endpoint's.
    Header {
        /// What is wrong, for people.
        why: String,
        /// The region of this endpoint, when another was signed for: clients try again with it.
        region: Option<String>,
    },
    /// The query of a presigned request cannot be read, or its scope is not this endpoint's.
    Query(String),
    /// No `x-amz-date` and no `Date`, or one that is not a date.
    NoDate,
    /// The clocks of client and gateway differ too much.
    Skewed {
        /// As the client wrote it.
        request_time: String,
        /// By the gateway's clock.
        now: Timestamp,
    },
    /// A presigned request is used after its time.
    Expired {
        /// What was granted.
        expires_seconds: u64,
        /// The last second in which it was good.
        expired_at: Timestamp,
        /// By the gateway's clock.
        now: Timestamp,
    },
    /// A presigned request is used before its time.
    NotYet,
    /// No such access key.
    UnknownKey(String),
    /// Temporary credentials, of which this endpoint has none.
    Token,
    /// These headers must be signed and are not.
    NotSigned(Vec<String>),
    /// `Connection` names this header, which must reach the origin.
    TakenAway(String),
    /// `x-amz-content-sha256` is missing.
    NoPayloadHash,
    /// `x-amz-content-sha256` is neither a hash nor one of S3's words.
    BadPayloadHash(String),
    /// Everything reads well, and the signature is not the one that the secret key makes.
    Mismatch(Box<Mismatch>),
}

/// A way to sign that this endpoint does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// `AWS key:signature`, or its parameters in the query.
    Version2,
    /// Some other word in front of the first space.
    Other(String),
    /// No word at all.
    None(String),
}

/// What the gateway signed, so that the client can compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// As the client wrote it.
    pub(crate) access_key: String,
    /// As the client wrote it.
    pub(crate) signature: String,
    /// What the gateway signed.
    pub(crate) string_to_sign: String,
    /// What the string to sign has the hash of.
    pub(crate) canonical_request: String,
}

/// The largest difference between the clocks: 15 minutes, S3's own.
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
                let message = "The Connection header names a header that is not of one connection.";
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

/// Bytes as S3 prints them, so that a client sees a difference in white space too.
fn hex_bytes(text: &str) -> String {
    let bytes: Vec<String> = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}
