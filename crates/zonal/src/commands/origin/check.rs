//! `zonal origin check`: finds the credentials of origins, lists one key and reads one byte.
//!
//! 1. Load the origins of the server's configuration.
//! 2. Of each, find the credentials and send a health probe. If one fails, no other check can pass.
//! 3. Of each bucket, list the first key and read its first byte. Each of the two may be allowed
//!    without the other.
//! 4. Print the report. Nothing is written at the origin.

use std::time::{Duration, Instant, SystemTime};

use zonal_base::Bytes;
use zonal_cli::{Failure, print};
use zonal_credentials::{Failed, Renewer};
use zonal_gateway::is_bucket_name;
use zonal_origin::{KeyOrigin, ObjectName, Origin, OriginError, Tried};
use zonal_stores::{AzureKeys, GcsKeys};

use super::report::{Check, Kind, OriginReport, Outcome, Report, Without};
use crate::config::{self, OriginKeys, OriginSpec, OriginsOnly, StoreSpec};
use crate::origins::{self, OpenedOrigin, advice};

/// Time limit of one check. Somebody waits for it, and a sound origin answers within a second.
const CHECK_MAX: Duration = Duration::from_secs(20);

/// Longest key of S3.
const KEY_BYTES_MAX: usize = 1024;

/// Check origins: find the credentials, list one key, read one byte
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Name of the origin [without it: all origins]
    name: Option<String>,
    /// Bucket to check [without it: each of origin.buckets, or the first that the origin lists]
    #[arg(long, value_name = "BUCKET")]
    bucket: Option<String>,
    /// Key of the object to read [without it: the first key of the bucket]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: OriginsOnly,
}

const HELP: &str = "\
Examples:
  zonal origin check --config /etc/zonal/zonal.toml
  zonal origin check --origin 's3:https://s3.eu-west-1.amazonaws.com?region=eu-west-1' --bucket lake

Run it as the user and in the environment of zonal serve: credentials may depend on both.
Exit codes: 0 all checks passed; 1 failed, a retry may succeed; 2 the configuration, the credentials
or the rights must change.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let all = config::load_origins(&args.flags).map_err(Failure::request)?;
    let origins = chosen(&all, args.name.as_deref())?;
    if 1 < origins.len() && (args.bucket.is_some() || args.key.is_some()) {
        let why = "--bucket and --key belong to one origin: name it";
        return Err(Failure::request(format!("{why} ({})", names(&all))));
    }
    let scopes = origins.into_iter().map(|origin| {
        let buckets = buckets_of(origin, args)?;
        Ok((origin, Scope { buckets, key: args.key.as_deref() }))
    });
    let scopes: Vec<_> = scopes.collect::<Result<_, Failure>>()?;
    let report = Report { origins: check_each(scopes)? };
    if args.json {
        print::json(&report)?;
    } else {
        print::text(&report.to_text())?;
    }
    match report.failed() {
        None => Ok(()),
        Some((failed, true)) => Err(Failure::work(failed)),
        Some((failed, false)) => Err(Failure::request(failed)),
    }
}

fn chosen<'a>(
    all: &'a [config::Origin],
    name: Option<&str>,
) -> Result<Vec<&'a config::Origin>, Failure> {
    if all.iter().any(|origin| origin.spec.is_none()) {
        let why = "no origin is configured: name a configuration file with --config, or an origin \
                   with --origin";
        return Err(Failure::request(why));
    }
    let Some(name) = name else { return Ok(all.iter().collect()) };
    let found = all.iter().find(|origin| origin.name == name);
    found.map(|origin| vec![origin]).ok_or_else(|| {
        Failure::request(format!("no origin has the name {name:?}: write one of {}", names(all)))
    })
}

fn names(all: &[config::Origin]) -> String {
    all.iter().map(|origin| origin.name.clone()).collect::<Vec<_>>().join(", ")
}

/// What is checked of an origin.
struct Scope<'a> {
    /// Empty: the first bucket that the origin lists.
    buckets: Vec<String>,
    /// Key to read; `None`: the first of the bucket.
    key: Option<&'a str>,
}

/// Checks these origins with all their buckets.
///
/// Requires: each has a spec.
pub(in crate::commands) fn check_all<'a>(
    origins: impl Iterator<Item = &'a config::Origin>,
) -> Result<Vec<OriginReport>, Failure> {
    check_each(origins.map(|of| (of, Scope { buckets: of.buckets.clone(), key: None })))
}

fn check_each<'a>(
    scopes: impl IntoIterator<Item = (&'a config::Origin, Scope<'a>)>,
) -> Result<Vec<OriginReport>, Failure> {
    crate::commands::runtime()?.block_on(async {
        let mut reports = Vec::new();
        for (origin, scope) in scopes {
            reports.push(check(origin, &scope).await);
        }
        Ok(reports)
    })
}

/// Checks one origin.
async fn check(config: &config::Origin, scope: &Scope<'_>) -> OriginReport {
    let spec = config.spec.as_ref().expect("an origin without a spec is not chosen");
    let region = match spec {
        OriginSpec::S3 { region, .. } => Some(region.clone()),
        _ => None,
    };
    let mut checks = Vec::new();
    match origins::open(spec, config) {
        Ok(opened) => check_opened(&mut checks, opened, (config, spec), scope).await,
        // The other origins are checked all the same.
        Err(failure) => {
            let (error, advice) = (failure.to_string(), "mend origin.spec, or what it names");
            let failed = Outcome::Failed { error, advice: advice.to_owned(), may_pass: false };
            add(&mut checks, (Kind::Connection, None), failed);
        }
    }
    OriginReport { name: config.name.clone(), place: spec.to_string(), region, checks }
}

async fn check_opened(
    checks: &mut Vec<Check>,
    (origin, renewer): OpenedOrigin,
    (config, spec): (&config::Origin, &OriginSpec),
    Scope { buckets, key: named_key }: &Scope<'_>,
) {
    let (credentials, others) = match &renewer {
        Some(renewer) => find_credentials(renewer, &origin).await,
        None => (Outcome::ok(describe_configured(&config.keys, spec)), Vec::new()),
    };
    let mut passes = add(checks, (Kind::Credentials, None), credentials);
    checks[0].without = others.into_iter().map(Without::from).collect();
    if passes {
        let connected = within_limit(connect(&origin), |outcome| outcome).await;
        passes = add(checks, (Kind::Connection, None), connected);
    }
    if passes {
        let buckets = match buckets.is_empty() {
            false => buckets.to_vec(),
            true => match within_limit(first_bucket(&origin), Err).await {
                Ok(bucket) => vec![bucket],
                Err(outcome) => {
                    add(checks, (Kind::List, None), outcome);
                    Vec::new()
                }
            },
        };
        for bucket in &buckets {
            let unlisted =
                |outcome| (outcome, Err("no key is known: name a key with --key".to_owned()));
            let (listed, key) = within_limit(list(&origin, bucket, config), unlisted).await;
            add(checks, (Kind::List, Some(bucket)), listed);
            let read = match named_key.map(|key| Ok(key.to_owned())).unwrap_or(key) {
                Ok(key) => {
                    let object = ObjectName::new(bucket, &key);
                    within_limit(read(&origin, &object, config), |outcome| outcome).await
                }
                Err(why) => Outcome::skipped(why),
            };
            add(checks, (Kind::Read, Some(bucket)), read);
        }
    }
}

/// The result of a check, or of `late` with a failure if it takes longer than [`CHECK_MAX`].
async fn within_limit<T>(check: impl Future<Output = T>, late: impl FnOnce(Outcome) -> T) -> T {
    tokio::time::timeout(CHECK_MAX, check).await.unwrap_or_else(|_| {
        late(Outcome::Failed {
            error: format!("no complete answer within {} s", CHECK_MAX.as_secs()),
            advice: "check that the origin is up, and what lies between it and Zonal".to_owned(),
            may_pass: true,
        })
    })
}

/// Adds a check. Returns whether it did not fail.
fn add(checks: &mut Vec<Check>, (check, bucket): (Kind, Option<&str>), result: Outcome) -> bool {
    let passes = !matches!(result, Outcome::Failed { .. });
    checks.push(Check { check, bucket: bucket.map(str::to_owned), without: Vec::new(), result });
    passes
}

/// The buckets to check. Empty: the first that the origin lists.
fn buckets_of(config: &config::Origin, args: &Args) -> Result<Vec<String>, Failure> {
    if let Some(bucket) = args.bucket.as_ref().filter(|bucket| !is_bucket_name(bucket)) {
        return Err(Failure::request(format!("--bucket: {bucket:?} is not a bucket name")));
    }
    let key_bytes = args.key.as_ref().map_or(1, String::len);
    if !(1..=KEY_BYTES_MAX).contains(&key_bytes) {
        return Err(Failure::request("--key: write the key of an object, 1 to 1024 bytes"));
    }
    let buckets = match &args.bucket {
        Some(bucket) if config.buckets.is_empty() || config.buckets.contains(bucket) => {
            vec![bucket.clone()]
        }
        Some(bucket) => {
            let buckets = config.buckets.join(", ");
            let why = format!("clients of this origin see only origin.buckets ({buckets})");
            return Err(Failure::request(format!("--bucket {bucket:?}: {why}")));
        }
        None => config.buckets.clone(),
    };
    if args.key.is_some() && buckets.len() != 1 {
        return Err(Failure::request("--key: name its bucket with --bucket"));
    }
    Ok(buckets)
}

/// Finds the credentials, as a start of the server does. Returns also the providers without any.
async fn find_credentials(renewer: &Renewer, origin: &Origin) -> (Outcome, Vec<Tried>) {
    match renewer.search().await {
        Ok(_) => {
            let found = origin.keys().and_then(|keys| keys.origin()).unwrap_or_default();
            (Outcome::ok(describe_found(&found)), found.others)
        }
        Err(Failed { tried, is_configured, may_pass }) => {
            let error = match tried.last() {
                Some(Tried { provider, .. }) if is_configured => format!("{provider} failed"),
                _ => "no provider has credentials".to_owned(),
            };
            let advice = advice_on_credentials(&tried, is_configured).to_owned();
            (Outcome::Failed { error, advice, may_pass }, tried)
        }
    }
}

/// Credentials that are configured, or that their store finds by itself.
fn describe_configured(keys: &OriginKeys, spec: &OriginSpec) -> String {
    let text = match spec {
        OriginSpec::Folder(_) | OriginSpec::Store(StoreSpec::Web(_)) => "none are needed",
        OriginSpec::S3 { .. } => match keys.access_key() {
            Some(key) => return format!("static, access key {key}"),
            None => "anonymous: requests are unsigned",
        },
        OriginSpec::Store(StoreSpec::Gcs(gcs)) => match &gcs.keys {
            GcsKeys::Anonymous => "anonymous: requests are unsigned",
            GcsKeys::File(path) => return format!("the file {}", path.display()),
            GcsKeys::Machine => "application default credentials, or the machine's service account",
        },
        OriginSpec::Store(StoreSpec::Azure(azure)) => match &azure.keys {
            AzureKeys::Anonymous => "anonymous: requests are unsigned",
            AzureKeys::Account(_) => "the key of the storage account",
            AzureKeys::Signature(_) => "a shared access signature",
            AzureKeys::Machine => "the machine's managed identity",
        },
    };
    text.to_owned()
}

/// Where found credentials come from.
fn describe_found(found: &KeyOrigin) -> String {
    let mut text = found.provider.clone().unwrap_or_default();
    for (name, value) in [("role", &found.role), ("account", &found.account)] {
        text += &value.iter().map(|value| format!(", {name} {value}")).collect::<String>();
    }
    if let Some(at) = found.expires_at {
        let left = at.duration_since(SystemTime::now()).unwrap_or_default().as_secs();
        text += &format!(", expire in {} min", left / 60);
    }
    text
}

fn advice_on_credentials(tried: &[Tried], is_configured: bool) -> &'static str {
    let last = tried.last();
    let said = |text: &str| last.is_some_and(|last| last.why.contains(text));
    match is_configured {
        // STS has one code for wrong keys and for a wrong clock.
        true if said("Signature expired") || said("Signature not yet current") => {
            "correct the clock of this machine"
        }
        true if last.is_some_and(|last| last.provider == "imds") => {
            "the metadata service did not issue credentials: check that the instance has a role, \
             and in a container that the instance's hop limit is 2"
        }
        true => {
            "it is configured, so no other provider is asked: mend what it needs, or pin another \
             with origin.credentials"
        }
        false => {
            "write origin.access-key (--origin-access-key), or configure one of these providers; \
             for unsigned requests, write --origin-credentials anonymous"
        }
    }
}

/// Sends a health probe.
async fn connect(origin: &Origin) -> Outcome {
    let begin = Instant::now();
    match origin.probe().await {
        Ok(()) => Outcome::ok(format!("answered after {}", milliseconds(begin.elapsed()))),
        Err(error) => Outcome::failed(&error, advice(&error)),
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// The first bucket that the origin lists, or why there is none.
async fn first_bucket(origin: &Origin) -> Result<String, Outcome> {
    const NAME_IT: &str = "name a bucket with --bucket";
    match origin.bucket_names().await {
        Ok(names) => names
            .into_iter()
            .next()
            .ok_or_else(|| Outcome::skipped(format!("the origin lists no bucket: {NAME_IT}"))),
        Err(OriginError::Denied(_)) => Err(Outcome::skipped(format!(
            "these credentials may not list buckets, which Zonal does not need: {NAME_IT}"
        ))),
        Err(error) => Err(Outcome::failed(&error, NAME_IT)),
    }
}

/// Lists one key. Returns the key to read, or why there is none.
async fn list(
    origin: &Origin,
    bucket: &str,
    config: &config::Origin,
) -> (Outcome, Result<String, String>) {
    let no_key = |why: &str| Err(format!("{why}: name a key with --key"));
    match origin.first_key(bucket).await {
        Ok(Some(key)) => (Outcome::ok(format!("the first key is {key:?}")), Ok(key)),
        Ok(None) => {
            let why = "there is no object: name another bucket with --bucket";
            (Outcome::ok("the bucket is empty"), Err(why.to_owned()))
        }
        Err(OriginError::Failed(refusal)) if refusal.status == 501 => {
            let why = "this origin has no lists";
            (Outcome::skipped(why), no_key(why))
        }
        Err(error) => {
            let advice = match &error {
                OriginError::NotFound(_) => {
                    "name an existing bucket in origin.buckets (--bucket)".to_owned()
                }
                OriginError::Denied(_) => permission_advice(Kind::List, bucket, config),
                error => advice(error).into_owned(),
            };
            (Outcome::failed(&error, advice), no_key("no key is known"))
        }
    }
}

/// Reads the first byte of an object, and its head.
async fn read(origin: &Origin, object: &ObjectName, config: &config::Origin) -> Outcome {
    let key = &object.key;
    match first_byte(origin, object).await {
        Ok(Some(size)) => Outcome::ok(format!("1 byte of {key:?} ({})", print::human(size))),
        Ok(None) => Outcome::ok(format!("{key:?} is empty, only its head was read")),
        Err((error, request)) => {
            let advice = match &error {
                OriginError::NotFound(_) => "name an existing key with --key".to_owned(),
                OriginError::Denied(refusal) if refusal.code == "InvalidObjectState" => {
                    "the object is archived: restore it, or name another with --key".to_owned()
                }
                OriginError::Denied(_) => permission_advice(Kind::Read, &object.bucket, config),
                error => advice(error).into_owned(),
            };
            let advice = format!("{request} of {key:?}: {advice}");
            Outcome::failed(&error, advice)
        }
    }
}

/// Advice after a denied list or read: what to allow, in the terms of the store.
fn permission_advice(what: Kind, bucket: &str, config: &config::Origin) -> String {
    let is_list = what == Kind::List;
    let advice = match &config.spec {
        None | Some(OriginSpec::Folder(_)) => "allow the user of Zonal to read the folder",
        Some(OriginSpec::Store(StoreSpec::Web(_))) => {
            "allow requests without credentials: Zonal has none for web servers"
        }
        Some(OriginSpec::Store(StoreSpec::Gcs(_))) if is_list => {
            "allow storage.objects.list (the role Storage Object Viewer has it)"
        }
        Some(OriginSpec::Store(StoreSpec::Gcs(_))) => {
            "allow storage.objects.get (the role Storage Object Viewer has it)"
        }
        Some(OriginSpec::Store(StoreSpec::Azure(_))) => {
            "assign the role Storage Blob Data Reader, or sign with the permissions r and l"
        }
        Some(OriginSpec::S3 { .. }) if config.keys == OriginKeys::Anonymous => {
            "requests are unsigned: make this public, or write origin.credentials or \
             origin.access-key"
        }
        Some(OriginSpec::S3 { .. }) if is_list => {
            return format!(
                "allow s3:ListBucket on arn:aws:s3:::{bucket}; without it clients can read \
                 objects, but list none"
            );
        }
        Some(OriginSpec::S3 { .. }) => {
            return format!(
                "allow s3:GetObject on arn:aws:s3:::{bucket}/*, and kms:Decrypt if the objects \
                 are encrypted with a KMS key"
            );
        }
    };
    advice.to_owned()
}

/// Requests the first byte with GET, then the head: S3 says only in the answer to GET why it refuses.
/// Returns the size of the object, or `None` if it is empty; on failure also the failed request.
async fn first_byte(
    origin: &Origin,
    object: &ObjectName,
) -> Result<Option<Bytes>, (OriginError, &'static str)> {
    let is_empty = match origin.get(object, 0..1, None).await {
        Ok(mut body) => {
            while let Some(bytes) = body.next().await {
                bytes.map_err(|error| (error, "GET"))?;
            }
            false
        }
        Err(OriginError::RangeNotSatisfiable) => true,
        Err(error) => return Err((error, "GET")),
    };
    let head = origin.head(object).await.map_err(|error| (error, "HEAD"))?;
    Ok((!is_empty).then_some(Bytes(head.size)))
}
