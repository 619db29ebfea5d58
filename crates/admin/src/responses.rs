//! Responses of an admin endpoint.

use std::convert::Infallible;
use std::str::FromStr;

use bytes::Bytes;
use futures_util::stream;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::AccessDenied;

/// Response body: a text, or one that is streamed message by message.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Content type of plain text.
pub const PLAIN: &str = "text/plain; charset=utf-8";
/// Content type of JSON.
pub const JSON: &str = "application/json";

/// Response with a text.
pub fn answer(
    status: StatusCode,
    content_type: &'static str,
    text: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = head(content_type, Full::new(text.into()).boxed_unsync());
    *response.status_mut() = status;
    response
}

/// Response with a JSON document.
///
/// # Panics
/// The document has a map whose keys are not text.
pub fn json(document: &impl Serialize) -> Response<Body> {
    let json = serde_json::to_string(document).expect("text and numbers are JSON");
    answer(StatusCode::OK, JSON, json + "\n")
}

/// Response that streams messages as they come.
pub fn streamed(content_type: &'static str, mut messages: mpsc::Receiver<Bytes>) -> Response<Body> {
    let frame = |message| Ok(Frame::data(message));
    let frames = stream::poll_fn(move |cx| messages.poll_recv(cx).map(|some| some.map(frame)));
    head(content_type, StreamBody::new(frames).boxed_unsync())
}

fn head(content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Response to a method that the path does not have.
pub fn not_allowed(methods: &'static str) -> Response<Body> {
    let why = format!("only {methods}\n");
    let mut response = answer(StatusCode::METHOD_NOT_ALLOWED, PLAIN, why);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

/// Response to a request that access control refused.
pub fn turned_away(AccessDenied { status, why }: AccessDenied) -> Response<Body> {
    let mut response = answer(status, PLAIN, format!("{why}\n"));
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Refusal of a stream for a page of another site: each of its visitors would take a place.
pub fn of_another_site() -> Response<Body> {
    answer(StatusCode::FORBIDDEN, PLAIN, "a page of another site asked for this\n")
}

/// A number in decimal digits; Rust's parser would take a sign as well.
pub fn digits<T: FromStr>(text: &str) -> Option<T> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}
