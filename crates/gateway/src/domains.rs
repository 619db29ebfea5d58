//! Virtual-hosted style: the bucket in the host name, `BUCKET.DOMAIN[:PORT]`.
//!
//! The signature covers the `Host` header and never what stands before the path in the request line. So the header
//! alone decides, and a request line that speaks of another host is refused: whoever changes it on the way would
//! choose another bucket than was signed.

use std::fmt;
use std::net::Ipv4Addr;

use http::header::HOST;
use http::request::Parts;
use zonal_s3::S3Error;

use crate::error;

/// The domains whose subdomains are buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains {
    /// In lower case, without a dot at either end.
    names: Vec<String>,
}

/// Why a text is no domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadDomain {
    /// What was given.
    pub text: String,
}

impl fmt::Display for BadDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no domain: write a name without scheme and port, such as s3.example.com",
            self.text
        )
    }
}

impl std::error::Error for BadDomain {}

/// DNS's bound on a name.
const NAME_BYTES_MAX: usize = 253;

/// DNS's bound on what stands between two dots.
const LABEL_BYTES_MAX: usize = 63;

impl Domains {
    /// With one more.
    ///
    /// # Errors
    /// It is no name of DNS: an address, or with a port, or with other characters.
    pub fn with(mut self, name: &str) -> Result<Self, BadDomain> {
        let is_label = |label: &str| {
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(legal)
        };
        let is_name = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label);
        if !is_name || name.parse::<Ipv4Addr>().is_ok() {
            return Err(BadDomain { text: name.to_owned() });
        }
        self.names.push(name.to_ascii_lowercase());
        Ok(self)
    }

    /// Whether a host is one of the domains, or below one.
    pub(crate) fn have(&self, host: &str) -> bool {
        let host = without_port(host).to_ascii_lowercase();
        let is_below = |name: &String| {
            host.strip_suffix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.names.iter().any(is_below)
    }

    /// The bucket that the host of a request names; `None` for a host that is none of ours or one of the domains
    /// itself: then the path names it.
    ///
    /// # Errors
    /// The request names two hosts.
    pub(crate) fn bucket_of(&self, request: &Parts) -> Result<Option<String>, S3Error> {
        let mut hosts = request.headers.get_all(HOST).iter();
        let host = hosts.next().map(|value| value.as_bytes());
        let asked = request.uri.authority().map(|authority| authority.as_str().as_bytes());
        let is_other = |asked: &[u8]| !host.is_some_and(|host| host.eq_ignore_ascii_case(asked));
        if hosts.next().is_some() || asked.is_some_and(is_other) {
            return Err(error::two_hosts());
        }
        // A name of DNS is ASCII: what is not is nobody's bucket.
        let host = host.and_then(|host| str::from_utf8(host).ok()).unwrap_or_default();
        Ok(self.bucket_in(host))
    }

    fn bucket_in(&self, host: &str) -> Option<String> {
        if self.names.is_empty() {
            return None;
        }
        let host = without_port(host).to_ascii_lowercase();
        // With its dot at the end a name is the same, only written out.
        let host = host.strip_suffix('.').unwrap_or(&host);
        let fits = |name: &&String| {
            host.strip_suffix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        // Of two domains one may lie in the other: `eu.s3.example.com` is no bucket of `s3.example.com` then.
        let domain = self.names.iter().filter(fits).max_by_key(|name| name.len())?;
        host.strip_suffix(domain.as_str())?.strip_suffix('.').map(str::to_owned)
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn domains() -> Domains {
        let domains = Domains::default().with("S3.example.com").unwrap();
        domains.with("eu.s3.example.com").unwrap().with("localhost").unwrap()
    }

    #[track_caller]
    fn check(host: &str, expected: Option<&str>) {
        assert_eq!(domains().bucket_in(host).as_deref(), expected, "{host:?}");
    }

    #[test]
    fn what_stands_before_a_domain_is_a_bucket() {
        check("b.s3.example.com", Some("b"));
        check("b.s3.example.com:9000", Some("b"));
        check("b.s3.example.com:", Some("b"));
        check("b.s3.example.com.", Some("b"));
        check("b.s3.example.com.:80", Some("b"));
        check("B.S3.EXAMPLE.COM", Some("b"));
        check("a.b.s3.example.com", Some("a.b"));
        check("b.localhost", Some("b"));
    }

    #[test]
    fn of_two_domains_the_longer_counts() {
        check("b.eu.s3.example.com", Some("b"));
        check("eu.s3.example.com", None);
        check("us.s3.example.com", Some("us"));
    }

    #[test]
    fn any_other_host_names_no_bucket() {
        for host in [
            "",
            ".",
            "s3.example.com",
            "s3.example.com:80",
            "S3.Example.Com.",
            "bs3.example.com",
            "b.s3.example.org",
            "b.s3.example.com.evil.org",
            "s3.example.com.b",
            "b.s3.example.com:80:80",
            "b.s3.example.com:x",
            "b.s3.example.com..",
            "127.0.0.1:9000",
            "[::1]:9000",
            "example.com",
        ] {
            check(host, None);
        }
        assert_eq!(Domains::default().bucket_in("b.s3.example.com"), None);
    }

    #[test]
    fn what_can_be_no_bucket_is_not_left_to_the_path() {
        check(".s3.example.com", Some(""));
        check("..s3.example.com", Some("."));
        check("a/b.s3.example.com", Some("a/b"));
        check("x@b.s3.example.com", Some("x@b"));
    }

    #[track_caller]
    fn check_request(uri: &str, hosts: &[&str], expected: Result<Option<&str>, ()>) {
        let request = hosts.iter().fold(Request::get(uri), |all, host| all.header("host", *host));
        let request = request.body(()).unwrap().into_parts().0;
        let found = domains().bucket_of(&request);
        let found = found.as_ref().map(Option::as_deref).map_err(|_| ());
        assert_eq!(found, expected, "{uri} {hosts:?}");
    }

    #[test]
    fn a_request_has_one_host() {
        check_request("/k", &["b.localhost"], Ok(Some("b")));
        check_request("/k", &[], Ok(None));
        check_request("/k", &["b.localhost", "b.localhost"], Err(()));
        check_request("/k", &["b.localhost", "c.localhost"], Err(()));
        check_request("http://b.localhost/k", &["B.localhost"], Ok(Some("b")));
        check_request("http://b.localhost/k", &["c.localhost"], Err(()));
        check_request("http://b.localhost/k", &["elsewhere"], Err(()));
        check_request("http://elsewhere/k", &["b.localhost"], Err(()));
        check_request("http://b.localhost:80/k", &["b.localhost"], Err(()));
        check_request("http://b.localhost/k", &[], Err(()));
    }

    #[test]
    fn what_is_no_domain_is_refused() {
        for text in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "http://a",
            "a:80",
            "127.0.0.1",
            "[::1]",
            "*.a",
            "a/b",
            "a_b",
        ] {
            assert!(Domains::default().with(text).is_err(), "{text:?}");
        }
        assert!(Domains::default().with(&"a".repeat(64)).is_err());
        assert!(Domains::default().with(&"a.".repeat(127)).is_err());
    }
}
