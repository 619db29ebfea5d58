//! Virtual-hosted style: the bucket in the host name, `BUCKET.DOMAIN[:PORT]`.
//!
//! The signature covers the `Host` header, and never the host in the request line. So only the
//! header counts, and a request line with another host is refused: an attacker on the way could
//! otherwise select another bucket than the signed one.

use std::fmt;
use std::net::Ipv4Addr;

use http::header::HOST;
use http::request::Parts;
use zonal_s3::S3Error;

use crate::error;

/// Domains whose subdomains are buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains {
    /// Lower case, without a dot at either end.
    names: Vec<String>,
}

/// The text is not a domain name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadDomain {
    /// The rejected text.
    pub text: String,
}

impl fmt::Display for BadDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a domain: write a name without scheme and port, such as s3.example.com",
            self.text
        )
    }
}

impl std::error::Error for BadDomain {}

/// DNS limit of a name, in bytes.
const NAME_BYTES_MAX: usize = 253;

/// DNS limit of a label, in bytes.
const LABEL_BYTES_MAX: usize = 63;

impl Domains {
    /// Adds a domain.
    ///
    /// # Errors
    /// The text is not a DNS name: an IP address, a name with a port, or with other characters.
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

    /// True if the host is one of the domains, or a subdomain of one.
    pub(crate) fn have(&self, host: &str) -> bool {
        let host = without_port(host).to_ascii_lowercase();
        let is_below = |name: &String| {
            host.strip_suffix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.names.iter().any(is_below)
    }

    /// The bucket in the host name. `None` if the host is one of the domains itself or below none
    /// of them: then the path names the bucket.
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
        // A DNS name is ASCII, so a host with other bytes names no bucket.
        let host = host.and_then(|host| str::from_utf8(host).ok()).unwrap_or_default();
        Ok(self.bucket_in(host))
    }

    fn bucket_in(&self, host: &str) -> Option<String> {
        if self.names.is_empty() {
            return None;
        }
        let host = without_port(host).to_ascii_lowercase();
        // A trailing dot only makes the same name absolute.
        let host = host.strip_suffix('.').unwrap_or(&host);
        let fits = |name: &&String| {
            host.strip_suffix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        // One domain can be below another: `eu.s3.example.com` is then no bucket of
        // `s3.example.com`.
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
