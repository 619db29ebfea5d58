//! Simulated devices: RAM with crashes and faults, and the drive models.
//!
//! The drive models have virtual time and limits of their own. Their zones are small, so that a
//! history of one second fills and resets each zone several times.

mod conventional;

use zonal_base::{BLOCK_BYTES, Blocks, Lba, Nanos, Rng, Ticket, ZoneId, index};
use zonal_device::ram::{Crash, Image, RamDevice, RamOptions};
use zonal_device::{Command, Completion, Geometry, ZonedDevice};
use zonal_emulator::profile::BufferProfile;
use zonal_emulator::{ConventionalDrive, Memory, OnReset, Profile, ZonedDrive};

/// Device of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    /// RAM device: completes commands out of order, and loses unflushed writes in a power cut.
    Ram { latency: Nanos, latency_spread: Nanos, slow_reads: Nanos },
    /// Model of the ZN540 (zoned).
    Zn540 { is_volatile: bool, blocks_per_stream: u64 },
    /// Model of the SN540, the same hardware without zones.
    Sn540 { on_reset: OnReset },
}

/// Fault of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    FlipBit(Lba, u32),
    Unreadable(Lba),
    /// As `Unreadable`, until the next power cut.
    UnreadableWhileOn(Lba),
    FailNextWrite(ZoneId),
    /// The drive takes no writes from now on, or takes them again.
    TakesNoWrites(bool),
    ReadOnly(ZoneId),
    Offline(ZoneId),
    /// The next command is never completed.
    LoseCommand,
    /// Slows the reads of a die down, by a factor.
    SlowDie(u32, u64),
    /// Lowers the open and active zone limits below the reported ones.
    LowerLimits(u32),
    /// The device completes no command until the next life.
    Gone,
    /// The next reads, as many as this, exceed their deadline. The data are intact.
    LateReads(u32),
    /// The zone is damaged when the life has ended. RAM devices only.
    ZoneAtRest(ZoneId, ZoneDamage),
}

/// Damage of a zone while nobody uses the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneDamage {
    /// It reads as zeros.
    Zeroed,
    /// It changes places with another zone.
    Exchanged(ZoneId),
    /// It has the bytes that it had after the previous life. Of the zones that differ from then,
    /// the number of the zone chooses one.
    Older,
    /// The last blocks that were written to it read as zeros. It is one of the two zones that were
    /// written to last: the number of the zone chooses.
    Cut(Blocks),
}

impl Fault {
    /// True if the fault may fail commands of a correct engine.
    pub(crate) const fn refuses(self) -> bool {
        !matches!(
            self,
            Self::FlipBit(..)
                | Self::Unreadable(_)
                | Self::UnreadableWhileOn(_)
                | Self::SlowDie(..)
                | Self::LateReads(_)
                | Self::ZoneAtRest(..)
        )
    }

    /// True if the fault may lose acknowledged and flushed records.
    pub(crate) const fn loses_records(self) -> bool {
        matches!(
            self,
            Self::FlipBit(..)
                | Self::Unreadable(_)
                | Self::UnreadableWhileOn(_)
                | Self::Offline(_)
                | Self::ZoneAtRest(..)
        )
    }
}

/// Queue depth of a device: small enough that the engine reaches it.
const QUEUE_DEPTH: u32 = 32;

/// A device with fault injection.
pub(crate) struct Drive {
    device: Device,
    /// Number of commands to lose.
    losses: u32,
    /// A command was lost: it stays in flight until the power is cut.
    pub(crate) has_lost: bool,
    /// The device permanently fails commands of a correct engine.
    pub(crate) is_worn: bool,
    /// Zones to damage when this life has ended.
    at_rest: Vec<(ZoneId, ZoneDamage)>,
    /// Image of the device after the previous life.
    earlier: Option<Image>,
    /// The two zones that were written to last.
    written_last: [ZoneId; 2],
}

enum Device {
    Ram(Box<RamDevice>),
    Zoned(Box<ZonedDrive>),
    Conventional(Box<ConventionalDrive>),
}

impl Drive {
    pub(crate) fn new(model: Model, geometry: Geometry, seed: u64) -> Self {
        let device = match model {
            Model::Ram { latency, latency_spread, slow_reads } => {
                let queue_depth = index(u64::from(QUEUE_DEPTH));
                let options = RamOptions { seed, queue_depth, latency, latency_spread, slow_reads };
                Device::Ram(Box::new(RamDevice::new(geometry, options)))
            }
            Model::Zn540 { is_volatile, blocks_per_stream } => {
                let zn540 = Profile::zn540();
                let power_loss_protected = !is_volatile;
                let buffer =
                    BufferProfile { power_loss_protected, blocks_per_stream, ..zn540.buffer };
                let profile = Profile { geometry, queue_depth: QUEUE_DEPTH, buffer, ..zn540 };
                let medium = Box::new(Memory::new(&geometry));
                Device::Zoned(Box::new(ZonedDrive::new(profile, seed, medium)))
            }
            Model::Sn540 { on_reset } => {
                let medium = Box::new(Memory::new(&geometry));
                let profile = conventional::profile(geometry);
                let drive = ConventionalDrive::new(profile, on_reset, seed, medium);
                Device::Conventional(Box::new(drive))
            }
        };
        Self {
            device,
            losses: 0,
            has_lost: false,
            is_worn: false,
            at_rest: Vec::new(),
            earlier: None,
            written_last: [ZoneId(0); 2],
        }
    }

    /// Injects a fault. Returns false while commands in flight delay it. A fault that does not
    /// apply to this kind of device has no effect.
    pub(crate) fn inflict(&mut self, fault: Fault, is_idle: bool) -> bool {
        match (&mut self.device, fault) {
            (_, Fault::LowerLimits(_)) if !is_idle || self.has_lost => return false,
            (_, Fault::ZoneAtRest(zone, damage)) => self.at_rest.push((zone, damage)),
            (Device::Ram(ram), fault) => match fault {
                Fault::FlipBit(lba, bit) => ram.flip_bit(lba, bit),
                Fault::Unreadable(lba) => ram.make_unreadable(lba),
                Fault::FailNextWrite(zone) => ram.fail_next_write(zone),
                Fault::TakesNoWrites(is_on) => ram.take_no_writes(is_on),
                Fault::ReadOnly(zone) => ram.make_read_only(zone),
                Fault::Offline(zone) => ram.take_offline(zone),
                Fault::UnreadableWhileOn(_)
                | Fault::LoseCommand
                | Fault::SlowDie(..)
                | Fault::LowerLimits(_)
                | Fault::LateReads(_)
                | Fault::ZoneAtRest(..)
                | Fault::Gone => (),
            },
            (Device::Zoned(drive), fault) => match fault {
                Fault::FlipBit(lba, bit) => drive.flip_bit(lba, bit),
                Fault::Unreadable(lba) => drive.make_unreadable(lba),
                Fault::UnreadableWhileOn(lba) => drive.make_unreadable_while_on(lba),
                Fault::FailNextWrite(zone) => drive.fail_next_write(zone),
                Fault::TakesNoWrites(is_on) => drive.take_no_writes(is_on),
                Fault::ReadOnly(zone) => drive.make_read_only(zone),
                Fault::Offline(zone) => drive.take_offline(zone),
                Fault::LoseCommand => {
                    drive.lose_next_command();
                    self.losses += 1;
                }
                Fault::SlowDie(die, times) => drive.slow_down_die(die, times),
                Fault::LowerLimits(limit) => drive.lower_limits(limit, limit),
                Fault::LateReads(_) | Fault::ZoneAtRest(..) | Fault::Gone => (),
            },
            (Device::Conventional(drive), fault) => match fault {
                Fault::FlipBit(lba, bit) => drive.flip_bit(lba, bit),
                Fault::Unreadable(lba) => drive.make_unreadable(lba),
                Fault::UnreadableWhileOn(lba) => drive.make_unreadable_while_on(lba),
                Fault::FailNextWrite(zone) => drive.fail_next_write(zone),
                Fault::TakesNoWrites(is_on) => drive.take_no_writes(is_on),
                Fault::LoseCommand => {
                    drive.lose_next_command();
                    self.losses += 1;
                }
                Fault::SlowDie(die, times) => drive.slow_down_die(die, times),
                // A conventional drive has no zones.
                Fault::ReadOnly(_)
                | Fault::Offline(_)
                | Fault::LowerLimits(_)
                | Fault::LateReads(_)
                | Fault::ZoneAtRest(..)
                | Fault::Gone => (),
            },
        }
        self.is_worn |=
            matches!(fault, Fault::ReadOnly(_) | Fault::Offline(_) | Fault::LowerLimits(_));
        true
    }

    /// Crashes at `now`: commands in flight are never completed. Returns the time at which the
    /// device is idle.
    pub(crate) fn crash(&mut self, now: Nanos, rng: &mut Rng, crash: Crash) -> Nanos {
        match (&mut self.device, crash) {
            (Device::Ram(ram), crash) => {
                ram.crash(rng, crash);
                let now = ram.image();
                for (zone, damage) in self.at_rest.drain(..) {
                    let zone = match damage {
                        ZoneDamage::Cut(_) => self.written_last[index(zone.0.into()) % 2],
                        _ => zone,
                    };
                    damage_zone(ram, zone, damage, self.earlier.as_ref());
                }
                self.earlier = Some(now);
            }
            // A drive does not see the process crash: it completes its commands.
            (Device::Zoned(drive), Crash::Process) => return run_out(drive.as_mut(), now),
            (Device::Zoned(drive), Crash::Power) => {
                drive.cut_power(rng);
                self.has_lost = false;
            }
            (Device::Conventional(drive), Crash::Process) => {
                let at_rest = run_out(drive.as_mut(), now);
                drive.forget_zones();
                return at_rest;
            }
            (Device::Conventional(drive), Crash::Power) => {
                drive.cut_power(rng);
                self.has_lost = false;
            }
        }
        now
    }

    /// The RAM device, if it is one.
    pub(crate) fn ram(&mut self) -> Option<&mut RamDevice> {
        match &mut self.device {
            Device::Ram(ram) => Some(ram),
            Device::Zoned(_) | Device::Conventional(_) => None,
        }
    }

    const fn device(&self) -> &dyn ZonedDevice {
        match &self.device {
            Device::Ram(ram) => &**ram,
            Device::Zoned(drive) => &**drive,
            Device::Conventional(drive) => &**drive,
        }
    }

    const fn device_mut(&mut self) -> &mut dyn ZonedDevice {
        match &mut self.device {
            Device::Ram(ram) => &mut **ram,
            Device::Zoned(drive) => &mut **drive,
            Device::Conventional(drive) => &mut **drive,
        }
    }
}

/// Damages a zone. Its length stays, as a write pointer would.
fn damage_zone(ram: &mut RamDevice, zone: ZoneId, damage: ZoneDamage, earlier: Option<&Image>) {
    let replacements = match damage {
        ZoneDamage::Zeroed => vec![(zone, Vec::new())],
        ZoneDamage::Older => {
            let bytes = |zone| Some((zone, earlier?.zone_bytes(zone).to_vec()));
            let has_changed = |(zone, bytes): &(ZoneId, Vec<u8>)| ram.zone_bytes(*zone) != *bytes;
            let all = ram.geometry().zones().filter_map(bytes).filter(has_changed);
            let changed: Vec<_> = all.collect();
            let chosen = index(zone.0.into()).checked_rem(changed.len());
            chosen.map(|chosen| changed[chosen].clone()).into_iter().collect()
        }
        ZoneDamage::Cut(blocks) => vec![(zone, cut(ram.zone_bytes(zone), blocks))],
        ZoneDamage::Exchanged(other) => {
            vec![(zone, ram.zone_bytes(other)), (other, ram.zone_bytes(zone))]
        }
    };
    for (zone, mut bytes) in replacements {
        bytes.resize(ram.zone_bytes(zone).len(), 0);
        ram.replace_zone_bytes(zone, bytes);
    }
}

/// Removes blocks before the zeros at the end of a zone.
fn cut(mut bytes: Vec<u8>, blocks: Blocks) -> Vec<u8> {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let end = end.div_ceil(BLOCK_BYTES).saturating_sub(index(blocks.0));
    bytes.truncate(end * BLOCK_BYTES);
    bytes
}

/// Completes all commands in flight. Returns the time of the last completion.
fn run_out(device: &mut dyn ZonedDevice, mut now: Nanos) -> Nanos {
    while let Some(next) = device.next_event() {
        now = now.max(next);
        while let Some(answered) = device.poll(now) {
            drop(answered);
        }
    }
    now
}

impl ZonedDevice for Drive {
    fn geometry(&self) -> &Geometry {
        self.device().geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) -> Result<(), Command> {
        if let Command::Write { lba, .. } = &command
            && let zone = self.geometry().zone_of(*lba)
            && self.written_last[0] != zone
        {
            self.written_last = [zone, self.written_last[0]];
        }
        self.device_mut().submit(now, ticket, command)?;
        self.has_lost |= 0 < self.losses;
        self.losses = self.losses.saturating_sub(1);
        Ok(())
    }

    fn poll(&mut self, now: Nanos) -> Option<(Ticket, Completion)> {
        self.device_mut().poll(now)
    }

    fn next_event(&self) -> Option<Nanos> {
        self.device().next_event()
    }
}
