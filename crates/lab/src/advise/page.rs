//! Report as one HTML file: the recommendation, three figures with their data, and the tables.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use zonal_base::Bytes;

use super::figure::{Figure, Line, Scale, Style};
use super::runs::Run;
use super::sentences::{gib, money, percent};
use super::{Advice, Estimate};
use crate::page::{escaped, page_with, table};

/// A figure of the page, with the data behind it.
struct Exhibit {
    /// Name of the file with the data, without its extension.
    name: &'static str,
    title: String,
    figure: Figure,
    csv: String,
}

impl Advice {
    /// Writes `report.html`, which needs no other file, and its data: `advice.json` and a CSV file
    /// for each figure.
    ///
    /// # Errors
    /// When the folder is not writable.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(cannot)?;
        let json = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        let exhibits = self.exhibits();
        for exhibit in &exhibits {
            let path = folder.join(exhibit.name).with_extension("csv");
            fs::write(path, &exhibit.csv).map_err(cannot)?;
        }
        let body = self.body(&exhibits, &json);
        fs::write(folder.join("advice.json"), json + "\n").map_err(cannot)?;
        let made = format!("<code>zonal-lab advise</code>, commit {}", escaped(&self.commit));
        let page = page_with(STYLE, &format!("Advice for {}", self.trace), &body, &made);
        fs::write(folder.join("report.html"), page).map_err(cannot)
    }

    fn body(&self, exhibits: &[Exhibit], json: &str) -> String {
        let mut body = format!("<p>{}</p>\n{}", escaped(&self.load()), self.card());
        let (before, behind) = exhibits.split_at(FIRST.min(exhibits.len()));
        before.iter().for_each(|exhibit| body.push_str(&exhibit.html()));
        body.push_str("<h2>Why</h2>\n");
        for text in &self.sentences[1..] {
            let (topic, rest) = text.split_once(": ").unwrap_or(("", text));
            let _ = writeln!(body, "<p><b>{}</b> {}</p>", escaped(topic), escaped(rest));
        }
        behind.iter().for_each(|exhibit| body.push_str(&exhibit.html()));
        for (title, rows) in self.tables() {
            let _ = writeln!(body, "<h2>{}</h2>\n{}", escaped(&title), table(&rows));
        }
        let _ = writeln!(
            body,
            "<p class=\"data\">All data: <a download=\"advice.json\" \
             href=\"data:application/json;charset=utf-8,{}\">advice.json</a></p>",
            in_url(json)
        );
        body
    }

    /// The recommendation in a few numbers.
    fn card(&self) -> String {
        let choice = &self.choice;
        let estimate = &choice.estimate;
        let currency = &self.price.currency;
        let with = choice.origin_cost + choice.drive_cost;
        let facts = [
            ("Size", gib(estimate.size as f64), choice.drive.clone()),
            (
                "Hits",
                percent(1.0 - estimate.misses, estimate.misses_error),
                format!("{} of the bytes", percent(1.0 - estimate.byte_misses, 0.0)),
            ),
            (
                "Cost",
                format!("{} {currency}", money(with)),
                format!("instead of {}, in {}", money(self.without), self.basis.name),
            ),
            ("Policy", estimate.policy.clone(), format!("chunks of {}", Bytes(estimate.chunk))),
            ("Freshness", choice.freshness.clone(), "rule for all objects".into()),
            (
                "Drive life",
                choice
                    .years
                    .map_or("unknown".into(), |years| format!("{:.1} years", years.min(99.0))),
                choice.written_a_day.map_or("the trace is too short".into(), |bytes| {
                    format!("{} a day", gib(bytes))
                }),
            ),
        ];
        let facts = facts.iter().map(|(name, value, more)| {
            let (value, more) = (escaped(value), escaped(more));
            format!("<div><dt>{name}</dt><dd>{value}</dd><dd class=\"more\">{more}</dd></div>\n")
        });
        format!("<dl class=\"card\">{}</dl>\n", facts.collect::<String>())
    }

    fn exhibits(&self) -> Vec<Exhibit> {
        let mut exhibits = vec![self.curve(), self.costs()];
        exhibits.extend((!self.runs.is_empty()).then(|| self.latencies()));
        exhibits
    }

    /// Axis of sizes, with a mark at the recommended one and at the given limit.
    fn sizes_axis(&self) -> (Scale, Vec<(f64, String)>) {
        let sizes = || self.sizes.iter().map(|one| one.estimate.size as f64);
        let (from, to) = (sizes().fold(f64::MAX, f64::min), sizes().fold(0.0, f64::max));
        // One size alone stands in the middle.
        let (from, to) = if from < to { (from, to) } else { (from / 2.0, to * 2.0) };
        let powers = (29..50).map(|power| 2.0_f64.powi(power));
        let ticks: Vec<f64> = powers.filter(|size| (from..=to).contains(size)).collect();
        let every = ticks.len().div_ceil(9).max(1);
        let ticks = ticks.into_iter().step_by(every).collect();
        let chosen = self.choice.estimate.size as f64;
        let mut marks = vec![(chosen, format!("recommended: {}", gib(chosen)))];
        let limit = self.capacity.map(|limit| limit as f64).filter(|limit| *limit < to);
        if let Some(limit) = limit.filter(|limit| (limit / chosen).ln().abs() > 0.5) {
            marks.push((limit, format!("limit: {}", gib(limit))));
        }
        (Scale { from, to, is_log: true, ticks, label: gib }, marks)
    }

    /// Hit ratios of all policies by size.
    fn curve(&self) -> Exhibit {
        let mut lines: Vec<Line> = Vec::new();
        let mut csv = "policy,size_bytes,hits,hits_error,byte_hits,byte_hits_error\n".to_owned();
        let default = self.sizes.iter().map(|one| &one.estimate);
        for estimate in default.chain(&self.others) {
            let Estimate { policy, size, misses, misses_error, .. } = estimate;
            let _ = writeln!(
                csv,
                "{policy},{size},{:.6},{misses_error:.6},{:.6},{:.6}",
                1.0 - misses,
                1.0 - estimate.byte_misses,
                estimate.byte_misses_error
            );
            let is_main = lines.is_empty() || lines[0].name == *policy;
            let half = if is_main { *misses_error } else { 0.0 };
            let point = (*size as f64, 1.0 - misses, half);
            match lines.iter_mut().find(|line| line.name == *policy) {
                Some(line) => line.points.push(point),
                None => lines.push(Line {
                    name: policy.clone(),
                    points: vec![point],
                    style: if is_main { Style::Main } else { Style::Thin },
                }),
            }
        }
        lines.iter_mut().for_each(|line| line.name = escaped(&line.name));
        let (x, marks) = self.sizes_axis();
        let ticks = (0..=5).map(|fifth| f64::from(fifth) / 5.0).collect();
        let label = |share| percent(share, 0.0);
        let y = Scale { from: 0.0, to: 1.0, is_log: false, ticks, label };
        Exhibit {
            name: "curve",
            title: "Hits by size: reads that need no data from the origin".into(),
            figure: Figure { axes: ("size of the cache", "hits"), x, y, lines, marks },
            csv,
        }
    }

    /// Costs by size.
    fn costs(&self) -> Exhibit {
        let line = |name: &str, of: &dyn Fn(f64, f64) -> f64, style| Line {
            name: name.into(),
            points: self
                .sizes
                .iter()
                .map(|one| (one.estimate.size as f64, of(one.origin_cost, one.drive_cost), 0.0))
                .collect(),
            style,
        };
        let lines = vec![
            line("sum", &|origin, drive| origin + drive, Style::Main),
            line("origin", &|origin, _| origin, Style::Thin),
            line("drive", &|_, drive| drive, Style::Thin),
            line("without a cache", &|_, _| self.without, Style::Thin),
        ];
        let mut csv = "size_bytes,origin,drive,without\n".to_owned();
        for one in &self.sizes {
            let (origin, drive) = (one.origin_cost, one.drive_cost);
            let _ = writeln!(csv, "{},{origin},{drive},{}", one.estimate.size, self.without);
        }
        let (x, marks) = self.sizes_axis();
        let points = lines.iter().flat_map(|line| &line.points);
        let y = Scale::of_amounts(points.map(|(_, y, _)| *y).fold(0.0, f64::max), money);
        Exhibit {
            name: "costs",
            title: format!(
                "Cost by size, in {} ({}, {} in {})",
                self.price.currency, self.price.origin, self.price.egress, self.basis.name
            ),
            figure: Figure { axes: ("size of the cache", "cost"), x, y, lines, marks },
            csv,
        }
    }

    /// Quantiles of the latencies of hits and misses.
    fn latencies(&self) -> Exhibit {
        let quantiles = |run: &Run| {
            [("hits", run.hit), ("misses", run.miss)].map(|(kind, latency)| {
                let values = [latency.p50_ns, latency.p99_ns, latency.p999_ns];
                (kind, values.map(|nanos| (nanos as f64 / 1e6).max(0.001)))
            })
        };
        let mut csv = "model,kind,p50_ms,p99_ms,p999_ms\n".to_owned();
        let (mut lines, mut least, mut most) = (Vec::new(), f64::MAX, 0.0_f64);
        for (number, run) in self.runs.iter().enumerate() {
            for (kind, values) in quantiles(run) {
                let [p50, p99, p999] = values;
                let _ = writeln!(csv, "{},{kind},{p50},{p99},{p999}", run.drive);
                // Points of two drives stand side by side.
                let shift = 0.16 * number as f64 - 0.08;
                let points = (0..3).map(f64::from).zip(values);
                lines.push(Line {
                    name: format!("{} on {}", kind, escaped(&run.drive)),
                    points: points.map(|(place, ms)| (place + shift, ms, 0.0)).collect(),
                    style: Style::Points,
                });
                least = values.iter().copied().fold(least, f64::min);
                most = values.iter().copied().fold(most, f64::max);
            }
        }
        let label = |place: f64| match place {
            ..0.5 => "p50".into(),
            ..1.5 => "p99".into(),
            _ => "p99.9".into(),
        };
        let x = Scale { from: -0.5, to: 2.5, is_log: false, ticks: vec![0.0, 1.0, 2.0], label };
        let (from, to) =
            (least.log10().floor(), most.log10().ceil().max(least.log10().floor() + 1.0));
        let powers = (-3..9).map(f64::from).filter(|power| (from..=to).contains(power));
        let y = Scale {
            from: 10.0_f64.powf(from),
            to: 10.0_f64.powf(to),
            is_log: true,
            ticks: powers.map(|power| 10.0_f64.powf(power)).collect(),
            label: |ms| format!("{} ms", (ms * 1000.0).round() / 1000.0),
        };
        Exhibit {
            name: "latency",
            title: format!(
                "Latency of gets on drive models, {} in flight, from an empty cache on",
                self.tasks
            ),
            figure: Figure { axes: ("quantile", "milliseconds"), x, y, lines, marks: Vec::new() },
            csv,
        }
    }
}

impl Exhibit {
    fn html(&self) -> String {
        let Self { name, title, figure, csv } = self;
        format!(
            "<figure><figcaption>{}</figcaption>\n{}{}<p class=\"data\">Data: <a \
             download=\"{name}.csv\" href=\"data:text/csv;charset=utf-8,{}\">{name}.csv</a></p>\
             </figure>\n",
            escaped(title),
            figure.svg(),
            figure.legend(),
            in_url(csv),
        )
    }
}

/// Figures before the reasons.
const FIRST: usize = 2;

/// Text in a URL: everything but letters and digits is escaped.
fn in_url(text: &str) -> String {
    let mut url = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() {
            true => url.push(char::from(byte)),
            false => drop(write!(url, "%{byte:02X}")),
        }
    }
    url
}

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6470; --paper: #fff; --rule: #d8dee4; --box: #f3f6f9; \
--light: 40% }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #9aa4af; --paper: #14171b; --rule: #333a42; \
--box: #1d2227; --light: 66% } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: var(--ink); \
background: var(--paper) }
h1 { font-size: 1.4rem; overflow-wrap: anywhere } h2 { font-size: 1.05rem; margin-top: 2rem } a { color: inherit }
p { margin: .4rem 0 }
.card { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .8rem; background: var(--box); \
border-radius: .6rem; padding: 1rem; margin: 1.2rem 0 }
dt, .more, .data, figcaption + * text { color: var(--soft) } dt, .more, .data { font-size: .85rem }
dd { margin: 0; font-size: 1.15rem; font-weight: 600; overflow-wrap: anywhere } dd.more { font-weight: 400 }
figure { margin: 2rem 0 } figcaption { font-weight: 600; margin-bottom: .3rem }
svg { width: 100%; height: auto; display: block } svg text { font: 12px system-ui, sans-serif; fill: var(--soft) }
svg .grid { stroke: var(--rule) } svg line.mark { stroke: var(--ink); stroke-dasharray: 4 4 }
svg text.mark { fill: var(--ink); font-weight: 600 }
.line { stroke: hsl(var(--h) 70% var(--light)); stroke-dasharray: var(--d); stroke-width: 1.4; fill: none } \
.line.main { stroke-width: 2.6 }
.dot { fill: hsl(var(--h) 70% var(--light)) } .band { fill: hsl(var(--h) 70% var(--light)); opacity: .18 }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: .4rem 0; padding: 0; \
font-size: .85rem } .legend svg { width: 26px; display: inline-block; vertical-align: middle; margin-right: .4rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; \
width: 100% }
th, td { padding: .25rem .5rem; border-bottom: 1px solid var(--rule); text-align: right; vertical-align: top; white-space: nowrap } \
th { border-bottom: 2px solid var(--rule) } td:nth-child(2), th:nth-child(2) { text-align: left; \
white-space: normal; overflow-wrap: anywhere }";
