//! Origins that misbehave in every way of a table: each response is right or an honest error, and
//! nothing wrong stays cached.
//!
//! Each row has a bucket and an origin of its own, and goes through four acts:
//!
//! 1. Some objects are read while the origin is honest.
//! 2. The origin misbehaves. Those objects are read again, and others for the first time and then
//!    once more. One object is written, one multipart upload is completed, and all are listed.
//! 3. The origin is honest again: every object is read correctly.
//! 4. If the origin is asked each time, it misbehaves once more while objects change, and is honest
//!    again.
//!
//! With origin authorization, a second client reads as well. The origin denies it everything, so it
//! must get no byte.

mod proxy;
mod table;

use std::sync::Arc;
use std::time::{Duration, Instant};

use proxy::{DENIED, Honest, Proxy};
use table::{Believed, ELSEWHERE, Row, TABLE, packed};
use tokio::task::JoinSet;
use zonal_folder::FolderOrigin;
use zonal_gateway::Keep;
use zonal_host::Freshness;
use zonal_origin::{ConfiguredOrigin, Origin, OriginLimits, Origins, S3Origin};
use zonal_s3::sigv4::Credentials;

use crate::client::{Answer, Ask, Connection};
use crate::versitygw::{SECRET_KEY, VersityGw};
use crate::world::{REVALIDATE, World, pattern};

/// Object size in bytes: more than a cache chunk, so that a full read takes at least two requests.
const SIZE: usize = 300_000;

/// Rows that run at once. Most of their time they wait.
const ROWS_AT_ONCE: usize = 8;

/// Origin timeout: long enough for an honest answer on a busy machine, and short enough for the
/// answers that never come.
const PATIENCE: Duration = Duration::from_millis(500);

/// Requests to an honest origin before a 503 counts as wrong. An origin that answered `SlowDown` is
/// left alone for up to 5 s, and on a very busy machine an honest answer may exceed the short
/// timeout.
const TRIES: usize = 12;

/// Kinds of reads. Each has an object of its own.
const READS: [&str; 7] =
    ["head", "whole", "start", "across", "suffix", "if-none-match", "if-match"];

/// Reads that show whether the cached data is right.
const READS_AGAIN: [&str; 4] = ["head", "whole", "across", "suffix"];

/// Reads of the denied client.
const READS_DENIED: [&str; 5] = ["head", "whole", "start", "if-none-match", "if-match"];

/// What the origin is asked about a cached object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asking {
    Nothing,
    /// Whether the version is current.
    Current,
    /// Whether the version is current, and whether the client may read it.
    Judgement,
}

#[tokio::test]
async fn no_origin_makes_the_cache_lie_when_it_is_asked_each_time() {
    play_over_folder(Asking::Current).await;
}

#[tokio::test]
async fn no_origin_makes_the_cache_lie_when_it_is_asked_once() {
    play_over_folder(Asking::Nothing).await;
}

#[tokio::test]
async fn no_origin_makes_the_cache_lie_or_talk_when_it_judges_each_request() {
    play_over_folder(Asking::Judgement).await;
}

#[tokio::test]
async fn no_origin_makes_the_cache_lie_over_a_real_server() {
    // Slow: every fifth row, or all rows with `SLOW_TESTS`.
    let step = if std::env::var_os("SLOW_TESTS").is_some() { 1 } else { 5 };
    for (name, asking) in [("hostile", Asking::Nothing), ("hostile-judge", Asking::Judgement)] {
        let Some(server) = VersityGw::start(name).await else { return };
        play_all(server.origin(SECRET_KEY), asking, TABLE.iter().step_by(step)).await;
    }
}

#[test]
fn the_table_is_documented() {
    let documented = include_str!("../../../../docs/origins.md");
    for Row { name, .. } in TABLE {
        assert!(documented.contains(&format!("`{name}`")), "docs/origins.md does not have {name}");
    }
}

/// Plays all rows, with the objects in a folder.
async fn play_over_folder(asking: Asking) {
    let root = tempfile::tempdir().unwrap();
    let upstream = FolderOrigin::open(root.path().to_owned(), &OriginLimits::default()).unwrap();
    play_all(upstream.into(), asking, TABLE.iter()).await;
}

async fn play_all(upstream: Origin, asking: Asking, rows: impl Iterator<Item = &'static Row>) {
    let proxy = Proxy::start(upstream).await;
    let origins = Origins::new(TABLE.iter().map(|row| of_row(row, &proxy)).collect());
    let world = Arc::new(match asking {
        Asking::Nothing => World::over_origin(origins, Freshness::Immutable).await,
        Asking::Current => World::over_origin(origins, REVALIDATE).await,
        Asking::Judgement => World::judged_by(origins).await,
    });
    world.change_terms(|runtime_config| {
        for Row { name, .. } in TABLE {
            runtime_config.keep =
                runtime_config.keep.clone().with(&format!("{name}/never-"), Keep::Never);
        }
    });
    let (mut rows, mut playing) = (rows.fuse(), JoinSet::new());
    let mut failures = Vec::new();
    loop {
        while playing.len() < ROWS_AT_ONCE
            && let Some(row) = rows.next()
        {
            let (world, proxy) = (world.clone(), proxy.clone());
            playing.spawn(Act { world, proxy, row, asking, is_lying: false }.play());
        }
        let Some(played) = playing.join_next().await else { break };
        failures.extend(played.unwrap());
    }
    assert!(failures.is_empty(), "{} wrong answers:\n{}", failures.len(), failures.join("\n"));
}

/// The proxy as the origin of a bucket.
fn of_row(row: &Row, proxy: &Proxy) -> ConfiguredOrigin {
    let endpoint = format!("http://{}", proxy.address).parse().unwrap();
    let limits = OriginLimits {
        answer: PATIENCE,
        forward_answer: PATIENCE,
        stall: PATIENCE,
        wait: PATIENCE,
        retries: 1,
        backoff: Duration::from_millis(1),
        ..OriginLimits::default()
    };
    let (access_key, secret_key) = ("AK".into(), "SK".into());
    let keys = Credentials { access_key, secret_key, session_token: None };
    let origin = S3Origin::open(endpoint, "us-east-1".into(), Some(keys), limits).unwrap();
    let (name, buckets) = (row.name.to_owned(), vec![row.name.to_owned()]);
    let reserved = Vec::new();
    ConfiguredOrigin { name, origin: origin.with_buckets(&buckets).into(), buckets, reserved }
}

/// A row while it is played.
#[derive(Clone)]
struct Act {
    world: Arc<World>,
    proxy: Arc<Proxy>,
    row: &'static Row,
    asking: Asking,
    is_lying: bool,
}

impl Act {
    /// Plays the row, and returns what went wrong.
    async fn play(mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        let keys = self.make_objects().await;
        wrong.extend(self.read_all("cached", &READS).await);

        self.lie(true);
        wrong.extend(self.read_all("cached", &READS).await);
        wrong.extend(self.read_cold().await);
        if self.row.believed != Believed::ETag {
            wrong.extend(self.read_all("empty", &["whole"]).await);
        }
        wrong.extend(self.read_denied().await);
        wrong.extend(self.write().await);
        wrong.extend(self.complete().await);
        wrong.extend(self.list().await);

        self.lie(false);
        for key in &keys {
            wrong.extend(self.read_all(key, &READS_AGAIN).await);
        }
        wrong.extend(self.read_denied().await);
        wrong.extend(self.list().await);

        if self.asking != Asking::Nothing {
            self.lie(true);
            for key in ["cached", "cold-whole"] {
                self.put(key, SIZE, 200).await;
                // An origin that answers 304 for every version confirms outdated versions as well.
                if self.believed() != Believed::NotModified {
                    wrong.extend(self.read_all(key, &READS).await);
                }
            }
            self.lie(false);
            wrong.extend(self.read_all("cached", &READS).await);
            wrong.extend(self.read_all("cold-whole", &READS).await);
        }
        wrong
    }

    /// The false answer that a client may get at this time.
    fn believed(&self) -> Believed {
        match self.row.believed {
            believed if self.row.is_kept && self.asking == Asking::Nothing => believed,
            _ if !self.is_lying => Believed::Nothing,
            Believed::NotModified if self.asking != Asking::Judgement => Believed::Nothing,
            believed => believed,
        }
    }

    /// True if nothing contradicts the origin's answer to a read: it is handed on, or is the first
    /// about its object.
    fn is_uncontradicted(&self, key: &str) -> bool {
        self.asking == Asking::Judgement || !key.starts_with("cached")
    }

    fn lie(&mut self, is_lying: bool) {
        self.is_lying = is_lying;
        self.proxy.play(self.row.name, is_lying.then_some(self.row.play));
    }

    fn uri(&self, key: &str) -> String {
        format!("/{}/{key}", self.row.name)
    }

    async fn put(&self, key: &str, size: usize, seed: usize) {
        let put = self.proxy.ask("PUT", &self.uri(key), pattern(size, seed)).await;
        assert_eq!(put.status, 200, "{}", String::from_utf8_lossy(&put.body));
    }

    /// Creates the objects at the origin, each with other bytes.
    async fn make_objects(&self) -> Vec<String> {
        let made = self.proxy.ask("PUT", &format!("/{}", self.row.name), "").await;
        assert_eq!(made.status, 200);
        let of_reads = |kind: &'static str| READS.iter().map(move |read| format!("{kind}-{read}"));
        let mut keys = vec!["cached".to_owned(), "put".to_owned()];
        keys.extend(of_reads("cold").chain(of_reads("never")));
        for (seed, key) in keys.iter().enumerate() {
            self.put(key, SIZE, seed).await;
        }
        self.put("empty", 0, 0).await;
        keys.extend(["empty".to_owned(), "completed".to_owned()]);
        self.put("completed", SIZE, 100).await;
        keys
    }

    /// Reads an object. The full read comes first if a false answer may be believed until the bytes
    /// are read.
    async fn read_all(&self, key: &str, reads: &[&str]) -> Vec<String> {
        let (mut wrong, truth) = (Vec::new(), self.truth(key).await);
        if !matches!(self.row.believed, Believed::Nothing | Believed::NotModified) {
            wrong.extend(self.read(key, "whole", &truth).await);
        }
        for read in reads {
            wrong.extend(self.read(key, read, &truth).await);
        }
        wrong
    }

    async fn truth(&self, key: &str) -> Honest {
        self.proxy.ask("GET", &self.uri(key), "").await
    }

    /// Reads each kind of object for the first time, twice.
    async fn read_cold(&self) -> Vec<String> {
        let mut reading = JoinSet::new();
        for (read, kind) in READS.into_iter().flat_map(|read| [(read, "cold"), (read, "never")]) {
            let (act, key) = (self.clone(), format!("{kind}-{read}"));
            reading.spawn(async move {
                let truth = act.truth(&key).await;
                [act.read(&key, read, &truth).await, act.read(&key, read, &truth).await]
            });
        }
        reading.join_all().await.into_iter().flatten().flatten().collect()
    }

    /// Performs a read, and returns what was wrong with it.
    async fn read(&self, key: &str, read: &str, truth: &Honest) -> Option<String> {
        let answer = self.ask(|| self.request(key, read, truth)).await;
        self.verdict(key, read, answer, |answer| self.judge(key, read, answer, truth))
    }

    /// Performs the reads of the denied client, and returns what it got wrongly. Only with origin
    /// authorization: the gateway's own keys do not include this client.
    async fn read_denied(&self) -> Vec<String> {
        if self.asking != Asking::Judgement {
            return Vec::new();
        }
        let keys = ["cached", "cold-whole", "never-whole"];
        let mut reading = JoinSet::new();
        for (key, read) in keys.into_iter().flat_map(|key| READS_DENIED.map(|read| (key, read))) {
            let act = self.clone();
            reading.spawn(async move {
                let truth = act.truth(key).await;
                let answer = act.ask(|| act.request(key, read, &truth).signed_by(DENIED)).await;
                let judge = |answer: &Answer| act.judge_denied(read, answer, &truth);
                act.verdict(&format!("{key} by who is denied"), read, answer, judge)
            });
        }
        reading.join_all().await.into_iter().flatten().collect()
    }

    fn request(&self, key: &str, read: &str, truth: &Honest) -> Ask {
        let (uri, etag) = (self.uri(key), truth.get("etag").unwrap());
        match read {
            "head" => Ask::new("HEAD", &uri),
            "start" => Ask::new("GET", &uri).with("range", "bytes=0-99"),
            "across" => Ask::new("GET", &uri).with("range", "bytes=200000-280000"),
            "suffix" => Ask::new("GET", &uri).with("range", "bytes=-1000"),
            "if-none-match" => Ask::new("GET", &uri).with("if-none-match", etag),
            "if-match" => Ask::new("GET", &uri).with("if-match", etag),
            _ => Ask::new("GET", &uri),
        }
    }

    fn verdict(
        &self,
        key: &str,
        read: &str,
        answer: Option<Answer>,
        judge: impl FnOnce(&Answer) -> Result<(), String>,
    ) -> Option<String> {
        let (verdict, told) = match answer {
            Some(answer) => (judge(&answer), headers_of(&answer)),
            // The connection closed before a response head.
            None if self.is_lying => return None,
            None => (Err("no answer".to_owned()), String::new()),
        };
        let (wrong, row) = (verdict.err()?, self.row.name);
        let when = if self.is_lying { "misbehaving" } else { "honest again" };
        Some(format!("{row}, {when}: {read} of {key}: {wrong}: {told}"))
    }

    /// Sends a request. `None`: the connection was closed instead. While the origin is honest, the
    /// request is repeated after a failure that the short timeout can cause: a 503, or a response
    /// that broke off while the gateway waited for the origin.
    async fn ask(&self, ask: impl Fn() -> Ask) -> Option<Answer> {
        let mut tries = if self.is_lying { 1 } else { TRIES };
        loop {
            let ask = ask();
            let method = ask.head.method.clone();
            let begun = Instant::now();
            let mut connection = Connection::open(self.world.address).await;
            connection.send(&ask.signed()).await;
            let answer = connection.answer(&method).await;
            tries -= 1;
            let has_waited = PATIENCE <= begun.elapsed();
            let is_late = |answer: &Answer| answer.status == 503 || answer.cut && has_waited;
            if tries == 0 || !answer.as_ref().map_or(has_waited, is_late) {
                return answer;
            }
            tokio::time::sleep(PATIENCE).await;
        }
    }

    fn judge(&self, key: &str, read: &str, it: &Answer, truth: &Honest) -> Result<(), String> {
        if it.header("location").contains(ELSEWHERE) {
            return Err("leads elsewhere".to_owned());
        }
        let believed = self.believed();
        if believed == Believed::Document && self.is_uncontradicted(key) && says_no(it) {
            return Ok(());
        }
        let bytes = match (it.status, read) {
            // In an empty object, every range is unsatisfiable.
            (416, _) if truth.body.is_empty() => return Ok(()),
            (400.., _) if self.is_lying => return Ok(()),
            (304, "if-none-match") => return Ok(()),
            (412, "if-match") if believed == Believed::ETag => return Ok(()),
            (200, _) => truth.body.clone(),
            (206, "start" | "across" | "suffix") => {
                let range = match read {
                    "start" => 0..100,
                    "across" => 200_000..280_001,
                    // A size that is believed for good moves the end of the object.
                    _ if believed == Believed::Length && self.row.is_kept => {
                        let told = it.header("content-range").rsplit('/').next();
                        let size = told.and_then(|size| size.parse().ok()).unwrap_or(SIZE);
                        size.saturating_sub(1000)..size.min(SIZE)
                    }
                    _ => SIZE - 1000..SIZE,
                };
                let said = format!("bytes {}-{}/", range.start, range.end - 1);
                let total = it.header("content-range").strip_prefix(&*said).unwrap_or("another");
                let is_total = total == SIZE.to_string() || (total == "*" && self.is_lying);
                if !is_total && (believed != Believed::Length || total == "another") {
                    return Err("another range".to_owned());
                }
                if it.has("x-amz-checksum-sha256") {
                    return Err("a part with the checksum of the whole".to_owned());
                }
                truth.body[range].to_vec()
            }
            _ => return Err("this status".to_owned()),
        };
        if believed != Believed::ETag && Some(it.header("etag")) != truth.get("etag") {
            return Err("another ETag".to_owned());
        }
        let bytes = if it.header("content-encoding") == "gzip" { packed(&bytes) } else { bytes };
        let length: usize = it.header("content-length").parse().unwrap_or(bytes.len());
        let is_short_and_believed = believed == Believed::Length && length <= bytes.len();
        if read == "head" {
            let is_right = length == bytes.len() || believed == Believed::Length;
            return if is_right { Ok(()) } else { Err("another length".to_owned()) };
        }
        if !bytes.starts_with(&it.body) {
            return Err("other bytes".to_owned());
        }
        match it.body.len() == bytes.len() {
            true if !it.cut => Ok(()),
            _ if it.cut && self.is_lying => Ok(()),
            _ if is_short_and_believed && self.is_uncontradicted(key) => Ok(()),
            _ => Err(format!("{} bytes of {}", it.body.len(), bytes.len())),
        }
    }

    /// The response has no byte of the object, and no header of the cached one.
    fn judge_denied(&self, read: &str, it: &Answer, truth: &Honest) -> Result<(), String> {
        let is_refused = match (it.status, read) {
            (400.., _) => self.is_lying || it.status == 403,
            (304, "if-none-match") => self.is_lying,
            _ => self.believed() == Believed::Document && says_no(it),
        };
        let has_bytes =
            16 <= it.body.len() && truth.body.windows(16).any(|bytes| it.body.starts_with(bytes));
        let is_of_the_cache = ["HIT", "MISS", "REVALIDATED"].contains(&it.header("x-cache"));
        match self.believed() {
            // The origin admitted the client for the version in its condition.
            Believed::NotModified => Ok(()),
            _ if it.header("location").contains(ELSEWHERE) => Err("leads elsewhere".to_owned()),
            _ if is_refused && !has_bytes && !is_of_the_cache => Ok(()),
            _ => Err("was denied".to_owned()),
        }
    }

    /// An acknowledged write has happened. The reads of act 3 check which version there is.
    async fn write(&self) -> Option<String> {
        let new = pattern(SIZE, 150);
        let Some(answer) = self.ask(|| Ask::new("PUT", &self.uri("put")).body(&*new)).await else {
            return Some(format!("{}: PUT: no answer", self.row.name));
        };
        let is = self.proxy.ask("GET", &self.uri("put"), "").await;
        let is_done = is.body == pattern(SIZE, 150);
        let is_honest = match answer.status {
            200..300 => is_done && !answer.header("location").contains(ELSEWHERE),
            status => 400 <= status,
        };
        (!is_honest).then(|| format!("{}: PUT: {}", self.row.name, headers_of(&answer)))
    }

    /// Completes a multipart upload. The origin's result is passed on, including an error with
    /// status 200.
    async fn complete(&self) -> Option<String> {
        let uri = self.uri("completed");
        let begun = self.proxy.ask("POST", &format!("{uri}?uploads"), "").await;
        let begun = String::from_utf8(begun.body).unwrap();
        let id = begun.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0;
        let part = format!("{uri}?partNumber=1&uploadId={id}");
        let part = self.proxy.ask("PUT", &part, pattern(SIZE, 151)).await;
        let etag = part.get("etag").unwrap().replace('"', "&quot;");
        let list = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
             </CompleteMultipartUpload>"
        );
        let complete = || Ask::new("POST", &format!("{uri}?uploadId={id}")).body(&*list);
        let Some(answer) = self.ask(complete).await else {
            return Some(format!("{}: POST: no answer", self.row.name));
        };
        let says_no = answer.text().contains("<Error>");
        let is_honest = match answer.status {
            200..300 if answer.cut => true,
            200..300 => says_no == (self.row.name == "200-with-error"),
            status => 400 <= status,
        };
        let told = || format!("{}: POST: {} {}", self.row.name, headers_of(&answer), answer.text());
        (!is_honest).then(told)
    }

    async fn list(&self) -> Option<String> {
        let uri = format!("/{}?list-type=2", self.row.name);
        let truth = self.proxy.ask("GET", &uri, "").await.body;
        let Some(answer) = self.ask(|| Ask::new("GET", &uri)).await else {
            return Some(format!("{}: list: no answer", self.row.name));
        };
        let is_honest = match answer.status {
            200 if answer.cut => self.is_lying,
            200 if says_no(&answer) => self.is_lying,
            200 => is_whole(&answer) && keys_in(&answer.body) == keys_in(&truth),
            status => 400 <= status && self.is_lying,
        };
        let is_short = self.is_lying && self.row.believed == Believed::Length;
        let told = || format!("{}: list: {} {}", self.row.name, headers_of(&answer), answer.text());
        (!is_honest && !is_short).then(told)
    }
}

fn is_whole(answer: &Answer) -> bool {
    answer.text().contains("</ListBucketResult>")
}

fn says_no(answer: &Answer) -> bool {
    answer.text().contains("<Error>")
}

/// The keys in a list.
fn keys_in(list: &[u8]) -> Vec<String> {
    let list = String::from_utf8_lossy(list);
    list.split("<Key>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned()).collect()
}

fn headers_of(answer: &Answer) -> String {
    let mut head = answer.clone();
    head.body.clear();
    format!("{head:?}, {} bytes came", answer.body.len())
}
