//! Signals: stop and reload.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use zonal_cli::Failure;

/// Whoever sends two signals within this time means one: GNU `timeout` sends to the process and to its group, a terminal to
/// the group and a shell to the process. 1 s: longer than any of them takes on a busy machine, shorter than a person who
/// has waited in vain.
const SAME_ORDER: Duration = Duration::from_secs(1);

/// What signals ask for.
pub(crate) enum Order {
    /// SIGTERM and SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

/// Signals that this process hears of.
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

    /// The next of them.
    pub(crate) async fn next(&mut self) -> Order {
        tokio::select! {
            _ = self.terminate.recv() => Order::Stop,
            _ = self.interrupt.recv() => Order::Stop,
            _ = self.hang_up.recv() => Order::Reload,
        }
    }

    /// Waits until the process is to stop.
    pub(crate) async fn stop(&mut self) {
        while !matches!(self.next().await, Order::Stop) {}
    }

    /// After it was told to stop: waits until it is told again.
    pub(crate) async fn stop_at_once(&mut self) {
        let told = Instant::now();
        self.stop().await;
        while told.elapsed() < SAME_ORDER {
            self.stop().await;
        }
    }
}
