//! HTTP transport of `object_store`: sends its requests with Zonal's HTTP client.
//!
//! The results of the library omit parts of a response, such as the exact date and the status of an
//! error. So the caller puts a [`ResponseCapture`] into the extensions of the request, and the transport
//! stores the response head there.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HeaderValue};
use http::{Request, Response, response};
use http_body_util::{BodyExt, Full};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient as Client, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use zonal_origin::{HttpClient, OriginError};

/// `Accept-Encoding` of object requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The library's own choice.
    AsAsked,
    /// `Accept-Encoding: gzip`. Google Cloud Storage decompresses objects that are stored as gzip
    /// unless the client accepts gzip. A decompressed object has no ranges, and another size than
    /// stated.
    AsStored,
}

/// The transport: an HTTP client and its choice of encoding.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    client: HttpClient,
    encoding: Encoding,
}

/// A response head, with the document of an error response.
#[derive(Clone, Debug)]
pub(crate) struct ResponseHead {
    pub(crate) parts: response::Parts,
    pub(crate) document: Bytes,
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Object,
    List,
}

/// Slot for the response head of the last request that carried this note.
#[derive(Clone, Debug)]
pub(crate) struct ResponseCapture {
    about: RequestKind,
    seen: Arc<Mutex<Option<ResponseHead>>>,
}

impl ResponseCapture {
    pub(crate) fn new(about: RequestKind) -> Self {
        Self { about, seen: Arc::default() }
    }

    pub(crate) fn take(&self) -> Option<ResponseHead> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn get(&self) -> Option<ResponseHead> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, seen: ResponseHead) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
    }
}

impl Transport {
    pub(crate) const fn new(client: HttpClient, encoding: Encoding) -> Self {
        Self { client, encoding }
    }
}

impl HttpConnector for Transport {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<Client> {
        Ok(Client::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut parts, body) = request.into_parts();
        let note = parts.extensions.remove::<ResponseCapture>();
        let is_of_object = note.as_ref().is_some_and(|note| note.about == RequestKind::Object);
        if self.encoding == Encoding::AsStored && is_of_object {
            parts.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        // Only token requests have a body, in one piece.
        let body = body.as_bytes().cloned().unwrap_or_default();
        let answer = self.client.send(Request::from_parts(parts, body)).await.map_err(failed)?;
        if answer.status().is_success() {
            let (parts, body) = answer.into_parts();
            if let Some(note) = note {
                note.put(ResponseHead { parts: parts.clone(), document: Bytes::new() });
            }
            let body = body.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error));
            return Ok(Response::from_parts(parts, HttpResponseBody::new(body)));
        }
        let (parts, document) = HttpClient::read_refusal(answer).await;
        if let Some(note) = note {
            note.put(ResponseHead { parts: parts.clone(), document: document.clone() });
        }
        let body = Full::new(document).map_err(|never| match never {});
        Ok(Response::from_parts(parts, HttpResponseBody::new(body)))
    }
}

fn failed(error: OriginError) -> HttpError {
    HttpError::new(HttpErrorKind::Connect, error)
}

/// The [`OriginError`] of Zonal's client, if it is among the causes of an error.
pub(crate) fn of_the_client(error: &object_store::Error) -> Option<OriginError> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(ours) = error.downcast_ref::<OriginError>() {
            return Some(ours.clone());
        }
        cause = error.source();
    }
    None
}
