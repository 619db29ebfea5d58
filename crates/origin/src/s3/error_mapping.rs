//! Error mapping: turns broken connections and S3 error responses into an [`OriginError`].

use std::error::Error;
use std::io;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, Response, StatusCode, response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use zonal_s3::{S3Error, causes, xml};

use crate::error::{ErrorResponse, OriginError, os_message};

/// Size limit of error documents. S3's have a few KiB at most; of a longer one only the status is
/// used.
const ERROR_DOCUMENT_BYTES: usize = 64 << 10;

/// Error codes with which S3 refuses the credentials instead of the request; Zonal signs every
/// request that uses them. The last is versitygw's code for an unknown access key, sent with 404.
const NOT_SIGNED_IN: [&str; 9] = [
    "AuthorizationHeaderMalformed",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidSecurity",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
    "XAdminUserNotFound",
];

/// Code of a delete marker, in place of that of a missing object.
const DELETE_MARKER: &str = "DeleteMarker";

/// Reads an error response to its end, so that its connection can be reused. `None` as document if
/// it is too long or incomplete.
pub(crate) async fn read(response: Response<Incoming>) -> (response::Parts, Option<Bytes>) {
    let (parts, body) = response.into_parts();
    let document = Limited::new(body, ERROR_DOCUMENT_BYTES).collect().await;
    (parts, document.ok().map(|document| document.to_bytes()))
}

/// Error for a header that the origin canonicalizes differently: it treats other white space as
/// spaces.
pub(super) fn unsignable(header: &HeaderName) -> OriginError {
    let cause =
        "the origin rejects the signature of a header with repeated white space: use single spaces";
    let error = S3Error::new(StatusCode::BAD_REQUEST, "InvalidArgument", cause);
    error.with("ArgumentName", header.as_str()).into()
}

/// Maps an error response to an error.
pub(crate) fn meaning(parts: &response::Parts, document: &[u8]) -> OriginError {
    let status = parts.status;
    let bucket_region = parts.headers.get("x-amz-bucket-region");
    let bucket_region = bucket_region.and_then(|region| region.to_str().ok()).map(str::to_owned);
    let document = String::from_utf8_lossy(document);
    let text = |name| xml::first_text(&document, name).unwrap_or_default();
    let mut refusal =
        ErrorResponse { status: status.as_u16(), code: text("Code"), message: text("Message") };
    if parts.headers.contains_key("x-amz-delete-marker") {
        // It has headers of its own, which a missing object has not.
        DELETE_MARKER.clone_into(&mut refusal.code);
    }
    if refusal.code == "RequestTimeTooSkewed" {
        refusal.message += &clock_difference(&parts.headers).unwrap_or_default();
    }
    let region = bucket_region.or_else(|| xml::first_text(&document, "Region"));
    match status {
        // A signature for another region. An answer to HEAD says so only in a header.
        StatusCode::BAD_REQUEST
            if region.is_some()
                && matches!(&*refusal.code, "" | "AuthorizationHeaderMalformed") =>
        {
            OriginError::Redirected { region }
        }
        _ if NOT_SIGNED_IN.contains(&&*refusal.code) => OriginError::CredentialsRejected(refusal),
        StatusCode::UNAUTHORIZED => OriginError::CredentialsRejected(refusal),
        StatusCode::NOT_FOUND => OriginError::NotFound(refusal),
        StatusCode::FORBIDDEN => OriginError::Denied(refusal),
        StatusCode::PRECONDITION_FAILED => OriginError::Changed,
        StatusCode::RANGE_NOT_SATISFIABLE => OriginError::RangeNotSatisfiable,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
            OriginError::Throttled { refusal, retry_after: retry_after(&parts.headers) }
        }
        // Unexpected 304: the request had no conditions, or only those of a range.
        StatusCode::NOT_MODIFIED => {
            OriginError::invalid_response("304 to an unconditional request")
        }
        // Redirections to addresses that are not configured are followed neither by Zonal nor by
        // clients.
        _ if status.is_redirection() => OriginError::Redirected { region },
        _ if status.is_informational() => {
            OriginError::invalid_response(format!("{status}, which is not a final status"))
        }
        _ if refusal.code == "SlowDown" => {
            OriginError::Throttled { refusal, retry_after: retry_after(&parts.headers) }
        }
        _ => OriginError::Failed(refusal),
    }
}

/// Maps a transport failure before the answer to an error.
pub(crate) fn broken(error: &hyper_util::client::legacy::Error) -> OriginError {
    let of_hyper = error.source().and_then(|source| source.downcast_ref::<hyper::Error>());
    if of_hyper.is_some_and(hyper::Error::is_parse) {
        return OriginError::invalid_response(format!("not HTTP: {}", causes(error)));
    }
    match within(error) {
        Some(rustls::Error::InvalidCertificate(error)) => {
            return OriginError::Untrusted { cause: of_certificate(error) };
        }
        // The first bytes of another protocol.
        Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
            let what = "the answer to the TLS handshake is not TLS: is it http://?";
            return OriginError::invalid_response(what);
        }
        _ => {}
    }
    let of_system = within(error).filter(|error: &&io::Error| error.raw_os_error().is_some());
    OriginError::Unreachable { cause: of_system.map_or_else(|| causes(error), os_message) }
}

/// The innermost error of type `E` in a chain of causes. Also looks inside `io::Error`, whose
/// payload is not among its sources.
fn within<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let packed = error.downcast_ref().and_then(io::Error::get_ref);
    let below = match packed {
        Some(packed) => within(packed),
        None => error.source().and_then(within),
    };
    below.or_else(|| error.downcast_ref())
}

/// Description of a certificate error, for people.
fn of_certificate(error: &rustls::CertificateError) -> String {
    match error {
        // A bad signature means that another authority has the same name.
        rustls::CertificateError::UnknownIssuer | rustls::CertificateError::BadSignature => {
            "unknown issuer".to_owned()
        }
        rustls::CertificateError::Other(other)
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            "it is the certificate of a CA, not that of a server: issue one for the server"
                .to_owned()
        }
        error => error.to_string(),
    }
}

/// Error for a bucket name that S3 does not allow. The origin is not asked.
pub(super) fn no_such_bucket(bucket: &str) -> OriginError {
    OriginError::NotFound(ErrorResponse {
        status: StatusCode::NOT_FOUND.as_u16(),
        code: "NoSuchBucket".to_owned(),
        message: format!("{bucket:?} is not a bucket name"),
    })
}

/// How far the origin's clock is from that of this machine, by the `Date` of an answer.
fn clock_difference(headers: &HeaderMap) -> Option<String> {
    let date = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
    let (seconds, direction) = match date.duration_since(SystemTime::now()) {
        Ok(ahead) => (ahead.as_secs(), "ahead of"),
        Err(behind) => (behind.duration().as_secs(), "behind"),
    };
    Some(format!(" (the origin's clock is {seconds} s {direction} the clock of this machine)"))
}

/// Parses `Retry-After`: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Duration::from_secs);
    }
    let date = httpdate::parse_http_date(text).ok()?;
    date.duration_since(SystemTime::now()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_to_come_back_is_read_in_seconds_or_as_a_date() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(read("120"), Some(Duration::from_secs(120)));
        for text in ["", "-1", "+1", "1.5", "soon", "99999999999999999999999"] {
            assert_eq!(read(text), None, "{text:?}");
        }
        let minute = SystemTime::now() + Duration::from_secs(60);
        let read = read(&httpdate::fmt_http_date(minute)).unwrap();
        assert!((58..=60).contains(&read.as_secs()), "{read:?}");
    }
}
