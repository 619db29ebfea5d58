//! Multipart upload check: an upload ID must belong to the object that the request names.
//!
//! On some origins an upload ID is the name of an object stored beside the others. A client that
//! may abort an upload of one object could then remove any other object. Therefore, for clients
//! that may not write every object, the origin must list the upload under the object's name. Zonal
//! asks once per upload, and remembers positive results while the process lives.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use zonal_s3::sigv4::{encode_query_value, sha256_hex};
use zonal_s3::xml;

use super::S3Origin;
use crate::error::{ErrorResponse, OriginError};
use crate::serving::no_such_upload;

/// Limit of remembered uploads, at 64 bytes each. When it is reached, all are forgotten and checked
/// again.
const PROVEN_MAX: usize = 10_000;

/// Size limit of a page: a thousand uploads with a key of 1,024 bytes each, with room for the other
/// fields.
const PAGE_BYTES_MAX: usize = 4 << 20;

/// Limit of pages per check: ten thousand uploads whose keys have the object's key as prefix.
const PAGES_MAX: usize = 10;

/// Verified uploads: digests of bucket, key and upload ID.
#[derive(Debug, Default)]
pub(super) struct VerifiedUploads(Mutex<HashSet<Box<str>>>);

impl VerifiedUploads {
    fn has(&self, upload: &str) -> bool {
        self.digests().contains(upload)
    }

    fn add(&self, upload: String) {
        let mut proven = self.digests();
        if PROVEN_MAX <= proven.len() {
            proven.clear();
        }
        proven.insert(upload.into());
    }

    fn digests(&self) -> MutexGuard<'_, HashSet<Box<str>>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

/// A page of ListMultipartUploads.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    /// Pairs of key and upload ID.
    uploads: Vec<(String, String)>,
    /// Markers of the next page, key and upload ID; `None` on the last page.
    next: Option<(String, String)>,
}

impl S3Origin {
    /// Checks that the upload belongs to this object.
    ///
    /// # Errors
    /// The upload belongs to another object or does not exist, the origin denies the list, or the
    /// origin cannot be asked.
    pub(super) async fn must_be_an_upload(
        &self,
        (bucket, key): (&str, &str),
        id: &str,
    ) -> Result<(), OriginError> {
        // A NUL separates the parts: bucket names and upload IDs contain none.
        let digest = sha256_hex(format!("{bucket}\0{key}\0{id}").as_bytes());
        if self.proven_uploads.has(&digest) {
            return Ok(());
        }
        let _permit = self.concurrency.for_head().await;
        let mut next = None;
        for _ in 0..PAGES_MAX {
            let page = self.uploads(bucket, key, next.as_ref()).await?;
            if page.uploads.iter().any(|(of, it)| of == key && it == id) {
                self.proven_uploads.add(digest);
                return Ok(());
            }
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        Err(no_such_upload(id))
    }

    async fn uploads(
        &self,
        bucket: &str,
        key: &str,
        next: Option<&(String, String)>,
    ) -> Result<Page, OriginError> {
        let mut query = format!("uploads&prefix={}", encode_query_value(key));
        if let Some((key, id)) = next {
            query.push_str(&format!("&key-marker={}", encode_query_value(key)));
            query.push_str(&format!("&upload-id-marker={}", encode_query_value(id)));
        }
        let url = self.endpoint.url(bucket, "", Some(&query));
        let url = url.ok_or_else(|| super::error_mapping::no_such_bucket(bucket))?;
        let request = self.asking(Method::GET, &url, bucket).body(());
        let answer = match self.attempt(request.expect("made of valid parts")).await {
            Err(OriginError::Denied(refusal)) => return Err(not_told(bucket, refusal)),
            Err(OriginError::Failed(refusal)) if refusal.status == NOT_IMPLEMENTED => {
                return Err(not_told(bucket, refusal));
            }
            answer => answer?,
        };
        let body = Limited::new(answer.into_body(), PAGE_BYTES_MAX).collect().await;
        let body =
            body.map_err(|_| OriginError::invalid_response("a list of uploads without end"))?;
        parse(&body.to_bytes())
            .ok_or_else(|| OriginError::invalid_response("a malformed list of uploads"))
    }
}

const NOT_IMPLEMENTED: u16 = StatusCode::NOT_IMPLEMENTED.as_u16();

fn not_told(bucket: &str, refusal: ErrorResponse) -> OriginError {
    OriginError::Denied(ErrorResponse {
        message: format!(
            "The origin denies the list of multipart uploads in {bucket}, so the cache cannot find \
             the object of this upload. Allow s3:ListBucketMultipartUploads to the cache's \
             identity: keys without write access to everything need it."
        ),
        ..refusal
    })
}

fn parse(document: &[u8]) -> Option<Page> {
    let mut page = Page::default();
    let (mut key, mut id) = (None, None);
    let (mut is_truncated, mut next_key, mut next_id) = (None, None, None);
    let mut is_whole = true;
    xml::read_list(document, "ListMultipartUploadsResult", |path, text| match path {
        ["Upload", "Key"] => key = Some(text),
        ["Upload", "UploadId"] => id = Some(text),
        ["Upload"] => match (key.take(), id.take()) {
            (Some(key), Some(id)) => page.uploads.push((key, id)),
            _ => is_whole = false,
        },
        ["IsTruncated"] => is_truncated = Some(text.trim() == "true"),
        ["NextKeyMarker"] => next_key = Some(text),
        ["NextUploadIdMarker"] => next_id = Some(text),
        _ => {}
    })?;
    if is_truncated? {
        page.next = Some((next_key?, next_id.unwrap_or_default()));
    }
    is_whole.then_some(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(uploads: &[(&str, &str)], next: Option<(&str, &str)>) -> Page {
        let pair = |(key, id): &(&str, &str)| ((*key).to_owned(), (*id).to_owned());
        Page { uploads: uploads.iter().map(pair).collect(), next: next.as_ref().map(pair) }
    }

    #[track_caller]
    fn check(inner: &str, expected: Option<Page>) {
        let document = format!("<ListMultipartUploadsResult>{inner}</ListMultipartUploadsResult>");
        assert_eq!(parse(document.as_bytes()), expected, "{inner}");
    }

    #[test]
    fn a_page_has_keys_and_ids_and_where_the_next_begins() {
        let end = "<IsTruncated>false</IsTruncated>";
        let upload =
            "<Upload><UploadId>1</UploadId><Key>a&amp;b</Key><Owner><ID>x</ID></Owner></Upload>";
        check(&format!("{upload}{end}"), Some(page(&[("a&b", "1")], None)));
        check(end, Some(page(&[], None)));
        let more = "<IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker>";
        check(more, Some(page(&[], Some(("k", "")))));
        let marker = "<NextUploadIdMarker>7</NextUploadIdMarker>";
        check(&format!("{more}{marker}"), Some(page(&[], Some(("k", "7")))));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_no_page() {
        let end = "<IsTruncated>false</IsTruncated>";
        for inner in [
            "",
            "<IsTruncated>true</IsTruncated>",
            &format!("<Upload><Key>a</Key></Upload>{end}"),
            &format!("<Upload><UploadId>1</UploadId></Upload>{end}"),
            &format!("<!DOCTYPE d>{end}"),
        ] {
            check(inner, None);
        }
        assert_eq!(parse(b"<Error><Code>x</Code></Error>"), None);
    }
}
