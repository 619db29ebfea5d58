//! Admission of a request, before anything is done: who sends it, which operation it is, whether its
//! key may do that, and whether the origins can.

use std::sync::Arc;
use std::time::SystemTime;

use http::request::Parts;
use zonal_host::ObjectName;
use zonal_s3::S3Error;
use zonal_s3::sigv4::Timestamp;

use crate::access;
use crate::api::{ApiOperation, JudgeError, MatchedOperation, RequestAttributes};
use crate::auth::{AccessKey, Payload, Signed};
use crate::config::{RuntimeConfig, WouldRefuse};
use crate::error;
use crate::gateway::Gateway;
use crate::operation::Operation;
use crate::s3_request::S3Request;
use crate::target::Target;

/// A request that passed authentication and authorization.
pub(crate) struct Admitted {
    pub(crate) api: MatchedOperation,
    pub(crate) judged: RequestAttributes,
    pub(crate) key: Arc<AccessKey>,
    /// The signed payload.
    pub(crate) payload: Payload,
}

impl Gateway {
    /// Authenticates and authorizes a request. Unknown keys, unknown operations and missing rights
    /// are refused at this one point, before anything is done.
    pub(crate) fn authorize(
        &self,
        runtime_config: &RuntimeConfig,
        asked: &S3Request<'_>,
        object: Option<&ObjectName>,
        request: &Parts,
    ) -> Result<Admitted, S3Error> {
        let now = Timestamp::from_system_time(SystemTime::now());
        let signed =
            self.verifier().verify(&runtime_config.access_keys, request, &asked.query, now);
        let admitted = signed.map_err(S3Error::from).and_then(|Signed { key, payload }| {
            let (api, judged) = self.judge(runtime_config, asked, request)?;
            for rules in [&runtime_config.access, &key.rules] {
                access::check(rules, (&api, asked), object, &judged)?;
            }
            Ok(Admitted { api, judged, key, payload })
        });
        admitted.inspect_err(|error| self.stats().count_refusal(error.code))
    }

    /// Matches the request with its operation, and checks its parameters and headers.
    ///
    /// # Errors
    /// A part of the request is unknown or ambiguous.
    pub(crate) fn judge(
        &self,
        runtime_config: &RuntimeConfig,
        asked: &S3Request<'_>,
        request: &Parts,
    ) -> Result<(MatchedOperation, RequestAttributes), S3Error> {
        let judge = |api: &ApiOperation| {
            api.judge(&asked.query, &request.headers, &runtime_config.vendor_headers)
        };
        let judged = match asked.api {
            Some(api) => judge(api).map(|judged| (MatchedOperation::Row(api), judged)),
            None if ApiOperation::has_method(request.method.as_str()) => {
                Err(JudgeError::Unknown(error::unknown_operation()))
            }
            None => return Err(S3Error::method_not_allowed()),
        };
        let refused = match judged {
            Ok(judged) => return Ok(judged),
            Err(JudgeError::Refused(error)) => return Err(error),
            Err(JudgeError::Unknown(error)) => error,
        };
        if self.config().would_refuse == WouldRefuse::Refuse {
            return Err(refused);
        }
        let loosened = match asked.api {
            Some(api) => Some(api.loosened()),
            None => ApiOperation::unknown(request.method.as_str(), &asked.target),
        };
        let Some(loosened) = loosened else { return Err(refused) };
        let judged = judge(&loosened)?;
        self.stats().would_refuse.add(1);
        tracing::warn!(
            method = %request.method,
            path = asked.path,
            operation = loosened.name,
            what = refused.details.first().map(|(_, name)| name.as_str()),
            "unknown request forwarded: Zonal will refuse it when endpoint.would-refuse is no \
             longer log"
        );
        Ok((MatchedOperation::Changed(loosened.into()), judged))
    }

    /// Checks that the origins can carry out the request: reserved names are not buckets, the
    /// bucket has an origin, a read-only origin takes no writes, and a copy stays within one
    /// origin.
    pub(crate) fn check_origins(
        &self,
        asked: &S3Request<'_>,
        judged: &RequestAttributes,
        request: &Parts,
    ) -> Result<(), S3Error> {
        let origins = self.origins();
        let source = judged.source.as_ref().map(|source| source.object.bucket());
        if asked.target.bucket().into_iter().chain(source).any(|name| origins.is_reserved(name)) {
            return Err(error::reserved_name());
        }
        if origins.is_one() {
            return Ok(());
        }
        let bucket = match &asked.target {
            Target::Object { bucket, .. } | Target::Bucket(bucket) => bucket,
            Target::Service if asked.operation() == Operation::ListBuckets => return Ok(()),
            Target::Service => return Err(S3Error::not_implemented(NOT_OF_ONE)),
        };
        if !origins.has(bucket) {
            return Err(S3Error::no_such_bucket());
        }
        // Checked before any invalidation, so that cached objects of a read-only bucket stay.
        if !request.method.is_safe() && origins.is_read_only(bucket) {
            return Err(error::read_only());
        }
        let is_here = |source| origins.are_together(bucket, source);
        if source.is_none_or(is_here) { Ok(()) } else { Err(S3Error::not_implemented(NO_COPY)) }
    }
}

pub(crate) const NOT_OF_ONE: &str =
    "This endpoint has several origins: the request must name a bucket.";
const NO_COPY: &str = "The source and the target of this copy are in different origins: read the \
                       source and write the target.";
