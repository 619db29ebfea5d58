//! Admin commands (POST): warm, pin, unpin, purge, list, scrub, cache on and off.
//!
//! 1. Check whether the command can run now.
//! 2. Read its object list, if it takes one, within limits of size and time.
//! 3. Run it: at once, or while its report is streamed.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use zonal_admin::{Body, JSON, PLAIN, answer, not_allowed, streamed};
use zonal_api::{scrubbing, switching};
use zonal_gateway::{Caching, Gateway};
use zonal_host::contained;

use super::list::list;
use super::listed_objects::ListedObjects;
use super::pin::release;
use super::purge::purge;
use super::scrub::Scrubber;
use super::summary::caching_state;
use super::warm::Warmer;
use super::{Admin, Observed, Phase, report};
use crate::object_list::{self, ListedName};
use crate::pins::{self, NotPinned};
use crate::{listing, purging, unpinning, warming};

/// Timeout for receiving an object list.
const LIST_PATIENCE: Duration = Duration::from_secs(60);

const NDJSON: &str = "application/x-ndjson";

/// A command, given by the path of the request.
#[derive(Clone, Copy, Debug)]
pub(super) enum AdminCommand {
    Warm,
    Pin,
    Unpin,
    Purge,
    List,
    Scrub,
    Switch(Caching),
}

/// Error response to a refused command.
type Refusal = Response<Body>;

fn refuse(status: StatusCode, why: &str) -> Refusal {
    answer(status, PLAIN, format!("{why}\n"))
}

impl AdminCommand {
    pub(super) fn of(path: &str) -> Option<Self> {
        match path {
            warming::PATH => Some(Self::Warm),
            unpinning::PIN_PATH => Some(Self::Pin),
            unpinning::PATH => Some(Self::Unpin),
            purging::PATH => Some(Self::Purge),
            listing::PATH => Some(Self::List),
            scrubbing::PATH => Some(Self::Scrub),
            switching::OFF_PATH => Some(Self::Switch(Caching::Off)),
            switching::ON_PATH => Some(Self::Switch(Caching::On)),
            _ => None,
        }
    }
}

impl Admin {
    pub(super) async fn order(
        &self,
        order: AdminCommand,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        if request.method() != Method::POST {
            return Err(not_allowed("POST"));
        }
        let is_serving = *self.phase.borrow() == Phase::Serving;
        let node = self.node.get().filter(|_| is_serving);
        let up = node.and_then(|node| Some((node, node.front.gateway()?)));
        let Some((node, gateway)) = up else {
            return Err(refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "not serving: still starting, or stopping",
            ));
        };
        match order {
            AdminCommand::Warm | AdminCommand::Pin => {
                self.warm(node, gateway, (order, request)).await
            }
            AdminCommand::Unpin => self.unpin(node, gateway, request).await,
            AdminCommand::Purge => self.purge(node, request).await,
            AdminCommand::List => self.list(node, gateway, request).await,
            AdminCommand::Scrub => Ok(begin_scrub(&self.scrubber)),
            AdminCommand::Switch(caching) => Ok(switch(gateway, caching)),
        }
    }

    /// Runs a warm or pin command. A pin command first writes the pins file, so that the warm-up
    /// then pins the objects.
    async fn warm(
        &self,
        node: &Observed,
        gateway: &Gateway,
        (order, request): (AdminCommand, Request<Incoming>),
    ) -> Result<Response<Body>, Refusal> {
        let place = alone(&self.warming, "warm-up")?;
        let list = list_of(request).await?;
        if matches!(order, AdminCommand::Pin) {
            node.pins.change(gateway, |known| pins::pin(known, &list)).map_err(not_pinned)?;
        }
        // The warm-up keeps a record of each object until the end, so objects are limited.
        let room = object_list::OBJECTS_MAX - list.len();
        let names = ListedObjects::new(node.origins.clone(), list, room);
        let (report, lines) = mpsc::channel(report::LINES_MAX);
        let of = (node.client.clone(), gateway.runtime_config());
        let warmer = Warmer::new(of, node.background_reads);
        tokio::spawn(contained(warmer.warm(names, report, self.phase.clone(), place)));
        Ok(streamed(NDJSON, lines))
    }

    async fn unpin(
        &self,
        node: &Observed,
        gateway: &Gateway,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        let place = alone(&self.warming, "warm-up")?;
        let list = list_of(request).await?;
        if list.iter().any(|wanted| matches!(wanted, ListedName::Part(..))) {
            return Err(refuse(StatusCode::BAD_REQUEST, pins::NO_PARTS));
        }
        // Listed objects are released even if the origin no longer has them.
        let named = node.pins.change(gateway, |known| Ok(pins::unpin(known, &list)));
        let named = named.map_err(not_pinned)?;
        // Unpinning keeps no record per object, so their number is unlimited.
        let names = ListedObjects::new(node.origins.clone(), list, usize::MAX);
        let (report, lines) = mpsc::channel(report::LINES_MAX);
        let told = (node.client.clone(), gateway.runtime_config());
        let phase = self.phase.clone();
        tokio::spawn(contained(release(told, (named, names), report, phase, place)));
        Ok(streamed(NDJSON, lines))
    }

    async fn purge(
        &self,
        node: &Observed,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        let place = alone(&self.purging, "purge")?;
        let list = list_of(request).await?;
        if list.iter().any(|wanted| matches!(wanted, ListedName::Part(..))) {
            return Err(refuse(StatusCode::BAD_REQUEST, purging::NO_PARTS));
        }
        let (report, lines) = mpsc::channel(report::LINES_MAX);
        let (client, phase) = (node.client.clone(), self.phase.clone());
        tokio::spawn(contained(purge(client, list, report, phase, place)));
        Ok(streamed(NDJSON, lines))
    }

    async fn list(
        &self,
        node: &Observed,
        gateway: &Gateway,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        let place = alone(&self.listing, "listing")?;
        let wanted = lines_of(request).await?;
        if wanted.iter().any(|wanted| matches!(wanted, ListedName::Part(..))) {
            return Err(refuse(StatusCode::BAD_REQUEST, listing::NO_PARTS));
        }
        let (report, lines) = mpsc::channel(report::LINES_MAX);
        let (of, phase) = ((node.client.clone(), gateway.runtime_config()), self.phase.clone());
        tokio::spawn(contained(list(of, wanted, report, phase, place)));
        Ok(streamed(NDJSON, lines))
    }
}

/// Another command of this kind is running.
struct Busy(&'static str);

impl From<Busy> for Refusal {
    fn from(Busy(command): Busy) -> Self {
        let why = format!("another {command} is running: retry when it has ended");
        refuse(StatusCode::CONFLICT, &why)
    }
}

/// Permit of a command that runs once at a time.
fn alone(permits: &Arc<Semaphore>, command: &'static str) -> Result<OwnedSemaphorePermit, Busy> {
    permits.clone().try_acquire_owned().map_err(|_| Busy(command))
}

/// Starts a scrub. Its progress is in the statistics.
fn begin_scrub(scrubber: &Scrubber) -> Response<Body> {
    match scrubber.ask() {
        true => answer(StatusCode::OK, PLAIN, "a scrub begins\n"),
        false => refuse(
            StatusCode::CONFLICT,
            "another scrub is running: zonal cache stats shows its progress",
        ),
    }
}

fn not_pinned(why: NotPinned) -> Refusal {
    match why {
        NotPinned::Refused(why) => refuse(StatusCode::BAD_REQUEST, &why),
        NotPinned::Failed(why) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &why),
    }
}

async fn list_of(request: Request<Incoming>) -> Result<Vec<ListedName>, Refusal> {
    let list = lines_of(request).await?;
    match list.is_empty() {
        true => Err(refuse(StatusCode::BAD_REQUEST, "the list is empty")),
        false => Ok(list),
    }
}

/// The lines of a list, which may be empty.
async fn lines_of(request: Request<Incoming>) -> Result<Vec<ListedName>, Refusal> {
    let list = Limited::new(request.into_body(), object_list::LIST_BYTES_MAX).collect();
    let list = match tokio::time::timeout(LIST_PATIENCE, list).await {
        Ok(Ok(list)) => list.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "the list exceeds 16 MiB: split it"));
        }
        Ok(Err(_)) => {
            return Err(refuse(
                StatusCode::BAD_REQUEST,
                "the list is incomplete: the connection ended early",
            ));
        }
        Err(_) => {
            return Err(refuse(StatusCode::REQUEST_TIMEOUT, "timed out waiting for the list"));
        }
    };
    let list = str::from_utf8(&list)
        .map_err(|_| "the list is not UTF-8".to_owned())
        .and_then(object_list::parse_list)
        .map_err(|why| refuse(StatusCode::BAD_REQUEST, &why))?;
    match list.len() {
        0..=object_list::OBJECTS_MAX => Ok(list),
        _ => {
            let why = format!("the list exceeds {} objects: split it", object_list::OBJECTS_MAX);
            Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, &why))
        }
    }
}

fn switch(gateway: &Gateway, caching: Caching) -> Response<Body> {
    let was = gateway.set_caching(caching);
    match (was, caching) {
        (Caching::On, Caching::Off) => tracing::warn!(
            "cache switched off: all reads go to the origin until zonal cache on or a restart"
        ),
        (Caching::Off, Caching::On) => tracing::info!("cache switched on"),
        (Caching::On, Caching::On) | (Caching::Off, Caching::Off) => {}
    }
    let switched = switching::Switched { cache: caching_state(caching), was: caching_state(was) };
    let json = serde_json::to_string(&switched).expect("two words are JSON");
    answer(StatusCode::OK, JSON, json + "\n")
}
