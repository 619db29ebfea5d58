//! A server over a folder that speaks the read protocol of a store.
//!
//! Google's XML interface is that of S3. A plain web server is the same without lists. Azure has
//! its own terms.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, ETAG, HeaderName, HeaderValue, LOCATION, RANGE, RETRY_AFTER};
use http::{Request, Response, StatusCode, Uri};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use zonal_folder::FolderOrigin;
use zonal_origin::{Origin, OriginLimits};
use zonal_s3::sigv4::encode_query_value;
use zonal_s3::{BoxBody, Query, full_body};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    Google,
    Azure,
    Http,
}

/// Injected behaviour of the server.
#[derive(Clone, Debug, Default)]
struct Manners {
    says: Vec<(&'static str, &'static str)>,
    etag: Option<Option<&'static str>>,
    refuses: Option<(StatusCode, String)>,
    retry_after: Option<&'static str>,
    redirects_to: Option<&'static str>,
    /// One in this many answers begins after this delay.
    is_late: Option<(u64, Duration)>,
    ignores_ranges: bool,
    stalls_after: Option<usize>,
}

pub(super) struct Served {
    address: SocketAddr,
    folder: TempDir,
    manners: Arc<Mutex<Manners>>,
    asked: Arc<AtomicU64>,
    server: JoinHandle<()>,
}

impl Served {
    /// Starts a server with an empty container `b`.
    pub(super) async fn start(speaks: Speaks) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("b")).unwrap();
        let origin =
            FolderOrigin::open(folder.path().to_owned(), &OriginLimits::default()).unwrap();
        let origin = Arc::new(Origin::from(origin));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (manners, asked) = (Arc::<Mutex<Manners>>::default(), Arc::new(AtomicU64::new(0)));
        let (shared, counted) = (manners.clone(), asked.clone());
        let server = tokio::spawn(async move {
            // The set closes the connections when the server ends.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (origin, manners, asked) = (origin.clone(), shared.clone(), counted.clone());
                connections.spawn(async move {
                    let service = service_fn(|request| {
                        let before = asked.fetch_add(1, Ordering::Relaxed);
                        let manners = manners.lock().unwrap().clone();
                        let origin = origin.clone();
                        async move {
                            let late = manners.is_late.filter(|(of, _)| before % of == of - 1);
                            if let Some((_, time)) = late {
                                tokio::time::sleep(time).await;
                            }
                            Ok::<_, Infallible>(answer(speaks, &origin, manners, request).await)
                        }
                    });
                    let connection = http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, folder, manners, asked, server }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    pub(super) fn put(&self, key: &str, bytes: &[u8]) {
        let path = self.folder.path().join("b").join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Creates a new file, so that a file being read does not change.
        let _ = std::fs::remove_file(&path);
        std::fs::write(path, bytes).unwrap();
    }

    /// Number of requests so far.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    pub(super) fn says(&mut self, headers: &[(&'static str, &'static str)]) {
        self.manners.lock().unwrap().says = headers.to_vec();
    }

    /// Gives every object this ETag, or none.
    pub(super) fn has_etag(&mut self, etag: Option<&'static str>) {
        self.manners.lock().unwrap().etag = Some(etag);
    }

    pub(super) fn refuses(&self, status: StatusCode, code: &str) {
        self.manners.lock().unwrap().refuses = Some((status, code.to_owned()));
    }

    /// Adds this `Retry-After` to each refusal.
    pub(super) fn names_a_time(&self, retry_after: &'static str) {
        self.manners.lock().unwrap().retry_after = Some(retry_after);
    }

    /// Delays one in this many answers by `time`.
    pub(super) fn is_late(&self, one_of: u64, time: Duration) {
        self.manners.lock().unwrap().is_late = Some((one_of, time));
    }

    pub(super) fn redirects_to(&self, location: &'static str) {
        self.manners.lock().unwrap().redirects_to = Some(location);
    }

    pub(super) fn ignores_ranges(&mut self) {
        self.manners.lock().unwrap().ignores_ranges = true;
    }

    /// Sends this many bytes of an object, then nothing more.
    pub(super) fn stalls_after(&mut self, bytes: usize) {
        self.manners.lock().unwrap().stalls_after = Some(bytes);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(
    speaks: Speaks,
    origin: &Origin,
    manners: Manners,
    request: Request<Incoming>,
) -> Response<BoxBody> {
    if let Some((status, code)) = manners.refuses {
        let document = format!("<Error><Code>{code}</Code><Message>no</Message></Error>");
        let mut refusal = Response::builder().status(status);
        if let Some(time) = manners.retry_after {
            refusal = refusal.header(RETRY_AFTER, time);
        }
        return refusal.body(full_body(document)).unwrap();
    }
    if let Some(location) = manners.redirects_to {
        let redirect = Response::builder().status(StatusCode::MOVED_PERMANENTLY);
        return redirect.header(LOCATION, location).body(full_body("moved")).unwrap();
    }
    let (mut parts, _) = request.into_parts();
    assert!(parts.method == "GET" || parts.method == "HEAD", "nothing is written");
    if manners.ignores_ranges {
        parts.headers.remove(RANGE);
    }
    let is_list = parts.uri.query().is_some_and(|query| query.contains("list"));
    match speaks {
        Speaks::Google => assert_eq!(parts.headers.contains_key("accept-encoding"), !is_list),
        Speaks::Http => assert!(!is_list && parts.uri.query().is_none()),
        Speaks::Azure => {
            let authorization = parts.headers["authorization"].to_str().unwrap();
            assert!(authorization.starts_with("SharedKey account:"), "{authorization}");
            parts.uri = as_s3(&parts.uri);
        }
    }
    let request = Request::from_parts(parts, full_body(""));
    let (mut parts, body) = origin.forward(request).await.unwrap().into_parts();
    if is_list || !parts.status.is_success() {
        let document = body.collect().await.unwrap().to_bytes();
        let document = String::from_utf8(document.to_vec()).unwrap();
        let document = if speaks == Speaks::Azure { as_azure(&document) } else { document };
        parts.headers.remove(CONTENT_LENGTH);
        return Response::from_parts(parts, full_body(document));
    }
    for (name, value) in &manners.says {
        let name = HeaderName::from_static(name);
        parts.headers.insert(name, HeaderValue::from_static(value));
    }
    match manners.etag {
        None => {}
        Some(None) => drop(parts.headers.remove(ETAG)),
        Some(Some(etag)) => drop(parts.headers.insert(ETAG, HeaderValue::from_static(etag))),
    }
    match manners.stalls_after {
        Some(bytes) => Response::from_parts(parts, stalling(body, bytes).await),
        None => Response::from_parts(parts, body),
    }
}

async fn stalling(body: BoxBody, bytes: usize) -> BoxBody {
    let first = body.collect().await.unwrap().to_bytes().split_to(bytes);
    let pieces = futures_util::stream::unfold(Some(first), |first: Option<Bytes>| async {
        match first {
            Some(first) => Some((Ok(Frame::data(first)), None)),
            None => std::future::pending().await,
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// Translates Azure's `/account/container/key` and list parameters to S3's.
fn as_s3(uri: &Uri) -> Uri {
    let path = uri.path().strip_prefix("/account").unwrap();
    let query = Query::parse(uri.query()).unwrap();
    if query.get("comp") != Some("list") {
        return path.parse().unwrap();
    }
    let mut asked = format!("{path}?list-type=2");
    for (name, s3) in [
        ("prefix", "prefix"),
        ("delimiter", "delimiter"),
        ("maxresults", "max-keys"),
        ("marker", "continuation-token"),
        // Azure's list starts with the name itself; the caller skips it.
        ("startFrom", "start-after"),
    ] {
        if let Some(value) = query.get(name) {
            asked += &format!("&{s3}={}", encode_query_value(value));
        }
    }
    asked.parse().unwrap()
}

/// Translates an S3 document to Azure's terms.
fn as_azure(document: &str) -> String {
    if document.contains("<Error>") {
        let document = document.replace("NoSuchKey", "BlobNotFound");
        return document.replace("NoSuchBucket", "ContainerNotFound");
    }
    let text = |xml: &str, name: &str| {
        let (_, rest) = xml.split_once(&format!("<{name}>"))?;
        Some(rest.split_once("</")?.0.to_owned())
    };
    let mut xml = String::from("<EnumerationResults><Blobs>");
    for piece in document.split("<Contents>").skip(1) {
        let piece = piece.split("</Contents>").next().unwrap();
        let (name, etag) = (text(piece, "Key").unwrap(), text(piece, "ETag").unwrap());
        let (size, etag) = (text(piece, "Size").unwrap(), etag.replace("&quot;", ""));
        xml += &format!(
            "<Blob><Name>{name}</Name><Properties><Last-Modified>Sun, 22 Nov 2026 08:00:00 GMT\
             </Last-Modified><Etag>{etag}</Etag><Content-Length>{size}</Content-Length>\
             <Content-Type>text/plain</Content-Type></Properties></Blob>"
        );
    }
    for piece in document.split("<CommonPrefixes>").skip(1) {
        let name = text(piece, "Prefix").unwrap();
        xml += &format!("<BlobPrefix><Name>{name}</Name></BlobPrefix>");
    }
    let next = text(document, "NextContinuationToken").unwrap_or_default();
    xml + &format!("</Blobs><NextMarker>{next}</NextMarker></EnumerationResults>")
}
