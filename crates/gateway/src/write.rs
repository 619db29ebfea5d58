//! Write-through: forwards requests that change objects, and invalidates the objects before and
//! after.
//!
//! 1. Take a permit, or answer `SlowDown`: nothing has happened yet.
//! 2. Invalidate, durably. From here on no old bytes can be served, whatever happens to the write.
//! 3. Forward in a task of its own, so that the remaining steps run even when the client
//!    disconnects.
//! 4. When the response is complete, or will never come, invalidate again: a read in between may
//!    have cached the bytes that the write replaced. Only then does the client get the end of the
//!    response.
//!
//! Most responses are short, and are read whole before the second invalidation. A response of
//! unknown length is streamed, except its last piece: S3 may begin to answer long before it has
//! done the work, and sends spaces to keep the connection alive.
//!
//! A write that the origin authorizes ([`PassThroughSigned`]) is invalidated only afterwards, and not at all
//! if it was refused. Otherwise any client could remove cached objects. No old bytes are served in
//! between either, because the origin confirms each version to each reader.
//!
//! If an invalidation does not reach flash, a crash could bring the old bytes back. Under
//! `revalidate` the origin is asked before they are served, so the write proceeds and the failure
//! is counted. Under `ttl` and `immutable` they would be served. Then the write is refused before
//! it is forwarded, or, if the second invalidation fails, it is not acknowledged.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST};
use http::response;
use http::{HeaderMap, Request};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use zonal_host::{FreshnessPolicy, ObjectName, RemoveError, RetentionClass};
use zonal_origin::PassThroughSigned;
use zonal_s3::BoxBody;
use zonal_s3::S3Error;
use zonal_s3::sigv4::decode_path;
use zonal_s3::xml::element;

use crate::access::{FOLDER_OF_MINIO, is_another_to_some};
use crate::answer::Answer;
use crate::api::{ApiOperation, Invalidates};
use crate::body::{BodyAborted, Source};
use crate::bypass::BypassReason;
use crate::concurrency_limits::DocumentPermit;
use crate::config::Authorization;
use crate::error;
use crate::forward::failed;
use crate::gateway::Gateway;
use crate::ids;
use crate::operation::Operation;
use crate::s3_request::S3Request;
use crate::target::Target;

/// Longest response that is read whole: 64 KiB. Responses to writes are a page of XML at most.
const WHOLE_BYTES_MAX: u64 = 64 << 10;

/// Queue length for pieces of a streamed response. Responses to writes are short.
const FRAMES_MAX: usize = 1;

/// Concurrent invalidations of one request. They share flushes of the log: a thousand in a
/// DeleteObjects take about as long as sixteen one after another.
const REMOVALS_AT_ONCE: usize = 64;

type Frames = mpsc::Sender<Result<Frame<Bytes>, BodyAborted>>;
type Begun = (response::Parts, Source);

/// Objects that a write changes. A write changes no bytes of an earlier version, and the version
/// `null` is confirmed at each read, so only the versions that a request names are among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    objects: Vec<ObjectName>,
    /// All objects of this bucket change as well.
    bucket: Option<String>,
    /// The write changes tags, rights or locks of a version. The response tells which one.
    is_of_metadata: bool,
}

impl From<Vec<ObjectName>> for Changes {
    fn from(names: Vec<ObjectName>) -> Self {
        let also: Vec<_> = names.iter().filter_map(normalised).collect();
        Self { objects: names.into_iter().chain(also).collect(), ..Self::default() }
    }
}

impl Changes {
    /// Objects that an operation with this path and these headers changes.
    pub(crate) fn of(api: &ApiOperation, asked: &S3Request<'_>, headers: &HeaderMap) -> Self {
        let object = asked.object();
        match api.invalidates {
            Invalidates::Nothing | Invalidates::NamedInBody => Self::default(),
            Invalidates::Object => {
                let version = object.as_ref().zip(asked.query.get("versionId"));
                let version = version.and_then(|(object, id)| version_of(object, id));
                let changes: Self = object.into_iter().chain(version).collect::<Vec<_>>().into();
                Self { is_of_metadata: api.counted == Operation::ChangeObject, ..changes }
            }
            Invalidates::ObjectAndUpload => {
                object.into_iter().chain(upload(asked)).collect::<Vec<_>>().into()
            }
            Invalidates::Upload => upload(asked).into_iter().collect::<Vec<_>>().into(),
            Invalidates::ObjectAndRenamed => {
                let source = headers.get(RENAME_SOURCE).and_then(|source| source.to_str().ok());
                // A request that is forwarded as signed may have the header in its query.
                let mut in_query = asked.query.iter();
                let in_query = in_query.find(|(name, _)| name.eq_ignore_ascii_case(RENAME_SOURCE));
                let source = source.or(in_query.map(|(_, source)| source));
                let renamed = source.into_iter().flat_map(|source| renamed(asked, source));
                object.into_iter().chain(renamed).collect::<Vec<_>>().into()
            }
            Invalidates::Bucket => match &asked.target {
                Target::Object { bucket, .. } | Target::Bucket(bucket) => {
                    Self { bucket: Some(bucket.to_string()), ..Self::default() }
                }
                Target::Service => Self::default(),
            },
        }
    }
}

impl Changes {
    /// Adds the version whose metadata the write will change, if it names none, as far as the cache
    /// knows it. Some servers do not tell it in their answer.
    async fn add_current_version(&mut self, gateway: &Gateway) {
        let [object] = &self.objects[..] else { return };
        if !self.is_of_metadata {
            return;
        }
        // Its pin is lost, but it is removed in any case.
        let known =
            gateway.client().open(object, FreshnessPolicy::CACHED, RetentionClass::Usual).await;
        let version = known.ok().and_then(|known| version_of(object, &known.head.version_id));
        self.objects.extend(version);
    }

    /// Adds the version whose metadata the write has changed.
    fn note_version(&mut self, answer: &HeaderMap) {
        let id = answer.get(VERSION_ID).and_then(|id| id.to_str().ok());
        let Some(id) = id.filter(|_| self.is_of_metadata) else { return };
        let versions: Vec<_> =
            self.objects.iter().filter_map(|object| version_of(object, id)).collect();
        self.objects.extend(versions);
        self.objects.sort_unstable();
        self.objects.dedup();
    }
}

const VERSION_ID: &str = "x-amz-version-id";

/// The name of a version, if the ID is one.
pub(crate) fn version_of(object: &ObjectName, id: &str) -> Option<ObjectName> {
    let is_id = !id.is_empty() && !ids::is_path_traversal(id);
    is_id.then(|| object.with_version(id))
}

/// The object whose name is the upload id, for an origin that keeps uploads beside objects.
fn upload(asked: &S3Request<'_>) -> Option<ObjectName> {
    let bucket = asked.object()?;
    asked.query.get("uploadId").map(|id| ObjectName::new(bucket.bucket(), id))
}

/// The object that a path-normalising origin takes an odd name for: `a//b`, `a/./b` and `a/x/../b`
/// are `a/b` to it, and `a/` may be `a`, or `a__XLDIR__`. Odd names are never served without asking
/// the origin, so it is enough to invalidate the plain name.
fn normalised(name: &ObjectName) -> Option<ObjectName> {
    if !is_another_to_some(name.without_version()) {
        return None;
    }
    let mut plain: Vec<&str> = Vec::new();
    for segment in name.without_version().split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(plain.pop()),
            segment => plain.push(segment.strip_suffix(FOLDER_OF_MINIO).unwrap_or(segment)),
        }
    }
    let (bucket, key) = plain.split_first().filter(|(_, key)| !key.is_empty())?;
    let plain = ObjectName::new(bucket, &key.join("/"));
    Some(name.version().map_or(plain.clone(), |id| plain.with_version(id)))
}

const RENAME_SOURCE: &str = "x-amz-rename-source";

/// The source of a rename: a key of the same bucket, or a path with the bucket in front. Both are
/// invalidated: a wrong one costs only a miss.
fn renamed(asked: &S3Request<'_>, source: &str) -> Vec<ObjectName> {
    let key = decode_path(source).unwrap_or(Cow::Borrowed(source));
    let mut names = Vec::new();
    if let Target::Object { bucket, .. } = &asked.target {
        names.push(ObjectName::new(bucket, &key));
    }
    let path = format!("/{}", source.trim_start_matches('/'));
    if let Ok(Target::Object { bucket, key }) = Target::parse(&path) {
        names.push(ObjectName::new(&bucket, &key));
    }
    names
}

/// Forwards a request that makes `changes`. `location` is the client's URL of the object in the
/// path. `document` holds the permit of a request body from which `changes` come.
pub(crate) async fn write(
    gateway: &Gateway,
    request: Request<BoxBody>,
    (mut changes, location): (Changes, Option<String>),
    document: Option<DocumentPermit>,
) -> Result<Answer, S3Error> {
    let is_judged = request.extensions().get::<PassThroughSigned>().is_none();
    // A write that would not be sent, or has no permit, removes nothing.
    let place = gateway.place_for(&request, document.as_ref()).await?;
    changes.add_current_version(gateway).await;
    if is_judged {
        forget(gateway, &changes).await?;
    }
    let (begun, has_begun) = oneshot::channel();
    let task = Write { gateway: gateway.clone(), changes, location, is_judged };
    tokio::spawn(async move {
        task.run(request, begun).await;
        drop((place, document));
    });
    let ended = || S3Error::unavailable("The gateway is shutting down.");
    let (parts, source) = has_begun.await.map_err(|_| ended())??;
    Ok(Answer::of_origin(parts, source, BypassReason::Operation.into()))
}

/// A running write. It runs to its end even if the client disconnects.
struct Write {
    gateway: Gateway,
    changes: Changes,
    location: Option<String>,
    /// The gateway has authorized the client. Otherwise the origin does.
    is_judged: bool,
}

/// The URL of a completed multipart upload, as the client addresses it.
pub(crate) fn location(
    gateway: &Gateway,
    asked: &S3Request<'_>,
    headers: &HeaderMap,
) -> Option<String> {
    if asked.operation() != Operation::CompleteMultipartUpload {
        return None;
    }
    let scheme = if gateway.runtime_config().certificate.is_some() { "https" } else { "http" };
    let host = headers.get(HOST)?.to_str().ok()?;
    Some(format!("{scheme}://{host}{}", asked.path))
}

/// Replaces the URL in the response to CompleteMultipartUpload: clients find the object here, and
/// not at the origin.
fn relocated(document: Bytes, location: &str) -> Bytes {
    let (begin, end) = ("<Location>", "</Location>");
    let found = || -> Option<String> {
        let text = str::from_utf8(&document).ok()?;
        let root = text.find("<CompleteMultipartUploadResult")?;
        let from = root + text[root..].find(begin)? + begin.len();
        let to = from + text[from..].find(end)?;
        let mut here = String::new();
        element(&mut here, "Location", location);
        Some([&text[..from - begin.len()], &here, &text[to + end.len()..]].concat())
    };
    found().map_or(document, Bytes::from)
}

impl Write {
    async fn run(
        mut self,
        request: Request<BoxBody>,
        begun: oneshot::Sender<Result<Begun, S3Error>>,
    ) {
        let (parts, body) = match self.gateway.origins().forward(request).await {
            Ok(response) => response.into_parts(),
            Err(error) => return self.end(Err(failed(error)), begun).await,
        };
        self.changes.note_version(&parts.headers);
        if body.size_hint().exact().is_some_and(|bytes| bytes <= WHOLE_BYTES_MAX) {
            let whole = body.collect().await.map(|whole| self.located(parts, whole.to_bytes()));
            let broken =
                |_| error::bad_gateway("The origin's response to the write was incomplete.");
            return self.end(whole.map_err(broken), begun).await;
        }
        let (frames, coming) = mpsc::channel(FRAMES_MAX);
        let _ = begun.send(Ok((parts, Source::Write(coming))));
        let last = pump(body, &frames).await;
        let last = forget(&self.gateway, &self.changes).await.map_err(|_| BodyAborted).and(last);
        if let Some(last) = last.transpose() {
            let _ = frames.send(last).await;
        }
    }

    fn located(&self, mut parts: response::Parts, document: Bytes) -> Begun {
        let document = match &self.location {
            Some(location) => relocated(document, location),
            None => document,
        };
        if parts.headers.contains_key(CONTENT_LENGTH) {
            parts.headers.insert(CONTENT_LENGTH, document.len().into());
        }
        (parts, Source::from(document))
    }

    /// Invalidates, then answers. A failed write may still have changed the object. A write of an
    /// unauthenticated client that the origin refused did not.
    async fn end(
        self,
        answer: Result<Begun, S3Error>,
        begun: oneshot::Sender<Result<Begun, S3Error>>,
    ) {
        let is_refusal = |(parts, _): &Begun| parts.status.is_client_error();
        let may_have_happened = self.is_judged || !answer.as_ref().is_ok_and(is_refusal);
        let removed = match may_have_happened {
            true => forget(&self.gateway, &self.changes).await,
            false => Ok(()),
        };
        let _ = begun.send(removed.and(answer));
    }
}

/// Streams all frames except the last. If the client disconnects, the response is still read to its
/// end, because only then has the write ended.
async fn pump(mut body: BoxBody, frames: &Frames) -> Result<Option<Frame<Bytes>>, BodyAborted> {
    let mut held = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyAborted)?;
        if let Some(before) = held.replace(frame) {
            let _ = frames.send(Ok(before)).await;
        }
    }
    Ok(held)
}

/// Invalidates the changed objects.
async fn forget(gateway: &Gateway, changes: &Changes) -> Result<(), S3Error> {
    let objects = &changes.objects[..];
    let mut failed = match objects {
        [name] => usize::from(gateway.client().remove(name).await.is_err()),
        names => remove_all(gateway, names).await,
    };
    let whole = match &changes.bucket {
        Some(bucket) => gateway.client().remove_below(bucket, "").await,
        None => Ok(()),
    };
    failed += usize::from(whole.is_err());
    let count = objects.len() + usize::from(changes.bucket.is_some());
    gateway.stats().removals.add(count as u64);
    gateway.stats().removals_failed.add(failed as u64);
    let freshness = &gateway.runtime_config().freshness;
    // With origin authorization, the origin confirms each version to each reader.
    let is_confirmed = gateway.config().authorization == Authorization::Origin;
    let below = changes.bucket.as_ref().map(|bucket| format!("{bucket}/"));
    let mut rules = objects.iter().map(|name| freshness.of(name)).collect::<Vec<_>>();
    rules.extend(below.iter().flat_map(|below| freshness.within(below)));
    if failed == 0 || is_confirmed || rules.iter().all(|rule| rule.always_asks()) {
        Ok(())
    } else {
        Err(S3Error::unavailable(RemoveError.to_string()))
    }
}

/// Invalidates many objects concurrently. Returns the number of failures.
async fn remove_all(gateway: &Gateway, names: &[ObjectName]) -> usize {
    let (mut names, mut tasks, mut failed) = (names.iter(), JoinSet::new(), 0);
    loop {
        for name in names.by_ref().take(REMOVALS_AT_ONCE - tasks.len()) {
            let (client, name) = (gateway.client().clone(), name.clone());
            tasks.spawn(async move { client.remove(&name).await });
        }
        let Some(removed) = tasks.join_next().await else { return failed };
        // A panicked invalidation counts as failed.
        failed += usize::from(!matches!(removed, Ok(Ok(()))));
    }
}

#[cfg(test)]
mod tests;
