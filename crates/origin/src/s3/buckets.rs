//! Bucket check: tells a bucket from an admin API or another path at the root of the origin, before
//! requests go there with Zonal's credentials.
//!
//! A bucket is proven by an answer that only buckets give. The origin is asked once, and a positive
//! result is remembered while the process lives. A write below an unproven path waits for the
//! proof. An identity that may only read objects cannot get the proof, so a read is sent first: an
//! answer with an ETag is an object. Any other answer is returned only from a proven bucket. Below
//! the known name of a server's API, reads wait for the proof too.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use http::{Method, Request, Uri, request};
use http_body_util::{BodyExt, Limited};

use super::{Addressing, S3Origin};
use crate::error::{ErrorResponse, OriginError};

/// Limit of remembered buckets. A name takes 63 bytes, so 1 MiB with the overhead of the set. When
/// the limit is reached, all are forgotten.
const NAMES_MAX: usize = 10_000;

/// Size limit of an answer: 64 KiB. A location or a list of one key takes a few hundred bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A bounded set of bucket names: proven buckets, or buckets whose charges are accepted (Requester
/// Pays).
#[derive(Debug, Default)]
pub(super) struct Buckets(Mutex<HashSet<Box<str>>>);

impl Buckets {
    pub(super) fn has(&self, bucket: &str) -> bool {
        self.names().contains(bucket)
    }

    pub(super) fn add(&self, bucket: &str) {
        let mut names = self.names();
        if NAMES_MAX <= names.len() && !names.contains(bucket) {
            names.clear();
        }
        names.insert(bucket.into());
    }

    fn names(&self) -> MutexGuard<'_, HashSet<Box<str>>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

/// Root paths of the APIs of S3 servers: Ceph's gateway (`rgw_admin_entry`, `rgw_swift_auth_entry`
/// and `rgw_swift_url_prefix` by default), MinIO, Moto.
pub(super) const NAMES_OF_APIS: [&str; 5] = ["admin", "auth", "minio", "moto-api", "swift"];

/// Queries that prove a bucket, each with the root element of a bucket's answer.
const QUESTIONS: [(&str, &str); 2] =
    [("location", "LocationConstraint"), ("list-type=2&max-keys=1", "ListBucketResult")];

const NO_SUCH_BUCKET: &str = "NoSuchBucket";

impl S3Origin {
    /// True if a request for this path would send Zonal's credentials to a path that may not be a
    /// bucket. With virtual-hosted addressing a host is always a bucket; anonymous requests carry
    /// no credentials.
    pub(super) fn is_in_doubt(&self, bucket: &str, key: &str) -> bool {
        !key.is_empty()
            && self.endpoint.addressing() == Addressing::PathStyle
            && !self.keys.load().are_anonymous()
            && !self.proven.has(bucket)
    }

    /// Requires a proof before reads, if the bucket has the name of a server's API.
    ///
    /// # Errors
    /// As [`must_be_a_bucket`](Self::must_be_a_bucket).
    pub(super) async fn must_be_no_api(&self, bucket: &str, key: &str) -> Result<(), OriginError> {
        let is_name_of_api = NAMES_OF_APIS.iter().any(|name| name.eq_ignore_ascii_case(bucket));
        if is_name_of_api && self.is_in_doubt(bucket, key) {
            self.must_be_a_bucket(bucket).await?;
        }
        Ok(())
    }

    /// Checks that `bucket` is a bucket.
    ///
    /// # Errors
    /// There is no such bucket, the origin denies both queries, or the origin cannot be asked.
    pub(super) async fn must_be_a_bucket(&self, bucket: &str) -> Result<(), OriginError> {
        let _permit = self.concurrency.for_head().await;
        let (mut denied, mut absent) = (None, None);
        for (query, root) in QUESTIONS {
            match self.ask_bucket(bucket, query).await {
                Ok(document) if root_of(&document) == Some(root) => {
                    self.proven.add(bucket);
                    return Ok(());
                }
                Ok(_) | Err(OriginError::Failed(_)) => {}
                Err(OriginError::NotFound(refusal)) if refusal.code == NO_SUCH_BUCKET => {
                    absent = Some(refusal);
                }
                Err(OriginError::NotFound(_)) => {}
                Err(OriginError::Denied(refusal)) => denied = Some(refusal),
                Err(error) => return Err(error),
            }
        }
        Err(match (absent, denied) {
            (Some(refusal), _) => OriginError::NotFound(refusal),
            (None, Some(refusal)) => OriginError::Denied(ErrorResponse {
                message: format!(
                    "The origin denies both the location and the listing of bucket {bucket}, so \
                     the cache cannot distinguish the bucket from an API path of the origin. Allow \
                     s3:GetBucketLocation or s3:ListBucket to the cache's identity, or name the \
                     bucket in the configuration of the cache."
                ),
                ..refusal
            }),
            (None, None) => super::error_mapping::no_such_bucket(bucket),
        })
    }

    /// Starts a request of Zonal's own for a bucket or its objects, with the Requester Pays header
    /// if its charges are accepted.
    pub(super) fn asking(&self, method: Method, url: &Uri, bucket: &str) -> request::Builder {
        let request = Request::builder().method(method).uri(url);
        match self.paid.has(bucket) {
            true => request.header("x-amz-request-payer", "requester"),
            false => request,
        }
    }

    async fn ask_bucket(&self, bucket: &str, query: &str) -> Result<Vec<u8>, OriginError> {
        let url = self.endpoint.url(bucket, "", Some(query));
        let url = url.ok_or_else(|| super::error_mapping::no_such_bucket(bucket))?;
        let request = self.asking(Method::GET, &url, bucket).body(());
        let answer = self.attempt(request.expect("made of valid parts")).await?;
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let too_long = |_| OriginError::invalid_response("a bucket response without end");
        Ok(body.map_err(too_long)?.to_bytes().to_vec())
    }
}

/// Name of the root element of a document.
fn root_of(document: &[u8]) -> Option<&str> {
    let text = str::from_utf8(document).ok()?.trim_start_matches('\u{FEFF}').trim_start();
    let text = match text.strip_prefix("<?xml") {
        Some(rest) => rest.split_once("?>")?.1.trim_start(),
        None => text,
    };
    let name = text.strip_prefix('<')?;
    let end = name.find(|c: char| !c.is_ascii_alphanumeric())?;
    Some(&name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_a_document_is_its_first_element() {
        for (document, root) in [
            (
                "<?xml version=\"1.0\"?>\n<LocationConstraint xmlns=\"u\">x</LocationConstraint>",
                Some("LocationConstraint"),
            ),
            ("<LocationConstraint/>", Some("LocationConstraint")),
            ("\u{FEFF}<ListBucketResult>", Some("ListBucketResult")),
            ("{\"LocationConstraint\": 1}", None),
            ("<Error><LocationConstraint/>", Some("Error")),
            ("", None),
            ("<", None),
        ] {
            assert_eq!(root_of(document.as_bytes()), root, "{document}");
        }
    }
}
