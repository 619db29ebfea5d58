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

use crate::admin_access::AccessDenied;

/// Response body: a text, or one that is streamed message by message.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(crate) const PLAIN: &str = "text/plain; charset=utf-8";
pub(crate) const JSON: &str = "application/json";

pub(crate) fn answer(
    status: StatusCode,
    content_type: &'static str,
    text: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = head(content_type, Full::new(text.into()).boxed_unsync());
    *response.status_mut() = status;
    response
}

pub(crate) fn json(document: &impl Serialize) -> Response<Body> {
    let json = serde_json::to_string(document).expect("text and numbers are JSON");
    answer(StatusCode::OK, JSON, json + "\n")
}

/// Response that streams messages as they come.
pub(crate) fn streamed(
    content_type: &'static str,
    mut messages: mpsc::Receiver<Bytes>,
) -> Response<Body> {
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

pub(crate) fn not_allowed(methods: &'static str) -> Response<Body> {
    let why = format!("only {methods}\n");
    let mut response = answer(StatusCode::METHOD_NOT_ALLOWED, PLAIN, why);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

pub(crate) fn turned_away(AccessDenied { status, why }: AccessDenied) -> Response<Body> {
    let mut response = answer(status, PLAIN, format!("{why}\n"));
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Refusal of a stream for a page of another site: each of its visitors would take a place.
pub(crate) fn of_another_site() -> Response<Body> {
    answer(StatusCode::FORBIDDEN, PLAIN, "a page of another site asked for this\n")
}

/// A number in decimal digits; Rust's parser would take a sign as well.
pub(crate) fn digits<T: FromStr>(text: &str) -> Option<T> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}
