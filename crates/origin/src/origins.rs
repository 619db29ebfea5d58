//! Bucket routing: maps each bucket to one of several origins.
//!
//! A bucket without an origin does not exist: no origin is ever asked about it.

use std::collections::HashMap;

use http::{Request, Response};
use zonal_base::RangeSpec;
use zonal_s3::BoxBody;
use zonal_s3::sigv4::decode_path;

use crate::error::{ErrorResponse, OriginError};
use crate::list::Page;
use crate::object::{ObjectHead, ObjectName};
use crate::object_response::ObjectResponse;
use crate::origin::{Origin, PassThroughSigned};

/// A configured origin.
#[derive(Debug)]
pub struct ConfiguredOrigin {
    /// Name in logs and metrics, unique among the origins.
    pub name: String,
    /// The object store behind this name.
    pub origin: Origin,
    /// Buckets that clients see. Empty: this origin is the default, and has every bucket that no
    /// other origin names. At most one origin is the default.
    pub buckets: Vec<String>,
    /// Reserved names: paths that the origin uses for other purposes than buckets.
    pub reserved: Vec<String>,
}

/// The routing table of a gateway.
#[derive(Debug)]
pub struct Origins {
    all: Vec<ConfiguredOrigin>,
    by_bucket: HashMap<String, usize>,
    /// Index of the default origin.
    default_origin: Option<usize>,
}

impl From<Origin> for Origins {
    /// A single origin, with all its buckets.
    fn from(origin: Origin) -> Self {
        Self::new(vec![ConfiguredOrigin {
            name: String::new(),
            origin,
            buckets: Vec::new(),
            reserved: Vec::new(),
        }])
    }
}

impl Origins {
    /// Builds the routing table.
    ///
    /// Requires: bucket names and origin names are unique, and at most one origin has no bucket
    /// list.
    #[must_use]
    pub fn new(all: Vec<ConfiguredOrigin>) -> Self {
        let default_origin = all.iter().position(|one| one.buckets.is_empty());
        let named = |(n, one): (usize, &ConfiguredOrigin)| {
            one.buckets.iter().map(|bucket| (bucket.clone(), n)).collect::<Vec<_>>()
        };
        let by_bucket = all.iter().enumerate().flat_map(named).collect();
        Self { all, by_bucket, default_origin }
    }

    /// All origins.
    pub fn iter(&self) -> impl Iterator<Item = &ConfiguredOrigin> {
        self.all.iter()
    }

    /// True if there is one origin, which has every bucket.
    #[must_use]
    pub fn is_one(&self) -> bool {
        self.all.len() == 1 && self.default_origin.is_some()
    }

    /// True if an origin names the bucket, or there is a default origin.
    #[must_use]
    pub fn has(&self, bucket: &str) -> bool {
        self.place(bucket).is_some()
    }

    /// True if both buckets have the same origin.
    #[must_use]
    pub fn are_together(&self, one: &str, other: &str) -> bool {
        self.has(one) && self.place(one) == self.place(other)
    }

    /// True if the bucket's origin refuses writes.
    #[must_use]
    pub fn is_read_only(&self, bucket: &str) -> bool {
        self.place(bucket).is_some_and(|place| self.all[place].origin.is_read_only())
    }

    /// True if the bucket's origin can be asked for one version of an object.
    #[must_use]
    pub fn keep_versions(&self, bucket: &str) -> bool {
        self.of(bucket).is_ok_and(|named| named.origin.keeps_versions())
    }

    /// Checks that the circuit breaker of the bucket's origin lets requests through.
    ///
    /// # Errors
    /// The origin answers nothing. The refusal is counted as that of a request.
    pub fn check_circuit(&self, bucket: &str) -> Result<(), OriginError> {
        match self.of(bucket) {
            Ok(named) => named.origin.check_circuit().map_err(|error| error.at(&named.name)),
            Err(_) => Ok(()),
        }
    }

    /// True if the name is reserved by its origin, so that no request for it is sent.
    #[must_use]
    pub fn is_reserved(&self, name: &str) -> bool {
        let mut reserved = self.place(name).into_iter().flat_map(|place| &self.all[place].reserved);
        // Some servers ignore case.
        reserved.any(|it| it.eq_ignore_ascii_case(name))
    }

    /// The default origin, which has every bucket that no origin names.
    #[must_use]
    pub fn default_origin(&self) -> Option<&ConfiguredOrigin> {
        self.default_origin.map(|place| &self.all[place])
    }

    /// True if no origin names the bucket, so that only [`default_origin`](Self::default_origin) can have it.
    #[must_use]
    pub fn is_of_the_rest(&self, bucket: &str) -> bool {
        !self.by_bucket.contains_key(bucket)
    }

    fn place(&self, bucket: &str) -> Option<usize> {
        self.by_bucket.get(bucket).copied().or(self.default_origin)
    }

    fn of(&self, bucket: &str) -> Result<&ConfiguredOrigin, OriginError> {
        let place = self.place(bucket);
        place.map(|place| &self.all[place]).ok_or_else(|| {
            OriginError::NotFound(ErrorResponse {
                status: 404,
                code: "NoSuchBucket".to_owned(),
                message: "The specified bucket does not exist".to_owned(),
            })
        })
    }

    /// True if a request signed for this host is signed for one of the origins.
    #[must_use]
    pub fn are_at(&self, host: &str) -> bool {
        self.all.iter().any(|one| one.origin.is_at(host))
    }

    /// Requester Pays: a client accepted the charges of this bucket, so Zonal's own requests for
    /// the bucket accept them too.
    pub fn note_requester_pays(&self, bucket: &str) {
        if let Ok(named) = self.of(bucket) {
            named.origin.note_requester_pays(bucket);
        }
    }

    /// True if Zonal's own requests for this bucket accept charges (Requester Pays).
    #[must_use]
    pub fn is_paid(&self, bucket: &str) -> bool {
        self.of(bucket).is_ok_and(|named| named.origin.is_paid(bucket))
    }

    /// Metadata of an object; see [`Origin::head`].
    ///
    /// # Errors
    /// As in [`Origin::head`], and `NoSuchBucket`.
    pub async fn head(&self, object: &ObjectName) -> Result<ObjectHead, OriginError> {
        self.of(&object.bucket)?.origin.head(object).await
    }

    /// Head and bytes of an object; see [`Origin::get_object`].
    ///
    /// # Errors
    /// As in [`Origin::get_object`], and `NoSuchBucket`.
    pub async fn get_object(
        &self,
        object: &ObjectName,
        range: &RangeSpec,
        if_match: Option<&str>,
    ) -> Result<ObjectResponse, OriginError> {
        self.of(&object.bucket)?.origin.get_object(object, range, if_match).await
    }

    /// Page of a list; see [`Origin::list`].
    ///
    /// # Errors
    /// As in [`Origin::list`], and `NoSuchBucket`.
    pub async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        next: Option<&str>,
    ) -> Result<Page, OriginError> {
        let named = self.of(bucket)?;
        named.origin.list(bucket, prefix, next).await.map_err(|error| error.at(&named.name))
    }

    /// Forwards a request; see [`Origin::forward`].
    ///
    /// Requires: the path (or [`PassThroughSigned`]) names a bucket, or there [is one](Self::is_one) origin.
    ///
    /// # Errors
    /// As in [`Origin::forward`], and `NoSuchBucket`.
    pub async fn forward(
        &self,
        request: Request<BoxBody>,
    ) -> Result<Response<BoxBody>, OriginError> {
        let path = request.uri().path().trim_start_matches('/');
        let bucket = decode_path(path.split('/').next().unwrap_or_default()).unwrap_or_default();
        let signed = request.extensions().get::<PassThroughSigned>();
        self.of(signed.map_or(&*bucket, |signed| &*signed.bucket))?.forward(request).await
    }
}

impl ConfiguredOrigin {
    /// Forwards a request; see [`Origin::forward`]. An error of an unreachable origin names the
    /// origin.
    ///
    /// # Errors
    /// As in [`Origin::forward`].
    pub async fn forward(
        &self,
        request: Request<BoxBody>,
    ) -> Result<Response<BoxBody>, OriginError> {
        self.origin.forward(request).await.map_err(|error| error.at(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::OriginLimits;
    use crate::s3::S3Origin;

    fn origins(buckets: &[&[&str]]) -> Origins {
        let named = buckets.iter().enumerate().map(|(n, buckets)| {
            let (endpoint, region) = ("http://127.0.0.1:1".parse().unwrap(), "r".to_owned());
            let origin = S3Origin::open(endpoint, region, None, OriginLimits::default()).unwrap();
            let buckets = buckets.iter().map(|bucket| (*bucket).to_owned()).collect();
            ConfiguredOrigin {
                name: n.to_string(),
                origin: origin.into(),
                buckets,
                reserved: vec!["r".to_owned()],
            }
        });
        Origins::new(named.collect())
    }

    #[test]
    fn a_bucket_is_in_the_origin_that_names_it() {
        let closed = origins(&[&["a", "b"], &["c"]]);
        assert!(closed.has("a") && closed.has("c") && !closed.has("d") && !closed.is_one());
        assert!(closed.are_together("a", "b") && !closed.are_together("a", "c"));
        assert!(!closed.are_together("d", "d"));
        let open = origins(&[&["a"], &[]]);
        assert!(open.are_together("c", "d") && !open.are_together("a", "c"));
        assert!(open.is_reserved("r") && open.is_reserved("R") && !open.is_reserved("a"));
        assert!(!closed.is_reserved("r"), "it is nobody's");
        assert!(origins(&[&[]]).is_one());
        assert!(!origins(&[&["a"]]).is_one());
    }
}
