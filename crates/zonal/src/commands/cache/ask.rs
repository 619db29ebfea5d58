//! Asks the admin endpoint of a running Zonal: one request, and an answer that is whole or comes line by line.

use std::io;

use bytes::Bytes;
use http::header::HOST;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

use crate::failure::Failure;

/// Who is asked.
#[derive(Debug, clap::Args)]
pub(in crate::commands) struct Endpoint {
    /// The admin endpoint of the Zonal that is meant
    #[arg(long, value_name = "ADDR", env = "ZONAL_ADMIN_LISTEN", default_value = "127.0.0.1:9090")]
    pub(in crate::commands) admin: String,
}

impl Endpoint {
    /// The answer when it is good.
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
        let why = String::from_utf8_lossy(&why).trim_end().to_owned();
        Err(match status {
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => Failure::Request(why),
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Failure::work(format!(
                "what answers at {admin} does not know {path}: it is no Zonal, or an older one"
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
        let admin = &self.admin;
        let stream = TcpStream::connect(admin).await.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => {
                Failure::request(format!("--admin {admin:?}: write HOST:PORT"))
            }
            _ => Failure::work(format!(
                "cannot reach the admin endpoint at {admin}: {error}: is it up, and is that its --admin (admin.listen)?"
            )),
        })?;
        let broken = |error| Failure::work(format!("the admin endpoint at {admin}: {error}"));
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(broken)?;
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header(HOST, admin);
        let request = request.body(Full::new(Bytes::from(body))).map_err(Failure::request)?;
        sender.send_request(request).await.map_err(broken)
    }
}

/// All of a document.
pub(in crate::commands) async fn document<T: DeserializeOwned>(
    body: Incoming,
) -> Result<T, Failure> {
    let bytes = body.collect().await.map_err(Failure::work)?.to_bytes();
    serde_json::from_slice(&bytes)
        .map_err(|error| Failure::work(format!("the answer is not one of ours: {error}")))
}

/// Hands on a report line by line, each as it stands and what it says, until `take` finds what it ends with.
pub(super) async fn report<L: DeserializeOwned, T>(
    mut body: Incoming,
    mut take: impl FnMut(&str, L) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let ended = || {
        Failure::work(
            "the report broke off: what it told so far holds; look at the log of zonal serve",
        )
    };
    let mut lines = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ended())?;
        lines.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = lines.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = lines.drain(..=end).collect();
            let parsed = serde_json::from_slice(&line).map_err(|error| {
                Failure::work(format!("the report is not one of ours: {error}"))
            })?;
            if let Some(last) = take(&String::from_utf8_lossy(&line), parsed)? {
                return Ok(last);
            }
        }
    }
    Err(ended())
}
