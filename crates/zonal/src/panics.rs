//! Panic handling of a server: ends the process with the reason, so that a supervisor restarts it.
//!
//! 1. A panic of what serves one client or one order is logged; that connection is closed, and all else goes on.
//! 2. Any other ends the process: an engine that lost a task, or one of the threads that it depends on, would answer nobody,
//!    and look well. The service manager is told, the log and the last line on standard error name the reason.
//!
//! It ends where it panicked: nothing is unwound, so that nobody acts on state that is half changed. To the devices it is a
//! crash.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{Write, stderr};
use std::panic::{self, PanicHookInfo};
use std::process;
use std::thread;
use std::time::Duration;

use zonal_host::in_contained_task;

use crate::service_manager::{self, State};

/// The exit code after a panic: what Rust gives to a program whose main thread panics.
const EXIT_CODE: i32 = 101;

/// How long telling of the reason may take: 5 s. A log that is a pipe which nobody reads would keep the process for ever; it
/// is aborted then.
const TELLING_MAX: Duration = Duration::from_secs(5);

/// From now on, panics of this process do what they do in a server.
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
    /// Where the environment asks for it (`RUST_BACKTRACE`).
    backtrace: Option<Backtrace>,
}

impl Panic {
    fn of(info: &PanicHookInfo<'_>) -> Self {
        let backtrace = Backtrace::capture();
        Self {
            message: info.payload_as_str().unwrap_or("it does not say why").to_owned(),
            location: info.location().map_or_else(String::new, ToString::to_string),
            thread: thread::current().name().unwrap_or("without a name").to_owned(),
            backtrace: (backtrace.status() == BacktraceStatus::Captured).then_some(backtrace),
        }
    }

    fn tell_of_connection(&self) {
        let Self { message, location, thread, .. } = self;
        tracing::error!(
            message = "a bug in Zonal ended a connection, and nothing else: please report it",
            panic = message,
            location,
            thread
        );
        self.print_backtrace();
    }

    fn end_process(&self) -> ! {
        // Where there is no thread to be had, telling takes as long as it takes.
        let _ = thread::Builder::new().name("panic-timeout".to_owned()).spawn(|| {
            thread::sleep(TELLING_MAX);
            process::abort();
        });
        service_manager::notify(State::Panicked);
        let Self { message, location, thread, .. } = self;
        tracing::error!(
            message = "a bug in Zonal: the process ends, so that it can be started anew; please report it",
            panic = message,
            location,
            thread
        );
        self.print_backtrace();
        let line = message.lines().collect::<Vec<_>>().join(" ");
        // Nobody else may be left who reads it.
        let _ = writeln!(stderr(), "zonal: a bug in Zonal: {line} ({location}, thread {thread})");
        process::exit(EXIT_CODE);
    }

    fn print_backtrace(&self) {
        if let Some(backtrace) = &self.backtrace {
            let _ = writeln!(stderr(), "{backtrace}");
        }
    }
}
