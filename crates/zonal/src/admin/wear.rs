//! Wear of the drives: what they say of it, asked now and then.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::{Admin, ObservedDevice};
use crate::stats::Wear;

/// Interval of the questions. An hour: drives report whole percents of a life of years.
const EVERY: Duration = Duration::from_secs(3600);

impl ObservedDevice {
    pub(super) fn wear(&self) -> Wear {
        let told = self.wear.load();
        Wear {
            budget_bytes_per_day: None,
            percentage_used: told.as_ref().map(|wear| wear.percentage_used),
            data_units_written_bytes: told.as_ref().map(|wear| wear.written.0),
        }
    }
}

impl Admin {
    /// Asks all drives until the process ends.
    pub(super) async fn watch_wear(self) {
        let Some(node) = self.node.get() else { return };
        loop {
            for device in &node.devices {
                let (spec, (tell, told)) = (device.spec.clone(), oneshot::channel());
                // A thread of its own, because the command hangs as long as the drive does.
                let asked = thread::Builder::new().name("wear".to_owned()).spawn(move || {
                    let _ = tell.send(zonal_hostdev::wear(&spec));
                });
                if asked.is_ok() {
                    device.wear.store(told.await.ok().flatten().map(Arc::new));
                }
            }
            sleep(EVERY).await;
        }
    }
}
