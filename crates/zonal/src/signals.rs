//! What whoever runs the process asks for by signals.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

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
}
