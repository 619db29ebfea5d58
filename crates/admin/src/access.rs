//! Access control of an admin endpoint: host names, token, loopback.
//!
//! 1. Refuse a request for a foreign host name ([`hosts`]): a web page of another site sent it.
//! 2. Allow every read-only request.
//! 3. Allow a command only with the bearer token; if no token is configured, only from a loopback
//!    address. Refuse commands from web pages.

mod hosts;

use std::net::IpAddr;

use hosts::Hosts;
use http::header::{AUTHORIZATION, HeaderName, ORIGIN};
use http::{Request, StatusCode};

/// Shortest token, in characters. `openssl rand -hex 16` generates one of 32.
pub const TOKEN_CHARACTERS_MIN: usize = 16;

/// Header in which browsers state how the request relates to its page; other clients do not send
/// it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Access level of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLevel {
    /// A read-only request.
    Look,
    /// A command that changes state.
    Order,
}

/// Access rules of an admin endpoint: host names, token.
#[derive(Clone, Debug, Default)]
pub struct AdminAccess {
    hosts: Hosts,
    token: Option<Box<str>>,
}

/// Response to a refused request: HTTP status and reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessDenied {
    /// HTTP status.
    pub status: StatusCode,
    /// Reason, for people.
    pub why: &'static str,
}

impl AdminAccess {
    /// Allows host names besides `localhost` and IP addresses; commands need the token, if there is
    /// one.
    #[must_use]
    pub fn new(names: &[String], token: Option<String>) -> Self {
        Self { hosts: Hosts::new(names), token: token.map(String::into_boxed_str) }
    }

    /// True if commands need a token.
    #[must_use]
    pub const fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Checks a request of a peer.
    ///
    /// # Errors
    /// The request is refused; send the [`AccessDenied`] as the response.
    pub fn check<B>(
        &self,
        request: &Request<B>,
        (peer, errand): (IpAddr, AccessLevel),
    ) -> Result<(), AccessDenied> {
        if !self.hosts.have(request) {
            return refuse(StatusCode::MISDIRECTED_REQUEST, FOREIGN_NAME);
        }
        if errand == AccessLevel::Look {
            return Ok(());
        }
        if request.headers().contains_key(ORIGIN) || request.headers().contains_key(SEC_FETCH_SITE)
        {
            return refuse(StatusCode::FORBIDDEN, "refused: a web page sent this request");
        }
        match &self.token {
            Some(token) if has_token(request, token) => Ok(()),
            Some(_) => refuse(StatusCode::UNAUTHORIZED, NO_TOKEN),
            None if peer.to_canonical().is_loopback() => Ok(()),
            None => refuse(StatusCode::FORBIDDEN, ELSEWHERE),
        }
    }
}

/// True if a page of another site sent the GET request. Such a page cannot read the answer, but a
/// stream would hold resources for it. A page of the same site sends no `Origin` with a GET.
pub fn is_of_another_site<B>(request: &Request<B>) -> bool {
    let site = request.headers().get(SEC_FETCH_SITE);
    site.is_some_and(|site| site != "same-origin" && site != "none")
        || request.headers().contains_key(ORIGIN)
}

const fn refuse(status: StatusCode, why: &'static str) -> Result<(), AccessDenied> {
    Err(AccessDenied { status, why })
}

const FOREIGN_NAME: &str =
    "unknown host name: use an IP address or localhost, or add the name to admin.hosts";
const NO_TOKEN: &str = "commands need the token of admin.token-file: Authorization: Bearer TOKEN";
const ELSEWHERE: &str = "without admin.token-file, commands are accepted from this machine only";

fn has_token<B>(request: &Request<B>, token: &str) -> bool {
    let mut given = request.headers().get_all(AUTHORIZATION).iter();
    let first = given.next().filter(|_| given.next().is_none());
    let word = first.and_then(|given| given.to_str().ok()).and_then(|given| given.split_once(' '));
    word.is_some_and(|(scheme, given)| {
        scheme.eq_ignore_ascii_case("bearer") && is_same(given.trim().as_bytes(), token.as_bytes())
    })
}

/// Constant-time comparison, so that response times do not reveal the token byte by byte.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(0, |differing, (a, b)| differing | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use http::header::HOST;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[track_caller]
    fn check(admin_access: &AdminAccess, peer: &str, headers: &[(&str, &str)], expected: u16) {
        let request = headers.iter().fold(Request::post("/cache/off"), |request, (name, value)| {
            request.header(*name, *value)
        });
        let request = request.header(HOST, "127.0.0.1:9090").body(()).unwrap();
        let status = |errand| match admin_access.check(&request, (peer.parse().unwrap(), errand)) {
            Ok(()) => 200,
            Err(AccessDenied { status, .. }) => status.as_u16(),
        };
        assert_eq!(status(AccessLevel::Order), expected, "{peer} {headers:?}");
        assert_eq!(status(AccessLevel::Look), 200, "{peer} {headers:?}");
    }

    #[test]
    fn without_a_token_orders_come_from_this_machine() {
        let admin_access = AdminAccess::default();
        for peer in ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"] {
            check(&admin_access, peer, &[], 200);
        }
        for peer in ["10.0.0.7", "::ffff:10.0.0.7", "fe80::1", "0.0.0.0"] {
            check(&admin_access, peer, &[], 403);
        }
    }

    #[test]
    fn with_one_they_need_it_wherever_they_come_from() {
        let admin_access = AdminAccess::new(&[], Some(TOKEN.to_owned()));
        for peer in ["127.0.0.1", "10.0.0.7"] {
            check(&admin_access, peer, &[("authorization", "Bearer 0123456789abcdef")], 200);
            check(&admin_access, peer, &[("authorization", "bearer  0123456789abcdef")], 200);
            check(&admin_access, peer, &[], 401);
            for wrong in
                ["Bearer 0123456789abcdeg", "Bearer 0123456789abcde", "Bearer ", "Bearer", TOKEN]
            {
                check(&admin_access, peer, &[("authorization", wrong)], 401);
            }
            let two = [("authorization", "Bearer x"), ("authorization", "Bearer 0123456789abcdef")];
            check(&admin_access, peer, &two, 401);
        }
    }

    #[test]
    fn no_web_page_gives_orders() {
        let admin_access = AdminAccess::new(&[], Some(TOKEN.to_owned()));
        let token = ("authorization", "Bearer 0123456789abcdef");
        for header in [
            ("origin", "http://127.0.0.1:9090"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "none"),
        ] {
            check(&admin_access, "127.0.0.1", &[token, header], 403);
            check(&AdminAccess::default(), "127.0.0.1", &[header], 403);
        }
    }

    #[test]
    fn under_another_name_nobody_comes_in() {
        let request = Request::get("/stats").header(HOST, "evil.example").body(()).unwrap();
        let peer = IpAddr::from([127, 0, 0, 1]);
        for errand in [AccessLevel::Look, AccessLevel::Order] {
            let refused = AdminAccess::default().check(&request, (peer, errand)).unwrap_err();
            assert_eq!(refused.status, StatusCode::MISDIRECTED_REQUEST);
        }
        let admin_access = AdminAccess::new(&["evil.example".to_owned()], None);
        assert_eq!(admin_access.check(&request, (peer, AccessLevel::Look)), Ok(()));
    }
}
