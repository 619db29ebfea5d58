//! Errors of the folder as S3 errors.

use std::io;

use zonal_origin::serving::{bad_request, invalid_argument};
use zonal_origin::{ErrorResponse, OriginError, os_message};

/// 400: the key leads out of its bucket.
pub(crate) fn refused_key(key: &str) -> OriginError {
    invalid_argument(format!("the key {key:?} leads out of its bucket"))
}

/// 409: the bucket exists.
pub(crate) fn bucket_exists(bucket: &str) -> OriginError {
    let message = format!("the bucket {bucket:?} already exists");
    OriginError::Failed(refusal(409, "BucketAlreadyOwnedByYou", message))
}

/// 400: no folder can have this name.
pub(crate) fn invalid_bucket_name(bucket: &str) -> OriginError {
    bad_request("InvalidBucketName", format!("{bucket:?} is not a valid bucket name"))
}

/// Maps a file system error to an origin error.
pub(crate) fn from_io(error: &io::Error) -> OriginError {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            OriginError::Denied(refusal(403, "AccessDenied", error.to_string()))
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            let message = "the file system of the origin's directory is full: nothing was stored";
            OriginError::Failed(refusal(507, "InsufficientStorage", message.to_owned()))
        }
        _ => OriginError::Unreachable { cause: os_message(error) },
    }
}

fn refusal(status: u16, code: &str, message: String) -> ErrorResponse {
    ErrorResponse { status, code: code.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full disk was reported as an unreachable origin, so the log sent the operator to the wrong
    /// problem.
    #[test]
    fn a_full_disk_is_told_as_that() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let error = from_io(&kind.into());
            assert_eq!(error.kind(), Some("failed"));
            let refusal = error.refusal().unwrap();
            assert_eq!((refusal.status, &*refusal.code), (507, "InsufficientStorage"));
        }
    }
}
