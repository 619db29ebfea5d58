//! Text form of a history, for people.

use std::collections::BTreeSet;
use std::fmt;

use zonal_base::{Bytes, Nanos};
use zonal_cache::Freshness;
use zonal_device::ram::Crash;
use zonal_device::{DeviceKind, Geometry};

use crate::drive::{Fault, Model, ZoneDamage};
use crate::history::{
    Actor, Change, History, Keeping, Life, NewObject, Op, ReadStep, ScanStep, Setting, Shutdown,
    Step, WHOLE, WriteStep,
};
use crate::oracle::Tag;

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.setting.fmt(f)?;
        let touched: BTreeSet<usize> = self.lives.iter().flat_map(Life::objects).collect();
        for object in &touched {
            writeln!(f, "object {object}: {}", self.objects[*object])?;
        }
        for (number, life) in (1..).zip(&self.lives) {
            writeln!(f, "life {number}")?;
            for (object, chunk) in self.chunks_of(life).into_iter().enumerate() {
                if let Some(chunk) = chunk.filter(|_| touched.contains(&object)) {
                    writeln!(f, "             object {object} in chunks of {}", chunk.bytes())?;
                }
            }
            let mut steps: Vec<&Step> = life.steps.iter().collect();
            steps.sort_by_key(|step| step.at);
            for step in steps {
                writeln!(f, "  {:>11}  {:<9} {}", Ms(step.at).to_string(), step.actor, step.deed)?;
            }
            let at = match life.shutdown {
                Shutdown::Graceful | Shutdown::CrashAtRest(_) => String::new(),
                Shutdown::Crash(_, at) | Shutdown::Isolated(at, _) => Ms(at).to_string(),
            };
            writeln!(f, "  {at:>11}  {}", life.shutdown)?;
        }
        Ok(())
    }
}

impl Life {
    fn objects(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().filter_map(|step| match step.deed {
            Op::Read(read) => Some(read.object),
            Op::Scan(scan) => Some(scan.read.object),
            Op::Write(write) => Some(write.object),
            Op::Fault(_) => None,
        })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Geometry { zone_count, zone_capacity, zone_size, .. } = self.geometry;
        let (open, active) = (self.geometry.max_open_zones, self.geometry.max_active_zones);
        let kind = match self.geometry.kind {
            DeviceKind::Zoned => "zoned",
            DeviceKind::Conventional => "conventional",
        };
        writeln!(f, "device: {}", self.model)?;
        writeln!(
            f,
            "        {kind}, {zone_count} zones of {} blocks ({} apart), at most {} open and {} active",
            zone_capacity.0,
            zone_size.0,
            Limit(open),
            Limit(active),
        )?;
        let log = &self.engine.log;
        writeln!(
            f,
            "engine: chunks of {}, {} heads and {} of chunks in memory, {} zones filled at once, linger {}, backlog {}, {}",
            self.engine.chunk,
            self.engine.heads,
            self.memory,
            log.fill_zones,
            Ms(log.linger),
            log.backlog_max,
            self.policy,
        )?;
        if self.engine.pinned_percent != 0 {
            writeln!(f, "        up to {} % can be pinned", self.engine.pinned_percent)?;
        }
        if self.engine.prefetch != Bytes(0) {
            writeln!(f, "        {} ahead of who reads front to back", self.engine.prefetch)?;
        }
        match self.origin_fault_rate {
            0 => writeln!(f, "origin: no request fails"),
            rate => writeln!(f, "origin: one request in {rate} fails"),
        }
    }
}

impl fmt::Display for Keeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::By(spec) => spec.fmt(f),
            Self::Thirds => f.write_str("a policy that keeps a third of everything"),
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ram { latency, latency_spread, slow_reads } => {
                write!(f, "memory, {} to {}", Ms(*latency), Ms(*latency + *latency_spread))?;
                match slow_reads {
                    Nanos(0) => Ok(()),
                    slow => write!(f, ", some reads up to {} more", Ms(*slow)),
                }
            }
            Self::Zn540 { is_volatile, blocks_per_stream } => {
                let keeps = if *is_volatile { "volatile" } else { "protected" };
                write!(
                    f,
                    "model of the ZN540, a {keeps} buffer of {blocks_per_stream} blocks a zone"
                )
            }
            Self::Sn540 { on_reset } => write!(f, "model of the SN540, on a reset: {on_reset:?}"),
        }
    }
}

impl fmt::Display for NewObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tag = match self.tag {
            Tag::Strong => "",
            Tag::Weak => ", weak ETags",
            Tag::Missing => ", no ETags",
        };
        let pinned = if self.is_pinned { ", pinned" } else { "" };
        write!(f, "{} bytes, {} of metadata{tag}{pinned}", self.size, self.metadata)
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Reader(number) => format!("reader {number}"),
            Self::Writer(number) => format!("writer {number}"),
            Self::Fate => "fate".to_owned(),
        };
        f.pad(&name)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(read) => read.fmt(f),
            Self::Scan(scan) => scan.fmt(f),
            Self::Write(write) => write.fmt(f),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Display for ReadStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read object {}", self.object)?;
        if let Some((one, other)) = self.range {
            let percent = |part: u64| part as f64 * 100.0 / WHOLE as f64;
            write!(
                f,
                " from {:.1} % to {:.1} %",
                percent(one.min(other)),
                percent(one.max(other))
            )?;
        }
        match self.freshness {
            Freshness::Immutable => f.write_str(", never asking the origin")?,
            Freshness::Ttl(ttl) => write!(f, ", asking the origin after {}", Ms(ttl))?,
            Freshness::Revalidate => f.write_str(", asking the origin")?,
        }
        if Nanos(0) < self.absence {
            write!(f, ", or not whether there is one for {}", Ms(self.absence))?;
        }
        if Nanos(0) < self.stale_if_error {
            write!(f, "; takes what is {} too old if that fails", Ms(self.stale_if_error))?;
        }
        if Nanos(0) < self.stale_while_revalidate {
            let time = Ms(self.stale_while_revalidate);
            write!(f, "; takes what is {time} too old meanwhile")?;
        }
        if Nanos(0) < self.slowness {
            write!(f, "; slow ({} a piece)", Ms(self.slowness))?;
        }
        if let Some(patience) = self.head_patience {
            write!(f, "; leaves without a head after {}", Ms(patience))?;
        }
        if let Some(pieces) = self.pieces_max {
            write!(f, "; leaves after {pieces} pieces")?;
        }
        if let Some(after) = self.drop_after {
            write!(f, "; is cut off after {}", Ms(after))?;
        }
        Ok(())
    }
}

impl fmt::Display for ScanStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.is_disordered { "each second first" } else { "front to back" };
        let Self { count, len, pause, read, .. } = self;
        write!(f, "{count} ranges of {len} bytes, {order}, {} between: {read}", Ms(*pause))
    }
}

impl fmt::Display for WriteStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.object;
        let [before, after] = self.pauses.map(Ms);
        match self.change {
            Change::Overwrite { size } => {
                write!(
                    f,
                    "overwrite object {object} with {size} bytes, {before} and {after} under way"
                )
            }
            Change::OverwriteBehind { size } => {
                write!(f, "overwrite object {object} with {size} bytes behind the cache's back")
            }
            Change::Delete { size } => write!(
                f,
                "delete object {object}, {before} under way; make it again with {size} bytes after {after}"
            ),
            Change::Purge => {
                write!(f, "repair object {object} under the same ETag; purge it after {before}")
            }
            Change::PurgeBelow { cut } => write!(
                f,
                "repair all objects named as object {object} but for its last {cut} letters; purge that prefix after {before}"
            ),
            Change::Forsaken(patience) => {
                write!(f, "begin to remove object {object}, and go away after {}", Ms(patience))
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FlipBit(lba, bit) => write!(f, "flip bit {bit} of block {}", lba.0),
            Self::Unreadable(lba) => write!(f, "make block {} unreadable", lba.0),
            Self::UnreadableWhileOn(lba) => {
                write!(f, "make block {} unreadable until the power is cut", lba.0)
            }
            Self::FailNextWrite(zone) => write!(f, "fail the next write of zone {}", zone.0),
            Self::TakesNoWrites(true) => f.write_str("let the device take no writes"),
            Self::TakesNoWrites(false) => f.write_str("let the device take writes again"),
            Self::ReadOnly(zone) => write!(f, "make zone {} read-only", zone.0),
            Self::Offline(zone) => write!(f, "take zone {} offline", zone.0),
            Self::LoseCommand => f.write_str("lose the next command"),
            Self::SlowDie(die, times) => write!(f, "make die {die} {times} times slower"),
            Self::LowerLimits(limit) => write!(f, "allow {limit} open and active zones only"),
            Self::Gone => f.write_str("take the device away"),
            Self::LateReads(count) => write!(f, "answer the next {count} reads too late"),
            Self::ZoneAtRest(zone, ZoneDamage::Zeroed) => {
                write!(f, "fill zone {} with zeros after this life", zone.0)
            }
            Self::ZoneAtRest(zone, ZoneDamage::Older) => {
                let number = zone.0;
                write!(f, "revert a zone of this life (number {number}) to the life before")
            }
            Self::ZoneAtRest(_, ZoneDamage::Cut(blocks)) => {
                write!(f, "cut {} blocks off a zone written to last, after this life", blocks.0)
            }
            Self::ZoneAtRest(zone, ZoneDamage::Exchanged(other)) => {
                write!(f, "exchange zones {} and {} after this life", zone.0, other.0)
            }
        }
    }
}

impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::Graceful => "a graceful end",
            Self::Crash(Crash::Process, _) => "the process crashes",
            Self::Crash(Crash::Power, _) => "the power is cut",
            Self::CrashAtRest(Crash::Process) => "the process crashes at rest",
            Self::CrashAtRest(Crash::Power) => "the power is cut at rest",
            Self::Isolated(_, away) => {
                return write!(f, "the device is isolated for {}, and used again", Ms(away));
            }
        })
    }
}

/// Milliseconds, printed to the microsecond.
struct Ms(Nanos);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} ms", self.0.0 / 1_000_000, self.0.0 / 1000 % 1000)
    }
}

struct Limit(Option<u32>);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(limit) => limit.fmt(f),
            None => f.write_str("all"),
        }
    }
}
