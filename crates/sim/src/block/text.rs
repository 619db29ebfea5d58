//! History of a block device for people, one line per event.

use std::fmt;

use zonal_device::ram::Crash;

use super::history::{BlockHistory, Fault, Op, Rot, Shutdown, Step};

impl fmt::Display for BlockHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (model, geometry)) in self.setting.devices.iter().enumerate() {
            writeln!(f, "device {number}: {model:?}, {geometry:?}")?;
        }
        for export in &self.setting.exports {
            writeln!(f, "{export:?}")?;
        }
        for (number, life) in (1..).zip(&self.lives) {
            writeln!(f, "life {number}")?;
            let mut steps: Vec<&Step> = life.steps.iter().collect();
            steps.sort_by_key(|step| step.at);
            for Step { actor, at, deed } in steps {
                write!(f, "  {:>9} us  actor {actor}  ", at.0 / 1000)?;
                match deed {
                    Op::Fault(device, fault) => writeln!(f, "device {device}: {fault}")?,
                    deed => writeln!(f, "{deed:?}")?,
                }
            }
            writeln!(f, "  {}", life.shutdown)?;
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FailNextWrite(zone) => write!(f, "fail the next write of zone {}", zone.0),
            Self::TakesNoWrites(true) => f.write_str("take no writes"),
            Self::TakesNoWrites(false) => f.write_str("take writes again"),
            Self::ReadOnly(zone) => write!(f, "make zone {} read-only", zone.0),
            Self::Offline(zone) => write!(f, "take zone {} offline", zone.0),
            Self::Unreadable(zone, block) => {
                write!(f, "make block {block} of zone {} unreadable", zone.0)
            }
            Self::FlipBit(zone, block, bit) => {
                write!(f, "flip bit {bit} of block {block} of zone {}", zone.0)
            }
            Self::LoseCommand => f.write_str("lose the next command"),
            Self::Gone => f.write_str("complete no command until the next life"),
        }
    }
}

impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Graceful => f.write_str("a graceful end"),
            Self::Damaged(device, rot) => write!(f, "a graceful end; then device {device}: {rot}"),
            Self::Crash([Crash::Process, Crash::Process], _) => f.write_str("the process crashes"),
            Self::Crash([Crash::Power, Crash::Power], _) => f.write_str("the power is cut"),
            Self::Crash([Crash::Power, Crash::Process], _) => {
                f.write_str("the power of device 0 is cut")
            }
            Self::Crash([Crash::Process, Crash::Power], _) => {
                f.write_str("the power of device 1 is cut")
            }
        }
    }
}

impl fmt::Display for Rot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bit(zone, block, bit) => {
                write!(f, "flip bit {bit} of block {block} of zone {}", zone.0)
            }
            Self::Zone(zone) => write!(f, "fill zone {} with zeros", zone.0),
            Self::Exchanged(zone, other) => write!(f, "exchange zones {} and {}", zone.0, other.0),
            Self::OldZone(zone) => {
                write!(f, "revert zone {} to the first graceful end", zone.0)
            }
            Self::OldDevice => f.write_str("revert it to the first graceful end"),
        }
    }
}
