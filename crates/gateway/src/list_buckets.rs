//! ListBuckets, merged from several origins and filtered by the key's access rules.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode};
use zonal_origin::ConfiguredOrigin;
use zonal_s3::bucket_list::{self, Bucket};
use zonal_s3::sigv4::EMPTY_SHA256;
use zonal_s3::{S3Error, full_body};

use crate::access::{self, AccessRules};
use crate::answer::Answer;
use crate::bypass::BypassReason;
use crate::delete_objects::read_whole;
use crate::error;
use crate::forward::{PAYLOAD_HASH, failed};
use crate::gateway::Gateway;
use crate::request_id::RequestId;
use crate::s3_request::S3Request;

/// Maximum size of an origin's list: 4 MiB. S3's limit of 10,000 buckets fits twice.
const LIST_BYTES_MAX: usize = 4 << 20;

/// Creation date of a bucket that is only known by name. S3's clients require a date.
const UNKNOWN_DATE: &str = "1970-01-01T00:00:00.000Z";

/// Lists all buckets in which the key may do something, on one page.
pub(crate) async fn list_buckets(
    gateway: &Gateway,
    asked: &S3Request<'_>,
    rules: [&AccessRules; 2],
    id: RequestId,
) -> Result<Answer, S3Error> {
    let origins = gateway.origins();
    let named = origins.iter().flat_map(|one| &one.buckets);
    let named = named.map(|name| Bucket { name: name.clone(), created: UNKNOWN_DATE.into() });
    let mut all: Vec<Bucket> = named.collect();
    if let Some(default_origin) = origins.default_origin() {
        match buckets_of(default_origin, id).await {
            // A bucket that is assigned to another origin belongs to that one.
            Ok(known) => {
                all.extend(known.into_iter().filter(|it| origins.is_of_the_rest(&it.name)));
            }
            Err(error) if all.is_empty() => return Err(error),
            // An error of this origin must not affect clients that use only the others.
            Err(_) => gateway.stats().bucket_lists_cut.add(1),
        }
    }
    let prefix = asked.query.get("prefix").unwrap_or_default();
    all.retain(|bucket| {
        bucket.name.starts_with(prefix)
            && rules.iter().all(|rules| access::somewhere(rules, &format!("{}/", bucket.name)))
    });
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    let document = Bytes::from(bucket_list::to_xml("zonal", &all));
    headers.insert(http::header::CONTENT_LENGTH, document.len().into());
    let (mut parts, ()) = Response::new(()).into_parts();
    parts.headers = headers;
    Ok(Answer::of_origin(parts, document.into(), BypassReason::Operation.into()))
}

/// Lists the buckets of an origin.
async fn buckets_of(origin: &ConfiguredOrigin, id: RequestId) -> Result<Vec<Bucket>, S3Error> {
    let request = Request::get("/")
        .header(PAYLOAD_HASH, EMPTY_SHA256)
        .extension(zonal_origin::RequestId(id.as_str().into()))
        .body(full_body(""))
        .expect("it has all that a request needs");
    let answer = origin.forward(request).await.map_err(failed)?;
    let status = answer.status();
    let unreadable = || error::bad_gateway("The origin's list of buckets cannot be read.");
    let document = read_whole(answer.into_body(), LIST_BYTES_MAX).await;
    let document = document.map_err(|_| unreadable())?;
    match status {
        StatusCode::OK => bucket_list::parse(&document).ok_or_else(unreadable),
        // The origin's credentials may allow some buckets and not the list.
        StatusCode::FORBIDDEN => Err(S3Error::access_denied()),
        _ => Err(error::bad_gateway(format!(
            "The origin answered the bucket list with status {status}."
        ))),
    }
}
