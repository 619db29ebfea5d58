//! HTTP client for protocols other than S3: one connection pool, with the limits of an origin.

use std::io;

use bytes::Bytes;
use http::uri::Scheme;
use http::{Request, Response, response};
use hyper::body::Incoming;
use zonal_s3::full_body;

use crate::authorities::roots_for;
use crate::error::OriginError;
use crate::limits::Limits;
use crate::s3::answer;
use crate::s3::client::{Client, connect_with};

/// Sends requests over HTTP and, with the certificates for it, HTTPS. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HttpClient {
    client: Client,
}

impl HttpClient {
    /// A client for HTTP alone, or for both.
    ///
    /// # Errors
    /// HTTPS is wanted, and the system has no root certificates that could be read.
    pub fn open(scheme: &Scheme, limits: &Limits) -> io::Result<Self> {
        let roots = roots_for(scheme, limits.authorities.as_ref())?;
        Ok(Self { client: connect_with(roots, limits) })
    }

    /// Sends a request once. How long that may take is for the caller to say, by dropping it.
    ///
    /// # Errors
    /// No connection, or it broke before the answer came, or what came is no HTTP.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Incoming>, OriginError> {
        let answer = self.client.request(request.map(full_body)).await;
        answer.map_err(|error| answer::broken(&error))
    }

    /// Reads an answer that is no success to its end; without its document when that is too long or broke off.
    pub async fn read_refusal(response: Response<Incoming>) -> (response::Parts, Bytes) {
        let (parts, document) = answer::read(response).await;
        (parts, document.unwrap_or_default())
    }
}

impl OriginError {
    /// What an answer that is no success means, by its status and the code in its document.
    #[must_use]
    pub fn of_refusal(parts: &response::Parts, document: &[u8]) -> Self {
        answer::meaning(parts, document)
    }

    /// An answer that contradicts the request or itself.
    #[must_use]
    pub fn of_nonsense(what: impl Into<String>) -> Self {
        Self::lied(what)
    }
}
