//! Structured log on standard error. Standard output is reserved for the result of a command.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

use crate::config::{Log, LogFormat};

/// Handle to change the log level at run time.
pub(crate) struct Level(reload::Handle<Targets, Registry>);

/// Installs the process-wide log.
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
    /// Replaces the log filter.
    pub(crate) fn set(&self, level: Targets) {
        self.0.reload(level).expect("the log is there for as long as the process");
    }
}
