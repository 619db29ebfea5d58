//! Minimal HTTP client for tests: one request per connection, signed with SigV4.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime};

use http::{Method, Request};
use zonal_s3::sigv4::{Credentials, EMPTY_SHA256, Signer, Timestamp, UNSIGNED_PAYLOAD};

/// Longer than any request of a test takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A response as received.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The value of a header; empty if it is missing.
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A response whose body has not been read.
pub(crate) struct Begun {
    head: Response,
    rest: BufReader<TcpStream>,
}

impl Begun {
    pub(crate) fn status(&self) -> u16 {
        self.head.status
    }

    /// Reads the body to its end.
    pub(crate) fn finish(mut self) -> io::Result<Response> {
        let chunked = self.head.header("transfer-encoding").eq_ignore_ascii_case("chunked");
        if chunked {
            self.head.body = read_chunks(&mut self.rest)?;
        } else if let Ok(len) = self.head.header("content-length").parse::<usize>() {
            self.head.body = vec![0; len];
            self.rest.read_exact(&mut self.head.body)?;
        } else {
            self.rest.read_to_end(&mut self.head.body)?;
        }
        Ok(self.head)
    }
}

fn read_chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let len = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        let start = body.len();
        body.resize(start + len, 0);
        from.read_exact(&mut body[start..])?;
        from.read_line(&mut String::new())?;
        if len == 0 {
            return Ok(body);
        }
    }
}

/// Sends a request and reads the head of the response. A response to HEAD has no body to finish.
fn begin(address: SocketAddr, head: &str, body: &[u8]) -> io::Result<Begun> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut rest = BufReader::new(stream);
    let mut line = String::new();
    rest.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("not HTTP: {line:?}")))?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        rest.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok(Begun { head: Response { status, headers, body: Vec::new() }, rest })
}

/// Sends a request head verbatim, without a body.
pub(crate) fn ask(address: SocketAddr, head: &str) -> io::Result<Response> {
    begin(address, head, &[])?.finish()
}

/// GET without a signature, of the path and query in `target`.
pub(crate) fn get(address: SocketAddr, target: &str) -> io::Result<Response> {
    begin_get(address, target)?.finish()
}

/// Begins a GET without a signature.
pub(crate) fn begin_get(address: SocketAddr, target: &str) -> io::Result<Begun> {
    let head = format!("GET {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    begin(address, &head, &[])
}

/// POST without a signature; `headers` are whole lines.
pub(crate) fn post(
    address: SocketAddr,
    target: &str,
    headers: &str,
    body: &[u8],
) -> io::Result<Response> {
    let len = body.len();
    let head = format!(
        "POST {target} HTTP/1.1\r\nhost: {address}\r\n{headers}content-length: {len}\r\nconnection: close\r\n\r\n"
    );
    begin(address, &head, body)?.finish()
}

/// GET of a whole URL of this machine.
pub(crate) fn get_url(url: &str) -> io::Result<Response> {
    let rest = url.strip_prefix("http://").expect("a URL of ours");
    let (address, path) = rest.split_once('/').expect("a URL with a path");
    get(address.parse().map_err(io::Error::other)?, &format!("/{path}"))
}

/// An S3 client with one key pair.
#[derive(Debug)]
pub(crate) struct S3 {
    pub(crate) endpoint: SocketAddr,
    signer: Signer,
}

impl S3 {
    pub(crate) fn new(endpoint: SocketAddr, access_key: &str, secret_key: &str) -> Self {
        let (access_key, secret_key) = (access_key.to_owned(), secret_key.to_owned());
        let credentials = Credentials { access_key, secret_key, session_token: None };
        Self { endpoint, signer: Signer::new(credentials, "us-east-1".to_owned()).unwrap() }
    }

    /// `path` is `/bucket/key`.
    pub(crate) fn get(&self, path: &str) -> io::Result<Response> {
        self.begin_get(path)?.finish()
    }

    /// GET with additional unsigned headers; `headers` are whole lines.
    pub(crate) fn get_with(&self, path: &str, headers: &str) -> io::Result<Response> {
        let head = self.head(Method::GET, path, 0, EMPTY_SHA256);
        let (first, rest) = head.split_once("\r\n").expect("a head has lines");
        begin(self.endpoint, &format!("{first}\r\n{headers}{rest}"), &[])?.finish()
    }

    /// GET of a presigned URL, without signed headers.
    pub(crate) fn get_presigned(&self, path: &str) -> io::Result<Response> {
        let url = format!("http://{}{path}", self.endpoint).parse().expect("a URL");
        let now = Timestamp::from_system_time(SystemTime::now());
        get_url(&self.signer.presign(now, &Method::GET, &url, 60))
    }

    /// GET that returns once the head of the response has arrived.
    pub(crate) fn begin_get(&self, path: &str) -> io::Result<Begun> {
        begin(self.endpoint, &self.head(Method::GET, path, 0, EMPTY_SHA256), &[])
    }

    pub(crate) fn put(&self, path: &str, body: &[u8]) -> io::Result<Response> {
        let head = self.head(Method::PUT, path, body.len(), UNSIGNED_PAYLOAD);
        begin(self.endpoint, &head, body)?.finish()
    }

    pub(crate) fn delete(&self, path: &str) -> io::Result<Response> {
        begin(self.endpoint, &self.head(Method::DELETE, path, 0, EMPTY_SHA256), &[])?.finish()
    }

    fn head(&self, method: Method, path: &str, body_bytes: usize, payload_hash: &str) -> String {
        let uri = format!("http://{}{path}", self.endpoint);
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        let (mut parts, ()) = request.into_parts();
        let now = Timestamp::from_system_time(SystemTime::now());
        self.signer.sign(now, &mut parts, payload_hash);
        let mut head = format!("{} {path} HTTP/1.1\r\n", parts.method);
        for (name, value) in &parts.headers {
            head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
        }
        head + &format!("content-length: {body_bytes}\r\nconnection: close\r\n\r\n")
    }
}
