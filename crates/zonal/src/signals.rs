//! Signal handling: SIGTERM and SIGINT stop the process, SIGHUP reloads the configuration or stops
//! the process.

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
    HangUp,
}

/// The signals that the process handles.
pub(crate) struct Signals {
    ignores_hang_up: bool,
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        // Requires: no handler of SIGHUP is installed yet.
        let ignores_hang_up = std::fs::read_to_string("/proc/self/status")
            .is_ok_and(|status| ignores(&status, SignalKind::hangup().as_raw_value()));
        let listen = |kind| signal(kind).map_err(Failure::work);
        let (terminate, interrupt) =
            (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        let hang_up = listen(SignalKind::hangup())?;
        Ok(Self { ignores_hang_up, terminate, interrupt, hang_up })
    }

    /// Whether SIGHUP was ignored when the process started, as `nohup` does. Such a process must
    /// outlive its terminal.
    pub(crate) const fn ignores_hang_up(&self) -> bool {
        self.ignores_hang_up
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Stop,
            _ = self.interrupt.recv() => SignalAction::Stop,
            _ = self.hang_up.recv() => SignalAction::HangUp,
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

/// Whether a process ignores a signal, by its `/proc/PID/status`: `SigIgn` is a bit mask in
/// hexadecimal, with signal 1 in the lowest bit.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_mask_tells_which_signals_are_ignored() {
        let status = "Name:\tzonal\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n";
        for (signal, expected) in [(1, true), (2, false), (13, true), (15, false)] {
            assert_eq!(ignores(status, signal), expected, "signal {signal}");
        }
        assert!(!ignores("", 1));
    }
}
