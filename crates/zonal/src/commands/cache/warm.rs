//! `zonal cache warm`: a list of objects is put on flash, and what became of each is told.
//!
//! 1. Read the list: what cannot be meant is found before anything is sent.
//! 2. Post it to the admin endpoint of a running Zonal.
//! 3. Print the report as it comes. Its sum decides the exit code.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::header::HOST;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use indicatif::ProgressBar;
use tokio::net::TcpStream;
use zonal_base::Bytes as Size;

use crate::commands::print::{self, human};
use crate::failure::Failure;
use crate::warming::{self, Line, Sum, Told, parse, parse_list};

/// Put objects on flash before they are asked for
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Objects: BUCKET/KEY, or that, a tab, and START-END in bytes
    #[arg(value_name = "BUCKET/KEY")]
    objects: Vec<String>,
    /// A file of such lines; - is standard input
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// The admin endpoint of the Zonal to warm
    #[arg(long, value_name = "ADDR", env = "ZONAL_ADMIN_LISTEN", default_value = "127.0.0.1:9090")]
    admin: String,
    /// Print the report as it comes: a line of JSON for each object, and one for the sum
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  zonal cache warm bucket/a bucket/b
  aws s3 ls --recursive s3://lake/dim/ | awk '{print \"lake/\" $4}' | zonal cache warm --list -

What is fetched goes to flash whatever the policy's admission says, and from then on the policy decides.
Exit codes: 0 when all of it is on flash at the end, 1 when something is not, 2 when the request was wrong.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (list, object_count) = list(args)?;
    // Nothing is drawn where standard error is no terminal.
    let bar = ProgressBar::new(object_count);
    let outcome = crate::commands::runtime()?.block_on(warm(args, list, &bar));
    bar.finish_and_clear();
    let sum = outcome?;
    if !args.json {
        print::text(&sum_text(&sum))?;
    }
    match sum.objects - sum.objects_on_flash {
        0 => Ok(()),
        missing => Err(Failure::work(format!(
            "not all of what was asked for is on flash: {missing} of {} objects are missing, or a part of them",
            sum.objects
        ))),
    }
}

/// All that was asked for, checked, and how many objects it is.
fn list(args: &Args) -> Result<(String, u64), Failure> {
    let mut text = String::new();
    for object in &args.objects {
        parse(object).map_err(Failure::request)?;
        text += &format!("{object}\n");
    }
    if let Some(path) = &args.list {
        let name = path.display();
        let list = read(path).map_err(|error| Failure::request(format!("{name}: {error}")))?;
        parse_list(&list).map_err(|why| Failure::request(format!("{name}: {why}")))?;
        text += &list;
    }
    let objects = parse_list(&text).map_err(Failure::request)?.len();
    if objects == 0 {
        return Err(Failure::request("nothing to warm: name objects, or a list with --list"));
    }
    if warming::LIST_BYTES_MAX < text.len() || warming::OBJECTS_MAX < objects {
        return Err(Failure::request(format!(
            "{objects} objects in {}: a list has {} objects and 16 MiB at most",
            human(Size(text.len() as u64)),
            warming::OBJECTS_MAX
        )));
    }
    Ok((text, objects as u64))
}

fn read(path: &Path) -> io::Result<String> {
    if path != Path::new("-") {
        return fs::read_to_string(path);
    }
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

async fn warm(args: &Args, list: String, bar: &ProgressBar) -> Result<Sum, Failure> {
    let answer = post(&args.admin, list).await?;
    let status = answer.status();
    let mut body = answer.into_body();
    if status != StatusCode::OK {
        let why = body.collect().await.map_err(Failure::work)?.to_bytes();
        let why = String::from_utf8_lossy(&why).trim_end().to_owned();
        return Err(match status {
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => Failure::Request(why),
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Failure::work(format!(
                "what answers at {} cannot warm: it is no Zonal, or an older one",
                args.admin
            )),
            _ => Failure::Work(format!("{} answered {}: {why}", args.admin, status.as_u16())),
        });
    }
    let ended = || {
        Failure::work(
            "the report broke off: what it told so far holds; look at the log of zonal serve",
        )
    };
    let mut lines = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ended())?;
        lines.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = lines.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = lines.drain(..=end).collect();
            if let Some(sum) = take_line(&line, args.json, bar)? {
                return Ok(sum);
            }
        }
    }
    Err(ended())
}

async fn post(admin: &str, list: String) -> Result<Response<Incoming>, Failure> {
    let stream = TcpStream::connect(admin).await.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            Failure::request(format!("--admin {admin:?}: write HOST:PORT"))
        }
        _ => Failure::work(format!(
            "cannot reach the admin endpoint at {admin}: {error}: is zonal serve up, and is it its --admin (admin.listen)?"
        )),
    })?;
    let broken = |error| Failure::work(format!("the admin endpoint at {admin}: {error}"));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    tokio::spawn(connection);
    let request = Request::post(warming::PATH).header(HOST, admin);
    let request = request.body(Full::new(Bytes::from(list))).map_err(Failure::request)?;
    sender.send_request(request).await.map_err(broken)
}

/// Prints a line of the report; the sum is handed back.
fn take_line(line: &[u8], as_json: bool, bar: &ProgressBar) -> Result<Option<Sum>, Failure> {
    let parsed: Line = serde_json::from_slice(line)
        .map_err(|error| Failure::work(format!("the report is not one of ours: {error}")))?;
    if as_json {
        bar.suspend(|| print::text(&String::from_utf8_lossy(line)))?;
    }
    match parsed {
        Line::Sum(sum) => Ok(Some(sum)),
        Line::Object(told) => {
            bar.inc(1);
            if !as_json {
                bar.suspend(|| print::text(&object_text(&told)))?;
            }
            Ok(None)
        }
    }
}

fn object_text(told: &Told) -> String {
    let Told { name, size, was_on_flash, fetched, on_flash, why } = told;
    let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
    let [size, was_on_flash, fetched, on_flash] =
        [size, was_on_flash, fetched, on_flash].map(|bytes| human(Size(*bytes)));
    format!(
        "{name}: {on_flash} of {size} on flash ({was_on_flash} before, {fetched} fetched){why}\n"
    )
}

fn sum_text(sum: &Sum) -> String {
    let [size, was_on_flash, fetched, on_flash, evicted] =
        [sum.size, sum.was_on_flash, sum.fetched, sum.on_flash, sum.evicted]
            .map(|bytes| human(Size(bytes)));
    let evicted = match sum.objects_evicted {
        0 => String::new(),
        n => format!(
            "{n} objects lost {evicted} again to what came after them: flash is too small for the list\n"
        ),
    };
    format!(
        "{} of {} objects, {on_flash} of {size}, are on flash ({was_on_flash} before, {fetched} fetched)\n{evicted}",
        sum.objects_on_flash, sum.objects
    )
}
