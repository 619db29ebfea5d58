//! HTTP client: sends signed requests within the limits.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Request, Response, request};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::RootCertStore;
use zonal_s3::sigv4::EMPTY_SHA256;
use zonal_s3::{BoxBody, full_body};

use super::S3Origin;
use super::error_mapping;
use crate::error::{OriginError, Wait};
use crate::limits::OriginLimits;

pub(crate) type Client = legacy::Client<HttpsConnector<HttpConnector>, BoxBody>;

/// Idle timeout of pooled connections. S3 and its load balancers close theirs after 5 to 60 s, and
/// a request on a connection that is just being closed fails.
const IDLE_CONNECTION: Duration = Duration::from_secs(4);

/// Maximum of headers in an answer. S3 allows 2 KiB of user metadata: 170 headers in the smallest
/// possible pieces, prefixes included. hyper's default is 100.
const HEADERS_MAX: usize = 512;

const NOT_IMPLEMENTED: u16 = 501;

/// Creates a client, without opening a connection.
pub(crate) fn connect_with(roots: RootCertStore, limits: &OriginLimits) -> Client {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(limits.connect));
    let provider = rustls::crypto::ring::default_provider();
    let tls = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("the provider supports TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let connector = builder.enable_http1().wrap_connector(http);
    legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_CONNECTION)
        .pool_max_idle_per_host(limits.concurrent_reads)
        .http1_max_headers(HEADERS_MAX)
        .build(connector)
}

impl S3Origin {
    /// Sends a request without a body, with retries and hedging.
    pub(super) async fn read(
        &self,
        request: impl Fn() -> Request<()>,
    ) -> Result<Response<Incoming>, OriginError> {
        self.reads.ask(|| self.attempt(request())).await
    }

    /// Sends a read of a whole object, with checksums if the origin knows them. Several S3 servers
    /// answer 501 to headers that they do not know, which is remembered.
    pub(super) async fn ask_with_checksums(
        &self,
        request: impl Fn() -> request::Builder,
    ) -> Result<Response<Incoming>, OriginError> {
        let made = |request: request::Builder| request.body(()).expect("made of valid parts");
        let plain = || made(request());
        if self.lacks_checksum_mode.load(Ordering::Relaxed) {
            return self.read(plain).await;
        }
        match self.read(|| made(request().header("x-amz-checksum-mode", "ENABLED"))).await {
            Err(OriginError::Failed(refusal)) if refusal.status == NOT_IMPLEMENTED => {
                let answer = self.read(plain).await?;
                self.lacks_checksum_mode.store(true, Ordering::Relaxed);
                Ok(answer)
            }
            answer => answer,
        }
    }

    /// Sends a request without a body once, with a timeout; twice if its keys were renewed
    /// meanwhile.
    pub(super) async fn attempt(
        &self,
        request: Request<()>,
    ) -> Result<Response<Incoming>, OriginError> {
        let keys = self.keys.load_full();
        if !keys.are_renewable() {
            return self.attempt_once(request).await;
        }
        let mut renewal = keys.watch();
        match self.attempt_once(request.clone()).await {
            Err(error) if renewal.mends(&error, true).await => self.attempt_once(request).await,
            answer => answer,
        }
    }

    async fn attempt_once(&self, request: Request<()>) -> Result<Response<Incoming>, OriginError> {
        let (mut parts, ()) = request.into_parts();
        self.keys.load().sign(&mut parts, EMPTY_SHA256)?;
        let request = Request::from_parts(parts, full_body(""));
        let whole = async {
            let answer = self.client.load().request(request);
            let response = answer.await.map_err(|error| error_mapping::broken(&error))?;
            if response.status().is_success() {
                Ok(response)
            } else {
                let (parts, document) = error_mapping::read(response).await;
                Err(error_mapping::meaning(&parts, &document.unwrap_or_default()))
            }
        };
        let after = self.limits.answer;
        let stalled = OriginError::Stalled { waited_for: Wait::Answer, after };
        tokio::time::timeout(after, whole).await.unwrap_or(Err(stalled))
    }
}
