//! Panic handling of a server: ends the process and reports the reason, so that a supervisor
//! restarts it.
//!
//! 1. A panic in a task that serves one client or one admin command closes that connection and is
//!    logged. Everything else continues.
//! 2. Any other panic ends the process. An engine that lost a task or a thread would look healthy
//!    but answer no request. The service manager gets a notification; the log and the last line on
//!    standard error name the reason.
//!
//! The process ends without unwinding, so that no destructor acts on half-changed state. For the
//! devices this is a crash.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{Write, stderr};
use std::panic::{self, PanicHookInfo};
use std::process;
use std::thread;
use std::time::Duration;

use zonal_cli::exit_code;
use zonal_host::in_contained_task;

use crate::logging;
use crate::service_manager::{self, ServiceState};

/// Longest time to report the reason: 5 s, then the process aborts. A log that is a full pipe
/// without a reader would otherwise block the exit for ever.
const TELLING_MAX: Duration = Duration::from_secs(5);

/// Installs the panic hook of a server process.
pub(crate) fn watch() {
    panic::set_hook(Box::new(|info| {
        let panic = Panic::of(info);
        match in_contained_task() {
            true => panic.tell_of_connection(),
            false => panic.end_process(),
        }
    }));
}

struct Panic {
    message: String,
    location: String,
    thread: String,
    /// Backtrace, if `RUST_BACKTRACE` enables it.
    backtrace: Option<Backtrace>,
}

impl Panic {
    fn of(info: &PanicHookInfo<'_>) -> Self {
        let backtrace = Backtrace::capture();
        Self {
            message: info.payload_as_str().unwrap_or("no message").to_owned(),
            location: info.location().map_or_else(String::new, ToString::to_string),
            thread: thread::current().name().unwrap_or("unnamed").to_owned(),
            backtrace: (backtrace.status() == BacktraceStatus::Captured).then_some(backtrace),
        }
    }

    fn tell_of_connection(&self) {
        let Self { message, location, thread, .. } = self;
        tracing::error!(
            message = "a bug in Zonal (a panic) ended one connection; all else continues: please \
                       report it",
            panic = message,
            location,
            thread
        );
        self.print_backtrace();
    }

    fn end_process(&self) -> ! {
        // If no thread can be started, the report has no time limit.
        let _ = thread::Builder::new().name("panic-timeout".to_owned()).spawn(|| {
            thread::sleep(TELLING_MAX);
            process::abort();
        });
        service_manager::notify(ServiceState::Panicked);
        let Self { message, location, thread, .. } = self;
        tracing::error!(
            message = "a bug in Zonal (a panic): exiting for a restart; please report it",
            panic = message,
            location,
            thread
        );
        logging::flush();
        self.print_backtrace();
        let line = message.lines().collect::<Vec<_>>().join(" ");
        // A failed write is ignored: standard error may have no reader any more.
        let _ = writeln!(stderr(), "zonal: a bug in Zonal: {line} ({location}, thread {thread})");
        process::exit(exit_code::PANICKED.into());
    }

    fn print_backtrace(&self) {
        if let Some(backtrace) = &self.backtrace {
            let _ = writeln!(stderr(), "{backtrace}");
        }
    }
}
