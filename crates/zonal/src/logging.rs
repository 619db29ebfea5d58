//! Structured log on standard error. Standard output is reserved for the result of a command.
//!
//! A thread of its own writes the lines. Standard error may be a pipe whose reader has stopped: then
//! the queue fills, further lines are lost and counted, and nothing else waits.

use std::io::{self, IsTerminal, Write, stderr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

use crate::config::{Log, LogFormat};

/// Queue length in lines: more than a start or a stop logs, and 2 MB at 200 bytes each.
const LINES_MAX: usize = 8192;

/// Longest wait for the lines in the queue at the end of the process: 1 s.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// Handle to change the log level at run time.
pub(crate) struct Level(reload::Handle<Targets, Registry>);

/// The queue of the process, once the log is installed.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

struct LogQueue {
    lines: SyncSender<Vec<u8>>,
    /// Lines in the queue, and the one that is being written.
    pending: AtomicU64,
    lost: AtomicU64,
}

/// Installs the process-wide log.
pub(crate) fn start(log: &Log) -> Level {
    let layer = tracing_subscriber::fmt::layer().with_writer(|| Lines(queue()));
    let layer = match log.format {
        LogFormat::Text => layer.with_ansi(stderr().is_terminal()).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    let (filter, handle) = reload::Layer::new(log.level.clone());
    tracing_subscriber::registry().with(layer.with_filter(filter)).init();
    Level(handle)
}

impl Level {
    /// Replaces the log filter.
    pub(crate) fn set(&self, level: Targets) {
        self.0.reload(level).expect("the log is there for as long as the process");
    }
}

/// Lines of the log that were lost, because the reader of standard error is too slow.
pub(crate) fn lost_lines() -> u64 {
    QUEUE.get().map_or(0, |queue| queue.lost.load(Ordering::Relaxed))
}

/// Waits until all lines are written, but not for ever.
pub(crate) fn flush() {
    let Some(queue) = QUEUE.get() else { return };
    let deadline = Instant::now() + FLUSH_MAX;
    while queue.pending.load(Ordering::Acquire) != 0 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
}

fn queue() -> &'static LogQueue {
    QUEUE.get_or_init(|| {
        let (lines, from) = sync_channel(LINES_MAX);
        let started = thread::Builder::new().name("log".to_owned()).spawn(move || write_all(&from));
        // Without the thread nobody receives, and every line counts as lost.
        drop(started);
        LogQueue { lines, pending: AtomicU64::new(0), lost: AtomicU64::new(0) }
    })
}

fn write_all(lines: &Receiver<Vec<u8>>) {
    while let Ok(line) = lines.recv() {
        let written = stderr().write_all(&line);
        let queue = queue();
        queue.lost.fetch_add(u64::from(written.is_err()), Ordering::Relaxed);
        queue.pending.fetch_sub(1, Ordering::Release);
    }
}

/// Hands lines to the queue. Each write is one line.
struct Lines(&'static LogQueue);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Self(queue) = self;
        queue.pending.fetch_add(1, Ordering::Relaxed);
        if queue.lines.try_send(line.to_vec()).is_err() {
            queue.pending.fetch_sub(1, Ordering::Relaxed);
            queue.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
