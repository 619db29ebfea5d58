//! Host check of the admin endpoint: protects browsers on this network against DNS rebinding.
//!
//! An attacker's web page can point its own host name at this address, and then read responses as
//! same-origin. The Host header still has the attacker's name, so a request for an unknown name is
//! refused. IP addresses cannot be rebound, so they are allowed. HTTP/1.0 requests may omit the
//! name: load balancers' health checks send them, browsers never do.

use std::net::IpAddr;

use http::header::HOST;
use http::uri::Authority;
use http::{Request, Version};

/// Allowed host names in lower case, besides IP addresses and `localhost`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hosts(Vec<String>);

impl Hosts {
    pub(super) fn new(names: &[String]) -> Self {
        Self(names.iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Whether a request names an allowed host.
    pub(super) fn have<B>(&self, request: &Request<B>) -> bool {
        let names_nobody = request.version() == Version::HTTP_10
            && request.uri().authority().is_none()
            && !request.headers().contains_key(HOST);
        if names_nobody {
            return true;
        }
        let mut hosts = request.headers().get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
        let named_in_line = request.uri().authority().map(Authority::as_str);
        let is_one = hosts.next().is_none()
            && named_in_line.is_none_or(|other| other.eq_ignore_ascii_case(host));
        is_one && self.is_ours(host)
    }

    fn is_ours(&self, host: &str) -> bool {
        // User information before an @ is not part of the host.
        let Some(authority) = host.parse::<Authority>().ok().filter(|_| !host.contains('@')) else {
            return false;
        };
        // Text behind a bracket is not part of the host either: `[::1].example` would be parsed as
        // `[::1]`.
        let behind = host.get(authority.host().len()..).unwrap_or_default();
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        if !behind.is_empty() && !behind.strip_prefix(':').is_some_and(is_port) {
            return false;
        }
        let name = authority.host().to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let address =
            name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        name == "localhost"
            || address.parse::<IpAddr>().is_ok()
            || self.0.iter().any(|known| known == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_what_is_configured_are_ours() {
        let hosts = Hosts::new(&["Zonal-0.zonal".to_owned()]);
        for host in [
            "127.0.0.1",
            "127.0.0.1:9090",
            "10.0.0.7:9090",
            "[::1]:9090",
            "localhost",
            "LocalHost:9090",
            "localhost.",
            "zonal-0.ZONAL:9090",
        ] {
            assert!(hosts.is_ours(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[::1].evil.example",
            "[::1]evil.example:80",
            "[::1]:80.evil.example",
            "localhost@evil.example",
            "evil.example@localhost",
            "zonal-1.zonal",
            "a b",
        ] {
            assert!(!hosts.is_ours(host), "{host}");
        }
    }

    #[test]
    fn an_old_request_may_name_nobody() {
        let request = |version, host: Option<&str>, uri: &str| {
            let request = Request::get(uri).version(version);
            let request =
                host.into_iter().fold(request, |request, host| request.header(HOST, host));
            Hosts::default().have(&request.body(()).unwrap())
        };
        assert!(request(Version::HTTP_10, None, "/"));
        assert!(!request(Version::HTTP_11, None, "/"));
        assert!(!request(Version::HTTP_10, Some("evil.example"), "/"));
        assert!(!request(Version::HTTP_10, None, "http://evil.example/"));
    }

    #[test]
    fn two_hosts_are_none() {
        let request = |lines: &[&str], uri: &str| {
            let request = Request::get(uri);
            let request = lines.iter().fold(request, |request, host| request.header(HOST, *host));
            Hosts::default().have(&request.body(()).unwrap())
        };
        assert!(request(&["localhost"], "/"));
        assert!(request(&["localhost"], "http://localhost/"));
        assert!(!request(&[], "/"));
        assert!(!request(&["localhost", "localhost"], "/"));
        assert!(!request(&["localhost"], "http://evil.example/"));
    }
}
