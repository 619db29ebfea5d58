//! Error mapping: turns a store's error responses into an [`OriginError`].

use std::ops::Range;

use http::StatusCode;
use http::header::CONTENT_RANGE;
use zonal_origin::{ErrorResponse, OriginError};

use crate::transport::{ResponseHead, of_the_client};

/// Azure's error codes, sent with 403, for unknown keys and machines without access. Google answers
/// 401.
const NOT_SIGNED_IN: [&str; 4] = [
    "AuthenticationFailed",
    "AuthorizationFailure",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
];

/// Maps an error of the library to an origin error, using the response head if there was a
/// response.
pub(crate) fn meaning(error: &object_store::Error, seen: Option<ResponseHead>) -> OriginError {
    if let Some(ours) = of_the_client(error) {
        return ours;
    }
    match seen {
        Some(seen) if seen.parts.status.is_success() => {
            OriginError::of_invalid_response(error.to_string())
        }
        Some(seen) => match OriginError::of_refusal(&seen.parts, &seen.document) {
            OriginError::Denied(refusal) if NOT_SIGNED_IN.contains(&&*refusal.code) => {
                OriginError::CredentialsRejected(refusal)
            }
            meaning => meaning,
        },
        // The request was never sent: the library got no access token.
        None => OriginError::CredentialsRejected(ErrorResponse {
            status: StatusCode::UNAUTHORIZED.as_u16(),
            code: String::new(),
            message: error.to_string(),
        }),
    }
}

/// Error for a range other than the requested one. Usually the object is smaller than expected,
/// which Azurite does not report as 416.
pub(crate) fn of_another_range(asked: &Range<u64>, seen: &ResponseHead) -> Option<OriginError> {
    if seen.parts.status != StatusCode::PARTIAL_CONTENT {
        return None;
    }
    let stated = seen.parts.headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let size: u64 = stated.rsplit_once('/')?.1.parse().ok()?;
    (size <= asked.start).then_some(OriginError::RangeNotSatisfiable)
}
