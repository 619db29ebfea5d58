//! Pin oracle: pinned bytes that were seen on flash stay cached, across lives, until their object
//! is written. This holds while there are no faults and there is room for all pinned objects.

use std::ops::Range;
use std::sync::Arc;

use zonal_cache::{Cache, Head, ObjectName};
use zonal_device::ram::Crash;

use crate::history::Shutdown;
use crate::oracle::Object;
use crate::origin::Objects;
use crate::violation::{ViolationKind, Wrong};

/// Ranges that were seen on flash.
#[derive(Default)]
pub(crate) struct PinOracle {
    pins: Vec<Pin>,
}

struct Pin {
    name: ObjectName,
    head: Arc<Head>,
    range: Range<u64>,
    /// Number of writes to the object before the range was seen.
    writes: u64,
    /// The range was flushed: it survives a power cut.
    is_durable: bool,
}

impl PinOracle {
    /// A read that began in state `begun` found all of `range` on flash. An empty range was not
    /// looked for.
    pub(crate) fn note(
        &mut self,
        name: &ObjectName,
        begun: &Object,
        read: (&Arc<Head>, Range<u64>),
    ) {
        if begun.is_pinned && !begun.is_being_written() && !read.1.is_empty() {
            let (head, range) = (read.0.clone(), read.1);
            let (name, writes) = (name.clone(), begun.writes_begun);
            self.pins.push(Pin { name, head, range, writes, is_durable: false });
        }
    }

    /// Checks that the recorded ranges of current versions are cached, and forgets the others.
    pub(crate) fn check(&mut self, cache: &Cache, objects: &Objects) -> Result<(), Wrong> {
        let objects = objects.borrow();
        self.pins.retain(|pin| pin.is_current(&objects[&pin.name]));
        let lost = self.pins.iter().find(|pin| !cache.is_cached(&pin.name, &pin.head, &pin.range));
        lost.map_or(Ok(()), |Pin { name, head, range, .. }| {
            let what =
                format!("{range:?} of {name} {} was pinned on flash, and is gone", head.etag);
            Err(ViolationKind::Unpinned.wrong(what))
        })
    }

    /// Ends a life: keeps the ranges that must survive it.
    pub(crate) fn outlive(&mut self, shutdown: Shutdown) {
        let power_was_cut = matches!(
            shutdown,
            Shutdown::Crash(Crash::Power, _) | Shutdown::CrashAtRest(Crash::Power)
        );
        self.pins.retain(|pin| pin.is_durable || !power_was_cut);
        if shutdown == Shutdown::Graceful {
            self.pins.iter_mut().for_each(|pin| pin.is_durable = true);
        }
    }

    /// Drops all ranges, after a fault or when there is no room for all.
    pub(crate) fn drop_all(&mut self) {
        self.pins.clear();
    }
}

impl Pin {
    /// True if the version is current at the origin and no removal was requested.
    fn is_current(&self, object: &Object) -> bool {
        let version = object.now.map(|now| format!("\"{}\"", now.version));
        object.writes_begun == self.writes && version.as_deref() == Some(&self.head.etag)
    }
}
