//! Parsed request: bucket (from host or path), key, query and operation.

use http::Uri;
use http::request::Parts;
use zonal_host::ObjectName;
use zonal_s3::Query;
use zonal_s3::S3Error;
use zonal_s3::sigv4::encode_path;

use crate::api::{ApiOperation, RequestAttributes};
use crate::domains::Domains;
use crate::operation::Operation;
use crate::target::{BadTarget, Target};

/// Parsed S3 request.
pub(crate) struct S3Request<'a> {
    /// Row of the operation. `None`: the operation is unknown.
    pub(crate) api: Option<&'static ApiOperation>,
    pub(crate) target: Target<'a>,
    pub(crate) query: Query<'a>,
    /// Path as the client wrote it. In virtual-hosted style, the whole path is the key.
    pub(crate) path: &'a str,
}

impl<'a> S3Request<'a> {
    pub(crate) fn of(domains: &Domains, uri: &'a Uri, request: &Parts) -> Result<Self, S3Error> {
        let query = Query::parse(uri.query()).map_err(|_| S3Error::invalid_uri())?;
        let path = uri.path();
        let target = match domains.bucket_of(request)? {
            None => Target::parse(path),
            Some(bucket) => Target::within(bucket, path),
        };
        let target = target.map_err(|bad| match bad {
            BadTarget::Uri => S3Error::invalid_uri(),
            BadTarget::BucketName => S3Error::invalid_bucket_name(),
        })?;
        let api = ApiOperation::of(request.method.as_str(), &target, &query, &request.headers);
        Ok(Self { api, target, query, path })
    }

    /// Label in the metrics.
    pub(crate) fn operation(&self) -> Operation {
        self.api.map_or(Operation::Other, |api| api.counted)
    }

    /// The request as it is forwarded: bucket and key in the path (path style), with the judged
    /// query and headers only. The client's signature does not match it any more, so it is signed
    /// anew.
    pub(crate) fn rewritten(
        &self,
        api: &ApiOperation,
        judged: &RequestAttributes,
        mut request: Parts,
    ) -> Parts {
        let rewritten = api.rewrite(&self.query, &request.headers, judged);
        let mut uri = String::from("/");
        if let Target::Object { bucket, .. } | Target::Bucket(bucket) = &self.target {
            uri.push_str(bucket);
        }
        if let Target::Object { key, .. } = &self.target {
            uri.push('/');
            uri.push_str(&encode_path(key));
        }
        if !rewritten.query.is_empty() {
            uri.push('?');
            uri.push_str(&rewritten.query);
        }
        request.uri = uri.parse().expect("what is encoded is legal in a path and a query");
        request.headers = rewritten.headers;
        request
    }

    /// The object in the path, if there is one.
    pub(crate) fn object(&self) -> Option<ObjectName> {
        match &self.target {
            Target::Object { bucket, key } => Some(ObjectName::new(bucket, key)),
            Target::Bucket(_) | Target::Service => None,
        }
    }
}
