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

/// Largest answer of a provider. Real ones have a few KiB.
const ANSWER_BYTES_MAX: usize = 1 << 20;

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

async fn exchange(
    http: &zonal_origin::HttpClient,
    request: HttpRequest,
) -> Result<HttpResponse, ConnectorError> {
    let unusable = |error| ConnectorError::user(error);
    let request: Request<SdkBody> =
        request.try_into_http1x().map_err(|error| unusable(error.into()))?;
    let (parts, body) = request.into_parts();
    let Some(body) = body.bytes().map(Bytes::copy_from_slice) else {
        return Err(unusable("a streamed request".into()));
    };
    let answer = http.send(Request::from_parts(parts, body)).await;
    let answer = answer.map_err(|error| ConnectorError::io(error.into()))?;
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(ConnectorError::io)?;
    let status = StatusCode::try_from(parts.status.as_u16());
    let status = status.map_err(|error| ConnectorError::other(error.into(), None))?;
    let mut response = HttpResponse::new(status, SdkBody::from(body.to_bytes()));
    for (name, value) in &parts.headers {
        if let Ok(value) = value.to_str() {
            response.headers_mut().append(name.as_str().to_owned(), value.to_owned());
        }
    }
    Ok(response)
}
