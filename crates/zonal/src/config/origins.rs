//! Origin settings: validates each origin, and that all are mutually consistent.

use zonal_gateway::is_bucket_name;
use zonal_origin::CaRoots;

use super::bucket_url::BucketUrl;
use super::check::{Checked, Variables, count, key_pair, parsed, secret, text, time};
use super::{ConfigError, Origin, OriginKeys, OriginSpec, credentials, raw, stores};

pub(super) fn origins(origins: &[raw::Origin], variable: Variables<'_>) -> Checked<Vec<Origin>> {
    let numbered = origins.iter().enumerate();
    let checked = numbered.map(|(n, one)| origin(one, variable).map_err(|error| error.of(n)));
    let origins: Vec<Origin> = checked.collect::<Result<_, _>>()?;
    if origins.is_empty() {
        return Err(ConfigError::new("origin", "at least one origin is required"));
    }
    for (n, one) in origins.iter().enumerate() {
        let others = &origins[..n];
        let wrong = |key, why: &str| Err(ConfigError::new(key, why).of(n));
        if one.spec.is_none() && 1 < origins.len() {
            return wrong("origin.spec", EMPTY_ORIGIN);
        }
        if others.iter().any(|other| other.name == one.name) {
            let why = format!("duplicate origin name {:?}: rename one", one.name);
            return wrong("origin.name", &why);
        }
        if one.buckets.is_empty() && others.iter().any(|other| other.buckets.is_empty()) {
            let why = "only one origin may omit its bucket list: set origin.buckets for the others";
            return wrong("origin.buckets", why);
        }
        let all = others.iter().flat_map(|other| &other.buckets);
        if let Some(bucket) = all.into_iter().find(|bucket| one.buckets.contains(bucket)) {
            let why = format!(
                "bucket {bucket:?} is listed by two origins: clients would see only one of them"
            );
            return wrong("origin.buckets", &why);
        }
        let of_others = || origins.iter().filter(|other| other.name != one.name);
        let owner = |name: &String| of_others().find(|other| other.buckets.contains(name));
        if let Some((name, owner)) = one.reserved.iter().find_map(|it| Some((it, owner(it)?))) {
            let why = format!("{name:?} is a bucket of origin {:?}: remove it here", owner.name);
            return wrong("origin.reserved", &why);
        }
    }
    Ok(origins)
}

const EMPTY_ORIGIN: &str =
    "must not be empty with several origins: fill the first [[origin]] of the file, or remove it";

/// The bucket URL of an origin; `None` if its spec is no bucket URL.
pub(super) fn bucket_url(
    origin: &raw::Origin,
    variable: Variables<'_>,
) -> Option<Result<BucketUrl, String>> {
    BucketUrl::parse(text(&origin.spec), variable)
}

fn origin(origin: &raw::Origin, variable: Variables<'_>) -> Checked<Origin> {
    let secret = secret(
        ("origin.secret-key", &origin.secret_key),
        ("origin.secret-key-file", &origin.secret_key_file),
    )?;
    let wrong_spec = |why| ConfigError::new("origin.spec", why);
    let url = bucket_url(origin, variable).transpose().map_err(wrong_spec)?;
    let mut spec = match url.as_ref().map_or(text(&origin.spec), |url| &url.spec) {
        "" => None,
        spec => Some(spec.parse().map_err(wrong_spec)?),
    };
    let name = match text(&origin.name) {
        "" => text(&origin.spec),
        name => name,
    };
    let mut buckets = origin.buckets.clone().unwrap_or_default();
    if let Some(BucketUrl { bucket, .. }) = url {
        match &buckets[..] {
            [] => buckets.push(bucket),
            [named] if *named == bucket => {}
            _ => {
                let why = format!("the spec names the bucket {bucket}: remove this setting");
                return Err(ConfigError::new("origin.buckets", why));
            }
        }
    }
    if let Some(bucket) = buckets.iter().find(|bucket| bucket.is_empty() || bucket.contains('/')) {
        return Err(ConfigError::new("origin.buckets", format!("{bucket:?} is not a bucket name")));
    }
    let name_of_key = text(&origin.access_key);
    let mut keys = OriginKeys::Anonymous;
    match &mut spec {
        Some(OriginSpec::S3 { .. }) => {
            let pair = key_pair(name_of_key, secret, "origin.access-key")?;
            keys = credentials::keys(origin, pair, variable)?;
        }
        _ if !text(&origin.credentials).is_empty() || !text(&origin.assume_role).is_empty() => {
            let why = "only s3: origins have these credentials: remove the setting";
            let is_of_role = text(&origin.credentials).is_empty();
            let key = if is_of_role { "origin.assume-role" } else { "origin.credentials" };
            return Err(ConfigError::new(key, why));
        }
        Some(OriginSpec::Store(store)) => {
            stores::fill_keys(store, (name_of_key, secret), variable)?;
            buckets = stores::one_bucket(store, buckets)?;
        }
        None | Some(OriginSpec::Folder(_)) if !name_of_key.is_empty() || secret.is_some() => {
            let why = "a file: origin has no keys: remove this setting";
            return Err(ConfigError::new("origin.access-key", why));
        }
        None | Some(OriginSpec::Folder(_)) => {}
    }
    let reserved = reserved(origin, &buckets)?;
    let has_file = spec.as_ref().is_some_and(OriginSpec::has_key_file)
        || [&origin.secret_key_file, &origin.ca_file].into_iter().any(|it| !text(it).is_empty());
    let ca_roots = ca_roots(text(&origin.ca_file), spec.as_ref())?;
    let limits = zonal_origin::OriginLimits { ca_roots, ..origin_limits(origin)? };
    let name = name.to_owned();
    Ok(Origin { spec, name, buckets, reserved, keys, has_file, limits })
}

/// Validates the reserved path segments of an origin, which are not buckets.
fn reserved(origin: &raw::Origin, buckets: &[String]) -> Checked<Vec<String>> {
    let wrong = |why| Err(ConfigError::new("origin.reserved", why));
    let names = origin.reserved.clone().unwrap_or_default();
    if let Some(name) = names.iter().find(|name| !is_bucket_name(name)) {
        return wrong(format!(
            "{name:?} is not a valid bucket name, so no request can name it: write one name per \
             entry"
        ));
    }
    match names.iter().find(|name| buckets.contains(name)) {
        Some(name) => wrong(format!("{name:?} is also in origin.buckets: remove one of them")),
        None => Ok(names),
    }
}

/// Loads the certificate authorities for an origin's TLS certificate; `None`: the system's.
fn ca_roots(path: &str, spec: Option<&OriginSpec>) -> Checked<Option<CaRoots>> {
    const KEY: &str = "origin.ca-file";
    if path.is_empty() {
        return Ok(None);
    }
    if !spec.is_some_and(OriginSpec::is_https) {
        let why = "only https:// origins have a certificate: remove this setting";
        return Err(ConfigError::new(KEY, why));
    }
    let read = std::fs::read(path);
    let read =
        read.map_err(|error| ConfigError::new(KEY, format!("{path} cannot be read: {error}")));
    let named = CaRoots::from_pem(&read?);
    named.map(Some).map_err(|error| ConfigError::new(KEY, format!("{path}: {error}")))
}

fn origin_limits(origin: &raw::Origin) -> Checked<zonal_origin::OriginLimits> {
    Ok(zonal_origin::OriginLimits {
        concurrent_reads: count("origin.reads", origin.reads)?,
        concurrent_forwards: count("origin.forwards", origin.forwards)?,
        connect: time("origin.connect", &origin.connect)?,
        answer: time("origin.answer", &origin.answer)?,
        forward_answer: time("origin.forward-answer", &origin.forward_answer)?,
        stall: time("origin.stall", &origin.stall)?,
        // 0 retries is valid.
        retries: origin.retries.unwrap_or_default(),
        hedge: match text(&origin.hedge) {
            "" => None,
            _ => Some(parsed("origin.hedge", &origin.hedge)?),
        },
        ..zonal_origin::OriginLimits::default()
    })
}
