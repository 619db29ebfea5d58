//! Read dispatch: serves an object read from the cache, or forwards it with the reason.

use http::HeaderMap;
use http::request::Parts;
use zonal_host::ObjectName;
use zonal_s3::S3Error;

use crate::answer::Answer;
use crate::api::RequestAttributes;
use crate::auth::Payload;
use crate::bypass::Bypass;
use crate::config::RuntimeConfig;
use crate::gateway::Gateway;
use crate::get_object::get_object;
use crate::head_object::head_object;
use crate::operation::Operation;
use crate::owner_cache::{self, Confirming};
use crate::read::{self, NotServed, Read};
use crate::s3_request::S3Request;
use crate::stats::CacheStatus;

/// Serves a read from the cache. The inner `Err` is the reason to forward it to the origin.
pub(crate) async fn serve(
    gateway: &Gateway,
    runtime_config: &RuntimeConfig,
    (asked, judged, name): (&S3Request<'_>, &RequestAttributes, &ObjectName),
    (request, has_body): (&Parts, bool),
    payload: &Payload,
) -> Result<Result<Answer, Bypass>, S3Error> {
    if judged.requester_pays {
        gateway.origins().note_requester_pays(name.bucket());
    }
    let read = match Read::of((gateway, runtime_config), (asked, judged), name, (request, has_body))
    {
        Ok(read) => read,
        Err(bypass) => return Ok(Err(bypass)),
    };
    read::check_payload(payload)?;
    let owner = judged.owner.as_deref().map(|owner| (owner, judged));
    let mut confirmed = Confirming::Anew;
    if let Some(owner) = owner {
        let check = owner_cache::check(gateway, &read, owner, Confirming::FromMemory);
        match Box::pin(check).await? {
            Ok(how) => confirmed = how,
            Err(reason) => return Ok(Err(reason.into())),
        }
    }
    let served = match asked.operation() {
        Operation::HeadObject => head_object(gateway, &read).await,
        _ => get_object(gateway, &read).await,
    };
    // Bytes that were just fetched from the origin need a confirmation that is just as new.
    if let (Ok(answer), Some(owner), Confirming::FromMemory) = (&served, owner, confirmed)
        && matches!(answer.outcome, Some(CacheStatus::Miss | CacheStatus::Bypass))
    {
        let check = owner_cache::check(gateway, &read, owner, Confirming::Anew);
        if let Err(reason) = Box::pin(check).await? {
            return Ok(Err(reason.into()));
        }
    }
    match served {
        Ok(answer) => Ok(Ok(answer)),
        Err(NotServed::Forward(reason)) => Ok(Err(reason.into())),
        Err(NotServed::Absent) => {
            let error = S3Error::no_such_key();
            Ok(Ok(Answer::refusal(error, HeaderMap::new(), CacheStatus::Hit)))
        }
        Err(NotServed::Missing) => {
            let error = S3Error::no_such_key();
            Ok(Ok(Answer::refusal(error, HeaderMap::new(), CacheStatus::Miss)))
        }
        Err(NotServed::Refuse(error)) => Err(error),
    }
}
