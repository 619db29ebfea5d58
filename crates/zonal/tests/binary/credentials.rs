//! Credentials of S3 origins: each provider against an imitation of its service, their order, their
//! renewal, and what is said of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::harness::{ACCESS_KEY, DEVICE, PATIENCE, SECRET_KEY, TestFolder, Zonal, zonal};

/// A secret that no log, metric or error may have.
const SECRET: &str = "ThisIsVerySecret";
const TOKEN: &str = "ThisTokenIsVerySecret";

/// Imitations of the metadata service, the container endpoint, STS and an S3 bucket at one address.
/// The bucket accepts keys that one of the others issued and that have not expired.
#[derive(Clone)]
struct Cloud {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    life: Duration,
    issued: u32,
    /// Accepted access keys, and when they expire.
    accepted: BTreeMap<String, SystemTime>,
    /// The access key of the last request to the bucket.
    last_key: String,
    refused: u32,
    is_down: bool,
}

impl Cloud {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let state = State {
            life: Duration::from_secs(3600),
            issued: 0,
            accepted: BTreeMap::new(),
            last_key: String::new(),
            refused: 0,
            is_down: false,
        };
        let address = listener.local_addr().unwrap();
        let cloud = Self { address, state: Arc::new(Mutex::new(state)) };
        let served = cloud.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let cloud = served.clone();
                std::thread::spawn(move || cloud.answer(stream.unwrap()));
            }
        });
        cloud
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Accepts a key that nobody issued.
    fn accept(&self, key: &str) {
        let end = SystemTime::now() + Duration::from_secs(3600);
        self.state.lock().unwrap().accepted.insert(key.to_owned(), end);
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    fn last_key(&self) -> String {
        self.state.lock().unwrap().last_key.clone()
    }

    fn answer(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let header = |name: &str| {
            let line = head.lines().find(|line| line.to_lowercase().starts_with(name));
            line.map(|line| line[name.len()..].trim().to_owned())
        };
        let length = header("content-length:").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = String::from_utf8(body).unwrap();
        let mut words = head.split(' ');
        let (method, path) = (words.next()?, words.next()?);
        let (status, answer) = self.of((method, path), &header, &body);
        let head_only = method == "HEAD";
        let (status, range) = match (status, header("range:")) {
            // Zonal asks for all of an object at once.
            (200, Some(range)) => {
                assert_eq!(range, "bytes=0-4");
                (206, "content-range: bytes 0-4/5\r\n")
            }
            (status, _) => (status, ""),
        };
        let is_token = (method, path, status) == ("PUT", "/latest/api/token", 200);
        let lifetime =
            if is_token { "x-aws-ec2-metadata-token-ttl-seconds: 21600\r\n" } else { "" };
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\netag: \"e\"\r\nconnection: close\r\n\
             {range}{lifetime}\r\n{}",
            answer.len(),
            if head_only { "" } else { &answer }
        );
        (&stream).write_all(answer.as_bytes()).ok()
    }

    fn of(
        &self,
        (method, path): (&str, &str),
        header: &dyn Fn(&str) -> Option<String>,
        body: &str,
    ) -> (u16, String) {
        if path.starts_with("/bucket") {
            return self.bucket(header);
        }
        if (method, path) == ("GET", "/") {
            return (200, "<ListAllMyBucketsResult/>".to_owned());
        }
        if self.state.lock().unwrap().is_down {
            return (500, String::new());
        }
        let has_token = header("x-aws-ec2-metadata-token:").as_deref() == Some("session");
        match (method, path) {
            ("PUT", "/latest/api/token") => (200, "session".to_owned()),
            ("GET", "/latest/meta-data/iam/security-credentials/") if has_token => {
                (200, "reader".to_owned())
            }
            ("GET", "/latest/meta-data/iam/security-credentials/reader") if has_token => {
                (200, self.issue_json("IMDS"))
            }
            ("GET", "/container") if header("authorization:").as_deref() == Some("may-ask") => {
                (200, self.issue_json("CONTAINER"))
            }
            ("POST", "/") if body.contains("Action=AssumeRoleWithWebIdentity") => {
                assert!(body.contains("WebIdentityToken=of-the-pod"), "{body}");
                (200, self.issue_xml("AssumeRoleWithWebIdentity", "WEB"))
            }
            ("POST", "/") if body.contains("Action=AssumeRole&") => {
                assert!(body.contains("ExternalId=x-1") && body.contains("RoleSessionName=zonal"));
                (200, self.issue_xml("AssumeRole", "ROLE"))
            }
            _ => (404, String::new()),
        }
    }

    fn bucket(&self, header: &dyn Fn(&str) -> Option<String>) -> (u16, String) {
        let authorization = header("authorization:").unwrap_or_default();
        let key = authorization.split("Credential=").nth(1).unwrap_or_default();
        let key = key.split('/').next().unwrap().to_owned();
        let mut state = self.state.lock().unwrap();
        state.last_key.clone_from(&key);
        match state.accepted.get(&key) {
            Some(end) if SystemTime::now() < *end => (200, "hello".to_owned()),
            known => {
                let code = match known {
                    Some(_) => "ExpiredToken",
                    None if key.is_empty() => "AccessDenied",
                    None => "InvalidAccessKeyId",
                };
                state.refused += 1;
                (403, format!("<Error><Code>{code}</Code></Error>"))
            }
        }
    }

    /// A new access key, and when it expires.
    fn issue(&self, of: &str) -> (String, String) {
        let mut state = self.state.lock().unwrap();
        state.issued += 1;
        let key = format!("{of}{}", state.issued);
        let end = SystemTime::now() + state.life;
        state.accepted.insert(key.clone(), end);
        (key, rfc3339(end))
    }

    fn issue_json(&self, of: &str) -> String {
        let (key, end) = self.issue(of);
        format!(
            r#"{{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":"{key}","SecretAccessKey":"{SECRET}",
                "Token":"{TOKEN}","Expiration":"{end}","LastUpdated":"2026-01-01T00:00:00Z"}}"#
        )
    }

    fn issue_xml(&self, action: &str, of: &str) -> String {
        let (key, end) = self.issue(of);
        format!(
            "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result>\
             <AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/reader/zonal</Arn>\
             <AssumedRoleId>A:zonal</AssumedRoleId></AssumedRoleUser><Credentials>\
             <AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{SECRET}</SecretAccessKey>\
             <SessionToken>{TOKEN}</SessionToken><Expiration>{end}</Expiration></Credentials>\
             </{action}Result></{action}Response>"
        )
    }
}

/// Time of the imitated services, in UTC.
fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Civil date from days since 1970: Howard Hinnant's algorithm, for dates after 1970.
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn start(place: &TestFolder, cloud: &Cloud, words: &[&str], variables: &[(&str, String)]) -> Zonal {
    let origin = format!("s3:{}?region=us-east-1", cloud.url());
    let fixed = ["--device", DEVICE, "--origin", &origin, "--origin-bucket", "bucket"];
    let keys = ["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY, "--origin-retries", "0"];
    let keys = [&keys[..], &["--log-level", "trace"]].concat();
    let all = [&fixed[..], &keys, words].concat();
    Zonal::start_with(place.path(), &all, &[&alone(place), variables].concat())
}

/// Variables that keep the providers from what this machine has.
fn alone(place: &TestFolder) -> Vec<(&'static str, String)> {
    let none = place.path().join("none").display().to_string();
    vec![
        ("AWS_SHARED_CREDENTIALS_FILE", none.clone()),
        ("AWS_CONFIG_FILE", none),
        ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
    ]
}

fn of_metadata(cloud: &Cloud) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_EC2_METADATA_DISABLED", "false".to_owned()),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", cloud.url()),
    ]
}

fn of_container(cloud: &Cloud) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/container", cloud.url())),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "may-ask".to_owned()),
    ]
}

fn of_web_identity(place: &TestFolder, cloud: &Cloud) -> Vec<(&'static str, String)> {
    let token = place.path().join("token");
    fs::write(&token, "of-the-pod").unwrap();
    vec![
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.display().to_string()),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader".to_owned()),
        ("AWS_ENDPOINT_URL_STS", cloud.url()),
    ]
}

fn of_profile(place: &TestFolder) -> Vec<(&'static str, String)> {
    let file = place.path().join("aws");
    let text = format!(
        "[default]\naws_access_key_id = FILE\naws_secret_access_key = {SECRET}\n\
         [other]\naws_access_key_id = OTHER\naws_secret_access_key = {SECRET}\n"
    );
    fs::write(&file, text).unwrap();
    vec![("AWS_SHARED_CREDENTIALS_FILE", file.display().to_string())]
}

fn of_environment() -> Vec<(&'static str, String)> {
    vec![("AWS_ACCESS_KEY_ID", "ENV".to_owned()), ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned())]
}

/// Reads an object, and checks whose key the origin saw, what `/readyz` says, and that nothing that
/// Zonal says has a secret.
#[track_caller]
fn check(cloud: &Cloud, zonal: Zonal, (key, provider): (&str, &str)) {
    let answer = zonal.s3().get("/bucket/a").unwrap();
    assert_eq!((answer.status, &*answer.text()), (200, "hello"), "{}", zonal.log());
    assert!(cloud.last_key().starts_with(key), "{} for {key}", cloud.last_key());
    zonal.await_log("credentials found");
    let ready = zonal.admin("/readyz");
    let expected = format!("\"provider\":\"{provider}\"");
    assert!(ready.text().contains(&expected), "{provider}: {}", ready.text());
    let said = [zonal.log(), ready.text().to_owned(), zonal.admin("/metrics").text().to_owned()];
    for text in &said {
        assert!(!text.contains(SECRET) && !text.contains(TOKEN), "a secret in {text}");
    }
    zonal.stop();
}

#[test]
fn each_provider_is_found_by_itself_and_before_those_that_come_later() {
    let cloud = Cloud::start();
    for key in ["ENV", "FILE", "OTHER"] {
        cloud.accept(key);
    }
    let place = TestFolder::new();
    let mut variables = Vec::new();
    // From the last provider of the chain to the first, each beside all that come later.
    for (more, key, provider) in [
        (of_metadata(&cloud), "IMDS", "imds"),
        (of_container(&cloud), "CONTAINER", "container"),
        (of_web_identity(&place, &cloud), "WEB", "web-identity"),
        (of_profile(&place), "FILE", "profile"),
        (of_environment(), "ENV", "environment"),
    ] {
        check(&cloud, start(&place, &cloud, &[], &more), (key, provider));
        variables.extend(more);
        check(&cloud, start(&place, &cloud, &[], &variables), (key, provider));
    }
    // A pinned provider counts, whatever else there is.
    for (source, key) in [
        ("imds", "IMDS"),
        ("container", "CONTAINER"),
        ("web-identity", "WEB"),
        ("profile:other", "OTHER"),
    ] {
        let words = ["--origin-credentials", source];
        check(&cloud, start(&place, &cloud, &words, &variables), (key, source));
    }
    let role = [
        "--origin-assume-role",
        "arn:aws:iam::123456789012:role/reader",
        "--origin-assume-role-external-id",
        "x-1",
    ];
    let sts = [("AWS_ENDPOINT_URL_STS", cloud.url())];
    let keys = ["--origin-access-key", "A", "--origin-secret-key", SECRET];
    let zonal = start(&place, &cloud, &[&role[..], &keys].concat(), &sts);
    check(&cloud, zonal, ("ROLE", "static, assume-role"));
}

/// Checks that a start is refused. One that is not would run for ever, so it is ended.
#[track_caller]
fn check_refused(place: &TestFolder, command: &mut Command, said: &str) {
    let log = place.path().join("refused");
    let mut child = command.stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status.code(),
            None if PATIENCE < begin.elapsed() => {
                child.kill().unwrap();
                break child.wait().unwrap().code();
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let error = fs::read_to_string(log).unwrap();
    assert!(status == Some(2) && error.contains(said), "{said:?}: {error}");
}

#[test]
fn without_any_provider_the_start_is_refused_and_says_what_to_write() {
    let (place, cloud) = (TestFolder::new(), Cloud::start());
    let words = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--device", DEVICE];
    let origin = format!("s3:{}", cloud.url());
    for (more, said) in [
        (vec![], "no credentials were found (environment: "),
        (vec!["--origin-credentials", "profile:none"], "no credentials were found (profile:none: "),
        (vec!["--origin-credentials", "web-identity"], "no credentials were found (web-identity: "),
        (vec!["--origin-credentials", "static"], "needs origin.access-key"),
        (vec!["--origin-credentials", "ec2"], "write chain, profile:NAME, web-identity"),
        (vec!["--origin-assume-role", "reader"], "write arn:aws:iam::ACCOUNT:role/NAME"),
    ] {
        let keys = ["--origin", &origin, "--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY];
        let mut command = zonal(place.path());
        command.args(words).args(keys).args(&more).envs(alone(&place));
        check_refused(&place, &mut command, said);
    }
    // Another cloud has a server of its own at the address of the metadata service.
    cloud.set(|state| state.is_down = true);
    let keys = ["--origin", &origin, "--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY];
    let mut command = zonal(place.path());
    command.args(words).args(keys).envs(alone(&place)).envs(of_metadata(&cloud));
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && error.contains("no credentials were found"),
        "{error}"
    );
    let unsigned = ["--origin-credentials", "anonymous"];
    let zonal = start(&place, &cloud, &unsigned, &[]);
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 403);
    assert_eq!(cloud.last_key(), "");
    zonal.await_log("requests are unsigned");
}

#[test]
fn keys_are_renewed_before_they_expire_and_when_the_origin_refuses_them() {
    let (place, cloud) = (TestFolder::new(), Cloud::start());
    cloud.set(|state| state.life = Duration::from_secs(4));
    let zonal = start(&place, &cloud, &[], &of_metadata(&cloud));
    let begin = Instant::now();
    while cloud.state.lock().unwrap().issued < 4 {
        assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200, "{}", zonal.log());
        assert!(begin.elapsed() < PATIENCE);
    }
    assert_eq!(cloud.state.lock().unwrap().refused, 0);
    // The service that issues keys fails for a while: the last ones serve as long as they can.
    cloud.set(|state| {
        state.life = Duration::from_secs(3600);
        state.accepted.values_mut().for_each(|end| *end += Duration::from_secs(3600));
        state.is_down = true;
    });
    zonal.await_log("credentials not renewed");
    assert_eq!(zonal.s3().get("/bucket/a").unwrap().status, 200);
    cloud.set(|state| state.is_down = false);
    let issued = cloud.state.lock().unwrap().issued;
    while cloud.state.lock().unwrap().issued == issued {
        assert!(begin.elapsed() < 2 * PATIENCE, "{}", zonal.log());
    }
    // Revoked keys are replaced after one refusal.
    cloud.set(|state| state.accepted.clear());
    let begin = Instant::now();
    while zonal.s3().get("/bucket/a").unwrap().status != 200 {
        assert!(begin.elapsed() < PATIENCE, "{}", zonal.log());
    }
    zonal.stop();
}
