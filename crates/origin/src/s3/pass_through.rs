//! Pass-through of a request with its client's own signature.
//!
//! 1. Remove the hop-by-hop headers of the client's connection. A signature that covers one of them
//!    becomes invalid.
//! 2. Send the request to the origin's address, with the host and path that were signed.
//! 3. Return the answer if it fits the request and is not a redirection, whatever its status. The
//!    answer concerns the client, and says nothing about Zonal's credentials.

use http::header::{EXPECT, HOST};
use http::uri::PathAndQuery;
use http::{Request, Response};
use http_body_util::BodyExt;
use zonal_s3::{BoxBody, hop_by_hop};

use super::S3Origin;
use super::error_mapping;
use super::response_validation::ForwardedRequest;
use crate::concurrency::Permit;
use crate::download::Download;
use crate::error::OriginError;

impl S3Origin {
    pub(super) async fn pass_through(
        &self,
        request: Request<BoxBody>,
        permit: Permit,
    ) -> Result<Response<BoxBody>, OriginError> {
        let (mut parts, body) = request.into_parts();
        assert!(parts.headers.contains_key(HOST), "what is signed has a host");
        hop_by_hop::remove(&mut parts.headers);
        parts.headers.remove(EXPECT);
        let path = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let url = self.endpoint.url_as_it_is(path);
        parts.uri = url.ok_or_else(|| error_mapping::no_such_bucket(path))?;
        let asked = ForwardedRequest::of(&parts);
        let answer = self.send(parts, body).await?;
        asked.check_as_signed(&answer)?;
        let (mut parts, body) = answer.into_parts();
        asked.take_off_checksums(&mut parts);
        if parts.status.is_server_error() {
            self.stats.count_error(&error_mapping::meaning(&parts, b""));
        } else {
            self.stats.note_well();
        }
        hop_by_hop::remove(&mut parts.headers);
        let body = Download::new(body, self.limits.stall, self.stats.clone(), permit);
        Ok(Response::from_parts(parts, body.boxed_unsync()))
    }
}
