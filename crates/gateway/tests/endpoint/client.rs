//! HTTP client that signs requests and exposes every byte of a response.

use std::net::SocketAddr;
use std::time::SystemTime;

use http::request::Parts;
use http::{Method, Request, Uri};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use zonal_s3::sigv4::{Credentials, Signer, Timestamp, UNSIGNED_PAYLOAD};

pub(crate) const ACCESS_KEY: &str = "AKIATEST";
pub(crate) const SECRET_KEY: &str = "secret/of+the=test";
pub(crate) const REGION: &str = "us-east-1";

pub(crate) fn signer(access_key: &str, secret_key: &str) -> Signer {
    let (access_key, secret_key) = (access_key.into(), secret_key.into());
    Signer::new(Credentials { access_key, secret_key, session_token: None }, REGION.into()).unwrap()
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_system_time(SystemTime::now())
}

/// A request to send.
pub(crate) struct Ask {
    pub(crate) head: Parts,
    pub(crate) body: Vec<u8>,
    access_key: &'static str,
    secret_key: &'static str,
    signed_at: Timestamp,
    payload_hash: String,
}

impl Ask {
    pub(crate) fn new(method: &str, uri: &str) -> Self {
        let request = Request::builder().method(method).uri(uri).header("host", "gateway");
        let head = request.body(()).unwrap().into_parts().0;
        let (access_key, secret_key) = (ACCESS_KEY, SECRET_KEY);
        let (signed_at, payload_hash) = (now(), UNSIGNED_PAYLOAD.to_owned());
        Self { head, body: Vec::new(), access_key, secret_key, signed_at, payload_hash }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.head.headers.append(name, value.parse().unwrap());
        self
    }

    /// Sets the `Host` header.
    pub(crate) fn at(mut self, host: &str) -> Self {
        self.head.headers.insert("host", host.parse().unwrap());
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.with("content-length", "0")
    }

    pub(crate) fn signed_with(mut self, secret_key: &'static str) -> Self {
        self.secret_key = secret_key;
        self
    }

    pub(crate) fn signed_by(mut self, access_key: &'static str) -> Self {
        self.access_key = access_key;
        self
    }

    pub(crate) fn signed_at(mut self, signed_at: Timestamp) -> Self {
        self.signed_at = signed_at;
        self
    }

    /// Signs with this payload hash instead of the body's.
    pub(crate) fn stating(mut self, payload_hash: &str) -> Self {
        self.payload_hash = payload_hash.to_owned();
        self
    }

    /// The signed request as it is sent.
    pub(crate) fn signed(mut self) -> Vec<u8> {
        if !self.body.is_empty() {
            let length = self.body.len();
            self.head.headers.insert("content-length", length.into());
        }
        signer(self.access_key, self.secret_key).sign(
            self.signed_at,
            &mut self.head,
            &self.payload_hash,
        );
        self.plain()
    }

    /// The request as it is sent, without a signature.
    pub(crate) fn plain(self) -> Vec<u8> {
        let mut wire = format!("{} {} HTTP/1.1\r\n", self.head.method, self.head.uri).into_bytes();
        for (name, value) in &self.head.headers {
            wire.extend_from_slice(name.as_str().as_bytes());
            wire.extend_from_slice(b": ");
            wire.extend_from_slice(value.as_bytes());
            wire.extend_from_slice(b"\r\n");
        }
        wire.extend_from_slice(b"\r\n");
        wire.extend_from_slice(&self.body);
        wire
    }
}

/// A presigned GET of `path`.
pub(crate) fn presigned(path: &str) -> Vec<u8> {
    let url: Uri = format!("http://gateway{path}").parse().unwrap();
    let url = signer(ACCESS_KEY, SECRET_KEY).presign(now(), &Method::GET, &url, 60);
    Ask::new("GET", url.strip_prefix("http://gateway").unwrap()).plain()
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// True if the connection ended before the body did.
    pub(crate) cut: bool,
}

impl Answer {
    /// The value of a header. Empty if the response does not have it.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        let value = found.next().map_or("", |(_, value)| value);
        assert!(found.next().is_none(), "{name} is there twice: {self:?}");
        value
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, _)| known == name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The S3 error code in the body.
    pub(crate) fn code(&self) -> String {
        let text = self.text();
        let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
        code.map_or(String::new(), |(code, _)| code.to_owned())
    }
}

/// A connection to the gateway.
pub(crate) struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(to: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(to).await.unwrap(), unread: Vec::new() }
    }

    /// Connects from an address of the loopback network.
    pub(crate) async fn open_from(from: [u8; 4], to: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        Self { stream: socket.connect(to).await.unwrap(), unread: Vec::new() }
    }

    pub(crate) async fn send(&mut self, wire: &[u8]) {
        self.stream.write_all(wire).await.unwrap();
    }

    /// Sends a signed request and reads the response.
    pub(crate) async fn ask(&mut self, ask: Ask) -> Answer {
        let method = ask.head.method.clone();
        self.send(&ask.signed()).await;
        self.answer(&method).await.expect("an answer")
    }

    /// The next response. `None` if the connection ended before it.
    pub(crate) async fn answer(&mut self, method: &Method) -> Option<Answer> {
        loop {
            let answer = self.head().await?;
            // Skips the interim response 100 Continue.
            if answer.status != 100 {
                return Some(self.finish(answer, method).await);
            }
        }
    }

    /// The next response head, including interim responses.
    pub(crate) async fn head(&mut self) -> Option<Answer> {
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|window| window == b"\r\n\r\n") {
                break at;
            }
            if !self.read_more().await {
                return None;
            }
        };
        let head: Vec<u8> = self.unread.drain(..end + 4).collect();
        // Latin-1, as in older HTTP, when it is not UTF-8.
        let head = String::from_utf8(head)
            .unwrap_or_else(|error| error.as_bytes().iter().copied().map(char::from).collect());
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| line.split_once(": ").expect("a header"));
        let headers = headers.map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned())).collect();
        Some(Answer { status, headers, body: Vec::new(), cut: false })
    }

    /// Reads the body of a response.
    pub(crate) async fn finish(&mut self, mut answer: Answer, method: &Method) -> Answer {
        if method == Method::HEAD || matches!(answer.status, 204 | 304) {
            return answer;
        }
        if answer.header("transfer-encoding") == "chunked" {
            self.chunks(&mut answer).await;
            return answer;
        }
        let length: usize = answer.header("content-length").parse().unwrap_or(0);
        while self.unread.len() < length {
            if !self.read_more().await {
                answer.cut = true;
                break;
            }
        }
        let length = length.min(self.unread.len());
        answer.body = self.unread.drain(..length).collect();
        answer
    }

    async fn chunks(&mut self, answer: &mut Answer) {
        loop {
            while !self.unread.windows(2).any(|window| window == b"\r\n") {
                if !self.read_more().await {
                    answer.cut = true;
                    return;
                }
            }
            let end = self.unread.windows(2).position(|window| window == b"\r\n").unwrap();
            let size = std::str::from_utf8(&self.unread[..end]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            while self.unread.len() < end + 2 + size + 2 {
                if !self.read_more().await {
                    answer.cut = true;
                    return;
                }
            }
            self.unread.drain(..end + 2);
            answer.body.extend(self.unread.drain(..size));
            self.unread.drain(..2);
            if size == 0 {
                return;
            }
        }
    }

    /// Reads more bytes. False if the peer has closed or reset the connection.
    pub(crate) async fn read_more(&mut self) -> bool {
        let mut buffer = vec![0; 64 << 10];
        match self.stream.read(&mut buffer).await {
            Ok(0) | Err(_) => false,
            Ok(bytes) => {
                self.unread.extend_from_slice(&buffer[..bytes]);
                true
            }
        }
    }

    /// Reads until the input ends with `end`, and returns it.
    pub(crate) async fn until_read(&mut self, end: &str) -> String {
        while !self.unread.ends_with(end.as_bytes()) && self.read_more().await {}
        String::from_utf8(std::mem::take(&mut self.unread)).unwrap()
    }

    /// Reads until the peer closes the connection, and returns the input.
    pub(crate) async fn until_closed(mut self) -> String {
        while self.read_more().await {}
        String::from_utf8_lossy(&self.unread).into_owned()
    }
}

/// Sends one signed request on a new connection.
pub(crate) async fn ask(to: SocketAddr, ask: Ask) -> Answer {
    Connection::open(to).await.ask(ask).await
}

/// Sends a signed GET on a new connection.
pub(crate) async fn get(to: SocketAddr, uri: &str) -> Answer {
    ask(to, Ask::new("GET", uri)).await
}
