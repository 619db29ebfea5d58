//! A server that answers each request with prepared bytes, good or bad.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto, pki_types};

/// Action of the server after it has read a request.
#[derive(Clone)]
pub(super) enum Answer {
    /// Writes this answer and closes the connection.
    Close(String),
    /// Writes this answer and leaves the connection open without further bytes.
    Hang(String),
}

/// A received request.
#[derive(Clone)]
pub(super) struct Received {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Received {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        let headers = lines.filter_map(|line| line.split_once(':'));
        let mut named = headers.filter(|(found, _)| found.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.trim())
    }
}

/// A server with scripted answers. Dropping it stops it and closes its connections.
pub(super) struct Server {
    url: String,
    received: Arc<Mutex<Vec<Received>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Answers requests in order. After the last answer, connections are closed.
    pub(super) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::start_on("http", None, answers).await
    }

    /// Starts the server with TLS. Also returns the root of its certificate.
    pub(super) async fn start_tls(
        answers: impl IntoIterator<Item = Answer>,
    ) -> (Self, RootCertStore) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = crypto::ring::default_provider();
        let config = ServerConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let tls = TlsAcceptor::from(Arc::new(config));
        (Self::start_on("https", Some(tls), answers).await, roots)
    }

    async fn start_on(
        scheme: &str,
        tls: Option<TlsAcceptor>,
        answers: impl IntoIterator<Item = Answer>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let answers = Arc::new(Mutex::new(answers.into_iter().collect::<VecDeque<_>>()));
        let received = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let seen = received.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, seen) = (answers.clone(), seen.clone());
                match tls.clone() {
                    None => connections.spawn(serve(stream, answers, seen)),
                    Some(tls) => connections.spawn(async move {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(stream, answers, seen).await;
                        }
                    }),
                };
            }
        });
        Self { url, received, _tasks: tasks }
    }

    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    pub(super) fn requests(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    received: Arc<Mutex<Vec<Received>>>,
) {
    let Some(request) = receive(&mut stream).await else { return };
    received.lock().unwrap().push(request);
    let answer = answers.lock().unwrap().pop_front();
    match answer {
        None => {}
        Some(Answer::Close(bytes)) => {
            stream.write_all(bytes.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
        Some(Answer::Hang(bytes)) => {
            stream.write_all(bytes.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        }
    }
}

/// Reads a request head, and a body of the length that the head states.
async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> Option<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let body = bytes.split_off(end);
    let mut request = Received { head: String::from_utf8(bytes).unwrap(), body };
    let length: usize = request.header("content-length").map_or(0, |n| n.parse().unwrap());
    while request.body.len() < length {
        if stream.read_buf(&mut request.body).await.ok()? == 0 {
            return None;
        }
    }
    Some(request)
}
