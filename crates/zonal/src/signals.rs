//! Signal handling: SIGTERM and SIGINT stop the process, SIGHUP reloads the configuration.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use zonal_cli::Failure;

/// Stop signals within this time count as one. GNU `timeout` signals both the process and its
/// group; a terminal signals the group, and a shell the process. 1 s: longer than these take on a
/// busy machine, shorter than an operator waits before a second Ctrl-C.
const SAME_ORDER: Duration = Duration::from_secs(1);

/// The action that a signal requests.
pub(crate) enum SignalAction {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

/// The signals that the process handles.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::work);
        let (terminate, interrupt) =
            (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, hang_up: listen(SignalKind::hangup())? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Stop,
            _ = self.interrupt.recv() => SignalAction::Stop,
            _ = self.hang_up.recv() => SignalAction::Reload,
        }
    }

    /// Waits for a stop signal.
    pub(crate) async fn stop(&mut self) {
        while !matches!(self.next().await, SignalAction::Stop) {}
    }

    /// After a first stop signal: waits for a second one, which skips the graceful shutdown.
    pub(crate) async fn stop_at_once(&mut self) {
        let told = Instant::now();
        self.stop().await;
        while told.elapsed() < SAME_ORDER {
            self.stop().await;
        }
    }
}
