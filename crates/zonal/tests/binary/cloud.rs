//! Imitations of a cloud: its providers of credentials, and a bucket that accepts what they issued.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::harness::TestFolder;

/// A secret that no log, metric or error may have.
pub(crate) const SECRET: &str = "ThisIsVerySecret";
pub(crate) const TOKEN: &str = "ThisTokenIsVerySecret";

/// Imitations of the metadata service, the container endpoint, STS and an S3 bucket at one address.
/// The bucket accepts keys that one of the others issued and that have not expired.
#[derive(Clone)]
pub(crate) struct Cloud {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

pub(crate) struct State {
    pub(crate) life: Duration,
    pub(crate) issued: u32,
    /// Accepted access keys, and when they expire.
    pub(crate) accepted: BTreeMap<String, SystemTime>,
    /// The access key of the last request to the bucket.
    last_key: String,
    /// Requests that the bucket refused because of their key.
    pub(crate) refused: u32,
    pub(crate) providers: Manner,
    /// Answers of the bucket to requests whose first line has a text.
    pub(crate) refusals: Vec<Refusal>,
}

/// How the providers behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Answer,
    /// Status 500.
    Fail,
    /// Status 200 and no sense, also as session token.
    Nonsense,
    /// As `Nonsense`, with a proper session token.
    NonsenseKeys,
    /// The connection stays open, and nothing comes: also the answer of a metadata service whose
    /// hop limit is too small.
    Hang,
}

/// A text in the first line of a request; status, code and further headers of the answer.
pub(crate) type Refusal = (&'static str, u16, &'static str, &'static str);

impl Cloud {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let state = State {
            life: Duration::from_secs(3600),
            issued: 0,
            accepted: BTreeMap::new(),
            last_key: String::new(),
            refused: 0,
            providers: Manner::Answer,
            refusals: Vec::new(),
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

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Accepts a key that nobody issued.
    pub(crate) fn accept(&self, key: &str) {
        let end = SystemTime::now() + Duration::from_secs(3600);
        self.state.lock().unwrap().accepted.insert(key.to_owned(), end);
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    pub(crate) fn issued(&self) -> u32 {
        self.state.lock().unwrap().issued
    }

    pub(crate) fn refused(&self) -> u32 {
        self.state.lock().unwrap().refused
    }

    pub(crate) fn last_key(&self) -> String {
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
        let Reply { status, document, headers } = self.reply((method, path), &header, &body)?;
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{}",
            document.len(),
            if method == "HEAD" { "" } else { &document }
        );
        (&stream).write_all(answer.as_bytes()).ok()
    }

    /// `None`: no answer.
    fn reply(
        &self,
        (method, path): (&str, &str),
        header: &dyn Fn(&str) -> Option<String>,
        body: &str,
    ) -> Option<Reply> {
        if path == "/" && method == "GET" || path.starts_with("/bucket") {
            return Some(self.of_s3((method, path), header));
        }
        let providers = self.state.lock().unwrap().providers;
        let is_token = (method, path) == ("PUT", "/latest/api/token");
        match providers {
            Manner::Hang => {
                // Longer than any test waits.
                std::thread::sleep(Duration::from_secs(600));
                return None;
            }
            Manner::Fail => return Some(Reply::new(500, "")),
            Manner::Nonsense => return Some(Reply::new(200, "<html>Welcome!</html>")),
            Manner::NonsenseKeys if !is_token => {
                return Some(Reply::new(200, "<html>Welcome!</html>"));
            }
            Manner::NonsenseKeys | Manner::Answer => {}
        }
        let has_token = header("x-aws-ec2-metadata-token:").as_deref() == Some("session");
        Some(match (method, path) {
            ("PUT", "/latest/api/token") => {
                let headers = "x-aws-ec2-metadata-token-ttl-seconds: 21600\r\n".to_owned();
                Reply { headers, ..Reply::new(200, "session") }
            }
            ("GET", "/latest/meta-data/iam/security-credentials/") if has_token => {
                Reply::new(200, "reader")
            }
            ("GET", "/latest/meta-data/iam/security-credentials/reader") if has_token => {
                Reply::new(200, self.issue_json("IMDS"))
            }
            ("GET", "/container") if header("authorization:").as_deref() == Some("may-ask") => {
                Reply::new(200, self.issue_json("CONTAINER"))
            }
            ("POST", "/") if body.contains("Action=AssumeRoleWithWebIdentity") => {
                assert!(body.contains("WebIdentityToken=of-the-pod"), "{body}");
                Reply::new(200, self.issue_xml("AssumeRoleWithWebIdentity", "WEB"))
            }
            ("POST", "/") if body.contains("Action=AssumeRole&") => {
                assert!(body.contains("ExternalId=x-1") && body.contains("RoleSessionName=zonal"));
                Reply::new(200, self.issue_xml("AssumeRole", "ROLE"))
            }
            _ => Reply::new(404, ""),
        })
    }

    /// Answers as S3 does, with one bucket and one object.
    fn of_s3(
        &self,
        (method, path): (&str, &str),
        header: &dyn Fn(&str) -> Option<String>,
    ) -> Reply {
        let authorization = header("authorization:").unwrap_or_default();
        let key = authorization.split("Credential=").nth(1).unwrap_or_default();
        let key = key.split('/').next().unwrap().to_owned();
        let mut state = self.state.lock().unwrap();
        state.last_key.clone_from(&key);
        let line = format!("{method} {path} HTTP");
        if let Some((_, status, code, headers)) =
            state.refusals.iter().find(|(text, ..)| line.contains(text))
        {
            let headers = (*headers).to_owned();
            return Reply { headers, ..Reply::new(*status, error(code)) };
        }
        let code = match state.accepted.get(&key) {
            Some(end) if SystemTime::now() < *end => "",
            Some(_) => "ExpiredToken",
            None if key.is_empty() => "AccessDenied",
            None => "InvalidAccessKeyId",
        };
        if !code.is_empty() {
            state.refused += 1;
            return Reply::new(403, error(code));
        }
        match (path, header("range:")) {
            ("/", _) => Reply::new(
                200,
                "<ListAllMyBucketsResult><Buckets><Bucket><Name>bucket</Name>\
                 <CreationDate>2026-01-01T00:00:00Z</CreationDate></Bucket></Buckets>\
                 </ListAllMyBucketsResult>",
            ),
            (path, _) if path.contains("list-type=2") => Reply::new(
                200,
                "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key>\
                 <Size>5</Size></Contents></ListBucketResult>",
            ),
            (_, None) => Reply { headers: ETAG.to_owned(), ..Reply::new(200, OBJECT) },
            (_, Some(range)) => {
                let range = range.strip_prefix("bytes=").unwrap();
                let end = range.strip_prefix("0-").unwrap().parse::<usize>().unwrap();
                let headers = format!("{ETAG}content-range: bytes {range}/{}\r\n", OBJECT.len());
                Reply { headers, ..Reply::new(206, &OBJECT[..=end]) }
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

const OBJECT: &str = "hello";
const ETAG: &str = "etag: \"e\"\r\n";

fn error(code: &str) -> String {
    format!("<Error><Code>{code}</Code><Message>for a test</Message></Error>")
}

/// An answer; the headers have a line end each.
struct Reply {
    status: u16,
    document: String,
    headers: String,
}

impl Reply {
    fn new(status: u16, document: impl Into<String>) -> Self {
        Self { status, document: document.into(), headers: String::new() }
    }
}

/// Time of the imitated services, in UTC.
fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap();
    let (seconds, milliseconds) = (since.as_secs(), since.subsec_millis());
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
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// Variables that keep the providers from what this machine has.
pub(crate) fn alone(place: &TestFolder) -> Vec<(&'static str, String)> {
    let none = place.path().join("none").display().to_string();
    vec![
        ("AWS_SHARED_CREDENTIALS_FILE", none.clone()),
        ("AWS_CONFIG_FILE", none),
        ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
    ]
}

pub(crate) fn of_metadata(cloud: &Cloud) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_EC2_METADATA_DISABLED", "false".to_owned()),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", cloud.url()),
    ]
}

pub(crate) fn of_container(cloud: &Cloud) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/container", cloud.url())),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "may-ask".to_owned()),
    ]
}

pub(crate) fn of_web_identity(place: &TestFolder, cloud: &Cloud) -> Vec<(&'static str, String)> {
    let token = place.path().join("token");
    fs::write(&token, "of-the-pod").unwrap();
    vec![
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.display().to_string()),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader".to_owned()),
        ("AWS_ENDPOINT_URL_STS", cloud.url()),
    ]
}

pub(crate) fn of_profile(place: &TestFolder) -> Vec<(&'static str, String)> {
    let file = place.path().join("aws");
    let text = format!(
        "[default]\naws_access_key_id = FILE\naws_secret_access_key = {SECRET}\n\
         [other]\naws_access_key_id = OTHER\naws_secret_access_key = {SECRET}\n"
    );
    fs::write(&file, text).unwrap();
    vec![("AWS_SHARED_CREDENTIALS_FILE", file.display().to_string())]
}

pub(crate) fn of_environment() -> Vec<(&'static str, String)> {
    vec![("AWS_ACCESS_KEY_ID", "ENV".to_owned()), ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned())]
}
