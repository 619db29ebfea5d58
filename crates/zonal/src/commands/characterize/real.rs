//! A real drive, in real time: what it takes to measure one, and to harm nobody.

use zonal_base::{Nanos, Ticket};
use zonal_device::{Command, Completion, Geometry, ZonedDevice};
use zonal_hostdev::{DeviceSpec, Drive, HostDevice, ShardOptions};
use zonal_lab::characterize::{
    CountsPrograms, Experiment, Progress, READS_MAX, RealTime, Report, Settings, conventional,
    memory,
};

use crate::commands::device::agree_to_loss;
use crate::failure::Failure;

/// What stands above the figures.
const NOTE: &str = "real time: io_uring, the wake-up of a sleeping thread and everything else that this machine \
                    does are in each latency; the reference was measured by polling";

/// Measures the drive itself: its zones by agreement are not looked at.
pub(super) fn measure(
    spec: &DeviceSpec,
    may_lose: bool,
    settings: Settings,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Report, Failure> {
    agree_to_loss(spec, may_lose)?;
    // A file that was not there before is not there afterwards.
    let drive = Drive::open(spec).and_then(Drive::claim).map_err(Failure::work)?;
    let memory = memory();
    let options = ShardOptions { shard: 0, shard_count: 1, queue_depth: READS_MAX, pool: &memory };
    let mut device = drive.shard(&options).map_err(Failure::work)?;
    device.ignore_zones();
    let mut clock = RealTime::new(|device: &mut Real, span| device.0.wait(span));
    let experiments = Experiment::CONVENTIONAL.to_vec();
    let settings = Settings { note: Some(NOTE), experiments, ..settings };
    conventional((&mut Real(device), memory), &mut clock, &settings, on_progress)
        .map_err(Failure::work)
}

/// A drive that does not tell how much it programs.
struct Real(HostDevice);

impl CountsPrograms for Real {
    fn written_and_programmed(&self) -> Option<(u64, u64)> {
        None
    }
}

impl ZonedDevice for Real {
    fn geometry(&self) -> &Geometry {
        self.0.geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        self.0.submit(now, ticket, command)
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        self.0.poll(now)
    }

    fn next_event(&self) -> Option<Nanos> {
        self.0.next_event()
    }
}
