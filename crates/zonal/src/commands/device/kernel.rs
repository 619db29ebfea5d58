//! Kernel view of a block device, for `zonal device info`: queue settings and zone report.

use std::collections::BTreeMap;

use serde::Serialize;
use zonal_base::BLOCK_BYTES;
use zonal_device::ZoneState;
use zonal_hostdev::{Census, Queue};

/// Facts about a block device that come from the kernel, not from Zonal's log.
#[derive(Debug, Serialize)]
pub(super) struct KernelInfo {
    name: String,
    /// Drives below a mapped device (dm-crypt); empty for a drive.
    mapped_to: Vec<String>,
    /// Of the drive, as the scheduler is.
    model: Option<String>,
    kernel: String,
    /// I/O scheduler; `null` if the device offers no choice.
    scheduler: Option<String>,
    /// Logical block size, in bytes (LBA format).
    logical_block_bytes: Option<u32>,
    /// Zone data; `null` if the drive is not zoned.
    zoned: Option<ZonedInfo>,
}

#[derive(Debug, Serialize)]
struct ZonedInfo {
    /// Zone write plugging: the kernel keeps writes to a zone in order with any scheduler.
    write_plugging: bool,
    write_granularity_bytes: Option<u32>,
    append_max_bytes: Option<u32>,
    /// Number of zones in each state.
    states: BTreeMap<&'static str, u32>,
    conventional_zones: u32,
    odd_zones: u32,
}

impl KernelInfo {
    pub(super) fn of(queue: &Queue, census: Option<&Census>) -> Self {
        // A mapped device itself has neither model nor scheduler.
        let drive = queue.drives().first().unwrap_or(queue);
        Self {
            name: queue.name.clone(),
            mapped_to: queue.below.iter().map(|drive| drive.name.clone()).collect(),
            model: drive.model.clone(),
            kernel: queue.kernel.clone(),
            scheduler: drive.scheduler.clone(),
            logical_block_bytes: queue.logical_block,
            zoned: census.map(|census| ZonedInfo {
                write_plugging: queue.has_write_plugging(),
                write_granularity_bytes: queue.write_granularity,
                append_max_bytes: queue.append_max,
                states: by_state(census).collect(),
                conventional_zones: census.conventional,
                odd_zones: census.odd,
            }),
        }
    }

    /// Name and value of each line for people.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        if !self.mapped_to.is_empty() {
            lines.push(("mapped to", self.mapped_to.join(", ")));
        }
        lines.extend(self.model.clone().map(|model| ("model", model)));
        let scheduler = self.scheduler.as_deref().unwrap_or("none");
        lines.push(("scheduler", scheduler.into()));
        lines
            .extend(self.logical_block_bytes.map(|bytes| ("LBA format", format!("{bytes} bytes"))));
        let Some(zoned) = &self.zoned else { return lines };
        let with = if zoned.write_plugging { "with" } else { "without" };
        lines.push(("kernel", format!("{}, {with} zone write plugging", self.kernel)));
        let states: Vec<String> =
            zoned.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        lines.push(("zone states", states.join(", ")));
        let unused = zoned.conventional_zones + zoned.odd_zones;
        if 0 < unused {
            let (conventional, odd) = (zoned.conventional_zones, zoned.odd_zones);
            lines
                .push(("never used", format!("{conventional} conventional zones, {odd} odd ones")));
        }
        lines
    }
}

/// States of at least one zone, with counts.
fn by_state(census: &Census) -> impl Iterator<Item = (&'static str, u32)> {
    let counts = ZoneState::ALL.into_iter().zip(census.by_state);
    counts.filter(|(_, count)| 0 < *count).map(|(state, count)| (name(state), count))
}

const fn name(state: ZoneState) -> &'static str {
    match state {
        ZoneState::Empty => "empty",
        ZoneState::ImplicitlyOpened => "implicitly opened",
        ZoneState::ExplicitlyOpened => "explicitly opened",
        ZoneState::Closed => "closed",
        ZoneState::Full => "full",
        ZoneState::ReadOnly => "read-only",
        ZoneState::Offline => "offline",
    }
}

/// Problems of the device, each with a remedy.
pub(super) fn warnings(queue: &Queue, census: Option<&Census>, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some((drive, scheduler)) = queue.unordered().filter(|_| census.is_some()) {
        warnings.push(format!(
            "its I/O scheduler is {scheduler}, with which this kernel may reorder the writes of a \
             zone: {}",
            drive.ordering_command()
        ));
    }
    let logical = queue.logical_block.filter(|bytes| (*bytes as usize) < BLOCK_BYTES);
    if let Some(bytes) = logical.filter(|_| queue.name.starts_with("nvme")) {
        warnings.push(format!(
            "its LBA format has blocks of {bytes} bytes; drives are faster with {BLOCK_BYTES}: \
             `nvme id-ns -H {path}` lists the formats, `nvme format {path} --lbaf=N` selects one \
             and erases the drive"
        ));
    }
    let gone = |state| {
        let at = ZoneState::ALL.iter().position(|other| *other == state);
        census.zip(at).map_or(0, |(census, at)| census.by_state[at])
    };
    let (offline, read_only) = (gone(ZoneState::Offline), gone(ZoneState::ReadOnly));
    if 0 < offline + read_only {
        warnings.push(format!(
            "{offline} of its zones are offline and {read_only} read-only; the cache does not use \
             them: `nvme smart-log {path}` (smartctl -a) shows whether the drive is worn out"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/dev/nvme0n2";

    #[track_caller]
    fn check(queue: &Queue, census: Option<&Census>, expected: &[&str]) {
        let warnings = warnings(queue, census, PATH);
        assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
        for (warning, part) in warnings.iter().zip(expected) {
            assert!(warning.contains(part), "{warning}");
        }
    }

    #[test]
    fn each_warning_has_the_command_that_helps() {
        let good = Queue {
            name: "nvme0n2".into(),
            scheduler: Some("none".into()),
            logical_block: Some(4096),
            kernel: "6.12.9".into(),
            ..Queue::default()
        };
        let census = Census { by_state: [5, 0, 0, 0, 1, 0, 0], ..Census::default() };
        check(&good, Some(&census), &[]);
        let old = Queue { kernel: "6.1.0".into(), ..good.clone() };
        let command = "echo mq-deadline > /sys/block/nvme0n2/queue/scheduler";
        check(&old, Some(&census), &[command]);
        check(&old, None, &[]);
        let mapped = Queue {
            name: "dm-0".into(),
            scheduler: None,
            kernel: "6.1.0".into(),
            below: vec![old],
            ..Queue::default()
        };
        check(&mapped, Some(&census), &[command]);
        let small = Queue { logical_block: Some(512), ..good.clone() };
        check(&small, None, &["nvme format /dev/nvme0n2 --lbaf=N"]);
        let disk = Queue { name: "sdb".into(), ..small };
        check(&disk, Some(&census), &[]);
        let worn = Census { by_state: [5, 0, 0, 0, 1, 2, 3], ..census };
        check(&good, Some(&worn), &["3 of its zones are offline and 2 read-only"]);
    }
}
