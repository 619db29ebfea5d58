//! Start-up banner of `zonal serve`: commands to copy.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use http::{Method, Uri};
use zonal_host::Freshness;
use zonal_s3::sigv4::{Credentials, Signer, Timestamp};

use crate::config::KeyPair;

/// How long the printed URL is good for: 1 h, long enough to read the README.
const URL_EXPIRES_S: u32 = 3600;

/// What is told.
pub(crate) struct Greeting<'a> {
    pub(crate) endpoint: SocketAddr,
    /// The endpoint shows a certificate.
    pub(crate) is_https: bool,
    pub(crate) admin: SocketAddr,
    pub(crate) region: &'a str,
    /// A pair that is let in; `None`: the origin lets in whom it knows.
    pub(crate) keys: Option<&'a (KeyPair, Secret)>,
    pub(crate) freshness: Freshness,
    /// The path to fetch: an object of ours, or the list of buckets.
    pub(crate) path: String,
    /// Devices and origin, for people.
    pub(crate) about: String,
}

/// How the user comes by the secret key.
pub(crate) enum Secret {
    /// It was made just now and is printed this once.
    Printed,
    /// It was made at an earlier start, and is in this file, in the format of AWS's own tools.
    Kept(PathBuf),
    /// The user named this file, whose first line it is.
    InFile(PathBuf),
    /// It is the first of the file of keys.
    InKeysFile,
    /// The user gave it.
    Given,
}

/// Forgets all that a shell knew of AWS. What is exported next would be mixed with it: a session token with
/// the wrong keys, a profile, an endpoint for S3 alone. The one name is for shells that want one at least.
const FORGET: &str = "unset AWS_PROFILE $(env | grep -o '^AWS_[A-Z0-9_]*')";

impl Greeting<'_> {
    pub(crate) fn text(&self) -> String {
        let endpoint = url(if self.is_https { "https" } else { "http" }, self.endpoint);
        let mut text = format!("Zonal serves S3 at {endpoint}: {}\n\n", self.about);
        let _ = match self.presigned(&endpoint) {
            Some(url) => writeln!(text, "  curl -sS -D- -o /dev/null '{url}'"),
            None => Ok(()),
        };
        let region = quoted(self.region);
        let _ = match self.keys {
            Some((keys, secret)) => writeln!(
                text,
                "  {FORGET}\n  export AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={} AWS_ENDPOINT_URL={endpoint} \
                 AWS_REGION={region} AWS_DEFAULT_REGION={region}",
                quoted(&keys.access_key),
                secret_key(keys, secret),
            ),
            // Keys and region are those of the origin, and the shell knows them, or its user does.
            None => writeln!(text, "  export AWS_ENDPOINT_URL={endpoint}"),
        };
        let _ = writeln!(text, "  curl -s {}/metrics", url("http", self.admin));
        let _ = writeln!(text, "\n{}", self.explanation());
        text
    }

    /// `None` when no client could sign with these keys.
    fn presigned(&self, endpoint: &str) -> Option<String> {
        let KeyPair { access_key, secret_key } = self.keys?.0.clone();
        let credentials = Credentials { access_key, secret_key, session_token: None };
        let signer = Signer::new(credentials, self.region.to_owned()).ok()?;
        let uri: Uri = format!("{endpoint}{}", self.path).parse().ok()?;
        let now = Timestamp::from_system_time(SystemTime::now());
        Some(signer.presign(now, &Method::GET, &uri, URL_EXPIRES_S))
    }

    fn explanation(&self) -> String {
        if self.keys.is_none() {
            return "The origin judges each request: sign with a key that it knows. Read an object twice: what comes \
                    from local flash says X-Cache: REVALIDATED, what does not says X-Cache: MISS or BYPASS."
                .to_owned();
        }
        let hit = match self.freshness {
            Freshness::Revalidate => {
                "X-Cache: REVALIDATED (the bytes come from local flash; the origin was asked only whether \
                 they are current. --freshness ttl=60s or immutable does not ask, and says HIT)"
            }
            Freshness::Ttl(_) | Freshness::Immutable => {
                "X-Cache: HIT (nothing was asked of the origin)"
            }
        };
        format!(
            "Read an object twice. What is on flash says {hit}, what is not says X-Cache: MISS."
        )
    }
}

/// The secret key as a shell comes by it. It is shown once, by the start that made it.
fn secret_key(keys: &KeyPair, secret: &Secret) -> String {
    let in_file = |path: &Path| quoted(&path.display().to_string());
    match secret {
        Secret::Printed => quoted(&keys.secret_key),
        Secret::Kept(path) => {
            format!("\"$(sed -n 's/^aws_secret_access_key *= *//p' {})\"", in_file(path))
        }
        Secret::InFile(path) => format!("\"$(head -n 1 {})\"", in_file(path)),
        Secret::InKeysFile => {
            "\"${ZONAL_KEY_SECRET:?write the secret of this access key here}\"".to_owned()
        }
        // A shell that does not know it says so, and exports nothing.
        Secret::Given => "\"${ZONAL_ENDPOINT_SECRET_KEY:?write the secret key here}\"".to_owned(),
    }
}

/// A word that a shell takes as it is.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Where a client on this machine finds the address.
fn url(scheme: &str, address: SocketAddr) -> String {
    format!("{scheme}://{}", reachable(address))
}

/// The address as a client on this machine reaches it.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => (),
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_words_as_they_are() {
        for (word, expected) in
            [("a/b-1", "a/b-1"), ("", "''"), ("$a b", "'$a b'"), ("it's", r"'it'\''s'")]
        {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn an_address_of_all_interfaces_is_reached_on_this_one() {
        for (address, expected) in [
            ("0.0.0.0:9000", "http://127.0.0.1:9000"),
            ("[::]:9000", "http://[::1]:9000"),
            ("10.0.0.7:80", "http://10.0.0.7:80"),
        ] {
            assert_eq!(url("http", address.parse().unwrap()), expected);
        }
    }
}
