//! Progress on standard error: a bar on a terminal, otherwise a line every ten seconds. Standard
//! output stays a table or JSON.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Number of positions of the bar.
const STEPS: u64 = 1000;

/// Interval between updates of the bar.
pub(crate) const TICK: Duration = Duration::from_millis(200);

/// Interval between lines where no terminal is.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows the current phase, its progress and the gets per second.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// The phase, and when something was shown last; `None` on a terminal.
    lines: Option<Mutex<(&'static str, Instant)>>,
    /// True once the user has asked to stop.
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// Creates a bar if standard error is a terminal, and lines otherwise.
    #[must_use]
    pub fn shown() -> Self {
        let bar = ProgressBar::new(STEPS);
        // The template is a constant; if it were wrong, the default style would do.
        if let Ok(style) =
            ProgressStyle::with_template("{prefix:>12} [{bar:40}] {percent:>3}% {msg}")
        {
            bar.set_style(style);
        }
        let lines = bar.is_hidden().then(|| Mutex::new(("", Instant::now())));
        Self { bar, lines, stop: Arc::default() }
    }

    /// Shows nothing.
    #[must_use]
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), lines: None, stop: Arc::default() }
    }

    /// Flag that asks the work to stop and to report what is known by then. Work that reports only
    /// as a whole ignores it.
    #[must_use]
    pub const fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether the user has asked to stop. From now on, the user has not.
    pub(crate) fn take_stop(&self) -> bool {
        self.stop.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn begin(&self, phase: &'static str) {
        self.bar.set_prefix(phase);
        self.bar.set_message("");
        self.bar.set_position(0);
        if let Some(lines) = &self.lines {
            lines.lock().unwrap_or_else(PoisonError::into_inner).0 = phase;
        }
    }

    pub(crate) fn show(&self, done: f64, gets_per_s: f64) {
        self.show_share(done);
        self.bar.set_message(format!("{gets_per_s:.0} gets/s"));
    }

    /// Moves the bar to `done`, a share from 0 to 1.
    pub(crate) fn show_share(&self, done: f64) {
        self.bar.set_position(steps(done));
        // Whoever holds the lock is printing.
        let Some(mut lines) = self.lines.as_ref().and_then(|lines| lines.try_lock().ok()) else {
            return;
        };
        let (phase, shown) = &mut *lines;
        if LINE_EVERY <= shown.elapsed() {
            *shown = Instant::now();
            eprintln!("{phase}: {} %", steps(done) / (STEPS / 100));
        }
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
