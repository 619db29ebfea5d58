//! Table of origin misbehaviour. `docs/origins.md` describes the effect of each row.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::proxy::{Asked, Honest, Play, Step};

/// One kind of misbehaviour.
pub(super) struct Row {
    /// Name in `docs/origins.md`, and name of the bucket.
    pub(super) name: &'static str,
    pub(super) play: Play,
    /// The false answer that the cache cannot detect, because no other answer contradicts it.
    pub(super) believed: Believed,
    /// An object that is never revalidated keeps the false answer: it came in one response, with
    /// all the bytes.
    pub(super) is_kept: bool,
}

/// A false answer that a client may get.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Believed {
    Nothing,
    /// The length of an object: for a cached one until its first byte is read, for another one
    /// always.
    Length,
    /// The ETag of an object that is not cached.
    ETag,
    /// A document in place of an object that is not cached.
    Document,
    /// 304 for a client that does not have the version or may not read it, if the origin is asked
    /// about it.
    NotModified,
}

const fn row(name: &'static str, play: Play) -> Row {
    Row { name, play, believed: Believed::Nothing, is_kept: false }
}

const fn believed(name: &'static str, believed: Believed, play: Play) -> Row {
    Row { name, play, believed, is_kept: false }
}

const fn kept(name: &'static str, believed: Believed, play: Play) -> Row {
    Row { name, play, believed, is_kept: true }
}

/// Target of redirects. The gateway must not connect to it.
pub(super) const ELSEWHERE: &str = "127.0.0.1:9";

pub(super) const TABLE: &[Row] = &[
    row("closed", |_, _| vec![Step::Close]),
    row("reset", |_, _| vec![Step::Reset]),
    row("reset-in-body", |_, it| vec![it.first(it.body.len() / 2), Step::Reset]),
    row("cut-in-head", |_, it| vec![Step::Send(it.head()[..20].to_vec()), Step::Close]),
    row("cut-in-body", |_, it| vec![it.first(it.body.len() / 2), Step::Close]),
    row("cut-at-chunk", |_, it| {
        vec![it.first(it.body.len().saturating_sub(1).min(256 << 10)), Step::Close]
    }),
    row("cut-last-byte", |_, it| vec![it.first(it.body.len().saturating_sub(1)), Step::Close]),
    row("cut-chunked", |asked, it| {
        let half = it.body.len() / 2;
        chunked(asked, it, |wire, body| wire.extend(chunk(&body[..half])))
    }),
    row("no-length-and-cut", |_, it| {
        let half = it.body.len() / 2;
        vec![it.without("content-length").first(half), Step::Close]
    }),
    row("stall-before-head", |_, _| vec![Step::Hang]),
    row("stall-in-head", |_, it| vec![Step::Send(it.head()[..20].to_vec()), Step::Hang]),
    row("stall-in-body", |_, it| vec![it.first(it.body.len() / 2), Step::Hang]),
    row("stall-in-refusal", |_, it| {
        let it = it.status(403).without("etag").with("content-type", "application/xml");
        vec![it.carrying(b"<Error><Code>AccessDenied</Code>".to_vec()).first(10), Step::Hang]
    }),
    row("stall-in-chunks", |asked, it| {
        let mut steps = chunked(asked, it, |wire, body| wire.extend(chunk(body)));
        *steps.last_mut().unwrap() = Step::Hang;
        steps
    }),
    believed("length-too-long", Believed::Length, |_, it| {
        let length = length(&it) + 10;
        closing(it.with("content-length", length))
    }),
    kept("length-too-short", Believed::Length, |_, it| {
        let length = length(&it).saturating_sub(10);
        it.with("content-length", length).whole()
    }),
    believed("head-says-empty", Believed::Length, |asked, it| {
        if asked.is_head() { it.with("content-length", 0).whole() } else { it.whole() }
    }),
    believed("head-says-shorter", Believed::Length, |asked, it| {
        let shorter = length(&it) / 2;
        if asked.is_head() { it.with("content-length", shorter).whole() } else { it.whole() }
    }),
    believed("head-says-longer", Believed::Length, |asked, it| {
        let longer = length(&it) + 1000;
        if asked.is_head() { it.with("content-length", longer).whole() } else { it.whole() }
    }),
    row("head-without-length", |asked, it| {
        if asked.is_head() { it.without("content-length").whole() } else { it.whole() }
    }),
    row("two-lengths", |_, mut it| {
        let longer = length(&it) + 1;
        it.headers.push(("content-length".into(), longer.to_string()));
        it.whole()
    }),
    row("length-garbage", |_, it| it.with("content-length", "0x10").whole()),
    believed("total-too-large", Believed::Length, |_, it| {
        let total = it.whole.len() + 1000;
        retold(it, |range, _| format!("{range}/{total}"))
    }),
    believed("total-too-small", Believed::Length, |_, it| {
        let total = it.whole.len().saturating_sub(1);
        retold(it, |range, _| format!("{range}/{total}"))
    }),
    row("total-unknown", |_, it| retold(it, |range, _| format!("{range}/*"))),
    row("range-shifted", |_, it| elsewhere(it, |first, last| (first + 1, last + 1))),
    row("range-too-long", |_, it| elsewhere(it, |first, last| (first, last + 7))),
    row("range-too-short", |_, it| elsewhere(it, |first, last| (first, last - 1))),
    row("more-than-asked", |_, it| {
        let more = [&*it.body, b"more"].concat();
        if it.status == 206 { it.carrying(more).whole() } else { it.whole() }
    }),
    row("no-content-range", |_, it| it.without("content-range").whole()),
    row("content-range-garbage", |_, it| retold(it, |_, _| "bytes a-b/c".to_owned())),
    row("range-ignored", |_, it| whole_object(it, 200)),
    row("range-ignored-but-206", |_, it| whole_object(it, 206)),
    row("range-of-nobody", |asked, it| {
        // A partial response to a request for the whole object.
        if asked.is_read() && !asked.is_head() && !asked.is_range() && it.status == 200 {
            let range = format!("bytes 0-99/{}", it.whole.len());
            let first = it.body[..100.min(it.body.len())].to_vec();
            it.status(206).with("content-range", range).carrying(first).whole()
        } else {
            it.whole()
        }
    }),
    row("multipart-ranges", |_, it| {
        if it.status != 206 {
            return it.whole();
        }
        let range = it.get("content-range").unwrap().to_owned();
        let part = format!("\r\n--B\r\nContent-Range: {range}\r\n\r\n");
        let body = [part.as_bytes(), &it.body, b"\r\n--B--\r\n"].concat();
        let it =
            it.without("content-range").with("content-type", "multipart/byteranges; boundary=B");
        it.carrying(body).whole()
    }),
    row("checksum-on-part", |_, it| {
        let of_the_whole = "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=";
        it.with("x-amz-checksum-sha256", of_the_whole).whole()
    }),
    kept("etag-changes", Believed::ETag, |_, it| {
        let etag = another_etag();
        it.with("etag", etag).whole()
    }),
    kept("etag-changes-on-ranges", Believed::ETag, |_, it| {
        let etag = another_etag();
        if it.status == 206 { it.with("etag", etag).whole() } else { it.whole() }
    }),
    believed("no-etag-on-ranges", Believed::ETag, |_, it| {
        if it.status == 206 { it.without("etag").whole() } else { it.whole() }
    }),
    believed("no-etag", Believed::ETag, |_, it| it.without("etag").whole()),
    believed("weak-etag", Believed::ETag, |_, it| {
        let etag = format!("W/{}", it.get("etag").unwrap_or("\"e\""));
        it.with("etag", etag).whole()
    }),
    believed("etag-without-quotes", Believed::ETag, |_, it| it.with("etag", "abc").whole()),
    believed("etag-of-odd-bytes", Believed::ETag, |_, it| it.with("etag", "\"\u{e9}\t,\"").whole()),
    believed("304", Believed::NotModified, |_, it| {
        it.status(304).without("etag").carrying(Vec::new()).whole()
    }),
    believed("304-to-ranges", Believed::NotModified, |asked, it| {
        if asked.is_range() {
            it.status(304).without("etag").carrying(Vec::new()).whole()
        } else {
            it.whole()
        }
    }),
    row("304-without-etag", |_, it| match it.status {
        304 => it.without("etag").without("last-modified").whole(),
        _ => it.whole(),
    }),
    row("304-with-another-etag", |asked, it| {
        let etag = another_etag();
        if asked.is_conditional() { not_modified(it.with("etag", etag)) } else { it.whole() }
    }),
    row("304-of-what-is-new", |asked, it| {
        let is_read = matches!(it.status, 200 | 206) && asked.is_conditional();
        if is_read { not_modified(it) } else { it.whole() }
    }),
    row("304-with-body", |_, it| {
        let body = it.whole.clone();
        if it.status == 304 { it.carrying(body).whole() } else { it.whole() }
    }),
    row("conditions-ignored", |asked, it| match it.status {
        304 | 412 if asked.is_read() => {
            let body = it.whole.clone();
            let mut it = it.status(200).carrying(body);
            if asked.is_head() {
                it.body.clear();
            }
            it.whole()
        }
        _ => it.whole(),
    }),
    row(
        "206-to-head",
        |asked, it| {
            if asked.is_head() { it.status(206).whole() } else { it.whole() }
        },
    ),
    row("204", |_, it| it.status(204).without("content-length").carrying(Vec::new()).whole()),
    row("203", |_, it| it.status(203).whole()),
    row("300", |asked, it| redirect(asked, it, 300)),
    row("301", |asked, it| redirect(asked, it, 301)),
    row("302", |asked, it| redirect(asked, it, 302)),
    row("303", |asked, it| redirect(asked, it, 303)),
    row("307", |asked, it| redirect(asked, it, 307)),
    row("308", |asked, it| redirect(asked, it, 308)),
    row("401", |asked, it| says_no(asked, it, 401, "InvalidAccessKeyId")),
    row("403", |asked, it| says_no(asked, it, 403, "AccessDenied")),
    row("404", |asked, it| says_no(asked, it, 404, "NoSuchKey")),
    row("412", |asked, it| says_no(asked, it, 412, "PreconditionFailed")),
    row("416", |asked, it| says_no(asked, it, 416, "InvalidRange")),
    row("429", |asked, it| says_no(asked, it, 429, "TooManyRequests")),
    row("500-html", |asked, it| {
        let page = it.with("content-type", "text/html").status(500);
        told(asked, page, "<html><body>Something went wrong</body></html>")
    }),
    row("503", |asked, it| says_no(asked, it, 503, "SlowDown")),
    row("503-to-ranges", |asked, it| {
        if asked.is_range() { says_no(asked, it, 503, "SlowDown") } else { it.whole() }
    }),
    row("999", |_, it| it.status(999).whole()),
    row("200-with-error", |asked, it| {
        // S3 does so for copies and completions that failed after the response had begun. No store
        // does so for reads.
        if asked.is_read() { it.whole() } else { says_no(asked, it, 200, "InternalError") }
    }),
    believed("200-with-error-to-ranges", Believed::Document, |asked, it| {
        if asked.is_range() { says_no(asked, it, 200, "InternalError") } else { it.whole() }
    }),
    row("status-line-garbage", |_, it| {
        vec![Step::Send([b"HTTP/1.1 abc\r\n\r\n", &*it.body].concat()), Step::Close]
    }),
    row("no-status-line", |_, it| vec![Step::Send(it.body), Step::Close]),
    row("other-protocol", |_, _| vec![Step::Send(b"SSH-2.0-OpenSSH\r\n".to_vec()), Step::Close]),
    row("101", |_, it| it.status(101).with("upgrade", "h2c").with("connection", "upgrade").whole()),
    row("100-first", |_, it| {
        let interim =
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
        vec![Step::Send([&interim[..], &it.head(), &it.body].concat())]
    }),
    row("header-without-end", |_, it| {
        let endless = vec![b'x'; 1 << 20];
        vec![Step::Send([&it.head()[..20], &endless].concat()), Step::Close]
    }),
    row("headers-too-many", |_, mut it| {
        it.headers.extend((0..1000).map(|n| (format!("x-amz-meta-{n}"), "v".to_owned())));
        it.whole()
    }),
    row("headers-too-large", |_, it| it.with("x-amz-meta-a", "v".repeat(100_000)).whole()),
    row("headers-of-odd-bytes", |_, it| it.with("x-amz-meta-a", "\u{e9}\u{1}\t\u{7f}").whole()),
    row("header-folded", |_, it| it.with("x-amz-meta-a", "v\r\n folded").whole()),
    row("chunk-garbage", |asked, it| {
        chunked(asked, it, |wire, body| {
            wire.extend(chunk(&body[..body.len() / 2]));
            wire.extend_from_slice(b"zz\r\nzz\r\n0\r\n\r\n");
        })
    }),
    row("chunked-and-length", |asked, it| {
        let length = length(&it);
        let mut steps = chunked(asked, it, |wire, body| {
            wire.extend(chunk(body));
            wire.extend_from_slice(b"0\r\n\r\n");
        });
        if let Step::Send(bytes) = &mut steps[0] {
            let at = bytes.windows(2).position(|window| window == b"\r\n").unwrap() + 2;
            bytes.splice(at..at, format!("content-length: {length}\r\n").into_bytes());
        }
        steps
    }),
    row("gzip-on-get", |asked, it| {
        if !asked.is_read() || asked.is_head() || it.body.is_empty() {
            return it.whole();
        }
        let packed = packed(&it.body);
        it.with("content-encoding", "gzip").carrying(packed).whole()
    }),
    row("head-with-body", |asked, mut it| {
        if asked.is_head() {
            it.body = it.whole.clone();
        }
        it.whole()
    }),
    row("answer-and-another", |_, it| {
        let lie = it.clone().carrying(vec![b'!'; it.body.len()]);
        let both = [it.head(), it.body, lie.head(), lie.body].concat();
        vec![Step::Send(both)]
    }),
    row("date-garbage", |_, it| it.with("last-modified", "yesterday").whole()),
    row("date-skewed", |_, it| {
        let it = it.with("date", "Thu, 01 Jan 1970 00:00:00 GMT");
        it.with("last-modified", "Fri, 01 Jan 2100 00:00:00 GMT").whole()
    }),
];

/// The bytes as an origin would send them that compresses without being asked.
pub(super) fn packed(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ 0x55).collect()
}

fn length(it: &Honest) -> usize {
    it.get("content-length").map_or(0, |length| length.parse().unwrap())
}

fn closing(it: Honest) -> Vec<Step> {
    let mut steps = it.whole();
    steps.push(Step::Close);
    steps
}

fn another_etag() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("\"e{}\"", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// The answer in chunks that `body` writes, followed by the end of the connection. For a HEAD only
/// the head.
fn chunked(asked: &Asked, it: Honest, body: impl FnOnce(&mut Vec<u8>, &[u8])) -> Vec<Step> {
    let it = it.without("content-length").with("transfer-encoding", "chunked");
    let mut wire = it.head();
    if !asked.is_head() {
        body(&mut wire, &it.body);
    }
    vec![Step::Send(wire), Step::Close]
}

fn not_modified(it: Honest) -> Vec<Step> {
    it.status(304).carrying(Vec::new()).without("content-length").whole()
}

/// A 206 with a reformatted `Content-Range`.
fn retold(it: Honest, words: impl FnOnce(&str, &str) -> String) -> Vec<Step> {
    let Some((range, total)) = it.get("content-range").and_then(|text| text.split_once('/')) else {
        return it.whole();
    };
    let told = words(range, total);
    it.with("content-range", told).whole()
}

/// A 206 with another range than the requested one, and its `Content-Range`.
fn elsewhere(it: Honest, moved: impl FnOnce(usize, usize) -> (usize, usize)) -> Vec<Step> {
    let Some(range) = it.get("content-range") else { return it.whole() };
    let range = range.strip_prefix("bytes ").unwrap().split('/').next().unwrap();
    let (first, last) = range.split_once('-').unwrap();
    let (first, last) = moved(first.parse().unwrap(), last.parse().unwrap());
    let last = last.min(it.whole.len() - 1);
    let (bytes, total) = (it.whole[first..=last].to_vec(), it.whole.len());
    it.with("content-range", format!("bytes {first}-{last}/{total}")).carrying(bytes).whole()
}

/// The whole object in response to a request for a range.
fn whole_object(it: Honest, status: u16) -> Vec<Step> {
    if it.status != 206 {
        return it.whole();
    }
    let (bytes, last) = (it.whole.clone(), it.whole.len() - 1);
    let it = match status {
        206 => it.with("content-range", format!("bytes 0-{last}/{}", last + 1)),
        _ => it.without("content-range"),
    };
    it.status(status).carrying(bytes).whole()
}

fn redirect(asked: &Asked, it: Honest, status: u16) -> Vec<Step> {
    let location = format!("http://{ELSEWHERE}{}", asked.uri);
    says_no(asked, it.with("location", location), status, "PermanentRedirect")
}

fn says_no(asked: &Asked, it: Honest, status: u16, code: &str) -> Vec<Step> {
    let it = it.status(status).without("etag").with("content-type", "application/xml");
    told(asked, it, &format!("<Error><Code>{code}</Code><Message>m</Message></Error>"))
}

fn told(asked: &Asked, it: Honest, document: &str) -> Vec<Step> {
    let mut it = it.carrying(document.as_bytes().to_vec());
    if asked.is_head() {
        it.body.clear();
    }
    it.whole()
}
