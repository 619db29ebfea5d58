//! Tests of the folder origin through its public interface: the shared fixture.

mod buckets;
mod concurrency;
mod conformance;
mod lists;
mod multipart;
mod reads;
mod writes;

use std::fs;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use zonal_origin::{ObjectName, Origin, OriginBody, OriginError};
use zonal_s3::sigv4::sha256_hex;
use zonal_s3::{BoxBody, full_body};

use super::*;

/// A folder with one bucket `b`. Dropping it removes the folder.
struct Fixture {
    root: PathBuf,
    origin: Origin,
}

impl Fixture {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("zonal-folder-test-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(root.join("b")).unwrap();
        let origin =
            Origin::from(FolderOrigin::open(root.clone(), &OriginLimits::default()).unwrap());
        Self { root, origin }
    }

    fn with(keys: &[&str]) -> Self {
        let fixture = Self::new();
        for key in keys {
            fixture.write(key, key);
        }
        fixture
    }

    /// Writes a file as another program would.
    fn write(&self, key: &str, contents: &str) {
        let path = self.root.join("b").join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    async fn get(
        &self,
        key: &str,
        range: Range<u64>,
        if_match: Option<&str>,
    ) -> Result<Vec<u8>, OriginError> {
        collect(self.origin.get(&object(key), range, if_match).await?).await
    }

    async fn etag(&self, key: &str) -> String {
        self.origin.head(&object(key)).await.unwrap().etag.unwrap()
    }

    async fn send(&self, request: Request<BoxBody>) -> (u16, String, Response<()>) {
        let response = self.origin.forward(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        (parts.status.as_u16(), body, Response::from_parts(parts, ()))
    }

    async fn ask(&self, method: Method, uri: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(uri).body(full_body("")).unwrap();
        let (status, body, _) = self.send(request).await;
        (status, body)
    }

    /// Puts an object. Returns the status and the ETag.
    async fn put(&self, key: &str, body: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let mut request = Request::put(format!("/b/{key}")).header("content-length", body.len());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(full_body(body.to_owned())).unwrap();
        let (status, text, response) = self.send(request).await;
        let etag = response.headers().get("etag");
        (status, etag.map_or(text, |etag| etag.to_str().unwrap().to_owned()))
    }

    /// The keys and common prefixes of a page, and the token of the next page.
    async fn list(&self, query: &str) -> (Vec<String>, Option<String>) {
        let (status, xml) = self.ask(Method::GET, &format!("/b/?{query}")).await;
        assert_eq!(status, 200, "{xml}");
        let (_, contents) = xml.split_once("</IsTruncated>").unwrap();
        let mut names = Vec::new();
        for part in contents.split("<Contents>").flat_map(|part| part.split("<CommonPrefixes>")) {
            let key = part.strip_prefix("<Key>").or_else(|| part.strip_prefix("<Prefix>"));
            names.extend(key.map(|key| key.split('<').next().unwrap().to_owned()));
        }
        let token = zonal_s3::xml::first_text(&xml, "NextContinuationToken")
            .or_else(|| zonal_s3::xml::first_text(&xml, "NextMarker"));
        assert_eq!(token.is_some(), xml.contains("<IsTruncated>true<"), "{xml}");
        (names, token)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).unwrap();
    }
}

fn object(key: &str) -> ObjectName {
    ObjectName::new("b", key)
}

async fn collect(mut body: OriginBody) -> Result<Vec<u8>, OriginError> {
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece?);
    }
    Ok(bytes)
}
