//! S3 errors: status, code, message and XML document.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use http::StatusCode;

use crate::aws_chunked::ChunkedError;
use crate::checksum::ChecksumMismatch;
use crate::payload_hash::PayloadHashMismatch;
use crate::xml::{DECLARATION, element};

/// An error of the S3 protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Error {
    /// HTTP status code.
    pub status: StatusCode,
    /// S3 error code, on which clients match.
    pub code: &'static str,
    /// Message for people; clients must not match on it.
    pub message: Cow<'static, str>,
    /// Further elements of the XML document, in this order.
    pub details: Vec<(&'static str, String)>,
}

impl S3Error {
    /// An error without details.
    #[must_use]
    pub fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, code, message: message.into(), details: Vec::new() }
    }

    /// Adds an element to the XML document.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.details.push((name, value.into()));
        self
    }

    /// 400: the path or the query cannot be read.
    #[must_use]
    pub fn invalid_uri() -> Self {
        let message = "Couldn't parse the specified URI.";
        Self::new(StatusCode::BAD_REQUEST, "InvalidURI", message)
    }

    /// 400: the name breaks the naming rules of buckets.
    #[must_use]
    pub fn invalid_bucket_name() -> Self {
        let message = "The specified bucket is not valid.";
        Self::new(StatusCode::BAD_REQUEST, "InvalidBucketName", message)
    }

    /// 400: the body is not the XML that this operation takes.
    #[must_use]
    pub fn malformed_xml() -> Self {
        let message = "The XML you provided was not well-formed or did not validate against our \
                       published schema";
        Self::new(StatusCode::BAD_REQUEST, "MalformedXML", message)
    }

    /// 400: the body exceeds `bytes_max`, the limit of bodies that must be in memory as a whole.
    #[must_use]
    pub fn message_too_long(bytes_max: usize) -> Self {
        let error = Self::new(
            StatusCode::BAD_REQUEST,
            "MaxMessageLengthExceeded",
            "Your request was too big.",
        );
        error.with("MaxMessageLengthBytes", bytes_max.to_string())
    }

    /// 400: the body ended before it was complete.
    #[must_use]
    pub fn incomplete_body() -> Self {
        let message = "You did not provide the number of bytes specified by the Content-Length \
                       HTTP header";
        Self::new(StatusCode::BAD_REQUEST, "IncompleteBody", message)
    }

    /// 400: the body does not match the signed payload hash.
    #[must_use]
    pub fn wrong_payload_hash(stated: &str, computed: &str) -> Self {
        let message =
            "The provided 'x-amz-content-sha256' header does not match what was computed.";
        Self::new(StatusCode::BAD_REQUEST, "XAmzContentSHA256Mismatch", message)
            .with("ClientComputedContentSHA256", stated)
            .with("S3ComputedContentSHA256", computed)
    }

    /// 400: the body does not match the checksum in a request header.
    #[must_use]
    pub fn bad_digest(header: &'static str) -> Self {
        let message = "The checksum you specified did not match what we received.";
        Self::new(StatusCode::BAD_REQUEST, "BadDigest", message).with("Header", header)
    }

    /// 400: this operation takes no `aws-chunked` body.
    #[must_use]
    pub fn invalid_payload_hash() -> Self {
        let message = "The value of x-amz-content-sha256 header is invalid.";
        Self::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
    }

    /// 403: the access key lacks the permission. The answer does not reveal whether the object
    /// exists.
    #[must_use]
    pub fn access_denied() -> Self {
        Self::new(StatusCode::FORBIDDEN, "AccessDenied", "Access Denied")
    }

    /// 404: the origin had no such object when it was last asked.
    #[must_use]
    pub fn no_such_key() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NoSuchKey", "The specified key does not exist.")
    }

    /// 404: no configured origin has the bucket.
    #[must_use]
    pub fn no_such_bucket() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NoSuchBucket", "The specified bucket does not exist")
    }

    /// 404: the object has no multipart upload with this ID.
    #[must_use]
    pub fn no_such_upload() -> Self {
        let message = "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have \
                       been aborted or completed.";
        Self::new(StatusCode::NOT_FOUND, "NoSuchUpload", message)
    }

    /// 400: a parameter has an invalid value.
    #[must_use]
    pub fn invalid_argument(message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidArgument", message)
    }

    /// 405: the resource does not support this method.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "The specified method is not allowed against this resource.";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 501: Zonal does not support the operation, for example because it would change objects
    /// without the cache noticing.
    #[must_use]
    pub fn not_implemented(message: &'static str) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    /// 400: `x-amz-trailer` names a trailer that is not a checksum.
    #[must_use]
    pub fn bad_trailer() -> Self {
        let message = "The value specified in the x-amz-trailer header is not supported";
        Self::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
    }

    /// 412: a condition of the request does not hold.
    #[must_use]
    pub fn precondition_failed(condition: &'static str) -> Self {
        let message = "At least one of the pre-conditions you specified did not hold.";
        Self::new(StatusCode::PRECONDITION_FAILED, "PreconditionFailed", message)
            .with("Condition", condition)
    }

    /// 416: the range starts at or after the end of the object.
    #[must_use]
    pub fn invalid_range(requested: &str, size: u64) -> Self {
        let message = "The requested range is not satisfiable";
        Self::new(StatusCode::RANGE_NOT_SATISFIABLE, "InvalidRange", message)
            .with("RangeRequested", requested)
            .with("ActualObjectSize", size.to_string())
    }

    /// 503: a limit of the gateway or of the origin is reached. A retry may succeed a moment later.
    #[must_use]
    pub fn slow_down() -> Self {
        let message = "Please reduce your request rate.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "SlowDown", message)
    }

    /// 503: a part that the answer needs, such as the origin or a device, is unavailable for now.
    #[must_use]
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    /// The XML document of the answer. `resource` is the path as the client wrote it.
    #[must_use]
    pub fn to_xml(&self, resource: &str, request_id: &str) -> String {
        let mut xml = format!("{DECLARATION}\n<Error>");
        element(&mut xml, "Code", self.code);
        element(&mut xml, "Message", &self.message);
        for (name, value) in &self.details {
            element(&mut xml, name, value);
        }
        element(&mut xml, "Resource", resource);
        element(&mut xml, "RequestId", request_id);
        xml.push_str("</Error>");
        xml
    }

    /// The answer to a request whose body failed with `error`.
    #[must_use]
    pub fn of_body(error: &(dyn Error + Send + Sync + 'static)) -> Self {
        let (status, code) =
            if let Some(PayloadHashMismatch { stated, computed }) = error.downcast_ref() {
                return Self {
                    message: causes(error).into(),
                    ..Self::wrong_payload_hash(stated, computed)
                };
            } else if error.is::<ChecksumMismatch>() {
                (StatusCode::BAD_REQUEST, "BadDigest")
            } else if let Some(error) = error.downcast_ref::<ChunkedError>() {
                error.answer()
            } else {
                (StatusCode::BAD_REQUEST, "InvalidRequest")
            };
        Self::new(status, code, causes(error))
    }
}

impl fmt::Display for S3Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for S3Error {}

/// An error and its chain of causes, in one line.
#[must_use]
pub fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_document_that_cannot_be_broken_by_what_the_client_sent() {
        let error = S3Error::invalid_range("bytes=<9&\0>-", 7);
        assert_eq!(
            error.to_xml("/b/k\"", "0A"),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>InvalidRange</Code>\
             <Message>The requested range is not satisfiable</Message>\
             <RangeRequested>bytes=&lt;9&amp;\u{FFFD}&gt;-</RangeRequested>\
             <ActualObjectSize>7</ActualObjectSize>\
             <Resource>/b/k&quot;</Resource><RequestId>0A</RequestId></Error>"
        );
    }
}
