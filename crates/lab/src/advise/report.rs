//! Report of a recommendation: sentences, tables and figures, for a terminal and as an HTML page.

use std::fmt;
use std::fs;
use std::path::Path;

use super::advice::{GIB, Judged, YEARS_MAX};
use super::{Advice, Replayed, ZONE};
use crate::chart::{Along, Chart, ChartLine};
use crate::page;
use crate::trace::Skipped;

impl Advice {
    /// Writes `advice.json`, the figures and `report.html`, which is self-contained.
    ///
    /// # Errors
    /// When the folder is not writable.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(cannot)?;
        let json = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        fs::write(folder.join("advice.json"), json + "\n").map_err(cannot)?;
        let mut figures = Vec::new();
        for chart in self.charts() {
            let path = folder.join(format!("{}.svg", chart.file));
            chart.write(&path)?;
            figures.push(fs::read_to_string(&path).map_err(cannot)?);
        }
        let sentence = |text: &String| format!("<p>{}</p>\n", page::escaped(text));
        let body = format!(
            "<p>{}</p>\n\
             <h2>Recommendation</h2>\n\
             {}<h2>Runs</h2>\n\
             {}<h2>Replays</h2>\n\
             {}<h2>Figures</h2>\n\
             {}",
            page::escaped(&self.load()),
            self.words.iter().map(sentence).collect::<String>(),
            page::table(&self.runs()),
            page::table(&self.replays()),
            page::figures(&figures),
        );
        let made = format!("<code>zonal-lab advise</code>, commit {}", page::escaped(&self.commit));
        let page = page::page(&format!("Advice for {}", self.trace), &body, &made);
        fs::write(folder.join("report.html"), page).map_err(cannot)
    }

    /// Describes the load in a sentence.
    fn load(&self) -> String {
        let survey = &self.survey;
        let times = match survey.seconds {
            0 => String::new(),
            seconds => format!(" in {:.1} hours", seconds as f64 / 3600.0),
        };
        let removals = match survey.removals {
            0 => String::new(),
            removals => format!(", and {removals} writes or deletions"),
        };
        let skipped = match survey.skipped {
            skipped if skipped == Skipped::default() => String::new(),
            skipped => format!(" Not counted: {skipped}."),
        };
        format!(
            "{}: {} reads{times}{removals}; {} objects, {:.2} GiB of them, {} KiB a read on the \
             mean, the largest {} KiB; {}.{skipped}",
            self.trace,
            survey.reads,
            survey.objects,
            survey.footprint as f64 / GIB,
            survey.mean().0.div_ceil(1024),
            survey.largest.div_ceil(1024),
            survey.time_unit,
        )
    }

    fn runs(&self) -> Vec<Vec<String>> {
        let names = RUNS.iter().map(|(name, _)| (*name).to_owned());
        let numbered = std::iter::once("run".to_owned()).chain(names).collect();
        let row = |(number, judged): (usize, &Judged)| {
            let mark = if number == self.take { " *" } else { "" };
            let fields = RUNS.iter().map(|(_, of)| of(judged));
            std::iter::once(format!("{}{mark}", number + 1)).chain(fields).collect()
        };
        std::iter::once(numbered).chain(self.finals.iter().enumerate().map(row)).collect()
    }

    fn replays(&self) -> Vec<Vec<String>> {
        let names = REPLAYS.iter().map(|(name, _)| (*name).to_owned()).collect();
        let row = |one| REPLAYS.iter().map(|(_, of)| of(one)).collect();
        std::iter::once(names).chain(self.replayed.iter().map(row)).collect()
    }

    fn charts(&self) -> Vec<Chart> {
        let by_run = |file, title, y: &'static str, of: fn(&Judged) -> f64| {
            let places = (1..=self.finals.len()).map(|number| format!("run {number}")).collect();
            let here = (0..).map(f64::from).zip(self.finals.iter().map(of)).collect();
            let lines = vec![ChartLine { name: y.into(), drive: Vec::new(), here }];
            Chart { file, title, x: "", y, along: Along::Places(places), lines }
        };
        vec![
            self.by_capacity(
                "hit-ratio",
                "Reads served fully from the cache",
                "hit ratio",
                |one| one.late_hit_ratio,
            ),
            self.by_capacity("flash-bytes", "Flash bytes written per read", "KiB", |one| {
                one.late_flash_bytes / 1024.0
            }),
            self.latencies(),
            by_run("throughput", "Throughput of gets", "GiB/s", |one| {
                one.run.outcome.get_gib_per_s()
            }),
            by_run("device-wa", "Device write amplification", "device WA", |one| {
                one.run.device_amplification()
            }),
        ]
    }

    /// Lines of the policies with the first chunk size, by capacity.
    fn by_capacity(
        &self,
        file: &'static str,
        title: &'static str,
        y: &'static str,
        of: fn(&Replayed) -> f64,
    ) -> Chart {
        let first = self.replayed.first();
        let is_of = |one: &&Replayed| {
            first.is_some_and(|first| one.chunk == first.chunk && one.sample == first.sample)
        };
        let mut lines: Vec<ChartLine> = Vec::new();
        for one in self.replayed.iter().filter(is_of) {
            let point = (room_gib(one), of(one));
            match lines.iter_mut().find(|line| line.name == one.policy) {
                Some(line) => line.here.push(point),
                None => lines.push(ChartLine {
                    name: one.policy.clone(),
                    drive: Vec::new(),
                    here: vec![point],
                }),
            }
        }
        for line in &mut lines {
            line.here.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        Chart { file, title, x: "GiB", y, along: Along::Numbers, lines }
    }

    fn latencies(&self) -> Chart {
        let line = |(number, judged): (usize, &Judged)| {
            let get = &judged.run.outcome.get;
            let ms = [get.p50_ns, get.p99_ns, get.p999_ns].map(|nanos| nanos as f64 / 1e6);
            let here = (0..).map(f64::from).zip(ms).collect();
            ChartLine { name: format!("run {}", number + 1), drive: Vec::new(), here }
        };
        Chart {
            file: "latency",
            title: "Latency of gets",
            x: "",
            y: "ms",
            along: Along::Places(["p50", "p99", "p99.9"].map(String::from).to_vec()),
            lines: self.finals.iter().enumerate().map(line).collect(),
        }
    }
}

fn room_gib(one: &Replayed) -> f64 {
    u64::from(one.zones) as f64 * ZONE.0 as f64 / GIB
}

/// Column of a table: its name, and the value of a row.
type Column<T> = (&'static str, fn(&T) -> String);

const RUNS: [Column<Judged>; 17] = [
    ("drive", |one| one.run.drive_name()),
    ("policy", |one| one.run.replayed.policy.clone()),
    ("chunk", |one| zonal_base::Bytes(one.run.replayed.chunk).to_string()),
    ("spare %", |one| one.run.spare.to_string()),
    ("hits %", |one| format!("{:.2}", 100.0 * one.run.replayed.late_hit_ratio)),
    ("run's %", |one| format!("{:.2}", 100.0 * one.run.outcome.hit_ratio())),
    ("p50 ms", |one| millis(one.run.outcome.get.p50_ns)),
    ("p99 ms", |one| millis(one.run.outcome.get.p99_ns)),
    ("p99.9 ms", |one| millis(one.run.outcome.get.p999_ns)),
    ("hit p99 ms", |one| millis(one.run.outcome.hit.p99_ns)),
    ("gets/s", |one| format!("{:.0}", one.run.gets_per_s())),
    ("GiB/s", |one| format!("{:.3}", one.run.outcome.get_gib_per_s())),
    ("host WA", |one| format!("{:.3}", one.run.replayed.late_write_amplification)),
    ("device WA", |one| format!("{:.3}", one.run.device_amplification())),
    ("programmed B/read", |one| format!("{:.0}", one.programmed_per_read)),
    ("years", |one| one.years.map_or("-".into(), |years| format!("{:.1}", years.min(YEARS_MAX)))),
    ("$/month", |one| one.dollars_per_month.map_or("-".into(), |dollars| format!("{dollars:.2}"))),
];

const REPLAYS: [Column<Replayed>; 9] = [
    ("policy", |one| one.policy.clone()),
    ("chunk", |one| zonal_base::Bytes(one.chunk).to_string()),
    ("GiB", |one| format!("{:.0}", room_gib(one))),
    ("one in", |one| one.sample.to_string()),
    ("hits %", |one| format!("{:.2}", 100.0 * one.late_hit_ratio)),
    ("byte hits %", |one| format!("{:.2}", 100.0 * one.late_byte_hit_ratio)),
    ("origin/read", |one| format!("{:.4}", one.late_fetches)),
    ("flash B/read", |one| format!("{:.0}", one.late_flash_bytes)),
    ("host WA", |one| format!("{:.3}", one.late_write_amplification)),
];

fn millis(nanos: u64) -> String {
    format!("{:.2}", nanos as f64 / 1e6)
}

impl fmt::Display for Advice {
    /// Prints the sentences first, then the tables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.load())?;
        self.words.iter().try_for_each(|text| writeln!(f, "{text}"))?;
        writeln!(
            f,
            "\nRuns (* = recommended; hits and bytes are of the full cache, the rest starts with \
             an empty cache):"
        )?;
        f.write_str(&page::aligned(&self.runs()))?;
        writeln!(f, "\nReplays, the second half of the trace:")?;
        f.write_str(&page::aligned(&self.replays()))?;
        writeln!(f, "\ncommit {}", self.commit)
    }
}
