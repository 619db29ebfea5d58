//! Measurement of a real drive, in real time, with protection of its data.

use std::time::Duration;

use zonal_base::{Nanos, Ticket, ZoneId};
use zonal_cli::{Failure, confirm_data_loss};
use zonal_device::{Answer, Command, Completion, Geometry, ZoneAction, ZoneState, ZonedDevice};
use zonal_hostdev::{DeviceLocation, DeviceSpec, Drive, HostDevice, ShardOptions};
use zonal_lab::characterize::{
    Characterization, CharacterizeSettings, CountsPrograms, READS_MAX, RealTime, RunProgress,
    conventional, memory, zoned,
};

/// Note above the figures.
const NOTE: &str = "real time: each latency includes io_uring, thread wake-ups and other load of \
                    this machine; the reference was measured by polling";

/// Interval between two polls of a drive that owes completions and does not wake its host.
const PATIENCE: Duration = Duration::from_secs(1);

/// Measures the drive. Zones by convention are ignored; zones of the drive are reset first.
pub(super) fn measure(
    spec: &DeviceSpec,
    may_lose: bool,
    settings: CharacterizeSettings,
    on_progress: &mut dyn FnMut(&RunProgress),
) -> Result<Characterization, Failure> {
    confirm_data_loss(spec, may_lose)?;
    // A file that this command created is removed afterwards.
    let drive = Drive::open(spec).and_then(Drive::claim)?;
    let memory = memory();
    let options = ShardOptions { shard: 0, shard_count: 1, queue_depth: READS_MAX, pool: &memory };
    let mut device = Real(drive.shard(&options)?);
    let mut clock = RealTime::new(|device: &mut Real, span| device.0.wait(span));
    let settings = CharacterizeSettings { note: Some(NOTE), ..settings };
    let report = match spec.place {
        DeviceLocation::Zoned { .. } => {
            empty(&mut device.0).map_err(Failure::work)?;
            zoned((&mut device, memory), &mut clock, &settings, on_progress)
        }
        _ => {
            device.0.ignore_zones();
            conventional((&mut device, memory), &mut clock, &settings, on_progress)
        }
    };
    report.map_err(Failure::work)
}

/// Resets all zones of a zoned drive.
fn empty(device: &mut HostDevice) -> Result<(), zonal_device::DeviceError> {
    let count = device.geometry().zone_count;
    let report = ask(device, Command::Report { first: ZoneId(0), count })?;
    let Answer::Report(zones) = report else { unreachable!("a report is a report") };
    for zone in zones.iter().filter(|zone| zone.state != ZoneState::Empty) {
        ask(device, Command::Manage { zone: zone.zone, action: ZoneAction::Reset })?;
    }
    Ok(())
}

/// Runs one command on an idle device.
fn ask(device: &mut HostDevice, command: Command) -> Completion {
    let taken = device.submit(Nanos(0), Ticket(0), command);
    assert!(taken.is_ok(), "nothing else is under way");
    loop {
        if let Some((_, completion)) = device.poll(Nanos(0)) {
            return completion;
        }
        device.wait(PATIENCE);
    }
}

/// A drive that does not report its NAND writes.
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
