//! Start-up banner of `zonal serve`: commands that the operator can copy.

use std::fmt::Write;
use std::io::{self, stdout};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::SystemTime;

use http::{Method, Uri};
use zonal_cli::Failure;
use zonal_s3::sigv4::{Credentials, Signer, Timestamp};

use crate::config::{Flags, KeyPair};

/// Lifetime of the printed presigned URL: 1 h, long enough to read the README.
const URL_EXPIRES_S: u32 = 3600;

/// Contents of the banner.
pub(crate) struct Banner<'a> {
    pub(crate) endpoint: SocketAddr,
    /// Certificate file of the S3 endpoint; `None`: plain HTTP.
    pub(crate) certificate: Option<&'a Path>,
    pub(crate) admin: SocketAddr,
    /// Certificate file of the admin endpoint; `None`: plain HTTP.
    pub(crate) admin_certificate: Option<&'a Path>,
    pub(crate) region: &'a str,
    /// A valid key pair; `None`: the origin authorizes requests, with its own keys.
    pub(crate) keys: Option<&'a KeyPair>,
    /// Shell command that prints the environment of AWS clients: [`env_command`].
    pub(crate) env_command: String,
    /// Path of the printed URL: a sample object, or the list of buckets.
    pub(crate) path: String,
    /// Summary of devices and origins.
    pub(crate) about: String,
}

impl Banner<'_> {
    pub(crate) fn text(&self) -> String {
        let endpoint = url(scheme(self.certificate), self.endpoint);
        let mut text = format!("Zonal serves S3 at {endpoint}, from {}\n\n", self.about);
        if let Some(url) = self.presigned(&endpoint) {
            let trust = ca_option(self.certificate);
            let _ = writeln!(text, "  curl -sS -D- -o /dev/null{trust} '{url}'");
        }
        let _ = writeln!(text, "  eval \"$({})\"", self.env_command);
        let admin = url(scheme(self.admin_certificate), self.admin);
        let _ = writeln!(text, "  curl -s{} {admin}/metrics", ca_option(self.admin_certificate));
        let _ = writeln!(text, "\nThe cache live, in a browser: {admin}/ui/");
        let _ = writeln!(text, "{}\n{}", self.explanation(), LAST_LINE);
        text
    }

    /// A presigned URL; `None` if the keys cannot sign one.
    fn presigned(&self, endpoint: &str) -> Option<String> {
        let KeyPair { access_key, secret_key } = self.keys?.clone();
        let credentials = Credentials { access_key, secret_key, session_token: None };
        let signer = Signer::new(credentials, self.region.to_owned()).ok()?;
        let uri: Uri = format!("{endpoint}{}", self.path).parse().ok()?;
        let now = Timestamp::from_system_time(SystemTime::now());
        Some(signer.presign(now, &Method::GET, &uri, URL_EXPIRES_S))
    }

    fn explanation(&self) -> &'static str {
        match self.keys {
            Some(_) => {
                "Read an object twice. Its X-Cache header says where the bytes came from:
  MISS         the origin; from now on they are on flash
  REVALIDATED  flash, after the origin confirmed the version with one HEAD
  HIT          flash, without a request to the origin: --freshness ttl=60s or immutable"
            }
            None => {
                "The origin authorizes each request: sign with a key that it knows.
Read an object twice. Its X-Cache header says where the bytes came from:
  BYPASS       the origin, which answered the client itself
  MISS         the origin confirmed the version; Zonal fetched bytes, which are on flash now
  REVALIDATED  flash, after the origin confirmed the version"
            }
        }
    }
}

/// URL scheme of an endpoint with this certificate file.
pub(crate) fn scheme(certificate: Option<&Path>) -> &'static str {
    if certificate.is_some() { "https" } else { "http" }
}

/// curl accepts any certificate of the chain as a trust anchor, so the endpoint's own file serves
/// for a self-signed certificate, for a private CA and for a public one.
fn ca_option(certificate: Option<&Path>) -> String {
    certificate.map_or_else(String::new, |path| format!(" --cacert {}", quoted_path(path)))
}

/// Prints the banner on standard output.
pub(crate) fn print(text: String) -> Result<(), Failure> {
    print_to(stdout(), text)
}

/// Prints the banner in a thread of its own: the reader of a pipe may have stopped, and the server
/// serves all the same. So it does when the text cannot be written.
pub(crate) fn print_to(
    mut out: impl io::Write + Send + 'static,
    text: String,
) -> Result<(), Failure> {
    let print = move || {
        let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if let Err(error) = printed {
            tracing::warn!(%error, "the banner could not be printed");
        }
    };
    thread::Builder::new().name("banner".to_owned()).spawn(print).map_err(Failure::work)?;
    Ok(())
}

/// A path for a shell in any directory.
pub(crate) fn quoted_path(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    quoted(&absolute.display().to_string())
}

const LAST_LINE: &str = "Ctrl-C stops Zonal. The cache survives a restart.";

/// Shell command that runs `zonal env` with the settings of this server, from any directory and
/// from a shell without its `ZONAL_` variables. A secret key that was given as a value is left out:
/// the command then asks for it.
pub(crate) fn env_command(flags: &Flags, endpoint: SocketAddr) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "zonal".to_owned());
    let directory = std::env::current_dir().unwrap_or_default();
    let mut command = match program.contains('/') || is_relative(flags) {
        true => format!("cd {} && ", quoted(&directory.display().to_string())),
        false => String::new(),
    };
    let _ = write!(command, "{} env", quoted(&program));
    let raw_endpoint = &flags.endpoint;
    let config = flags.config.as_ref().map(|path| path.display().to_string());
    let is_any_port = |address: &&String| address.ends_with(":0");
    let listen = match raw_endpoint.listen.as_ref().filter(is_any_port) {
        Some(_) => Some(endpoint.to_string()),
        None => raw_endpoint.listen.clone(),
    };
    for (flag, value) in [
        ("config", &config),
        ("data-dir", &flags.data_dir),
        ("listen", &listen),
        ("region", &raw_endpoint.region),
        ("authorization", &raw_endpoint.authorization),
        ("access-key", &raw_endpoint.access_key),
        ("secret-key-file", &raw_endpoint.secret_key_file),
        ("keys-file", &raw_endpoint.keys_file),
        ("certificate-file", &raw_endpoint.certificate_file),
        ("private-key-file", &raw_endpoint.private_key_file),
    ] {
        if let Some(value) = value {
            let _ = write!(command, " --{flag}={}", quoted(value));
        }
    }
    command
}

/// Whether the settings depend on the working directory, as the default data directory does.
fn is_relative(flags: &Flags) -> bool {
    let is_absolute = |path: Option<&Path>| path.is_some_and(Path::is_absolute);
    let data_dir = flags.data_dir.as_deref().map(Path::new);
    !is_absolute(flags.config.as_deref()) && !is_absolute(data_dir)
}

/// Quotes a word for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// URL of an address for a client on this machine.
pub(crate) fn url(scheme: &str, address: SocketAddr) -> String {
    format!("{scheme}://{}", reachable(address))
}

/// The address as a client on this machine connects to it: loopback in place of "all interfaces".
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
