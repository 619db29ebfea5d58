//! Progress bar: on a terminal only, and on standard error. Standard output stays a table or JSON.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Number of positions of the bar.
const STEPS: u64 = 1000;

/// Interval between updates of the bar.
pub(crate) const TICK: Duration = Duration::from_millis(200);

/// Shows the current phase, its progress and the gets per second.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Creates a bar that appears if standard error is a terminal.
    #[must_use]
    pub fn on_terminal() -> Self {
        let bar = ProgressBar::new(STEPS);
        // The template is a constant; if it were wrong, the default style would do.
        if let Ok(style) =
            ProgressStyle::with_template("{prefix:>12} [{bar:40}] {percent:>3}% {msg}")
        {
            bar.set_style(style);
        }
        Self { bar }
    }

    /// Creates a bar that shows nothing.
    #[must_use]
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden() }
    }

    pub(crate) fn begin(&self, phase: &'static str) {
        self.bar.set_prefix(phase);
        self.bar.set_message("");
        self.bar.set_position(0);
    }

    pub(crate) fn show(&self, done: f64, gets_per_s: f64) {
        self.bar.set_position(steps(done));
        self.bar.set_message(format!("{gets_per_s:.0} gets/s"));
    }

    /// Moves the bar to `done`, a share from 0 to 1.
    pub(crate) fn show_share(&self, done: f64) {
        self.bar.set_position(steps(done));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=1")]
fn steps(done: f64) -> u64 {
    (done.clamp(0.0, 1.0) * STEPS as f64) as u64
}
