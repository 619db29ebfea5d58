//! Watching a scrub of a running server until it ends, for `zonal block scrub` and
//! `zonal cache scrub`.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use zonal_base::Bytes;
use zonal_cli::Failure;
use zonal_cli::print::human;

use zonal_api::{block_stats, scrubbing};

/// Time between two looks at the progress.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Lines of progress that are skipped where standard error is no terminal: one in ten seconds.
const QUIET: u32 = 50;

/// How far a scrub is.
pub(super) trait Progress {
    fn is_running(&self) -> bool;
    /// Zones, and those that are verified.
    fn zones(&self) -> (u64, u64);
    fn read_bytes(&self) -> u64;
    fn damaged(&self) -> u64;
}

/// Shows the progress of a scrub until it ends.
pub(super) async fn until_ended<S: Progress>(
    mut look: impl AsyncFnMut() -> Result<S, Failure>,
) -> Result<S, Failure> {
    for looks in 1.. {
        tokio::time::sleep(LOOK_EVERY).await;
        let scrub = look().await?;
        if !scrub.is_running() {
            return Ok(scrub);
        }
        if stderr().is_terminal() {
            eprint!("\r{}", line(&scrub));
        } else if looks % QUIET == 0 {
            eprintln!("{}", line(&scrub));
        }
    }
    unreachable!("it looks until the scrub ends")
}

fn line(scrub: &impl Progress) -> String {
    let ((zones, done), read) = (scrub.zones(), human(Bytes(scrub.read_bytes())));
    format!("{done} of {zones} zones, {read} read, {} damaged", scrub.damaged())
}

impl Progress for block_stats::ScrubStats {
    fn is_running(&self) -> bool {
        self.running
    }

    fn zones(&self) -> (u64, u64) {
        (self.zones.into(), self.zones_done.into())
    }

    fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    fn damaged(&self) -> u64 {
        self.damaged()
    }
}

impl Progress for scrubbing::ScrubStats {
    fn is_running(&self) -> bool {
        self.running
    }

    fn zones(&self) -> (u64, u64) {
        (self.zones, self.zones_done)
    }

    fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    fn damaged(&self) -> u64 {
        self.damaged()
    }
}
