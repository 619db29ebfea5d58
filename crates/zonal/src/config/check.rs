//! Validation: converts the merged text values into typed, mutually consistent ones.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use zonal_base::{Bytes, Nanos};
use zonal_gateway::{
    AccessRules, Authorization, Certificate, CertificateError, Domains, VendorHeaders, WouldRefuse,
};
use zonal_policy::Spec;

use super::{
    Config, ConfigError, Device, KeyEntry, KeyPair, accounts, admin_security, chunk, freshness,
    keep, keys, log, origins, price, raw, scrub,
};

pub(super) type Checked<T> = Result<T, ConfigError>;

/// Lookup of an environment variable.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Largest prefetch distance: a stripe. At 200 ms to the origin it gives one reader 1.3 Gbit/s.
const PREFETCH_MAX: Bytes = Bytes::mib(32);

/// Allowed read timeouts: from the latency of a hard disk to the time after which clients have
/// given up.
const PATIENCE: std::ops::RangeInclusive<Nanos> = Nanos::millis(50)..=Nanos::secs(60);

/// Validates everything that can be checked without opening a device.
pub(super) fn check(file: &raw::File, variable: Variables<'_>) -> Checked<Config> {
    let endpoint = &file.endpoint;
    let keys = main_key(endpoint)?;
    let more_keys = more_keys(text(&endpoint.keys_file), keys.as_ref(), variable)?;
    let listen = address("endpoint.listen", &endpoint.listen)?;
    Ok(Config {
        data_dir: given("data-dir", &file.data_dir)?.into(),
        listen,
        region: given("endpoint.region", &endpoint.region)?.to_owned(),
        domains: domains(endpoint)?,
        vendor_headers: vendor_headers(&file.headers)?,
        authorization: authorization(file)?,
        would_refuse: would_refuse(file)?,
        keys,
        secret_key_file: path(&endpoint.secret_key_file),
        more_keys,
        certificate: certificate([
            ("endpoint.certificate-file", &endpoint.certificate_file),
            ("endpoint.private-key-file", &endpoint.private_key_file),
        ])?,
        certificate_file: path(&endpoint.certificate_file),
        admin_security: admin_security::checked(&file.admin)?,
        admin_certificate_file: path(&file.admin.certificate_file),
        admin: another_address("admin.listen", &file.admin.listen, listen)?,
        origins: origins::origins(&file.origin, variable)?,
        devices: devices(&file.device)?,
        access: access(file, variable)?,
        freshness: freshness::rules(&file.freshness)?,
        keep: keep::checked(&file.keep, text(&file.data_dir))?,
        chunks: Arc::new(chunk::rules(&file.chunk)?),
        limits: limits(&file.limits)?,
        scrub: scrub::checked(
            ("scrub.every", &file.scrub.every),
            ("scrub.rate", &file.scrub.rate),
        )?,
        prices: price::checked(
            ("price.reads", &file.price.reads),
            ("price.received", &file.price.received),
        )?,
        accounts: accounts::checked("accounts.by", &file.accounts.by)?,
        log: log::checked(&file.log.format, &file.log.level, &file.log.access, &file.log.record)?,
    })
}

pub(super) fn main_key(endpoint: &raw::Endpoint) -> Checked<Option<KeyPair>> {
    let secret = secret(
        ("endpoint.secret-key", &endpoint.secret_key),
        ("endpoint.secret-key-file", &endpoint.secret_key_file),
    )?;
    key_pair(text(&endpoint.access_key), secret, "endpoint.access-key")
}

pub(super) fn path(value: &Option<String>) -> Option<PathBuf> {
    Some(text(value)).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The value; empty if it is absent.
pub(super) fn text(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or_default()
}

pub(super) fn given<'a>(key: &'static str, value: &'a Option<String>) -> Checked<&'a str> {
    let text = text(value);
    if text.is_empty() { Err(ConfigError::new(key, "must not be empty")) } else { Ok(text) }
}

pub(super) fn parsed<T: FromStr<Err: Display>>(
    key: &'static str,
    value: &Option<String>,
) -> Checked<T> {
    given(key, value)?.parse().map_err(|error| ConfigError::new(key, error))
}

pub(super) fn address(key: &'static str, value: &Option<String>) -> Checked<SocketAddr> {
    let text = given(key, value)?;
    socket_address(text).map_err(|why| ConfigError::new(key, why))
}

/// Parses `IP:PORT`, `localhost:PORT`, or `:PORT` for all addresses of the machine.
fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let ip = match host {
        "" | "*" => IpAddr::from([0, 0, 0, 0]),
        "localhost" => IpAddr::from([127, 0, 0, 1]),
        _ => {
            let wrong = |advice: &str| format!("{text:?} is not an address: {advice}");
            return text.parse().map_err(|_| match (host.parse::<IpAddr>(), host.parse::<u16>()) {
                (Ok(ip), _) if port.is_empty() => wrong(&format!("add the port, as {ip}:9000")),
                (_, Ok(port)) => {
                    wrong(&format!("write 127.0.0.1:{port}, or 0.0.0.0:{port} for all interfaces"))
                }
                _ if host.contains("//") => wrong("write IP:PORT, without a scheme"),
                _ => wrong("write IP:PORT, such as 127.0.0.1:9000"),
            });
        }
    };
    let port = port.parse().map_err(|_| format!("{port:?} is not a port: write 1 to 65535"))?;
    Ok(SocketAddr::new(ip, port))
}

/// Parses an address, and refuses one that conflicts with the S3 endpoint's.
fn another_address(
    key: &'static str,
    value: &Option<String>,
    endpoint: SocketAddr,
) -> Checked<SocketAddr> {
    let address = address(key, value)?;
    // A socket on `[::]` also receives IPv4 connections by default (`bindv6only=0`).
    let covers =
        |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    let (a, b) = (address.ip().to_canonical(), endpoint.ip().to_canonical());
    // Port 0 selects any free port, so it never conflicts.
    let same_port = address.port() != 0 && address.port() == endpoint.port();
    if same_port && (a == b || covers(a, b) || covers(b, a)) {
        let why = format!(
            "{address} conflicts with the S3 endpoint's address {endpoint}: name another with \
             --admin"
        );
        return Err(ConfigError::new(key, why));
    }
    Ok(address)
}

pub(super) fn time(key: &'static str, value: &Option<String>) -> Checked<Duration> {
    let time: Nanos = parsed(key, value)?;
    if time == Nanos(0) {
        return Err(ConfigError::new(
            key,
            "must be longer than 0s: this limit cannot be switched off",
        ));
    }
    Ok(time.duration())
}

pub(super) fn count(key: &'static str, value: Option<u32>) -> Checked<usize> {
    match value {
        Some(count) if 0 < count => Ok(count as usize),
        _ => Err(ConfigError::new(key, "must be at least 1: this limit cannot be switched off")),
    }
}

/// Parses a share of something: a whole percentage from 1% to this maximum.
pub(super) fn percent(key: &'static str, text: &str, max: u8) -> Checked<u8> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse().ok());
    percent.filter(|percent| (1..=max).contains(percent)).ok_or_else(|| {
        ConfigError::new(key, format!("{text:?}: write a share from 1% to {max}%, such as 10%"))
    })
}

/// Parses a share of a limit; at least one.
fn share(key: &'static str, value: &Option<String>, of: usize) -> Checked<usize> {
    let percent = percent(key, given(key, value)?, 100)?;
    Ok((of * usize::from(percent) / 100).max(1))
}

/// Secret of a section: the value itself, or the first line of a file.
pub(super) fn secret(
    (key, value): (&'static str, &Option<String>),
    (file_key, file): (&'static str, &Option<String>),
) -> Checked<Option<String>> {
    match (text(value), text(file)) {
        ("", "") => Ok(None),
        (secret, "") => Ok(Some(secret.to_owned())),
        ("", path) => first_line(path).map(Some).map_err(|why| ConfigError::new(file_key, why)),
        _ => Err(ConfigError::new(key, format!("conflicts with {file_key}: set only one of them"))),
    }
}

/// Reads a secret: the first line of a file.
pub(super) fn first_line(path: &str) -> Result<String, String> {
    let content = std::fs::read_to_string(path);
    let content = content.map_err(|error| format!("{path} cannot be read: {error}"))?;
    match content.lines().next().unwrap_or_default().trim() {
        "" => Err(format!("the first line of {path} is empty")),
        line => Ok(line.to_owned()),
    }
}

/// Validates an access key: only characters that a SigV4 credential scope can hold.
pub(super) fn access_key(name: &str) -> Result<(), &'static str> {
    let is_legal = |byte: u8| byte.is_ascii_graphic() && !b"/,=".contains(&byte);
    match !name.is_empty() && name.bytes().all(is_legal) {
        true => Ok(()),
        false => Err(
            "invalid access key: use visible ASCII characters without spaces, slashes, commas and \
             equals signs",
        ),
    }
}

/// Loads the additional access keys. The main access key must not be among them.
pub(super) fn more_keys(
    path: &str,
    pair: Option<&KeyPair>,
    variable: Variables<'_>,
) -> Checked<Vec<KeyEntry>> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let keys = keys::load(Path::new(path), variable)?;
    match pair.filter(|pair| keys.iter().any(|key| key.pair.access_key == pair.access_key)) {
        Some(pair) => {
            let why = format!("{} is also in {path}: remove one of them", pair.access_key);
            Err(ConfigError::new("endpoint.access-key", why))
        }
        None if keys.is_empty() => {
            Err(ConfigError::new("endpoint.keys-file", format!("{path} contains no keys")))
        }
        None => Ok(keys),
    }
}

fn authorization(file: &raw::File) -> Checked<Authorization> {
    let wrong = |why: &str| Err(ConfigError::new("endpoint.authorization", why));
    match given("endpoint.authorization", &file.endpoint.authorization)? {
        "keys" => return Ok(Authorization::Keys),
        "origin" => {}
        other => return wrong(&format!("{other:?}: write keys or origin")),
    }
    let raw::Endpoint { access_key, keys_file, .. } = &file.endpoint;
    if !text(access_key).is_empty() || !text(keys_file).is_empty() {
        return wrong(
            "with origin, the origin checks the keys: remove endpoint.access-key and \
             endpoint.keys-file",
        );
    }
    match &file.origin[..] {
        [one] if text(&one.spec).starts_with("s3:") => Ok(Authorization::Origin),
        _ => wrong("with origin, exactly one origin is allowed, an S3 endpoint (s3:URL)"),
    }
}

fn would_refuse(file: &raw::File) -> Checked<WouldRefuse> {
    match given("endpoint.would-refuse", &file.endpoint.would_refuse)? {
        "refuse" => Ok(WouldRefuse::Refuse),
        "log" => Ok(WouldRefuse::Log),
        other => {
            let why = format!("{other:?}: write refuse or log");
            Err(ConfigError::new("endpoint.would-refuse", why))
        }
    }
}

fn vendor_headers(headers: &raw::Headers) -> Checked<VendorHeaders> {
    let wrong = |key, name: &str, why| ConfigError::new(key, format!("{name:?} {why}"));
    let (mut harmless, mut passed) =
        (headers.harmless.iter().flatten(), headers.passed.iter().flatten());
    let known = harmless.try_fold(VendorHeaders::default(), |known, name| {
        known.with_harmless(name).map_err(|why| wrong("headers.harmless", name, why))
    })?;
    passed.try_fold(known, |known, name| {
        known.with_passed(name).map_err(|why| wrong("headers.passed", name, why))
    })
}

fn domains(endpoint: &raw::Endpoint) -> Checked<Domains> {
    let mut names = endpoint.domains.iter().flatten();
    let domains = names.try_fold(Domains::default(), |domains, name| domains.with(name));
    domains.map_err(|error| ConfigError::new("endpoint.domains", error))
}

/// Loads a certificate with its private key. `files` has the configuration keys and paths,
/// certificate first.
pub(super) fn certificate(
    files: [(&'static str, &Option<String>); 2],
) -> Checked<Option<Certificate>> {
    let [of_chain, of_key] = files.map(|(key, path)| (key, text(path)));
    match (of_chain.1, of_key.1) {
        ("", "") => return Ok(None),
        (_, "") => {
            return Err(ConfigError::new(of_key.0, "required with a certificate"));
        }
        ("", _) => {
            return Err(ConfigError::new(of_chain.0, "required with a private key"));
        }
        _ => {}
    }
    let read = |(key, path): (&'static str, &str)| {
        let why = |error| ConfigError::new(key, format!("{path} cannot be read: {error}"));
        std::fs::read(path).map_err(why)
    };
    let certificate = Certificate::from_pem(&read(of_chain)?, &read(of_key)?);
    certificate.map(Some).map_err(|error| {
        let (key, path) = match error {
            CertificateError::NoCertificate => of_chain,
            CertificateError::NoPrivateKey
            | CertificateError::EncryptedPrivateKey
            | CertificateError::Unusable(_) => of_key,
        };
        ConfigError::new(key, format!("{path}: {error}"))
    })
}

pub(super) fn key_pair(
    name: &str,
    secret_key: Option<String>,
    key: &'static str,
) -> Checked<Option<KeyPair>> {
    match (name, secret_key) {
        ("", None) => Ok(None),
        ("", Some(_)) => Err(ConfigError::new(key, "required with a secret key")),
        (_, None) => {
            Err(ConfigError::new(key, "is given without a secret key: set secret-key-file"))
        }
        (name, Some(secret_key)) => {
            access_key(name).map_err(|why| ConfigError::new(key, why))?;
            Ok(Some(KeyPair { access_key: name.to_owned(), secret_key }))
        }
    }
}

fn devices(devices: &[raw::Device]) -> Checked<Vec<Device>> {
    let numbered = devices.iter().enumerate();
    let checked = numbered.map(|(n, one)| device(one).map_err(|error| error.of(n)));
    let devices: Vec<Device> = checked.collect::<Result<_, _>>()?;
    if devices.is_empty() {
        return Err(ConfigError::new("device", "at least one device is required"));
    }
    if let Some(n) = devices.iter().position(|device| device.spec.is_none())
        && 1 < devices.len()
    {
        return Err(ConfigError::new("device.spec", EMPTY_DEVICE).of(n));
    }
    let path = |device: &Device| device.spec.as_ref().map(|spec| located(spec.place.path()));
    let in_memory =
        |device: &Device| device.spec.as_ref().is_some_and(|spec| spec.place.is_in_memory());
    for (n, device) in devices.iter().enumerate().filter(|(_, device)| !in_memory(device)) {
        if devices[..n].iter().any(|other| path(other) == path(device)) {
            let path = device.spec.as_ref().map(|spec| spec.place.path()).unwrap_or(Path::new(""));
            let why = format!("{} is named twice", path.display());
            return Err(ConfigError::new("device.spec", why).of(n));
        }
    }
    Ok(devices)
}

const EMPTY_DEVICE: &str =
    "must not be empty with several devices: fill the first [[device]] of the file, or remove it";

/// A path for comparisons: another spelling of it gives the same.
pub(super) fn located(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

fn device(device: &raw::Device) -> Checked<Device> {
    let spec = match text(&device.spec) {
        "" => None,
        text => Some(text.parse().map_err(|error| ConfigError::new("device.spec", error))?),
    };
    let shards = match text(&device.shards) {
        "auto" => None,
        text => match text.parse::<u16>() {
            Ok(shards) if 0 < shards => Some(usize::from(shards)),
            _ => {
                let why = format!("{text:?}: write auto, or a number from 1 to {}", u16::MAX);
                return Err(ConfigError::new("device.shards", why));
            }
        },
    };
    let policy: Spec = parsed("device.policy", &device.policy)?;
    let policy = policy.on_device().map_err(|error| ConfigError::new("device.policy", error))?;
    let chunk = chunk::size(given("device.chunk", &device.chunk)?);
    let chunk = chunk.map_err(|why| ConfigError::new("device.chunk", why))?.bytes();
    let dram = in_memory("device.dram", " for each shard", &device.dram)?;
    let buffers = in_memory("device.buffers", " for each shard", &device.buffers)?;
    if buffers < zonal_host::BUFFER_BYTES_MIN {
        let why = format!("{buffers}: a shard needs at least {}", zonal_host::BUFFER_BYTES_MIN);
        return Err(ConfigError::new("device.buffers", why));
    }
    let prefetch: Bytes = parsed("device.prefetch", &device.prefetch)?;
    if PREFETCH_MAX < prefetch {
        let why = format!("{prefetch}: write at most {PREFETCH_MAX}, or 0 for no prefetch");
        return Err(ConfigError::new("device.prefetch", why));
    }
    let patience: Nanos = parsed("device.patience", &device.patience)?;
    if !PATIENCE.contains(&patience) {
        return Err(ConfigError::new("device.patience", "write 50ms to 1min".to_owned()));
    }
    let rejoin: Nanos = parsed("device.rejoin", &device.rejoin)?;
    Ok(Device { spec, shards, policy, chunk, dram, buffers, prefetch, patience, rejoin })
}

/// Parses a memory size, and refuses more than the machine has.
pub(super) fn in_memory(key: &'static str, each: &str, value: &Option<String>) -> Checked<Bytes> {
    let bytes: Bytes = parsed(key, value)?;
    let system = rustix::system::sysinfo();
    let memory = Bytes(system.totalram.saturating_mul(system.mem_unit.into()));
    if memory < bytes {
        let why = format!("{bytes}{each}: the machine has only {} of memory", memory.rounded());
        return Err(ConfigError::new(key, why));
    }
    Ok(bytes)
}

fn access(file: &raw::File, variable: Variables<'_>) -> Checked<AccessRules> {
    let default = given("access.default", &file.access.default)?;
    let of_user = file.access.rules.as_deref().unwrap_or_default();
    let urls = file.origin.iter().filter_map(|origin| origins::bucket_url(origin, variable)?.ok());
    let of_urls = urls.flat_map(|url| url.access_rules(default, of_user));
    let rules: Vec<raw::AccessRule> = of_urls.chain(of_user.iter().cloned()).collect();
    keys::access_rules(default, &rules).map_err(|why| ConfigError::new("access", why))
}

fn limits(limits: &raw::Limits) -> Checked<zonal_gateway::Limits> {
    let connections_max = count("limits.connections", limits.connections)?;
    let writes_max = count("limits.writes", limits.writes)?;
    Ok(zonal_gateway::Limits {
        connections_max,
        connections_per_address: share(
            "limits.connections-per-address",
            &limits.connections_per_address,
            connections_max,
        )?,
        writes_max,
        writes_per_client: share(
            "limits.writes-per-client",
            &limits.writes_per_client,
            writes_max,
        )?,
        idle: time("limits.idle", &limits.idle)?,
        head: time("limits.head", &limits.head)?,
        write: time("limits.write", &limits.write)?,
        upload: time("limits.upload", &limits.upload)?,
        drain: time("limits.drain", &limits.drain)?,
        ..zonal_gateway::Limits::default()
    })
}
