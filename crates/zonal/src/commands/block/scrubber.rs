//! Scrubber: verifies both devices in the background, and when an operator asks for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use zonal_api::block_stats::{DamagedBlock, ScrubStats};
use zonal_block::{BlockDevice, Scrub};

use crate::config::ScrubSettings;

/// Runs one scrub at a time.
pub(super) struct Scrubber {
    block: Rc<BlockDevice>,
    settings: ScrubSettings,
    asked: Notify,
    /// True from the request for a scrub, or its beginning, until its end.
    is_asked: Cell<bool>,
    /// Bytes read by the scrubs that ended.
    read_before: Cell<u64>,
    last: RefCell<Option<Ended>>,
}

/// End of a scrub.
struct Ended {
    at: SystemTime,
    /// Why it broke off; `None` if it verified everything.
    failure: Option<String>,
}

impl Scrubber {
    pub(super) fn new(block: Rc<BlockDevice>, settings: ScrubSettings) -> Rc<Self> {
        Rc::new(Self {
            block,
            settings,
            asked: Notify::new(),
            is_asked: Cell::new(false),
            read_before: Cell::new(0),
            last: RefCell::default(),
        })
    }

    /// Starts a scrub now. False if one is running.
    pub(super) fn ask(&self) -> bool {
        let starts = !self.is_asked.replace(true);
        if starts {
            self.asked.notify_one();
        }
        starts
    }

    pub(super) async fn run(self: Rc<Self>) {
        loop {
            match self.settings.every {
                Some(every) => {
                    let _ = tokio::time::timeout(every, self.asked.notified()).await;
                }
                None => self.asked.notified().await,
            }
            self.is_asked.set(true);
            tracing::info!(bytes_per_second = self.settings.rate.0, "a scrub begins");
            let outcome = self.block.scrub(self.settings.rate).await;
            let scrub = self.progress();
            self.read_before.set(self.read_before.get() + scrub.read_bytes);
            tell(&scrub, outcome.err().map(|error| error.to_string()), &self.last);
            self.is_asked.set(false);
        }
    }

    pub(super) fn stats(&self) -> ScrubStats {
        let scrub = self.progress();
        let last = self.last.borrow();
        let since_epoch =
            |ended: &Ended| ended.at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        ScrubStats {
            running: self.is_asked.get(),
            zones: scrub.zones,
            zones_done: scrub.zones_done,
            read_bytes: scrub.read_bytes,
            blocks: scrub.blocks,
            corrupt_blocks: scrub.corrupt_blocks,
            unreadable_blocks: scrub.unreadable_blocks,
            damaged_metadata: scrub.damaged_metadata,
            damaged_blocks: self.damaged_blocks(),
            total_read_bytes: self.read_before.get()
                + if scrub.is_running { scrub.read_bytes } else { 0 },
            ended_seconds: last.as_ref().map(since_epoch),
            failure: last.as_ref().and_then(|ended| ended.failure.clone()),
        }
    }

    fn damaged_blocks(&self) -> Vec<DamagedBlock> {
        let shaper = self.block.shaper();
        let damaged = shaper.scrub_damaged().into_iter().map(|found| DamagedBlock {
            export: shaper.exports()[usize::from(found.export.0)].name.clone(),
            block: found.block.0,
            device: found.tier.name().to_owned(),
            lba: found.lba.0,
        });
        damaged.collect()
    }

    fn progress(&self) -> Scrub {
        self.block.shaper().scrub_progress()
    }
}

/// Logs the end of a scrub, and keeps it.
fn tell(scrub: &Scrub, failure: Option<String>, last: &RefCell<Option<Ended>>) {
    let Scrub { blocks, corrupt_blocks, unreadable_blocks, damaged_metadata, .. } = *scrub;
    if let Some(why) = &failure {
        tracing::warn!(blocks, "a scrub broke off: {why}");
    } else if scrub.is_clean() {
        tracing::info!(blocks, "a scrub ended: everything is intact");
    } else {
        tracing::error!(
            blocks,
            corrupt_blocks,
            unreadable_blocks,
            damaged_metadata,
            "a scrub found damage: restore these blocks from a backup, and replace the device"
        );
    }
    *last.borrow_mut() = Some(Ended { at: SystemTime::now(), failure });
}
