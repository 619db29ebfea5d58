//! Service manager notifications: sd_notify(3), for units with `Type=notify` or
//! `Type=notify-reload`.
//!
//! Without a service manager (`NOTIFY_SOCKET` is not set) nothing is sent.

use sd_notify::NotifyState;

/// Service state reported to the service manager.
#[derive(Clone, Copy)]
pub(crate) enum ServiceState {
    /// The service is ready, after a start or after a reload.
    Serving,
    /// A reload has begun. [`ServiceState::Serving`] or [`ServiceState::ReloadRefused`] must follow.
    Reloading,
    /// The new configuration was refused; the previous one stays in force.
    ReloadRefused,
    /// Graceful shutdown: running requests finish, new ones are not accepted.
    Stopping,
    /// A panic ends the process.
    Panicked,
}

/// Sends a notification. A failure is logged and does not affect the service.
pub(crate) fn notify(state: ServiceState) {
    let sent = match state {
        ServiceState::Serving => {
            sd_notify::notify(&[NotifyState::Ready, NotifyState::Status("serving")])
        }
        // `Type=notify-reload` requires the monotonic time, to match it with the signal it sent.
        ServiceState::Reloading => NotifyState::monotonic_usec_now()
            .and_then(|now| sd_notify::notify(&[NotifyState::Reloading, now])),
        ServiceState::ReloadRefused => {
            sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(REFUSED)])
        }
        ServiceState::Stopping => {
            sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("stopping")])
        }
        ServiceState::Panicked => {
            sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status(PANICKED)])
        }
    };
    if let Err(error) = sent {
        tracing::warn!(%error, "notifying the service manager (NOTIFY_SOCKET) failed");
    }
}

const REFUSED: &str =
    "serving, reload refused: the previous configuration stays in use (see the log)";

const PANICKED: &str = "ended by a bug (a panic): see the log";
