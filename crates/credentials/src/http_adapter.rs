//! Sends the requests of the SDK's providers with Zonal's HTTP client.

use std::fmt;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Limited};
use tokio::time::timeout;
use zonal_origin::OriginError;

/// Largest answer of a provider. Real ones have a few KiB.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// End of the path at which the metadata service names the role of the instance. The SDK makes a URL of
/// the answer, and panics if it cannot.
const ROLE_OF_INSTANCE: &str = "/iam/security-credentials/";

/// Characters of the name of an IAM role.
const fn is_of_role_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'=' | b',' | b'.' | b'@' | b'_' | b'-')
}

/// Zonal's HTTP client for the SDK.
#[derive(Clone)]
pub(crate) struct ZonalHttp(pub(crate) zonal_origin::HttpClient);

impl fmt::Debug for ZonalHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ZonalHttp")
    }
}

impl HttpClient for ZonalHttp {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        _components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Connector { http: self.clone(), settings: settings.clone() })
    }
}

#[derive(Debug)]
struct Connector {
    http: ZonalHttp,
    settings: HttpConnectorSettings,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (http, settings) = (self.http.clone(), self.settings.clone());
        HttpConnectorFuture::new(async move {
            let wait = settings.connect_timeout().into_iter().chain(settings.read_timeout()).max();
            let exchange = exchange(&http.0, request);
            match wait {
                Some(wait) => timeout(wait, exchange).await.unwrap_or_else(|_| {
                    Err(ConnectorError::timeout(format!("no answer within {wait:?}").into()))
                }),
                None => exchange.await,
            }
        })
    }
}

/// The text of a transport error. Its own text takes the other side for an origin.
fn transport_error(error: OriginError) -> String {
    match error {
        OriginError::Unreachable { cause } => format!("it cannot be reached: {cause}"),
        OriginError::Untrusted { cause } => format!("its certificate is not trusted: {cause}"),
        OriginError::InvalidResponse { what } => format!("its answer is invalid: {what}"),
        error => error.to_string(),
    }
}

async fn exchange(
    http: &zonal_origin::HttpClient,
    request: HttpRequest,
) -> Result<HttpResponse, ConnectorError> {
    let unusable = |error| ConnectorError::user(error);
    let request: Request<SdkBody> =
        request.try_into_http1x().map_err(|error| unusable(error.into()))?;
    let (parts, body) = request.into_parts();
    let asks_for_role = parts.uri.path().ends_with(ROLE_OF_INSTANCE);
    let Some(body) = body.bytes().map(Bytes::copy_from_slice) else {
        return Err(unusable("a streamed request".into()));
    };
    let answer = http.send(Request::from_parts(parts, body)).await;
    let answer = answer.map_err(|error| ConnectorError::io(transport_error(error).into()))?;
    let (parts, body) = answer.into_parts();
    if parts.status.is_server_error() {
        return Err(ConnectorError::io(format!("it answered {}", parts.status).into()));
    }
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(ConnectorError::io)?;
    let mut body = body.to_bytes();
    if asks_for_role && parts.status.is_success() {
        body = Bytes::copy_from_slice(body.trim_ascii());
        if !body.iter().all(|byte| is_of_role_name(*byte)) {
            let what = "the metadata service answered with a text that is not the name of a role";
            return Err(ConnectorError::other(what.into(), None));
        }
    }
    let status = StatusCode::try_from(parts.status.as_u16());
    let status = status.map_err(|error| ConnectorError::other(error.into(), None))?;
    let mut response = HttpResponse::new(status, SdkBody::from(body));
    for (name, value) in &parts.headers {
        if let Ok(value) = value.to_str() {
            response.headers_mut().append(name.as_str().to_owned(), value.to_owned());
        }
    }
    Ok(response)
}
