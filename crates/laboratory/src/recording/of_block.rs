//! What a recording has of a block device.

use zonal_api::Document;
use zonal_api::block::{Event as BlockEvent, Requests, What, Zone};
use zonal_api::block_stats::{Connections, Export, ScrubStats};
use zonal_api::stats::Wear;
use zonal_api::tiers::{self, Drive, Served};
use zonal_shaper::Shaper;
use zonal_watch::{Engine, Request};

use super::{Answered, Recorded, Scene};

impl Recorded for Shaper {
    type Zone = Zone;
    type What = What;

    fn of(engine: Engine<'_>) -> Option<&Self> {
        match engine {
            Engine::Block(shaper) => Some(shaper),
            Engine::Cache(_) => None,
        }
    }

    fn document(&self, scene: &Scene<'_>) -> Document<Zone> {
        let drive = |spec: &String| Drive { spec: spec.clone(), wear: Wear::default() };
        let served = Served {
            times: scene.times,
            connections: Connections::default(),
            exports: exports(self, scene),
            scrub: ScrubStats::default(),
            capacity: drive(&scene.subject.device),
            buffer: scene.subject.buffer.as_ref().map(drive),
        };
        tiers::document(self, &served, requests(self, scene))
    }

    fn events(&self, first: u64) -> (Vec<BlockEvent>, u64) {
        let events = Self::events(self, first);
        let next = events.last().map_or(first, |last| last.number + 1);
        (events.iter().map(tiers::event).collect(), next)
    }

    fn note(text: String) -> What {
        What::Note { text }
    }
}

fn exports(shaper: &Shaper, scene: &Scene<'_>) -> Vec<Export> {
    let exports = shaper.exports().iter().enumerate().map(|(number, export)| {
        let count = |request: fn(usize) -> Request| {
            let answered = scene.requests.get(&request(number));
            answered.map_or((0, 0), |answered| (answered.times.count(), answered.bytes))
        };
        let (reads, read_bytes) = count(Request::Read);
        let (writes, written_bytes) = count(Request::Write);
        let (trims, trimmed_bytes) = count(Request::Trim);
        Export {
            name: export.name.clone(),
            tenant: export.tenant.clone(),
            size_bytes: export.blocks.bytes().0,
            verify: export.is_verified,
            reads,
            read_bytes,
            writes,
            written_bytes,
            trims,
            trimmed_bytes,
            flushes: count(Request::Flush).0,
            ..Export::default()
        }
    });
    exports.collect()
}

fn requests(shaper: &Shaper, scene: &Scene<'_>) -> impl Iterator<Item = Requests> {
    scene.requests.iter().filter_map(|(request, Answered { times, .. })| {
        let (operation, export) = match request {
            Request::Read(export) => ("read", export),
            Request::Write(export) => ("write", export),
            Request::Trim(export) => ("trim", export),
            Request::Flush(export) => ("flush", export),
            Request::Get { .. } => return None,
        };
        let export = shaper.exports().get(*export)?.name.clone();
        Some(Requests { operation, export, times: times.into() })
    })
}
