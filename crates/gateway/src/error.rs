//! What a client is told when something is wrong: S3's codes, statuses and XML.

use std::borrow::Cow;

use http::StatusCode;
use zonal_origin::xml::{DECLARATION, element};

use crate::copy_source::BadCopySource;

/// An error of the S3 protocol, answered by the gateway itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct S3Error {
    /// HTTP status.
    pub(crate) status: StatusCode,
    /// S3's name for it; what clients match on.
    pub(crate) code: &'static str,
    /// For people.
    pub(crate) message: Cow<'static, str>,
    /// Further elements of the XML document, in order.
    pub(crate) details: Vec<(&'static str, String)>,
}

impl S3Error {
    /// An error with nothing beyond code and message.
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, code, message: message.into(), details: Vec::new() }
    }

    /// Adds an element to the XML document.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.details.push((name, value.into()));
        self
    }

    /// 400: the path or the query cannot be read.
    pub(crate) fn invalid_uri() -> Self {
        let message = "Couldn't parse the specified URI.";
        Self::new(StatusCode::BAD_REQUEST, "InvalidURI", message)
    }

    /// 400: `Host` is there twice, or the request line names another.
    pub(crate) fn two_hosts() -> Self {
        let message = "The request must name one host.";
        Self::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
    }

    /// 400: a length, and another way to say where the body ends.
    pub(crate) fn two_lengths() -> Self {
        let message = "A request must not have both a Content-Length and a Transfer-Encoding.";
        Self::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
    }

    /// 501: the body comes in another way than as it is, or chunked.
    pub(crate) fn unknown_transfer_coding() -> Self {
        let message = "A header you provided implies functionality that is not implemented";
        Self::not_implemented(message).with("Header", "Transfer-Encoding")
    }

    /// 400: no bucket can have this name.
    pub(crate) fn invalid_bucket_name() -> Self {
        let message = "The specified bucket is not valid.";
        Self::new(StatusCode::BAD_REQUEST, "InvalidBucketName", message)
    }

    /// 400: the body is not the XML that this operation takes.
    pub(crate) fn malformed_xml() -> Self {
        let message = "The XML you provided was not well-formed or did not validate against our \
                       published schema";
        Self::new(StatusCode::BAD_REQUEST, "MalformedXML", message)
    }

    /// 400: a body that must be read whole is larger than `bytes_max`.
    pub(crate) fn message_too_long(bytes_max: usize) -> Self {
        let error = Self::new(
            StatusCode::BAD_REQUEST,
            "MaxMessageLengthExceeded",
            "Your request was too big.",
        );
        error.with("MaxMessageLengthBytes", bytes_max.to_string())
    }

    /// 400: the body ended before it was complete.
    pub(crate) fn incomplete_body() -> Self {
        let message = "You did not provide the number of bytes specified by the Content-Length \
                       HTTP header";
        Self::new(StatusCode::BAD_REQUEST, "IncompleteBody", message)
    }

    /// 400: the body is another one than was signed.
    pub(crate) fn wrong_payload_hash(stated: &str, computed: &str) -> Self {
        let message =
            "The provided 'x-amz-content-sha256' header does not match what was computed.";
        Self::new(StatusCode::BAD_REQUEST, "XAmzContentSHA256Mismatch", message)
            .with("ClientComputedContentSHA256", stated)
            .with("S3ComputedContentSHA256", computed)
    }

    /// 400: the body is another one than a checksum of its head describes.
    pub(crate) fn bad_digest(header: &'static str) -> Self {
        let message = "The checksum you specified did not match what we received.";
        Self::new(StatusCode::BAD_REQUEST, "BadDigest", message).with("Header", header)
    }

    /// 400: this operation takes no body in chunks.
    pub(crate) fn invalid_payload_hash() -> Self {
        let message = "The value of x-amz-content-sha256 header is invalid.";
        Self::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
    }

    /// 403: the key that signed may not do this. What is there is not told.
    pub(crate) fn access_denied() -> Self {
        Self::new(StatusCode::FORBIDDEN, "AccessDenied", "Access Denied")
    }

    /// 404: the origin did not have it when it was asked lately.
    pub(crate) fn no_such_key() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NoSuchKey", "The specified key does not exist.")
    }

    /// 403: the origin has something else than a bucket under this name.
    pub(crate) fn reserved_name() -> Self {
        let message = "This name is reserved at the origin (origin.reserved).";
        Self::new(StatusCode::FORBIDDEN, "AccessDenied", message)
    }

    /// 404: no origin has it.
    pub(crate) fn no_such_bucket() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NoSuchBucket", "The specified bucket does not exist")
    }

    /// 404: the object has no such multipart upload.
    pub(crate) fn no_such_upload() -> Self {
        let message = "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have \
                       been aborted or completed.";
        Self::new(StatusCode::NOT_FOUND, "NoSuchUpload", message)
    }

    /// 403: the request is signed for a host whose paths the origin may read in another way than we do.
    pub(crate) fn foreign_host() -> Self {
        let message = "This request is signed for a host that is neither the origin's, nor an IP address, nor one of \
                       the endpoint's domains.";
        Self::new(StatusCode::FORBIDDEN, "AccessDenied", message)
    }

    /// 405: S3 has no such method.
    pub(crate) fn method_not_allowed() -> Self {
        let message = "The specified method is not allowed against this resource.";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 405: the bucket's origin is one that is only read.
    pub(crate) fn read_only() -> Self {
        let message = "This bucket is only read: its store is not one of S3.";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 501: the operation would go behind the cache's back.
    pub(crate) fn not_implemented(message: &'static str) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    /// 501: S3 has no such operation, or it came after this was written.
    pub(crate) fn unknown_operation() -> Self {
        Self::not_implemented("This operation is not one of those that Zonal knows.")
    }

    /// 501: a parameter that may name another operation.
    pub(crate) fn unknown_parameter(name: &str) -> Self {
        let message = "A parameter you provided implies functionality that is not implemented.";
        Self::not_implemented(message).with("Name", name)
    }

    /// 400: a header that may mean something to the origin, and is not known to go with this operation.
    pub(crate) fn unknown_header(name: &str) -> Self {
        let message =
            "Zonal does not know this header with this operation, so it is not handed on.";
        Self::new(StatusCode::BAD_REQUEST, "InvalidArgument", message).with("ArgumentName", name)
    }

    /// 400: the same, and the configuration could change it.
    pub(crate) fn unknown_header_to_pass(name: &str) -> Self {
        let message = "Zonal does not know this header with this operation, so it is not handed on. If the origin needs it, \
                       headers.passed can name it.";
        Self { message: message.into(), ..Self::unknown_header(name) }
    }

    /// 400: what a parameter says can be no id, or no header.
    pub(crate) fn bad_argument(name: &str) -> Self {
        let message = "The value of this argument is not valid.";
        Self::new(StatusCode::BAD_REQUEST, "InvalidArgument", message).with("ArgumentName", name)
    }

    /// 400: two values for what has one.
    pub(crate) fn said_twice(name: &str) -> Self {
        let message = "A header or parameter is given twice: which of the two counts could be read in two ways.";
        Self::new(StatusCode::BAD_REQUEST, "InvalidRequest", message).with("Name", name)
    }

    /// 400: what is copied cannot be read, or in more than one way.
    pub(crate) fn bad_copy_source(bad: BadCopySource) -> Self {
        let message = match bad {
            BadCopySource::Encoding => "Invalid copy source encoding",
            BadCopySource::Bucket => "Invalid copy source bucket name",
            BadCopySource::Object => "Invalid copy source object key",
            BadCopySource::Form => {
                "Copy Source must mention the source bucket and key: sourcebucket/sourcekey"
            }
        };
        Self::new(StatusCode::BAD_REQUEST, "InvalidArgument", message)
            .with("ArgumentName", "x-amz-copy-source")
    }

    /// 400: what comes behind the body is no checksum.
    pub(crate) fn bad_trailer() -> Self {
        let message = "The value specified in the x-amz-trailer header is not supported";
        Self::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
    }

    /// 412: a condition of the request does not hold.
    pub(crate) fn precondition_failed(condition: &'static str) -> Self {
        let message = "At least one of the pre-conditions you specified did not hold.";
        Self::new(StatusCode::PRECONDITION_FAILED, "PreconditionFailed", message)
            .with("Condition", condition)
    }

    /// 416: the range lies behind the end of the object.
    pub(crate) fn invalid_range(requested: &str, size: u64) -> Self {
        let message = "The requested range is not satisfiable";
        Self::new(StatusCode::RANGE_NOT_SATISFIABLE, "InvalidRange", message)
            .with("RangeRequested", requested)
            .with("ActualObjectSize", size.to_string())
    }

    /// 503: a bound of the gateway is reached; the same request may succeed a moment later.
    pub(crate) fn slow_down() -> Self {
        let message = "Please reduce your request rate.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "SlowDown", message)
    }

    /// 503: what is needed to answer cannot be had now.
    pub(crate) fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    /// 504: the request takes what is cached only, and it is not.
    pub(crate) fn not_cached() -> Self {
        let message = "What is asked for is not cached, or not fresh enough, and the request says \
                       only-if-cached.";
        Self::new(StatusCode::GATEWAY_TIMEOUT, "NotCached", message)
    }

    /// 502: the origin answered, and the answer cannot be used.
    pub(crate) fn bad_gateway(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "BadGateway", message)
    }

    /// The document of the answer. `resource` is the path as the client wrote it.
    pub(crate) fn to_xml(&self, resource: &str, request_id: &str) -> String {
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
