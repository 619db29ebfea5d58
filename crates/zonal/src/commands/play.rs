//! `zonal play`: shows a recording in a browser.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, HeaderValue, LOCATION};
use http::{Method, Request, Response, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use zonal_cli::Failure;

use crate::admin_access::{AccessLevel, AdminAccess};
use crate::admin_endpoint::{
    self, ACCEPT_PAUSE, Body, HEAD_PATIENCE, PLAIN, RECORDING_MAGIC, answer, file, is_special,
    not_allowed, streamed, turned_away,
};
use crate::listeners::Address;
use crate::signals::Signals;

/// Show a recording of zonal serve or zonal block in a browser
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Recording: what --record wrote, or curl -N .../api/v1/live; gzip is understood
    recording: PathBuf,
    /// Listen address of the page
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9092")]
    listen: SocketAddr,
}

const EXAMPLES: &str = "\
Examples:
  zonal serve --record night.zonal
  zonal play night.zonal
  gzip night.zonal && zonal play night.zonal.gz

The page plays it forward and back at any speed. Ctrl-C ends the command.";

/// Path of the recording, for the page.
const RECORDING: &str = "/api/v1/recording";

/// Beginning of a gzip file.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Bytes of the recording that are read at once.
const READ_AT_ONCE: usize = 64 << 10;

/// Parts of it that wait for the browser.
const WAITING_MAX: usize = 4;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    check(&args.recording)?;
    super::runtime()?.block_on(serve(args))
}

fn check(path: &Path) -> Result<(), Failure> {
    if is_special(path) {
        let why = format!("{} is not a regular file: name a recording", path.display());
        return Err(Failure::request(why));
    }
    let beginning = File::open(path).and_then(|mut file| admin_endpoint::beginning(&mut file));
    let beginning = beginning
        .map_err(|error| Failure::request(format!("{} cannot be read: {error}", path.display())))?;
    match beginning == RECORDING_MAGIC || beginning.starts_with(GZIP) {
        true => Ok(()),
        false => Err(Failure::request(format!(
            "{} is no recording: zonal serve --record FILE or zonal block --record FILE makes one",
            path.display()
        ))),
    }
}

async fn serve(args: &Args) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let address = Address::take(args.listen, "--listen")?;
    let listener = address.listen().and_then(TcpListener::from_std).map_err(Failure::work)?;
    let shown = format!("http://{}/ui/?play\n", address.socket_address());
    io::stdout().write_all(shown.as_bytes()).map_err(Failure::work)?;
    let recording: Arc<Path> = args.recording.as_path().into();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = signals.stop() => return Ok(()),
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let recording = recording.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let answer = respond(&request, peer, &recording);
                async move { Ok::<_, Infallible>(answer) }
            });
            // Connection errors concern only the client.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_PATIENCE)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn respond<B>(request: &Request<B>, peer: SocketAddr, recording: &Arc<Path>) -> Response<Body> {
    let access = AdminAccess::default();
    if let Err(refusal) = access.check(request, (peer.ip(), AccessLevel::Look)) {
        return turned_away(refusal);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return not_allowed("GET, HEAD");
    }
    match request.uri().path() {
        "/" => {
            let mut moved = answer(StatusCode::TEMPORARY_REDIRECT, PLAIN, "the page is at ui/\n");
            moved.headers_mut().insert(LOCATION, HeaderValue::from_static("ui/?play"));
            moved
        }
        RECORDING => send(recording).unwrap_or_else(|error| {
            let why = format!("{} cannot be read: {error}\n", recording.display());
            answer(StatusCode::NOT_FOUND, PLAIN, why)
        }),
        path => file(path).unwrap_or_else(|| answer(StatusCode::NOT_FOUND, PLAIN, "not found\n")),
    }
}

/// The recording as it is now. A part that cannot be read ends it.
fn send(recording: &Path) -> io::Result<Response<Body>> {
    if is_special(recording) {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut file = File::open(recording)?;
    let is_gzip = admin_endpoint::beginning(&mut file)?.starts_with(GZIP);
    file.rewind()?;
    let (parts, queue) = mpsc::channel(WAITING_MAX);
    tokio::task::spawn_blocking(move || {
        let mut part = vec![0; READ_AT_ONCE];
        while let Ok(read @ 1..) = file.read(&mut part) {
            if parts.blocking_send(Bytes::copy_from_slice(&part[..read])).is_err() {
                return;
            }
        }
    });
    let mut response = streamed("text/event-stream", queue);
    if is_gzip {
        // The browser decompresses it.
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(response)
}
