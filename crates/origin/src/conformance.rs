//! Conformance suite of object stores: the promises on which the cache and list clients rely, for
//! any implementation.
//!
//! A check panics when a promise is broken. The suite needs an origin with a bucket, and a way to
//! put objects there. A read-only origin is written through its backing store.

use std::ops::Range;

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_MATCH, IF_NONE_MATCH, RANGE};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use zonal_base::RangeSpec;
use zonal_s3::full_body;

use crate::error::OriginError;
use crate::object::{ObjectHead, ObjectName};
use crate::origin::Origin;

/// The origin under test, and a way to put objects there.
#[derive(Debug)]
pub struct Subject<'a, P> {
    /// The origin under test.
    pub origin: &'a Origin,
    /// An existing empty bucket of the origin.
    pub bucket: &'a str,
    /// Puts an object with these bytes, or replaces it. The next read sees the new object.
    pub put: P,
}

/// Checks heads, pinned ranges, and forwarded reads.
pub async fn reads<P: AsyncFn(&str, &[u8])>(subject: &Subject<'_, P>) {
    subject.a_head_tells_size_and_version().await;
    subject.a_range_is_exactly_what_was_asked_for().await;
    subject.a_version_is_not_mixed_with_the_next().await;
    subject.a_range_that_is_not_there_is_told().await;
    subject.a_first_read_brings_head_and_bytes().await;
    subject.a_first_read_of_a_version_is_of_that_version().await;
    subject.what_is_not_there_is_named_as_s3_names_it().await;
    subject.keys_are_told_apart().await;
    subject.clients_are_answered_as_by_s3().await;
}

/// Checks lists.
///
/// # Panics
/// When a promise is broken.
pub async fn lists<P: AsyncFn(&str, &[u8])>(subject: &Subject<'_, P>) {
    let keys = ["list/a/1", "list/a/2", "list/a/b/3", "list/ab", "list/b/4 &é", "list/c"];
    for key in keys {
        (subject.put)(key, key.as_bytes()).await;
    }
    let all = |prefix| async move {
        let (mut keys, mut next) = (Vec::new(), None);
        loop {
            let page = subject.origin.list(subject.bucket, prefix, next.as_deref()).await;
            let page = page.expect("a list");
            keys.extend(page.keys);
            next = page.next;
            if next.is_none() {
                return keys;
            }
        }
    };
    assert_eq!(all("list/").await, keys);
    assert_eq!(all("list/a").await, keys[..4], "a prefix is a string");
    assert_eq!(all("list/none").await, [""; 0]);
    let grouped = subject.list("list-type=2&prefix=list/&delimiter=/").await;
    assert_eq!(grouped, ["list/a/", "list/ab", "list/b/", "list/c"]);
    assert_eq!(subject.list("prefix=list/&delimiter=/").await, grouped, "the older list");
    let after = subject.list("list-type=2&prefix=list/&start-after=list/ab").await;
    assert_eq!(after, keys[4..]);
    let after = subject.list("prefix=list/&marker=list/a/&delimiter=/").await;
    assert_eq!(after, grouped[1..], "behind a group");
    for (query, expected) in [("list-type=2&", &keys[..]), ("", &keys[..])] {
        assert_eq!(subject.list(&format!("{query}prefix=list/&max-keys=2")).await, expected);
    }
    let query = "list-type=2&prefix=list/&delimiter=/&max-keys=1";
    assert_eq!(subject.list(query).await, grouped, "by pages of one");
}

/// Checks that the store refuses all writes.
///
/// # Panics
/// When a write succeeds, or is refused in another way than S3 does.
pub async fn refusals_to_write<P: AsyncFn(&str, &[u8])>(subject: &Subject<'_, P>) {
    (subject.put)("kept", b"bytes").await;
    for (method, path) in [
        (Method::PUT, "kept"),
        (Method::PUT, "new"),
        (Method::DELETE, "kept"),
        (Method::POST, "kept?uploads"),
        (Method::PUT, "kept?uploadId=1&partNumber=1"),
        (Method::POST, "kept?uploadId=1"),
        (Method::PUT, "kept?tagging"),
        (Method::POST, "?delete"),
        (Method::PUT, ""),
        (Method::DELETE, ""),
    ] {
        let (answer, text) = subject.ask(&method, path, &[]).await;
        assert_eq!(answer.status(), 405, "{method} {path}: {text}");
        assert!(text.contains("<Code>MethodNotAllowed</Code>"), "{method} {path}: {text}");
    }
    assert_eq!(subject.get("kept", 0..5, None).await, Ok(b"bytes".to_vec()));
    let new = subject.origin.head(&subject.object("new")).await;
    assert!(matches!(new, Err(OriginError::NotFound(_))), "{new:?}");
}

impl<P: AsyncFn(&str, &[u8])> Subject<'_, P> {
    fn object(&self, key: &str) -> ObjectName {
        ObjectName::new(self.bucket, key)
    }

    async fn head(&self, key: &str) -> ObjectHead {
        self.origin.head(&self.object(key)).await.expect("a head")
    }

    async fn get(
        &self,
        key: &str,
        range: Range<u64>,
        if_match: Option<&str>,
    ) -> Result<Vec<u8>, OriginError> {
        let mut body = self.origin.get(&self.object(key), range, if_match).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = body.next().await {
            bytes.extend_from_slice(&piece?);
        }
        Ok(bytes)
    }

    /// Forwards a request for a path in the bucket.
    async fn ask(
        &self,
        method: &Method,
        path: &str,
        headers: &[(http::HeaderName, &str)],
    ) -> (Response<()>, String) {
        let uri = format!("/{}/{path}", self.bucket);
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let request = request.body(full_body("")).expect("a request");
        let (parts, body) = self.origin.forward(request).await.expect("an answer").into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        (Response::from_parts(parts, ()), String::from_utf8_lossy(&body).into_owned())
    }

    /// The names on all pages of a list.
    async fn list(&self, query: &str) -> Vec<String> {
        let (mut names, mut more) = (Vec::new(), String::new());
        loop {
            let path = format!("?{query}{more}");
            let (answer, xml) = self.ask(&Method::GET, &path, &[]).await;
            assert_eq!(answer.status(), 200, "{path}: {xml}");
            let mut page: Vec<String> = texts(&xml, "<Contents>", "<Key>");
            page.extend(texts(&xml, "<CommonPrefixes>", "<Prefix>"));
            page.sort();
            names.extend(page);
            let token = texts(&xml, "", "<NextContinuationToken>").pop();
            let marker = texts(&xml, "", "<NextMarker>").pop();
            let Some((name, next)) = token
                .map(|token| ("continuation-token", token))
                .or(marker.map(|marker| ("marker", marker)))
            else {
                assert!(xml.contains("<IsTruncated>false<"), "{xml}");
                return names;
            };
            more = format!("&{name}={}", zonal_s3::sigv4::encode_query_value(&next));
        }
    }

    async fn a_head_tells_size_and_version(&self) {
        (self.put)("dir/head", b"0123456789").await;
        let head = self.head("dir/head").await;
        assert_eq!(head.size, 10);
        let etag = head.strong_etag().expect("a strong entity tag");
        assert!(etag.starts_with('"') && etag.ends_with('"'), "{etag}");
        let modified = head.last_modified.expect("a date");
        assert!(modified.ends_with(" GMT"), "{modified}");
    }

    async fn a_range_is_exactly_what_was_asked_for(&self) {
        let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        (self.put)("large", &bytes).await;
        let head = self.head("large").await;
        let etag = head.strong_etag();
        for range in [0..1, 0..1_200_000, 65_536..131_072, 1_199_999..1_200_000] {
            let expected = &bytes[zonal_base::index(range.start)..zonal_base::index(range.end)];
            let seen = self.get("large", range.clone(), etag).await.expect("a range");
            assert!(seen == expected, "{range:?}");
        }
        let unpinned = self.get("large", 4..8, None).await.expect("a range");
        assert_eq!(unpinned, [1, 0, 0, 0]);
    }

    async fn a_version_is_not_mixed_with_the_next(&self) {
        (self.put)("changing", b"old bytes").await;
        let old = self.head("changing").await;
        (self.put)("changing", b"new bytes").await;
        let new = self.head("changing").await;
        assert_ne!(old.etag, new.etag, "as long, and another version");
        let changed = self.get("changing", 0..3, old.strong_etag()).await;
        assert_eq!(changed, Err(OriginError::Changed));
        assert_eq!(self.get("changing", 0..3, new.strong_etag()).await, Ok(b"new".to_vec()));
    }

    async fn a_range_that_is_not_there_is_told(&self) {
        (self.put)("short", b"0123").await;
        let etag = self.head("short").await.etag;
        let behind = self.get("short", 4..8, etag.as_deref()).await;
        assert_eq!(behind, Err(OriginError::RangeNotSatisfiable));
        let beyond = self.get("short", 2..8, etag.as_deref()).await;
        assert_eq!(beyond, Err(OriginError::Changed));
    }

    async fn get_object(
        &self,
        key: &str,
        range: &RangeSpec,
        if_match: Option<&str>,
    ) -> Result<(ObjectHead, Range<u64>, Vec<u8>), OriginError> {
        let mut response = self.origin.get_object(&self.object(key), range, if_match).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = response.body.next().await {
            bytes.extend_from_slice(&piece?);
        }
        Ok((response.head, response.range, bytes))
    }

    async fn a_first_read_brings_head_and_bytes(&self) {
        let object = b"0123456789";
        (self.put)("first", object).await;
        (self.put)("first-empty", b"").await;
        let told = self.head("first").await;
        for (range, expected) in [
            (RangeSpec::Whole, 0..10),
            (RangeSpec::Int(2..5), 2..5),
            (RangeSpec::Int(2..40), 2..10),
            (RangeSpec::Int(2..u64::MAX), 2..10),
            (RangeSpec::Suffix(3), 7..10),
            (RangeSpec::Suffix(30), 0..10),
            (RangeSpec::Int(20..30), 10..10),
        ] {
            let seen = self.get_object("first", &range, None).await.expect("an object");
            let (head, range_seen, bytes) = seen;
            assert_eq!((head.size, &head.etag), (10, &told.etag), "{range:?}");
            assert_eq!(head.last_modified, told.last_modified, "{range:?}");
            // An origin without ranges sends all of it.
            let sent = if range_seen == (0..10) { 0..10 } else { expected };
            assert_eq!(range_seen, sent, "{range:?}");
            let sent = zonal_base::index(sent.start)..zonal_base::index(sent.end);
            assert_eq!(bytes, object[sent], "{range:?}");
        }
        for range in [RangeSpec::Whole, RangeSpec::Int(0..10), RangeSpec::Suffix(10)] {
            let seen = self.get_object("first-empty", &range, None).await.expect("an object");
            assert_eq!((seen.0.size, seen.1, seen.2), (0, 0..0, vec![]), "{range:?}");
        }
        let none = self.get_object("first-none", &RangeSpec::Whole, None).await;
        assert!(matches!(none, Err(OriginError::NotFound(_))), "{none:?}");
    }

    async fn a_first_read_of_a_version_is_of_that_version(&self) {
        (self.put)("first-changing", b"old bytes").await;
        let old = self.head("first-changing").await;
        let same = self.get_object("first-changing", &RangeSpec::Int(0..3), old.strong_etag());
        assert_eq!(same.await.expect("the version").2, b"old");
        (self.put)("first-changing", b"new bytes").await;
        for range in [RangeSpec::Whole, RangeSpec::Int(0..3), RangeSpec::Int(20..30)] {
            let changed = self.get_object("first-changing", &range, old.strong_etag()).await;
            assert_eq!(changed.map(|seen| seen.1), Err(OriginError::Changed), "{range:?}");
        }
    }

    async fn what_is_not_there_is_named_as_s3_names_it(&self) {
        let none = self.origin.head(&self.object("dir/none")).await;
        assert!(matches!(none, Err(OriginError::NotFound(_))), "{none:?}");
        let none = self.get("dir/none", 0..1, None).await;
        assert!(matches!(none, Err(OriginError::NotFound(_))), "{none:?}");
        let (answer, text) = self.ask(&Method::GET, "dir/none", &[]).await;
        assert_eq!(answer.status(), 404);
        assert!(text.contains("<Code>NoSuchKey</Code>"), "{text}");
        let elsewhere = ObjectName::new("no-such-bucket", "k");
        let none = self.origin.head(&elsewhere).await;
        assert!(matches!(none, Err(OriginError::NotFound(_))), "{none:?}");
    }

    async fn keys_are_told_apart(&self) {
        let keys = ["odd/a b+c", "odd/a%20b+c", "odd/é&?#=", "odd/x.y~z_-"];
        for key in keys {
            (self.put)(key, key.as_bytes()).await;
        }
        for key in keys {
            let size = self.head(key).await.size;
            let bytes = self.get(key, 0..size, None).await.expect("its bytes");
            assert_eq!(String::from_utf8_lossy(&bytes), key);
        }
    }

    async fn clients_are_answered_as_by_s3(&self) {
        (self.put)("asked", b"0123456789").await;
        let etag = self.head("asked").await.etag.expect("an entity tag");
        let (whole, text) = self.ask(&Method::GET, "asked", &[]).await;
        assert_eq!((whole.status().as_u16(), &*text), (200, "0123456789"));
        assert_eq!(whole.headers()[ETAG], etag);
        assert_eq!(whole.headers()[CONTENT_LENGTH], "10");
        let (head, text) = self.ask(&Method::HEAD, "asked", &[]).await;
        assert_eq!((head.status().as_u16(), &*text), (200, ""));
        assert_eq!(head.headers()[CONTENT_LENGTH], "10");
        for (range, expected, content_range) in [
            ("bytes=2-4", "234", "bytes 2-4/10"),
            ("bytes=7-", "789", "bytes 7-9/10"),
            ("bytes=-2", "89", "bytes 8-9/10"),
        ] {
            let (part, text) = self.ask(&Method::GET, "asked", &[(RANGE, range)]).await;
            assert_eq!((part.status().as_u16(), &*text), (206, expected), "{range}");
            assert_eq!(part.headers()[CONTENT_RANGE], content_range);
        }
        for (header, value, status) in [
            (RANGE, "bytes=10-", 416),
            (IF_NONE_MATCH, &*etag, 304),
            (IF_NONE_MATCH, "\"other\"", 200),
            (IF_MATCH, &*etag, 200),
            (IF_MATCH, "\"other\"", 412),
        ] {
            let (answer, text) = self.ask(&Method::GET, "asked", &[(header, value)]).await;
            assert_eq!(answer.status(), status, "{value}: {text}");
        }
        (self.put)("empty", b"").await;
        let (empty, text) = self.ask(&Method::GET, "empty", &[]).await;
        assert_eq!((empty.status().as_u16(), &*text), (200, ""));
        let (bucket, _) = self.ask(&Method::HEAD, "", &[]).await;
        assert_eq!(bucket.status(), 200);
    }
}

/// The text of `element` in each part of the document that starts with `begin`.
fn texts(xml: &str, begin: &str, element: &str) -> Vec<String> {
    let pieces: Vec<&str> = match begin {
        "" => vec![xml],
        begin => xml.split(begin).skip(1).collect(),
    };
    let text = |piece: &&str| {
        let (_, rest) = piece.split_once(element)?;
        let (text, _) = rest.split_once("</")?;
        Some(text.replace("&amp;", "&").replace("&quot;", "\""))
    };
    pieces.iter().filter_map(text).collect()
}
