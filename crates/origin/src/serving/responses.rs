//! S3 errors and responses of stores that do not speak S3.

use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use zonal_s3::xml::{DECLARATION, NAMESPACE, element};
use zonal_s3::{BoxBody, S3Error, full_body};

use crate::error::{ErrorCode, ErrorResponse, OriginError};

fn refusal(status: StatusCode, code: &str, message: String) -> ErrorResponse {
    ErrorResponse { status: status.as_u16(), code: code.to_owned(), message }
}

/// 404: the bucket has no such object.
#[must_use]
pub fn no_such_key(key: &str) -> OriginError {
    let message = format!("there is no object {key:?}");
    OriginError::NotFound(refusal(StatusCode::NOT_FOUND, "NoSuchKey", message))
}

/// 404: the bucket does not exist.
#[must_use]
pub fn no_such_bucket(bucket: &str) -> OriginError {
    let message = format!("there is no bucket {bucket:?}");
    OriginError::NotFound(refusal(StatusCode::NOT_FOUND, "NoSuchBucket", message))
}

/// 400: a parameter has an invalid value.
#[must_use]
pub fn invalid_argument(message: String) -> OriginError {
    bad_request("InvalidArgument", message)
}

/// 400 with this S3 code.
#[must_use]
pub fn bad_request(code: &str, message: String) -> OriginError {
    OriginError::Failed(refusal(StatusCode::BAD_REQUEST, code, message))
}

/// 404: the object has no multipart upload with this ID.
#[must_use]
pub fn no_such_upload(id: &str) -> OriginError {
    let message = format!("there is no multipart upload {id:?} of this object");
    OriginError::NotFound(refusal(StatusCode::NOT_FOUND, "NoSuchUpload", message))
}

/// 501: this kind of store does not implement `what`.
#[must_use]
pub fn not_implemented(what: &str) -> OriginError {
    let message = format!("this kind of origin does not implement {what}");
    OriginError::Failed(refusal(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message))
}

/// Converts an S3 error to the answer of the request.
#[must_use]
pub fn refused(error: S3Error) -> OriginError {
    OriginError::Failed(refusal(error.status, error.code, error.message.into_owned()))
}

/// The error response of `error`.
pub(super) fn of_error(error: &OriginError, resource: &str, request_id: &str) -> Response<BoxBody> {
    let refusal = error.refusal().cloned().unwrap_or_else(|| described(error));
    let status = StatusCode::from_u16(refusal.status);
    let status = status.expect("every refusal has a status");
    let mut xml = format!("{DECLARATION}\n<Error>");
    element(&mut xml, "Code", &refusal.code);
    element(&mut xml, "Message", &refusal.message);
    element(&mut xml, "Resource", resource);
    element(&mut xml, "RequestId", request_id);
    xml.push_str("</Error>");
    let mut answer = with_xml(status, xml);
    answer.extensions_mut().insert(ErrorCode(refusal.code));
    answer
}

/// The status and code of errors that carry no refusal.
fn described(error: &OriginError) -> ErrorResponse {
    let (status, code) = match error {
        OriginError::Changed => (StatusCode::PRECONDITION_FAILED, "PreconditionFailed"),
        OriginError::RangeNotSatisfiable => (StatusCode::RANGE_NOT_SATISFIABLE, "InvalidRange"),
        OriginError::InvalidRequest(_) => (StatusCode::BAD_REQUEST, "InvalidRequest"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
    };
    refusal(status, code, error.to_string())
}

/// A response with an XML document.
///
/// # Panics
/// Never: its parts are valid.
#[must_use]
pub fn with_xml(status: StatusCode, xml: String) -> Response<BoxBody> {
    let response = Response::builder().status(status).header(CONTENT_TYPE, "application/xml");
    response.body(full_body(xml)).expect("made of valid parts")
}

/// A response without a body.
///
/// # Panics
/// Never: its parts are valid.
#[must_use]
pub fn empty(status: StatusCode) -> Response<BoxBody> {
    Response::builder().status(status).body(full_body("")).expect("made of valid parts")
}

/// The answer to GetBucketLocation: an empty location constraint, which means us-east-1.
#[must_use]
pub fn location() -> Response<BoxBody> {
    let document =
        format!("{DECLARATION}\n<LocationConstraint xmlns=\"{NAMESPACE}\"></LocationConstraint>");
    with_xml(StatusCode::OK, document)
}
