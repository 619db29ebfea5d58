//! A bucket of a read-only store: cached like any other, and writes are refused.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG};
use http::{Response, StatusCode, response};
use zonal_gateway::{CacheStatus, Limits};
use zonal_host::Freshness;
use zonal_origin::{
    ConfiguredOrigin, KeyPage, OriginError, Origins, PageRequest, RangeSpec, ReadOnlyOrigin,
    ReadOnlyStore, StoreFuture,
};
use zonal_s3::{BoxBody, full_body};

use crate::client::{Ask, ask, get};
use crate::world::World;

const BYTES: &[u8] = b"0123456789";

/// A store with the same object under every key.
#[derive(Clone, Debug, Default)]
struct OneObject {
    etag: Arc<Mutex<Option<&'static str>>>,
    asked: Arc<AtomicU64>,
}

impl OneObject {
    fn answer(&self, range: &RangeSpec) -> Response<BoxBody> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut answer = Response::builder();
        if let Some(etag) = *self.etag.lock().unwrap() {
            answer = answer.header(ETAG, etag);
        }
        let bytes = match range {
            RangeSpec::Whole => BYTES,
            range => {
                let Range { start, end } = range.in_object(10);
                answer = answer.status(StatusCode::PARTIAL_CONTENT);
                answer = answer.header(CONTENT_RANGE, format!("bytes {start}-{}/10", end - 1));
                &BYTES[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()]
            }
        };
        let answer = answer.header(CONTENT_LENGTH, bytes.len());
        answer.body(full_body(Bytes::from_static(bytes))).unwrap()
    }
}

impl ReadOnlyStore for OneObject {
    fn head<'a>(&'a self, _: &'a str) -> StoreFuture<'a, response::Parts> {
        Box::pin(async { Ok(self.answer(&RangeSpec::Whole).into_parts().0) })
    }

    fn get<'a>(
        &'a self,
        _: &'a str,
        range: RangeSpec,
        _: Option<&'a str>,
    ) -> StoreFuture<'a, Response<BoxBody>> {
        Box::pin(async move { Ok(self.answer(&range)) })
    }

    fn has_suffix_ranges(&self) -> bool {
        true
    }

    fn list<'a>(&'a self, _: PageRequest<'a>) -> StoreFuture<'a, KeyPage> {
        Box::pin(async { Ok(KeyPage::default()) })
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Err(OriginError::Changed) })
    }
}

async fn world(etag: Option<&'static str>) -> (World, OneObject) {
    let store = OneObject::default();
    *store.etag.lock().unwrap() = etag;
    let limits = zonal_origin::OriginLimits::default();
    let origin = ReadOnlyOrigin::new(Box::new(store.clone()), "b".to_owned(), limits).into();
    let buckets = vec!["b".to_owned()];
    let (name, reserved) = ("store".to_owned(), Vec::new());
    let origins = Origins::new(vec![ConfiguredOrigin { name, origin, buckets, reserved }]);
    let folder = tempfile::tempdir().unwrap();
    (World::over(folder, origins, Freshness::Immutable, Limits::default()).await, store)
}

#[tokio::test]
async fn it_is_cached() {
    let (world, store) = world(Some("\"1\"")).await;
    for expected in ["MISS", "HIT"] {
        let answer = get(world.address, "/b/k").await;
        assert_eq!((answer.body.as_slice(), answer.header("x-cache")), (BYTES, expected));
        world.settle().await;
    }
    let asked = store.asked.load(Ordering::Relaxed);
    let part = ask(world.address, Ask::new("GET", "/b/k").with("range", "bytes=-3")).await;
    assert_eq!((part.status, part.text().as_str(), part.header("x-cache")), (206, "789", "HIT"));
    assert_eq!(store.asked.load(Ordering::Relaxed), asked);
}

#[tokio::test]
async fn what_would_write_is_refused_and_removes_nothing() {
    let (world, store) = world(Some("\"1\"")).await;
    assert_eq!(get(world.address, "/b/k").await.body, BYTES);
    world.settle().await;
    let asked = store.asked.load(Ordering::Relaxed);
    let delete = "<Delete><Object><Key>k</Key></Object></Delete>";
    for (method, uri, body) in [
        ("PUT", "/b/k", "new"),
        ("DELETE", "/b/k", ""),
        ("POST", "/b?delete", delete),
        ("POST", "/b/k?uploads", ""),
        ("PUT", "/b/k?uploadId=1&partNumber=1", "part"),
        ("POST", "/b/k?uploadId=1", "<CompleteMultipartUpload/>"),
        ("PUT", "/b/k?tagging", "<Tagging/>"),
        ("PUT", "/b/n?renameObject", ""),
        ("PUT", "/b", ""),
        ("DELETE", "/b", ""),
    ] {
        let answer = ask(world.address, Ask::new(method, uri).body(body)).await;
        let seen = (answer.status, answer.code());
        assert_eq!(seen, (405, "MethodNotAllowed".to_owned()), "{method} {uri}");
    }
    let copy = Ask::new("PUT", "/b/n").with("x-amz-copy-source", "/b/k");
    assert_eq!(ask(world.address, copy).await.status, 405);
    assert_eq!(world.gateway.stats().removals.get(), 0);
    assert_eq!(get(world.address, "/b/k").await.header("x-cache"), "HIT");
    assert_eq!(store.asked.load(Ordering::Relaxed), asked);
}

#[tokio::test]
async fn what_has_no_strong_entity_tag_goes_past_the_cache() {
    for etag in [None, Some("W/\"1\"")] {
        let (world, _) = world(etag).await;
        for _ in 0..2 {
            let answer = get(world.address, "/b/k").await;
            assert_eq!((answer.body.as_slice(), answer.header("x-cache")), (BYTES, "BYPASS"));
        }
        assert_eq!(world.outcomes(CacheStatus::Hit), 0);
    }
}
