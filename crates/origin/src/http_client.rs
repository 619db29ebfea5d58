//! HTTP client for protocols other than S3: one connection pool, with the limits of an origin.

use std::io;

use bytes::Bytes;
use http::uri::Scheme;
use http::{Request, Response, response};
use hyper::body::Incoming;
use zonal_s3::full_body;

use crate::ca_roots::roots_for;
use crate::error::OriginError;
use crate::limits::OriginLimits;
use crate::s3::client::{Client, connect_with};
use crate::s3::error_mapping;

/// HTTP and HTTPS client with a connection pool. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HttpClient {
    client: Client,
}

impl HttpClient {
    /// Creates a client. `scheme` decides whether root certificates are loaded.
    ///
    /// # Errors
    /// The scheme is HTTPS, and the system has no readable root certificates.
    pub fn open(scheme: &Scheme, limits: &OriginLimits) -> io::Result<Self> {
        let roots = roots_for(scheme, limits.ca_roots.as_ref())?;
        Ok(Self { client: connect_with(roots, limits) })
    }

    /// Sends a request once, without a timeout. The caller cancels it by dropping the future.
    ///
    /// # Errors
    /// No connection, a connection that broke before the answer, or an answer that is not HTTP.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Incoming>, OriginError> {
        let answer = self.client.request(request.map(full_body)).await;
        answer.map_err(|error| error_mapping::broken(&error))
    }

    /// Reads an error response to its end. The document is empty if it is too long or incomplete.
    pub async fn read_refusal(response: Response<Incoming>) -> (response::Parts, Bytes) {
        let (parts, document) = error_mapping::read(response).await;
        (parts, document.unwrap_or_default())
    }
}

impl OriginError {
    /// Maps an error response to an error, by its status and the code in its document.
    #[must_use]
    pub fn of_refusal(parts: &response::Parts, document: &[u8]) -> Self {
        error_mapping::meaning(parts, document)
    }

    /// [`OriginError::InvalidResponse`]: the answer contradicts the request or itself.
    #[must_use]
    pub fn of_invalid_response(what: impl Into<String>) -> Self {
        Self::invalid_response(what)
    }
}
