//! Notifications to the service manager: sd_notify(3), for units with `Type=notify` or `Type=notify-reload`.
//!
//! Nothing is sent where no service manager asks for it (`NOTIFY_SOCKET` is not set).

use sd_notify::NotifyState;

/// A state of the service that the service manager waits for.
#[derive(Clone, Copy)]
pub(crate) enum State {
    /// Requests are answered on the terms of the configuration: after a start, and after a reload.
    Serving,
    /// The configuration is being read again. [`State::Serving`] or [`State::ReloadRefused`] has to follow.
    Reloading,
    /// The new configuration has a mistake, and the previous one is in force.
    ReloadRefused,
    /// Requests that are under way end, and nothing new is accepted.
    Stopping,
    /// A panic ends the process.
    Panicked,
}

/// Sends a notification. One that cannot be sent is logged: the service itself is not affected.
pub(crate) fn notify(state: State) {
    let sent = match state {
        State::Serving => sd_notify::notify(&[NotifyState::Ready, NotifyState::Status("serving")]),
        // `notify-reload` matches the time with that of its own signal.
        State::Reloading => NotifyState::monotonic_usec_now()
            .and_then(|now| sd_notify::notify(&[NotifyState::Reloading, now])),
        State::ReloadRefused => {
            sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(REFUSED)])
        }
        State::Stopping => {
            sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("stopping")])
        }
        State::Panicked => {
            sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status(PANICKED)])
        }
    };
    if let Err(error) = sent {
        tracing::warn!(%error, "the service manager (NOTIFY_SOCKET) could not be notified");
    }
}

const REFUSED: &str =
    "serving with the previous configuration: the new one was refused (see the log)";

const PANICKED: &str = "ended by a bug (a panic): see the log";
