//! Misbehaving origin: a proxy that forwards to an honest origin, and falsifies the answers of one
//! bucket by a row of the table.
//!
//! It asks the honest origin first, and then writes the response byte by byte, because no HTTP
//! library would send most of these.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderValue, Request};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zonal_origin::Origin;
use zonal_s3::{BoxBody, full_body};

/// Access key of a client that the honest origin denies everything.
pub(super) const DENIED: &str = "AKIADENIED";

/// Falsifies the honest answer to a request.
pub(super) type Play = fn(&Asked, Honest) -> Vec<Step>;

/// A parsed request.
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) uri: String,
    pub(super) headers: HeaderMap,
}

impl Asked {
    pub(super) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    pub(super) fn is_range(&self) -> bool {
        self.headers.contains_key("range")
    }

    /// True for a read that may be answered 304.
    pub(super) fn is_conditional(&self) -> bool {
        self.is_read() && self.headers.contains_key("if-none-match")
    }

    fn is_denied(&self) -> bool {
        let authorization = self.headers.get("authorization").map(HeaderValue::as_bytes);
        let name = format!("Credential={DENIED}/");
        let text = String::from_utf8_lossy(authorization.unwrap_or_default());
        text.contains(&name)
    }

    /// True for a GET or HEAD of an object.
    pub(super) fn is_read(&self) -> bool {
        let path = self.uri.split('?').next().unwrap();
        matches!(&*self.method, "GET" | "HEAD") && path.trim_matches('/').contains('/')
    }
}

/// The answer of the honest origin.
#[derive(Clone)]
pub(super) struct Honest {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// All bytes of the object, if the request is a read.
    pub(super) whole: Vec<u8>,
}

/// A step of the proxy on a connection. After the last one, the connection stays open for the next
/// request.
pub(super) enum Step {
    Send(Vec<u8>),
    /// Sends nothing more, and keeps the connection open.
    Hang,
    Close,
    Reset,
}

impl Honest {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self = self.without(name);
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    /// The answer with another body, and its length.
    pub(super) fn carrying(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        let length = self.body.len();
        self.with("content-length", length)
    }

    pub(super) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub(super) fn head(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Said\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    pub(super) fn whole(self) -> Vec<Step> {
        vec![Step::Send([self.head(), self.body].concat())]
    }

    /// The head and the first bytes of the body.
    pub(super) fn first(&self, bytes: usize) -> Step {
        Step::Send([&*self.head(), &self.body[..bytes.min(self.body.len())]].concat())
    }
}

/// The honest origin, and the buckets whose answers are falsified.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    upstream: Origin,
    /// Falsification by bucket.
    lies: Mutex<HashMap<String, Play>>,
}

impl Proxy {
    pub(super) async fn start(upstream: Origin) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = Arc::new(Self { address, upstream, lies: Mutex::default() });
        let serving = proxy.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        proxy
    }

    /// Falsifies all further answers for the bucket. `None`: stops doing so.
    pub(super) fn play(&self, bucket: &str, lie: Option<Play>) {
        let mut lies = self.lies.lock().unwrap();
        match lie {
            Some(play) => lies.insert(bucket.to_owned(), play),
            None => lies.remove(bucket),
        };
    }

    /// Asks the honest origin directly.
    pub(super) async fn ask(&self, method: &str, uri: &str, body: impl Into<Vec<u8>>) -> Honest {
        let body = body.into();
        let request = Request::builder().method(method).uri(uri);
        let request = request.header("content-length", body.len());
        self.answer(request.body(full_body(body)).unwrap()).await
    }

    async fn answer(&self, request: Request<BoxBody>) -> Honest {
        let (parts, body) = self.upstream.forward(request).await.unwrap().into_parts();
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
        let (status, headers) = (parts.status.as_u16(), headers.collect());
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Honest { status, headers, body, whole: Vec::new() }
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let mut unread = Vec::new();
        while let Some((asked, body)) = next_request(&mut stream, &mut unread).await {
            let bucket = asked.uri.trim_start_matches('/').split(['/', '?']).next().unwrap();
            let lie = self.lies.lock().unwrap().get(bucket).copied();
            let mut honest = self.honest(&asked, body).await;
            let steps = match lie {
                None => honest.whole(),
                Some(play) => {
                    if asked.is_read() {
                        honest.whole = self.ask("GET", &asked.uri, "").await.body;
                    }
                    play(&asked, honest)
                }
            };
            for step in steps {
                match step {
                    // The gateway may have closed the connection.
                    Step::Send(bytes) => drop(stream.write_all(&bytes).await),
                    Step::Hang => while read(&mut stream, &mut unread).await {},
                    Step::Close => return,
                    Step::Reset => return stream.set_zero_linger().unwrap(),
                }
            }
        }
    }

    async fn honest(&self, asked: &Asked, body: Vec<u8>) -> Honest {
        if asked.is_denied() {
            let denied =
                Honest { status: 403, headers: Vec::new(), body: Vec::new(), whole: Vec::new() };
            let document = b"<Error><Code>AccessDenied</Code><Message>not you</Message></Error>";
            let mut denied =
                denied.with("content-type", "application/xml").carrying(document.to_vec());
            if asked.is_head() {
                denied.body.clear();
            }
            return denied;
        }
        let mut request = Request::builder().method(&*asked.method).uri(&asked.uri);
        *request.headers_mut().unwrap() = asked.headers.clone();
        let honest = self.answer(request.body(full_body(body)).unwrap()).await;
        if asked.is_head() || honest.status == 304 {
            return honest;
        }
        let length = honest.body.len();
        honest.with("content-length", length)
    }
}

async fn read(stream: &mut TcpStream, unread: &mut Vec<u8>) -> bool {
    let mut buffer = vec![0; 64 << 10];
    let bytes = stream.read(&mut buffer).await.unwrap_or(0);
    unread.extend_from_slice(&buffer[..bytes]);
    bytes != 0
}

async fn next_request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<(Asked, Vec<u8>)> {
    let end = loop {
        if let Some(at) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if !read(stream, unread).await {
            return None;
        }
    };
    let head = String::from_utf8(unread.drain(..end).collect()).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let mut words = lines.next().unwrap().split(' ');
    let (method, uri) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    let mut headers = HeaderMap::new();
    for (name, value) in lines.map(|line| line.split_once(": ").unwrap()) {
        let name: http::HeaderName = name.parse().unwrap();
        headers.append(name, value.parse().unwrap());
    }
    let length = headers.get("content-length").map_or("0", |length| length.to_str().unwrap());
    let length: usize = length.parse().unwrap();
    while unread.len() < length {
        if !read(stream, unread).await {
            return None;
        }
    }
    Some((Asked { method, uri, headers }, unread.drain(..length).collect()))
}
