//! Structured logs on standard error; standard output belongs to what a command was asked for.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Log, LogFormat};

/// Logs from here on, in this process.
pub(crate) fn start(log: &Log) {
    let layer = tracing_subscriber::fmt::layer().with_writer(stderr);
    let layer = match log.format {
        LogFormat::Text => layer.with_ansi(stderr().is_terminal()).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(layer.with_filter(log.level.clone())).init();
}
