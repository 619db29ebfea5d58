//! Metrics of running servers: names, labels, types and help texts on `/metrics`.
//!
//! 1. Start the server in the scratch folder, on ports that the system chooses.
//! 2. Try the addresses that it prints, until one of them has metrics.
//! 3. Stop the server, and keep the name and label names of each sample.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::part::{self, Context};

/// A server and its arguments. Its devices are small files, whose contents do not matter.
struct Server {
    name: &'static str,
    arguments: &'static str,
}

const SERVERS: [Server; 2] = [
    Server {
        name: "serve",
        arguments: "serve --data-dir data --device file:flash?size=1GiB --listen 127.0.0.1:0 \
                    --admin 127.0.0.1:0",
    },
    Server {
        name: "block",
        arguments: "block --data-dir data --listen 127.0.0.1:0 --admin 127.0.0.1:0",
    },
];

/// Address of every server, before the port that the system chose.
const HOST: &str = "127.0.0.1:";
/// Longest start: a second, on a busy machine some more.
const START_MAX: Duration = Duration::from_secs(60);
/// Interval between two looks at the server's output: short beside its start.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest wait for an answer, which takes a millisecond. An NBD server never answers, because it
/// waits for its client.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Writes a file for each server.
pub(super) fn record(context: &Context) -> Result<(), String> {
    for server in &SERVERS {
        let folder = context.scratch.join(server.name);
        part::make_folder(&folder)?;
        let page = page(context, server, &folder)
            .map_err(|why| format!("zonal {}: {why}", server.arguments))?;
        context.write(&format!("{}.txt", server.name), &outline(&page))?;
    }
    Ok(())
}

/// A server, stopped on drop.
struct Running(Child);

impl Running {
    /// Starts the server, with its output in `log`.
    fn start(command: &mut Command, log: &Path) -> Result<Self, String> {
        let file = File::create(log).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, err) = file.map_err(|error| format!("{}: {error}", log.display()))?;
        let child = command.stdout(Stdio::from(out)).stderr(Stdio::from(err)).spawn();
        child.map(Self).map_err(|error| format!("it did not start: {error}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its devices are removed, so it need not shut down gracefully.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Metrics page of a ready server.
fn page(context: &Context, server: &Server, folder: &Path) -> Result<String, String> {
    let log = folder.join("log");
    let words: Vec<&str> = server.arguments.split_whitespace().collect();
    let mut command = context.programs.having(&words)?;
    let mut running = Running::start(command.current_dir(folder), &log)?;
    let start = Instant::now();
    while start.elapsed() < START_MAX {
        let printed = part::read(&log)?;
        if let Ok(Some(status)) = running.0.try_wait() {
            let last = printed.lines().last().unwrap_or("no message").to_owned();
            return Err(format!("it ended ({status}): {last}"));
        }
        let found = addresses(&printed).iter().find_map(|address| {
            // Only the admin endpoint has both; metrics are complete when it is ready.
            get(address, "/readyz")?;
            get(address, "/metrics").filter(|page| page.contains("# TYPE "))
        });
        match found {
            Some(page) => return Ok(page),
            None => thread::sleep(PAUSE),
        }
    }
    Err(format!("no metrics after {} s; it printed:\n{}", START_MAX.as_secs(), part::read(&log)?))
}

/// Addresses in a text, without duplicates.
fn addresses(text: &str) -> BTreeSet<String> {
    let ports = text.match_indices(HOST).map(|(at, _)| {
        let rest = &text[at + HOST.len()..];
        &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())]
    });
    ports.filter(|port| !port.is_empty()).map(|port| format!("{HOST}{port}")).collect()
}

/// Body of the answer to a GET with status 200.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(ANSWER_MAX)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200 ").then(|| body.to_owned())
}

/// A page without values: each line of help and type, and each sample once, with its label names.
fn outline(page: &str) -> String {
    let lines = page.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let lines =
        lines.map(|line| if line.starts_with('#') { line.to_owned() } else { sample(line) });
    let mut lines: Vec<String> = lines.map(|line| line + "\n").collect();
    // The order of a page may depend on a hash table.
    lines.sort_unstable();
    lines.dedup();
    lines.concat()
}

/// `name{a="1",b="2"} 3` as `name{a,b}`.
fn sample(line: &str) -> String {
    let name = &line[..line.find(['{', ' ']).unwrap_or(line.len())];
    // Every second piece between quotes is a value; a backslash escapes a quote within it.
    let labels = line[name.len()..].replace("\\\"", "");
    let labels: String = labels.split('"').step_by(2).collect();
    match labels.rsplit_once('}') {
        Some((labels, _)) => format!("{name}{}}}", labels.replace('=', "")),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{addresses, outline, sample};

    #[test]
    fn samples_keep_the_names_of_their_labels() {
        assert_eq!(sample("a_total 3"), "a_total");
        assert_eq!(sample("a{x=\"1\",y=\"}, \\\"=\"} 3.5"), "a{x,y}");
    }

    #[test]
    fn values_do_not_count() {
        let page =
            |value| format!("# TYPE a gauge\n# HELP a b\na{{x=\"{value}\"}} {value}\n# EOF\n");
        assert_eq!(outline(&page(1)), outline(&page(2)));
        assert_eq!(outline(&page(1)), "# EOF\n# HELP a b\n# TYPE a gauge\na{x}\n");
    }

    #[test]
    fn addresses_are_found_with_their_ports() {
        let text = "http://127.0.0.1:80/x, 127.0.0.1:90 127.0.0.1:80, 127.0.0.1:0x, 127.0.0.1:";
        let found: Vec<String> = addresses(text).into_iter().collect();
        assert_eq!(found, ["127.0.0.1:0", "127.0.0.1:80", "127.0.0.1:90"]);
    }
}
