//! Player: shows a recording in a browser. The page fetches the file, and plays it.
//!
//! A recording that is still being written is sent as it grows.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read, Seek};
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
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::recording::{MAGIC, beginning, is_special};
use crate::{
    ACCEPT_PAUSE, AccessLevel, AdminAccess, Body, CONNECTIONS_MAX, HEAD_PATIENCE, PLAIN, answer,
    file, is_of_another_site, not_allowed, of_another_site, streamed, turned_away,
};

/// Path of the recording, for the page.
const RECORDING: &str = "/api/v1/recording";

/// Path of the page.
const PAGE: &str = "ui/?play";

/// Beginning of a gzip file.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Bytes of the recording that are read at once.
const READ_AT_ONCE: usize = 64 << 10;

/// Parts of it that wait for the browser.
const WAITING_MAX: usize = 4;

/// Shows one recording; clones show the same.
#[derive(Clone)]
pub struct Player {
    path: Arc<Path>,
    /// Changes when the file has grown, and closes when it is complete. `None`: it is complete.
    growth: Option<watch::Receiver<()>>,
    /// Seconds of the recording in a second, if the page plays at once.
    speed: Option<u32>,
}

/// Why a file is not played.
#[derive(Debug)]
pub enum PlayerError {
    /// It is a folder, a pipe or the like.
    Special(PathBuf),
    /// It is not a recording.
    Foreign(PathBuf),
    /// It cannot be read.
    Unreadable(PathBuf, io::Error),
}

impl std::fmt::Display for PlayerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Special(path) => {
                write!(f, "{} is not a regular file: name a recording", path.display())
            }
            Self::Foreign(path) => write!(f, "{} is no recording", path.display()),
            Self::Unreadable(path, error) => {
                write!(f, "{} cannot be read: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for PlayerError {}

impl Player {
    /// Plays a file.
    ///
    /// # Errors
    /// It is not a recording, or cannot be read.
    pub fn new(path: &Path) -> Result<Self, PlayerError> {
        if is_special(path) {
            return Err(PlayerError::Special(path.to_owned()));
        }
        let found = File::open(path).and_then(|mut file| beginning(&mut file));
        let found = found.map_err(|error| PlayerError::Unreadable(path.to_owned(), error))?;
        match found == MAGIC || found.starts_with(GZIP) {
            true => Ok(Self { path: path.into(), growth: None, speed: None }),
            false => Err(PlayerError::Foreign(path.to_owned())),
        }
    }

    /// Plays a file that is being written, at once, and `speed` seconds of it in one. `growth`
    /// changes when the file has grown, and closes when it is complete.
    #[must_use]
    pub fn of_growing(path: &Path, growth: watch::Receiver<()>, speed: u32) -> Self {
        Self { path: path.into(), growth: Some(growth), speed: Some(speed) }
    }

    /// URL of the page on an address.
    #[must_use]
    pub fn url(&self, address: SocketAddr) -> String {
        let speed = self.speed.map_or_else(String::new, |speed| format!("={speed}"));
        format!("http://{address}/{PAGE}{speed}")
    }

    /// Serves until the future is dropped.
    pub async fn serve(self, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let Ok((stream, peer)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let player = self.clone();
            tokio::spawn(async move {
                let _place = place;
                let service = service_fn(|request| {
                    let answer = player.respond(&request, peer);
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

    fn respond<B>(&self, request: &Request<B>, peer: SocketAddr) -> Response<Body> {
        let access = AdminAccess::default();
        if let Err(refusal) = access.check(request, (peer.ip(), AccessLevel::Look)) {
            return turned_away(refusal);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return not_allowed("GET, HEAD");
        }
        match request.uri().path() {
            RECORDING if is_of_another_site(request) => of_another_site(),
            "/" => {
                let mut moved =
                    answer(StatusCode::TEMPORARY_REDIRECT, PLAIN, "the page is at ui/\n");
                moved.headers_mut().insert(LOCATION, HeaderValue::from_static(PAGE));
                moved
            }
            RECORDING => self.send().unwrap_or_else(|error| {
                let why = format!("{} cannot be read: {error}\n", self.path.display());
                answer(StatusCode::NOT_FOUND, PLAIN, why)
            }),
            path => {
                file(path).unwrap_or_else(|| answer(StatusCode::NOT_FOUND, PLAIN, "not found\n"))
            }
        }
    }

    /// The recording. A part that cannot be read ends it.
    fn send(&self) -> io::Result<Response<Body>> {
        if is_special(&self.path) {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut file = File::open(&self.path)?;
        let is_gzip = beginning(&mut file)?.starts_with(GZIP);
        file.rewind()?;
        let (parts, queue) = mpsc::channel(WAITING_MAX);
        let (growth, runtime) = (self.growth.clone(), Handle::current());
        tokio::task::spawn_blocking(move || send_parts(&mut file, growth, (&parts, &runtime)));
        let mut response = streamed("text/event-stream", queue);
        if is_gzip {
            // The browser decompresses it.
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        Ok(response)
    }
}

/// Sends a file to its end, and then what it grows by. Ends early when the receiver is gone.
fn send_parts(
    file: &mut File,
    mut growth: Option<watch::Receiver<()>>,
    (parts, runtime): (&mpsc::Sender<Bytes>, &Handle),
) {
    let mut part = vec![0; READ_AT_ONCE];
    loop {
        // Read to the end after the last change: what is written before it is seen.
        let is_complete = growth.as_ref().is_none_or(|growth| growth.has_changed().is_err());
        if let Some(growth) = &mut growth {
            growth.mark_unchanged();
        }
        loop {
            match file.read(&mut part) {
                Ok(0) => break,
                Ok(read) => {
                    if parts.blocking_send(Bytes::copy_from_slice(&part[..read])).is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
        let Some(growth) = growth.as_mut().filter(|_| !is_complete) else { return };
        let wait = async {
            tokio::select! {
                _ = growth.changed() => true,
                () = parts.closed() => false,
            }
        };
        if !runtime.block_on(wait) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn a_recording_is_sent_as_it_grows_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        std::fs::write(&path, MAGIC).unwrap();
        let (grown, growth) = watch::channel(());
        let player = Player::of_growing(&path, growth, 10);
        let mut body = player.send().unwrap().into_body();
        let mut next = async || body.frame().await.map(|part| part.unwrap().into_data().unwrap());
        assert_eq!(next().await.unwrap(), MAGIC);
        for text in ["data: {}\n\n", "event: patch\n"] {
            let mut file = File::options().append(true).open(&path).unwrap();
            io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            grown.send(()).unwrap();
            assert_eq!(next().await.unwrap(), text);
        }
        drop(grown);
        assert!(next().await.is_none());
    }

    #[tokio::test]
    async fn pages_of_other_sites_get_no_recording() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        std::fs::write(&path, MAGIC).unwrap();
        let player = Player::new(&path).unwrap();
        let status = |site: &str| {
            let request = Request::get(RECORDING).header("host", "localhost");
            let request = request.header("sec-fetch-site", site).body(()).unwrap();
            player.respond(&request, ([127, 0, 0, 1], 1).into()).status()
        };
        assert_eq!(status("cross-site"), StatusCode::FORBIDDEN);
        assert_eq!(status("same-origin"), StatusCode::OK);
    }

    #[test]
    fn only_recordings_are_played() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        let refused = |path: &Path| Player::new(path).err().unwrap().to_string();
        assert!(refused(&path).contains("cannot be read"));
        assert!(refused(folder.path()).contains("is not a regular file"));
        std::fs::write(&path, "of somebody else").unwrap();
        assert!(refused(&path).contains("is no recording"));
        for beginning in [MAGIC, GZIP] {
            std::fs::write(&path, beginning).unwrap();
            assert!(Player::new(&path).is_ok());
        }
    }
}
