//! `zonal inspect`: shows the contents of each zone, read with the log's own code.

use std::fmt::Write;

use serde::Serialize;
use zonal_base::{Bytes, ZoneId};
use zonal_cli::{DeviceInspector, Failure, Zone, print, state_name, totals};
use zonal_zonelog::{Descriptor, Extent, Header, Kind, ZoneContent, ZoneEnd};

use super::device;

/// Show zones, segments and records of a device; read-only
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zonal inspect file:zonal-data/flash --zone 3 --records")]
pub(crate) struct Args {
    /// Device: file:PATH?zone=64MiB, block:/dev/NAME?zone=64MiB or emulator:MODEL?backing=PATH
    spec: String,
    /// Show only this zone, with its segments
    #[arg(long, value_name = "N")]
    zone: Option<u32>,
    /// Show each record
    #[arg(long)]
    records: bool,
    /// Print JSON: one line for each zone
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let spec = device::parse(&args.spec)?;
    let survey = DeviceInspector::open(&spec)?;
    if let Some(warning) = survey.warning() {
        eprintln!("zonal: {spec}: {warning}");
    }
    let zone_count = survey.geometry().zone_count;
    if args.zone.is_some_and(|zone| zone_count <= zone) {
        return Err(Failure::request(format!("{spec} has {zone_count} zones, counted from 0")));
    }
    let detail = Detail { segments: args.zone.is_some(), records: args.records };
    if !args.json {
        print::text(HEADING)?;
    }
    let mut printed = Ok(());
    survey.zones(|zone| {
        if args.zone.is_none_or(|wanted| ZoneId(wanted) == zone.zone) && printed.is_ok() {
            let view = ZoneView::of(&zone, detail);
            printed = match args.json {
                true => serde_json::to_string(&view)
                    .map_err(Failure::work)
                    .and_then(|json| print::text(&(json + "\n"))),
                false => print::text(&view.to_text()),
            };
        }
    })?;
    printed
}

const HEADING: &str = "  zone shard state      sequence segments  records        bytes\n";

/// Details shown in addition to one line per zone.
#[derive(Clone, Copy)]
struct Detail {
    segments: bool,
    records: bool,
}

/// One zone, as text line or JSON object.
#[derive(Debug, Serialize)]
struct ZoneView {
    zone: u32,
    shard: u32,
    /// `blank`, `empty`, `open`, `full`, `unreadable`, `torn`, `other-version` or `foreign`.
    state: &'static str,
    /// Sequence number that the log gave this use of the zone; it counts all zones filled.
    sequence: Option<u64>,
    /// Number of segments; `null` for a full zone, because its footer lists only records.
    segments: Option<usize>,
    records: u64,
    record_bytes: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    segment_list: Vec<SegmentView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    record_list: Vec<RecordView>,
}

#[derive(Debug, Serialize)]
struct SegmentView {
    segment: u32,
    header_blocks: u8,
    payload_blocks: u16,
    records: u16,
}

#[derive(Debug, Serialize)]
struct RecordView {
    /// 32 hexadecimal digits.
    key: String,
    generation: u64,
    kind: String,
    /// Offset from the start of the zone, in bytes.
    offset_bytes: u64,
    len_bytes: u32,
}

impl ZoneView {
    fn of(zone: &Zone, detail: Detail) -> Self {
        let (records, record_bytes) = totals(&zone.content);
        let mut view = Self {
            zone: zone.zone.0,
            shard: zone.shard,
            state: state_name(&zone.content),
            sequence: None,
            segments: None,
            records,
            record_bytes,
            segment_list: Vec::new(),
            record_list: Vec::new(),
        };
        match &zone.content {
            ZoneContent::Empty(mark) => view.sequence = Some(mark.zone_sequence),
            ZoneContent::Records { first, segments, records, ending } => {
                view.sequence = Some(first.zone_sequence);
                view.segments = (*ending != ZoneEnd::Footer).then_some(segments.len());
                if detail.segments {
                    view.segment_list = segments.iter().map(SegmentView::of).collect();
                }
                if detail.records {
                    view.record_list = records.iter().map(RecordView::of).collect();
                }
            }
            _ => (),
        }
        view
    }

    fn to_text(&self) -> String {
        let or_dash = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
        let mut text = format!(
            "{:>6} {:>5} {:<9} {:>9} {:>8} {:>8} {:>12}\n",
            self.zone,
            self.shard,
            self.state,
            or_dash(self.sequence.map(|n| n.to_string())),
            or_dash(self.segments.map(|n| n.to_string())),
            self.records,
            print::human(Bytes(self.record_bytes)),
        );
        for segment in &self.segment_list {
            let _ = writeln!(
                text,
                "       segment {}: {} + {} blocks, {} records",
                segment.segment, segment.header_blocks, segment.payload_blocks, segment.records
            );
        }
        for record in &self.record_list {
            let _ = writeln!(
                text,
                "       {} {:<9} generation {} at {} + {}",
                record.key, record.kind, record.generation, record.offset_bytes, record.len_bytes
            );
        }
        text
    }
}

impl SegmentView {
    const fn of(header: &Header) -> Self {
        Self {
            segment: header.segment,
            header_blocks: header.header_blocks,
            payload_blocks: header.payload_blocks,
            records: header.record_count,
        }
    }
}

impl RecordView {
    fn of(record: &Descriptor) -> Self {
        let Descriptor { key, generation, kind, offset, len, .. } = record;
        Self {
            key: format!("{:032x}", key.0),
            generation: *generation,
            kind: kind_name(*kind),
            offset_bytes: u64::from(*offset) * Extent::UNIT as u64,
            len_bytes: *len,
        }
    }
}

/// Names of the record kinds that the cache uses: see `docs/formats/zonelog.md`.
fn kind_name(kind: Kind) -> String {
    match kind {
        Kind::TOMBSTONE => "tombstone".to_owned(),
        Kind(1) => "head".to_owned(),
        Kind(2) => "piece".to_owned(),
        Kind(5) => "order".to_owned(),
        Kind(6) => "roster".to_owned(),
        Kind(other) => format!("kind-{other}"),
    }
}
