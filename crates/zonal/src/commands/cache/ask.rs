//! Admin client: sends one request, and reads a JSON document or a stream of JSON lines.

use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::uri::Scheme;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zonal_cli::Failure;
use zonal_origin::CaRoots;

/// Who is asked.
#[derive(Debug, clap::Args)]
pub(in crate::commands) struct Endpoint {
    /// Address of Zonal's admin endpoint: HOST:PORT, or https://HOST:PORT
    #[arg(long, value_name = "ADDR", env = "ZONAL_ADMIN_LISTEN", default_value = "127.0.0.1:9090")]
    admin: String,
    /// Token file: its first line is the token for commands (admin.token-file)
    #[arg(long, value_name = "FILE", env = "ZONAL_ADMIN_TOKEN_FILE")]
    admin_token_file: Option<PathBuf>,
    /// CA certificates for HTTPS, a PEM file [without it: the system's]
    #[arg(long, value_name = "FILE", env = "ZONAL_ADMIN_CA_FILE")]
    admin_ca_file: Option<PathBuf>,
}

/// Address of an endpoint and whether it uses TLS.
struct EndpointAddress<'a> {
    is_https: bool,
    address: &'a str,
}

impl Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.admin)
    }
}

impl Endpoint {
    /// An endpoint for read-only requests, without token and certificate authorities.
    pub(in crate::commands) const fn at(admin: String) -> Self {
        Self { admin, admin_token_file: None, admin_ca_file: None }
    }

    /// Sends a request and returns the body of a 200 response. Other statuses become a failure.
    pub(in crate::commands) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Incoming, Failure> {
        let admin = &self.admin;
        let answer = self.send(method, path, body).await?;
        let status = answer.status();
        if status == StatusCode::OK {
            return Ok(answer.into_body());
        }
        let why = answer.into_body().collect().await.map_err(Failure::work)?.to_bytes();
        let why = first_line(&String::from_utf8_lossy(&why));
        Err(match status {
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => Failure::Request(why),
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Failure::work(format!(
                "the server at {admin} does not know {path}: it is an older Zonal, or another \
                 program"
            )),
            StatusCode::UNAUTHORIZED => Failure::Work(format!(
                "{admin} answered 401: {why}; name its file with --admin-token-file"
            )),
            _ => Failure::Work(format!("{admin} answered {}: {why}", status.as_u16())),
        })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::builder().method(method).uri(path);
        let EndpointAddress { is_https, address } = self.place();
        if let Some(file) = &self.admin_token_file {
            let read = std::fs::read_to_string(file);
            let read =
                read.map_err(|error| Failure::request(format!("{}: {error}", file.display())))?;
            let token = read.lines().next().unwrap_or_default().trim();
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.header(HOST, address).body(Full::new(Bytes::from(body)));
        let request = request.map_err(Failure::request)?;
        let stream = TcpStream::connect(address).await.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => Failure::request(format!(
                "--admin {:?}: write HOST:PORT, or https://HOST:PORT",
                self.admin
            )),
            _ => self.unreachable(error),
        })?;
        match is_https {
            true => self.exchange(self.shake_hands(address, stream).await?, request).await,
            false => self.exchange(stream, request).await,
        }
    }

    fn place(&self) -> EndpointAddress<'_> {
        let (is_https, address) = match self.admin.split_once("://") {
            Some(("https", address)) => (true, address),
            Some(("http", address)) => (false, address),
            _ => (false, &*self.admin),
        };
        EndpointAddress { is_https, address: address.trim_end_matches('/') }
    }

    fn unreachable(&self, error: impl Display) -> Failure {
        let admin = &self.admin;
        Failure::work(format!(
            "cannot reach the admin endpoint at {admin}: {error}: check that Zonal runs and that \
             this is its --admin (admin.listen)"
        ))
    }

    async fn shake_hands(
        &self,
        address: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Failure> {
        let ca_roots = match &self.admin_ca_file {
            Some(file) => Some(ca_roots(file)?),
            None => None,
        };
        let roots = zonal_origin::roots_for(&Scheme::HTTPS, ca_roots.as_ref());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider supports TLS 1.2 and 1.3")
            .with_root_certificates(roots.map_err(Failure::work)?)
            .with_no_client_auth();
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(Failure::request)?;
        let shaken = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        shaken.map_err(|error| {
            let of_tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
            let plain = rustls::InvalidMessage::InvalidContentType;
            match of_tls == Some(&rustls::Error::InvalidMessage(plain)) {
                true => Failure::request(format!(
                    "the admin endpoint at {address} does not speak TLS: write http://{address}"
                )),
                false => self.unreachable(error),
            }
        })
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Failure> {
        let broken =
            |error| Failure::work(format!("the admin endpoint at {}: {error}", self.admin));
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(broken)?;
        tokio::spawn(connection);
        sender.send_request(request).await.map_err(broken)
    }
}

/// The first line of an answer, which another program may have sent.
fn first_line(text: &str) -> String {
    const CHARACTERS_MAX: usize = 200;
    let line = text.trim().lines().next().unwrap_or_default();
    line.chars().take(CHARACTERS_MAX).collect()
}

fn ca_roots(file: &Path) -> Result<CaRoots, Failure> {
    let why = |error: &dyn Display| Failure::request(format!("{}: {error}", file.display()));
    let pem = std::fs::read(file).map_err(|error| why(&error))?;
    CaRoots::from_pem(&pem).map_err(|error| why(&error))
}

/// Reads the whole body as one JSON document.
pub(in crate::commands) async fn document<T: DeserializeOwned>(
    body: Incoming,
) -> Result<T, Failure> {
    let bytes = body.collect().await.map_err(Failure::work)?.to_bytes();
    serde_json::from_slice(&bytes).map_err(|error| {
        Failure::work(format!("unexpected response from the admin endpoint: {error}"))
    })
}

/// Reads a report line by line. `take` gets each line as text and parsed, until it returns the
/// totals.
pub(super) async fn report<L: DeserializeOwned, T>(
    mut body: Incoming,
    mut take: impl FnMut(&str, L) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let ended = || {
        Failure::work(
            "the report is incomplete: the lines so far are valid; see the log of zonal serve",
        )
    };
    let mut lines = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ended())?;
        lines.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = lines.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = lines.drain(..=end).collect();
            let parsed = serde_json::from_slice(&line).map_err(|error| {
                Failure::work(format!("unexpected line in the report: {error}"))
            })?;
            if let Some(last) = take(&String::from_utf8_lossy(&line), parsed)? {
                return Ok(last);
            }
        }
    }
    Err(ended())
}
