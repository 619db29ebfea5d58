//! Error mapping: what a store's error response means.

use std::ops::Range;

use http::StatusCode;
use http::header::CONTENT_RANGE;
use zonal_origin::{OriginError, Refusal};

use crate::wire::{ResponseHead, of_the_client};

/// Azure's words, with 403, for keys that it does not know and machines that it does not let in; Google answers 401.
const NOT_SIGNED_IN: [&str; 4] = [
    "AuthenticationFailed",
    "AuthorizationFailure",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
];

/// What an error means, in the light of what came.
pub(crate) fn meaning(error: &object_store::Error, seen: Option<ResponseHead>) -> OriginError {
    if let Some(ours) = of_the_client(error) {
        return ours;
    }
    match seen {
        Some(seen) if seen.parts.status.is_success() => OriginError::of_nonsense(error.to_string()),
        Some(seen) => match OriginError::of_refusal(&seen.parts, &seen.document) {
            OriginError::Denied(refusal) if NOT_SIGNED_IN.contains(&&*refusal.code) => {
                OriginError::NotSignedIn(refusal)
            }
            meaning => meaning,
        },
        // The request was never sent: nobody would say who we are.
        None => OriginError::NotSignedIn(Refusal {
            status: StatusCode::UNAUTHORIZED.as_u16(),
            code: String::new(),
            message: error.to_string(),
        }),
    }
}

/// What it means that a range came which is not the one that was asked for: mostly that the object is smaller than
/// whoever asked believes, which Azurite does not say in so many words.
pub(crate) fn of_another_range(asked: &Range<u64>, seen: &ResponseHead) -> Option<OriginError> {
    if seen.parts.status != StatusCode::PARTIAL_CONTENT {
        return None;
    }
    let stated = seen.parts.headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let size: u64 = stated.rsplit_once('/')?.1.parse().ok()?;
    (size <= asked.start).then_some(OriginError::RangeNotSatisfiable)
}
