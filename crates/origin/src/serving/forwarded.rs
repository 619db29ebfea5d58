//! Forwarded requests: parses their target, and wraps their answers as S3 does.

use std::future::Future;

use http::{Method, Request, Response, Uri};
use zonal_s3::sigv4::decode_path;
use zonal_s3::{BoxBody, Query, full_body, says_what};

use super::responses;
use crate::concurrency::{ConcurrencyLimits, Permit};
use crate::error::OriginError;
use crate::object::ObjectName;
use crate::origin::RequestId;
use crate::stats::Stats;

/// The answer to a forwarded request.
pub type Answer = Result<Response<BoxBody>, OriginError>;

/// Parses a request target: object name and query. The path is `/BUCKET/KEY`, where either may be
/// empty. Signature parameters and `x-id` are removed from the query.
///
/// # Errors
/// The path is not UTF-8, or the query is malformed.
pub fn parse_target(uri: &Uri) -> Result<(ObjectName, Query<'_>), OriginError> {
    let path = uri.path();
    let path = decode_path(path.strip_prefix('/').unwrap_or(path));
    let path =
        path.ok_or_else(|| responses::invalid_argument("the key is not UTF-8".to_owned()))?;
    let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
    let object = ObjectName::new(bucket, key);
    Ok((object, Query::parse(uri.query())?.filtered(says_what)))
}

/// Answers `request` as S3 does, whatever the status. `told` translates an error into the error
/// response for the client, or returns an error that is not about the request.
///
/// # Errors
/// Errors that are not about the request, and [`OriginError::Throttled`] if no concurrency permit
/// becomes free in time.
pub async fn answer_with<F: Future<Output = Answer>>(
    request: Request<BoxBody>,
    (concurrency, stats): (&ConcurrencyLimits, &Stats),
    serve: impl FnOnce(Request<BoxBody>, Permit) -> F,
    told: impl FnOnce(OriginError) -> Result<OriginError, OriginError>,
) -> Answer {
    let permit = concurrency.for_forward(&request).await?;
    let is_head = request.method() == Method::HEAD;
    let resource = request.uri().path().to_owned();
    let request_id = request.extensions().get::<RequestId>().cloned();
    let answer = match stats.counted(serve(request, permit).await) {
        Ok(answer) => answer,
        Err(error) => {
            let request_id = request_id.map(|RequestId(id)| id).unwrap_or_default();
            responses::of_error(&told(error)?, &resource, &request_id)
        }
    };
    // The answer to HEAD has the headers of a body, but no body.
    Ok(if is_head { answer.map(|_| full_body("")) } else { answer })
}
