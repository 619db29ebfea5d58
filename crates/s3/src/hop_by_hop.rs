//! Hop-by-hop headers: headers of one connection, which a proxy removes before it forwards a
//! message (RFC 9110, section 7.6.1).

use http::HeaderMap;
use http::header::CONNECTION;

/// Header names that `Connection` declares hop-by-hop, in the client's spelling.
pub fn named_by_connection(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Removes the hop-by-hop headers of a message.
pub fn remove(headers: &mut HeaderMap) {
    let named: Vec<String> = named_by_connection(headers).map(str::to_owned).collect();
    for name in named.iter().map(String::as_str).chain(ALWAYS) {
        headers.remove(name);
    }
}

/// Headers that are hop-by-hop even if `Connection` does not name them.
const ALWAYS: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn what_concerns_one_connection_is_taken_off() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("content-type", "text/plain"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        assert_eq!(named_by_connection(&headers).collect::<Vec<_>>(), ["close", "X-Hop"]);
        remove(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["content-type"]);
    }
}
