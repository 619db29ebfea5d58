//! Structured logs on standard error; standard output is for the result of a command.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

use crate::config::{Log, LogFormat};

/// What is logged, while the process runs.
pub(crate) struct Level(reload::Handle<Targets, Registry>);

/// Logs from here on, in this process.
pub(crate) fn start(log: &Log) -> Level {
    let layer = tracing_subscriber::fmt::layer().with_writer(stderr);
    let layer = match log.format {
        LogFormat::Text => layer.with_ansi(stderr().is_terminal()).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    let (filter, handle) = reload::Layer::new(log.level.clone());
    tracing_subscriber::registry().with(layer.with_filter(filter)).init();
    Level(handle)
}

impl Level {
    /// From now on this is logged.
    pub(crate) fn set(&self, level: Targets) {
        self.0.reload(level).expect("the log is there for as long as the process");
    }
}
