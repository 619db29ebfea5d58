//! What is pinned stays: bytes that were seen on flash are there until somebody writes to their object, life after
//! life, while nothing breaks and there is room for all that is to be pinned.

use std::ops::Range;
use std::sync::Arc;

use zonal_cache::{Cache, Head, ObjectName};
use zonal_device::ram::Crash;

use crate::history::Shutdown;
use crate::oracle::Object;
use crate::origin::Objects;
use crate::violation::{ViolationKind, Wrong};

/// What was seen.
#[derive(Default)]
pub(crate) struct PinOracle {
    pins: Vec<Pin>,
}

struct Pin {
    name: ObjectName,
    head: Arc<Head>,
    range: Range<u64>,
    /// To the object, before it was seen.
    writes: u64,
    /// It was flushed: no cut of the power takes it any more.
    is_durable: bool,
}

impl PinOracle {
    /// A read that began when the object was `begun` found all of `range` on flash.
    pub(crate) fn note(
        &mut self,
        name: &ObjectName,
        begun: &Object,
        read: (&Arc<Head>, Range<u64>),
    ) {
        if begun.is_pinned && !begun.is_being_written() {
            let (head, range) = (read.0.clone(), read.1);
            let (name, writes) = (name.clone(), begun.writes_begun);
            self.pins.push(Pin { name, head, range, writes, is_durable: false });
        }
    }

    /// All of it must be there.
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

    /// A life has ended; what of it must be there in the next one stays.
    pub(crate) fn outlive(&mut self, ending: Shutdown) {
        let power_was_cut = matches!(ending, Shutdown::Crash(Crash::Power, _));
        self.pins.retain(|pin| pin.is_durable || !power_was_cut);
        if ending == Shutdown::Graceful {
            self.pins.iter_mut().for_each(|pin| pin.is_durable = true);
        }
    }

    /// Something broke, or there is not room for all: nothing is promised any more.
    pub(crate) fn give_up(&mut self) {
        self.pins.clear();
    }
}

impl Pin {
    /// Its version is the one that the origin has, and nobody has asked for it to be removed.
    fn is_current(&self, object: &Object) -> bool {
        let version = object.now.map(|now| format!("\"{}\"", now.version));
        object.writes_begun == self.writes && version.as_deref() == Some(&self.head.etag)
    }
}
