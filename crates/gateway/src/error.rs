//! S3 errors that are specific to the gateway.

use std::borrow::Cow;

use http::StatusCode;
use zonal_s3::S3Error;

use crate::copy_source::BadCopySource;

/// 400: two `Host` headers, or a request line with another host.
pub(crate) fn two_hosts() -> S3Error {
    let message = "The request must name exactly one host.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
}

/// 400: both a `Content-Length` and a `Transfer-Encoding`.
pub(crate) fn two_lengths() -> S3Error {
    let message = "A request must not have both a Content-Length and a Transfer-Encoding.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
}

/// 501: a transfer coding other than `chunked`.
pub(crate) fn unknown_transfer_coding() -> S3Error {
    let message = "A header you provided implies functionality that is not implemented";
    S3Error::not_implemented(message).with("Header", "Transfer-Encoding")
}

/// 403: the origin uses this name for something other than a bucket.
pub(crate) fn reserved_name() -> S3Error {
    let message = "This name is reserved at the origin.";
    S3Error::new(StatusCode::FORBIDDEN, "AccessDenied", message)
}

/// 403: the request is signed for a host whose paths the origin may read in another way than the
/// gateway.
pub(crate) fn foreign_host() -> S3Error {
    let message = "This request is signed for a host that is neither the origin's, nor an IP address, nor one of \
                   the endpoint's domains.";
    S3Error::new(StatusCode::FORBIDDEN, "AccessDenied", message)
}

/// 405: the bucket's origin is read-only.
pub(crate) fn read_only() -> S3Error {
    let message = "This bucket is read-only: its store is not S3.";
    S3Error::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
}

/// 501: the operation is unknown, for example one that S3 added later.
pub(crate) fn unknown_operation() -> S3Error {
    S3Error::not_implemented("Zonal does not know this operation.")
}

/// 501: a parameter that may select another operation.
pub(crate) fn unknown_parameter(name: &str) -> S3Error {
    let message = "A parameter you provided implies functionality that is not implemented.";
    S3Error::not_implemented(message).with("Name", name)
}

/// 400: a vendor header that is unknown for this operation and could mean something to the origin.
pub(crate) fn unknown_header(name: &str) -> S3Error {
    let message = "Zonal does not know this header for this operation and does not forward it.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidArgument", message).with("ArgumentName", name)
}

/// 400: the same, for a header that the configuration could pass.
pub(crate) fn unknown_header_to_pass(name: &str) -> S3Error {
    let message = "Zonal does not know this header for this operation and does not forward it. If \
                   the origin needs it, the operator of the cache can add it to headers.passed.";
    S3Error { message: message.into(), ..unknown_header(name) }
}

/// 400: the value of a parameter is an invalid id, or not legal in a header.
pub(crate) fn bad_argument(name: &str) -> S3Error {
    let message = "The value of this argument is not valid.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidArgument", message).with("ArgumentName", name)
}

/// 400: two values for a single-valued header or parameter.
pub(crate) fn said_twice(name: &str) -> S3Error {
    let message = "A header or parameter is given twice, which is ambiguous.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidRequest", message).with("Name", name)
}

/// 400: the copy source is invalid or ambiguous.
pub(crate) fn bad_copy_source(bad: BadCopySource) -> S3Error {
    let message = match bad {
        BadCopySource::Encoding => "Invalid copy source encoding",
        BadCopySource::Bucket => "Invalid copy source bucket name",
        BadCopySource::Object => "Invalid copy source object key",
        BadCopySource::Form => {
            "Copy Source must mention the source bucket and key: sourcebucket/sourcekey"
        }
    };
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidArgument", message)
        .with("ArgumentName", "x-amz-copy-source")
}

/// 504: `only-if-cached`, and the object is not cached or not fresh enough.
pub(crate) fn not_cached() -> S3Error {
    let message =
        "The object is not cached or not fresh enough, and the request says only-if-cached.";
    S3Error::new(StatusCode::GATEWAY_TIMEOUT, "NotCached", message)
}

/// 502: the origin's response cannot be used.
pub(crate) fn bad_gateway(message: impl Into<Cow<'static, str>>) -> S3Error {
    S3Error::new(StatusCode::BAD_GATEWAY, "BadGateway", message)
}
