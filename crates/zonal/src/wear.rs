//! Wear of the drives: what they say of it, asked now and then.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::oneshot;
use tokio::time::sleep;
use zonal_hostdev::{DeviceSpec, DriveWear};

use zonal_api::stats::Wear;

/// Interval of the questions. An hour: drives report whole percents of a life of years.
const EVERY: Duration = Duration::from_secs(3600);

/// A device as configured, and the wear of its drive.
pub(crate) struct WatchedDrive {
    spec: DeviceSpec,
    told: ArcSwapOption<DriveWear>,
}

impl WatchedDrive {
    pub(crate) const fn new(spec: DeviceSpec) -> Self {
        Self { spec, told: ArcSwapOption::const_empty() }
    }

    pub(crate) const fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    pub(crate) fn wear(&self) -> Wear {
        let told = self.told.load();
        Wear {
            budget_bytes_per_day: None,
            percentage_used: told.as_ref().map(|wear| wear.percentage_used),
            data_units_written_bytes: told.as_ref().map(|wear| wear.written.0),
        }
    }

    async fn ask(&self) {
        let (spec, (tell, told)) = (self.spec.clone(), oneshot::channel());
        // A thread of its own, because the command hangs as long as the drive does.
        let asked = thread::Builder::new().name("wear".to_owned()).spawn(move || {
            let _ = tell.send(zonal_hostdev::wear(&spec));
        });
        if asked.is_ok() {
            self.told.store(told.await.ok().flatten().map(Arc::new));
        }
    }
}

/// Asks drives until the future is dropped.
pub(crate) async fn watch_wear<'a>(drives: impl Iterator<Item = &'a WatchedDrive> + Clone) {
    loop {
        for drive in drives.clone() {
            drive.ask().await;
        }
        sleep(EVERY).await;
    }
}
