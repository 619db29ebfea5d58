//! Request target and response frame of a forwarded request.

use std::future::Future;

use http::{Method, Request, Response, Uri};
use zonal_s3::sigv4::decode_path;
use zonal_s3::{BoxBody, Query, full_body, says_what};

use super::answer;
use crate::concurrency::{ConcurrencyLimits, Permit};
use crate::error::OriginError;
use crate::object::ObjectName;
use crate::origin::RequestId;
use crate::stats::Stats;

/// The answer to a forwarded request.
pub type Answer = Result<Response<BoxBody>, OriginError>;

/// What a request names by its path, which is `/BUCKET/KEY` (either may be empty), and what of its query says what is
/// wanted.
///
/// # Errors
/// A key that is not UTF-8, or a query that is none.
pub fn parse_target(uri: &Uri) -> Result<(ObjectName, Query<'_>), OriginError> {
    let path = uri.path();
    let path = decode_path(path.strip_prefix('/').unwrap_or(path));
    let path = path.ok_or_else(|| answer::invalid_argument("the key is not UTF-8".to_owned()))?;
    let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
    let object = ObjectName { bucket: bucket.to_owned(), key: key.to_owned() };
    Ok((object, Query::parse(uri.query())?.filtered(says_what)))
}

/// Answers `request` as S3 would, whatever the status. `told` says with which error a client is told of one, or that it
/// is no answer to the request.
///
/// # Errors
/// What is no answer to the request, and when no place became free.
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
            answer::of_error(&told(error)?, &resource, &request_id)
        }
    };
    // An answer to HEAD has the headers of its body only.
    Ok(if is_head { answer.map(|_| full_body("")) } else { answer })
}
