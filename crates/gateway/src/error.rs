//! S3 errors that only a gateway has.

use std::borrow::Cow;

use http::StatusCode;
use zonal_s3::S3Error;

use crate::copy_source::BadCopySource;

/// 400: `Host` is there twice, or the request line names another.
pub(crate) fn two_hosts() -> S3Error {
    let message = "The request must name one host.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
}

/// 400: a length, and another way to say where the body ends.
pub(crate) fn two_lengths() -> S3Error {
    let message = "A request must not have both a Content-Length and a Transfer-Encoding.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
}

/// 501: the body comes in another way than as it is, or chunked.
pub(crate) fn unknown_transfer_coding() -> S3Error {
    let message = "A header you provided implies functionality that is not implemented";
    S3Error::not_implemented(message).with("Header", "Transfer-Encoding")
}

/// 403: the origin has something else than a bucket under this name.
pub(crate) fn reserved_name() -> S3Error {
    let message = "This name is reserved at the origin.";
    S3Error::new(StatusCode::FORBIDDEN, "AccessDenied", message)
}

/// 403: the request is signed for a host whose paths the origin may read in another way than we do.
pub(crate) fn foreign_host() -> S3Error {
    let message = "This request is signed for a host that is neither the origin's, nor an IP address, nor one of \
                   the endpoint's domains.";
    S3Error::new(StatusCode::FORBIDDEN, "AccessDenied", message)
}

/// 405: the bucket's origin is one that is only read.
pub(crate) fn read_only() -> S3Error {
    let message = "This bucket is only read: its store is not one of S3.";
    S3Error::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
}

/// 501: S3 has no such operation, or it came after this was written.
pub(crate) fn unknown_operation() -> S3Error {
    S3Error::not_implemented("This operation is not one of those that Zonal knows.")
}

/// 501: a parameter that may name another operation.
pub(crate) fn unknown_parameter(name: &str) -> S3Error {
    let message = "A parameter you provided implies functionality that is not implemented.";
    S3Error::not_implemented(message).with("Name", name)
}

/// 400: a header that may mean something to the origin, and is not known to go with this operation.
pub(crate) fn unknown_header(name: &str) -> S3Error {
    let message = "Zonal does not know this header with this operation, so it is not handed on.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidArgument", message).with("ArgumentName", name)
}

/// 400: the same, and the configuration could change it.
pub(crate) fn unknown_header_to_pass(name: &str) -> S3Error {
    let message = "Zonal does not know this header with this operation, so it is not handed on. If the origin needs it, \
                   whoever runs the cache can have it passed.";
    S3Error { message: message.into(), ..unknown_header(name) }
}

/// 400: what a parameter says can be no id, or no header.
pub(crate) fn bad_argument(name: &str) -> S3Error {
    let message = "The value of this argument is not valid.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidArgument", message).with("ArgumentName", name)
}

/// 400: two values for what has one.
pub(crate) fn said_twice(name: &str) -> S3Error {
    let message =
        "A header or parameter is given twice: which of the two counts could be read in two ways.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidRequest", message).with("Name", name)
}

/// 400: what is copied cannot be read, or in more than one way.
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

/// 504: the request takes what is cached only, and it is not.
pub(crate) fn not_cached() -> S3Error {
    let message = "What is asked for is not cached, or not fresh enough, and the request says \
                   only-if-cached.";
    S3Error::new(StatusCode::GATEWAY_TIMEOUT, "NotCached", message)
}

/// 502: the origin answered, and the answer cannot be used.
pub(crate) fn bad_gateway(message: impl Into<Cow<'static, str>>) -> S3Error {
    S3Error::new(StatusCode::BAD_GATEWAY, "BadGateway", message)
}
