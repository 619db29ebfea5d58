//! Answers of origins that are no S3 endpoints, as S3 would give them: errors first as values, then as XML.

use std::io;

use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use zonal_s3::xml::{DECLARATION, NAMESPACE, element};
use zonal_s3::{BoxBody, full_body};

use crate::error::{OriginError, Refusal, RefusalCode, said_by_system};

fn refusal(status: StatusCode, code: &str, message: String) -> Refusal {
    Refusal { status: status.as_u16(), code: code.to_owned(), message }
}

pub(crate) fn no_such_key(key: &str) -> OriginError {
    let message = format!("there is no object {key:?}");
    OriginError::NotFound(refusal(StatusCode::NOT_FOUND, "NoSuchKey", message))
}

pub(crate) fn no_such_bucket(bucket: &str) -> OriginError {
    let message = format!("there is no bucket {bucket:?}");
    OriginError::NotFound(refusal(StatusCode::NOT_FOUND, "NoSuchBucket", message))
}

/// 400 for a key that leads out of its bucket.
pub(crate) fn refused_key(key: &str) -> OriginError {
    invalid_argument(format!("the key {key:?} does not stay below its bucket"))
}

pub(crate) fn bucket_exists(bucket: &str) -> OriginError {
    let message = format!("there is a bucket {bucket:?} already");
    OriginError::Failed(refusal(StatusCode::CONFLICT, "BucketAlreadyOwnedByYou", message))
}

pub(crate) fn invalid_bucket_name(bucket: &str) -> OriginError {
    bad_request("InvalidBucketName", format!("no bucket of a folder can be called {bucket:?}"))
}

pub(crate) fn invalid_argument(message: String) -> OriginError {
    bad_request("InvalidArgument", message)
}

/// 400 with S3's code for what is wrong with the request.
pub(crate) fn bad_request(code: &str, message: String) -> OriginError {
    OriginError::Failed(refusal(StatusCode::BAD_REQUEST, code, message))
}

pub(crate) fn no_such_upload(id: &str) -> OriginError {
    let message = format!("there is no multipart upload {id:?} of this object");
    OriginError::NotFound(refusal(StatusCode::NOT_FOUND, "NoSuchUpload", message))
}

/// 501 for all of S3 that an origin has no place for.
pub(crate) fn not_implemented(what: &str) -> OriginError {
    let message = format!("this kind of origin does not implement {what}");
    OriginError::Failed(refusal(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message))
}

/// What the file system said.
pub(crate) fn from_io(error: &io::Error) -> OriginError {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            OriginError::Denied(refusal(StatusCode::FORBIDDEN, "AccessDenied", error.to_string()))
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            let message = "the disk of the origin's folder is full: nothing was stored";
            let status = StatusCode::INSUFFICIENT_STORAGE;
            OriginError::Failed(refusal(status, "InsufficientStorage", message.to_owned()))
        }
        _ => OriginError::Unreachable { cause: said_by_system(error) },
    }
}

/// The answer that says what went wrong.
pub(crate) fn of_error(error: &OriginError, resource: &str, request_id: &str) -> Response<BoxBody> {
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
    answer.extensions_mut().insert(RefusalCode(refusal.code));
    answer
}

/// The status and code of errors that carry none.
fn described(error: &OriginError) -> Refusal {
    let (status, code) = match error {
        OriginError::Changed => (StatusCode::PRECONDITION_FAILED, "PreconditionFailed"),
        OriginError::RangeNotSatisfiable => (StatusCode::RANGE_NOT_SATISFIABLE, "InvalidRange"),
        OriginError::InvalidRequest(_) => (StatusCode::BAD_REQUEST, "InvalidRequest"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
    };
    refusal(status, code, error.to_string())
}

pub(crate) fn with_xml(status: StatusCode, xml: String) -> Response<BoxBody> {
    let response = Response::builder().status(status).header(CONTENT_TYPE, "application/xml");
    response.body(full_body(xml)).expect("made of valid parts")
}

pub(crate) fn empty(status: StatusCode) -> Response<BoxBody> {
    Response::builder().status(status).body(full_body("")).expect("made of valid parts")
}

/// The answer to GetBucketLocation: the empty constraint is us-east-1.
pub(crate) fn location() -> Response<BoxBody> {
    let document =
        format!("{DECLARATION}\n<LocationConstraint xmlns=\"{NAMESPACE}\"></LocationConstraint>");
    with_xml(StatusCode::OK, document)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients were told that the origin could not be reached, and the log to look whether it was up.
    #[test]
    fn a_full_disk_is_told_as_that() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let error = from_io(&kind.into());
            assert_eq!(error.kind(), Some("failed"));
            let answer = of_error(&error, "/b/k", "0A");
            assert_eq!(answer.status(), StatusCode::INSUFFICIENT_STORAGE);
            let code = answer.extensions().get();
            assert_eq!(code, Some(&RefusalCode("InsufficientStorage".to_owned())));
        }
    }

    #[test]
    fn what_the_system_says_has_no_number() {
        let said = |errno| said_by_system(&io::Error::from_raw_os_error(errno));
        assert_eq!(said(111), "Connection refused");
        assert_eq!(said_by_system(&io::Error::other("odd (os error 1)")), "odd (os error 1)");
    }
}
