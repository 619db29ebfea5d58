//! S3 requests to a read-only bucket: conditional reads, lists, HeadBucket.

use http::request::Parts;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use zonal_s3::object_list::{self, ListRequest, ListVersion, Page};
use zonal_s3::range::ResolvedRange;
use zonal_s3::{BoxBody, Query, full_body};

use super::{PageRequest, PageStart, ReadOnlyOrigin};
use crate::concurrency::Permit;
use crate::download::Download;
use crate::error::{ErrorResponse, OriginError};
use crate::object::ObjectName;
use crate::serving::{self, Answer, ReadAnswer, not_implemented, refused};

/// Limit of consecutive empty pages before the request fails with `SlowDown`. At ten, a store has
/// filtered ten thousand keys.
const EMPTY_PAGES_MAX: usize = 10;

impl ReadOnlyOrigin {
    /// Answers a forwarded request as S3 does.
    pub(crate) async fn forward(&self, request: Request<BoxBody>) -> Answer {
        let known = (&self.concurrency, &*self.stats);
        let serve = |request: Request<BoxBody>, permit| self.serve(request.into_parts().0, permit);
        serving::answer_with(request, known, serve, told).await
    }

    async fn serve(&self, request: Parts, permit: Permit) -> Answer {
        let (object, query) = serving::parse_target(&request.uri)?;
        self.check_bucket(&object.bucket)?;
        match request.method {
            Method::GET | Method::HEAD => {}
            _ => return Err(read_only()),
        }
        if object.key.is_empty() {
            return self.serve_bucket(&request.method, &object.bucket, &query).await;
        }
        if !query.has_only(&[]) {
            return Err(not_implemented("this operation on an object"));
        }
        self.serve_read(&request, &object, permit).await
    }

    async fn serve_bucket(&self, method: &Method, bucket: &str, query: &Query<'_>) -> Answer {
        if method == Method::HEAD {
            return self
                .in_time(self.store.load_full().probe())
                .await
                .map(|()| serving::empty(StatusCode::OK));
        }
        if query.has("location") && query.has_only(&["location"]) {
            return Ok(serving::location());
        }
        let request = ListRequest::of(bucket, query).map_err(refused)?;
        let page = self.page(&request).await?;
        Ok(serving::with_xml(StatusCode::OK, object_list::to_xml(&request, &page)))
    }

    /// A page of keys. ListObjectsV2 continues at the store's token, ListObjects after its last
    /// entry.
    async fn page(&self, request: &ListRequest) -> Result<Page, OriginError> {
        if request.max_keys == 0 {
            return Ok(Page::default());
        }
        let store = self.store.load_full();
        let mut next = request.is_continued().then(|| request.after.clone());
        for _ in 0..EMPTY_PAGES_MAX {
            let begin = match &next {
                Some(next) => PageStart::Next(next),
                None if request.after.is_empty() => PageStart::First,
                None => PageStart::After(&request.after),
            };
            let (prefix, delimiter) = (&request.prefix, &request.delimiter);
            let wanted = PageRequest { prefix, delimiter, begin, max_entries: request.max_keys };
            let mut listed = self.in_time(store.list(wanted)).await?;
            if !request.is_continued() {
                // A store may start its page *at* the given name, for example with the common
                // prefix of the key.
                listed.entries.retain(|entry| request.after.as_str() < entry.name());
            }
            let last = listed.entries.last().map(|last| last.name().to_owned());
            if last.is_some() || listed.next.is_none() {
                let next = listed.next.and_then(|token| match request.version {
                    ListVersion::V1 => last,
                    ListVersion::V2 => Some(token),
                });
                return Ok(Page { entries: listed.entries, next });
            }
            next = listed.next;
        }
        Err(OriginError::slow_down("this store has no list of its objects"))
    }

    async fn serve_read(&self, request: &Parts, object: &ObjectName, permit: Permit) -> Answer {
        let head = self.checked_head(object).await?;
        let ReadAnswer { response, slice } = serving::read_answer(&request.headers, &head)?;
        let body = match slice {
            None | Some(ResolvedRange::Unsatisfiable) => full_body(""),
            _ if request.method == Method::HEAD || head.size == 0 => full_body(""),
            Some(ResolvedRange::Whole) => self.whole(object, &head).await?,
            Some(ResolvedRange::Part(range)) => {
                let (now, body) =
                    self.checked_get(object, range.clone(), head.strong_etag()).await?;
                if now.object_size.is_some_and(|size| size != head.size) || now.etag != head.etag {
                    return Err(OriginError::Changed);
                }
                body
            }
        };
        let body = Download::new(body, self.limits.stall, self.stats.clone(), permit);
        Ok(response.map(|()| body.boxed_unsync()))
    }
}

/// Returns the error to show to the client. Errors without an S3 equivalent are not about the
/// request.
fn told(error: OriginError) -> Result<OriginError, OriginError> {
    match error {
        OriginError::CredentialsRejected(_) => Err(error),
        error if error.refusal().is_none() && !is_about_the_object(&error) => Err(error),
        error => Ok(in_words_of_s3(error)),
    }
}

/// True if S3 has a code for an error that carries no refusal.
const fn is_about_the_object(error: &OriginError) -> bool {
    matches!(error, OriginError::Changed | OriginError::RangeNotSatisfiable)
}

/// Replaces the store's code by the S3 code, because clients match on S3's codes.
fn in_words_of_s3(error: OriginError) -> OriginError {
    match error {
        OriginError::Denied(refusal) => {
            OriginError::Denied(ErrorResponse { code: "AccessDenied".to_owned(), ..refusal })
        }
        OriginError::Throttled { refusal, retry_after } => {
            let refusal = ErrorResponse { code: "SlowDown".to_owned(), ..refusal };
            OriginError::Throttled { refusal, retry_after }
        }
        error => error,
    }
}

/// 405: the bucket is read-only.
fn read_only() -> OriginError {
    OriginError::Failed(ErrorResponse {
        status: 405,
        code: "MethodNotAllowed".to_owned(),
        message: "this bucket is read-only: its store is not S3".to_owned(),
    })
}
