//! Drawing of `zonal cache stats --watch`.
//!
//! From top to bottom: reads with their sparklines, latencies of the last interval, zones by use,
//! and what is wrong.

use std::collections::VecDeque;
use std::io;

use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table, Widget};
use zonal_api::stats::{Flash, Stats, Zones};
use zonal_base::{Bytes, Nanos};
use zonal_cli::print::human;

use super::money;
use super::rates::{LatencyRow, Rates};
use super::watch::Watched;

/// Columns of a label and of its value, in front of the sparkline.
const LABEL_COLUMNS: u16 = 11;
const VALUE_COLUMNS: u16 = 34;

/// Percentiles in the table: name, and share of a thousand.
const PERCENTILES: [(&str, u64); 4] = [("p50", 500), ("p90", 900), ("p99", 990), ("p99.9", 999)];

/// The terminal. Dropping it restores what was there before.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        ratatui::try_init().map(Self)
    }

    pub(super) fn draw(&mut self, watched: &Watched) -> io::Result<()> {
        self.0.draw(|frame| frame.render_widget(watched, frame.area())).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// One interval as a line, for an output that is no terminal.
pub(super) fn line(watched: &Watched) -> String {
    if let Some(trouble) = &watched.trouble {
        return format!("no answer: {trouble}");
    }
    let Some(rates) = watched.history.back() else { return String::new() };
    let mut line = format!(
        "{:.0} reads/s, {} hits, {}/s served, {:.0} origin requests/s, {}/s written",
        rates.reads,
        percent(rates.hit_ratio),
        bytes(rates.served_bytes),
        rates.origin_requests,
        bytes(rates.written_bytes),
    );
    for LatencyRow { name, latencies, .. } in &rates.latencies {
        if let Some(p99) = latencies.quantile(990, 1000)
            && name.starts_with("GetObject")
        {
            line += &format!(", {name} p99 {}", time(p99));
        }
    }
    line
}

impl Widget for &Watched {
    fn render(self, area: Rect, to: &mut Buffer) {
        let troubles = troubles(self);
        let rows = self.history.back().map_or(&[][..], |rates| &rates.latencies);
        let height = |lines: usize| Constraint::Length(u16::try_from(lines).unwrap_or(u16::MAX));
        let [title, reads, latencies, zones, trouble] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(6),
            Constraint::Max(u16::try_from(rows.len()).unwrap_or(u16::MAX).saturating_add(2)),
            Constraint::Length(4),
            height(troubles.len()),
        ])
        .areas(area);
        title_line(self).render(title, to);
        render_rates(self, reads, to);
        render_latencies(rows, latencies, to);
        render_zones(&self.last.stats, zones, to);
        Paragraph::new(troubles).render(trouble, to);
    }
}

fn title_line(watched: &Watched) -> Line<'_> {
    Line::from(vec![
        Span::from("zonal ").bold(),
        Span::from(watched.server.as_str()).bold(),
        Span::from(format!("   cache {}", watched.last.stats.cache)),
        Span::from("   q quits").dim(),
    ])
}

/// Label, current value, and what the sparkline shows, if there is one.
type RateLine = (&'static str, String, Option<fn(&Rates) -> f64>);

fn render_rates(watched: &Watched, area: Rect, to: &mut Buffer) {
    let (history, savings) = (&watched.history, &watched.last.stats.savings);
    // Nothing is known before the end of the first interval.
    let Some(now) = history.back() else { return };
    let served = format!("{}/s, {} cached", bytes(now.served_bytes), percent(now.byte_hit_ratio));
    let origin = format!("{:.0}/s, {}/s", now.origin_requests, bytes(now.fetched_bytes));
    let written = match now.write_amplification {
        Some(amplification) => {
            format!("{}/s, {amplification:.2} per byte", bytes(now.written_bytes))
        }
        None => format!("{}/s", bytes(now.written_bytes)),
    };
    let saved = format!("{} origin requests, {}", savings.requests, money(savings));
    let lines: [RateLine; 6] = [
        ("reads", format!("{:.0}/s", now.reads), Some(|of| of.reads)),
        ("hits", percent(now.hit_ratio), Some(|of| of.hit_ratio.unwrap_or(0.0) * 1000.0)),
        ("served", served, Some(|of| of.served_bytes)),
        ("origin", origin, Some(|of| of.origin_requests * 1000.0)),
        ("written", written, Some(|of| of.written_bytes)),
        ("saved", saved, None),
    ];
    let rows = Layout::vertical([Constraint::Length(1); 6]).areas::<6>(area);
    for ((label, value, of), row) in lines.into_iter().zip(rows) {
        let columns = [
            Constraint::Length(LABEL_COLUMNS),
            Constraint::Length(VALUE_COLUMNS),
            Constraint::Min(0),
        ];
        let [name, number, line] = Layout::horizontal(columns).areas(row);
        Span::from(label).dim().render(name, to);
        match of {
            Some(of) => {
                Span::from(value).render(number, to);
                Sparkline::default()
                    .data(newest(history, line.width, of))
                    .style(Style::new().fg(Color::Cyan))
                    .render(line, to);
            }
            None => Span::from(value).render(number.union(line), to),
        }
    }
}

/// The newest values that fit, padded on the left so that the newest is on the right edge.
fn newest(history: &VecDeque<Rates>, columns: u16, of: fn(&Rates) -> f64) -> Vec<u64> {
    let columns = usize::from(columns);
    let skipped = history.len().saturating_sub(columns);
    let padding = columns.saturating_sub(history.len());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are small")]
    let values = history.iter().skip(skipped).map(|rates| of(rates) as u64);
    std::iter::repeat_n(0, padding).chain(values).collect()
}

fn render_latencies(rows: &[LatencyRow], area: Rect, to: &mut Buffer) {
    let right = |text: String| Cell::from(Line::from(text).right_aligned());
    let names = ["per second".to_owned()].into_iter();
    let names = names.chain(PERCENTILES.map(|(name, _)| name.to_owned())).map(right);
    let header = Row::new([Cell::from("first byte, command or wait")].into_iter().chain(names));
    let room = usize::from(area.height.saturating_sub(2));
    // What happens now comes first, and what finds no room is counted.
    let (busy, idle): (Vec<_>, Vec<_>) = rows.iter().partition(|row| 0.0 < row.per_second);
    let shown = if room < rows.len() { room.saturating_sub(1) } else { room };
    let hidden = rows.len().saturating_sub(shown);
    let more = (0 < hidden).then(|| Row::new([format!("... {hidden} more")]));
    let rows = busy.into_iter().chain(idle).take(shown);
    let rows = rows.map(|LatencyRow { name, per_second, latencies }| {
        let times = PERCENTILES.map(|(_, part)| latencies.quantile(part, 1000));
        let times = times.map(|found| right(found.map_or("-".to_owned(), time)));
        let start = [Cell::from(name.as_str()), right(format!("{per_second:.0}"))];
        Row::new(start.into_iter().chain(times))
    });
    let widths = [34, 10, 8, 8, 8, 8].map(Constraint::Length);
    Table::new(rows.chain(more), widths).header(header.dim().top_margin(1)).render(area, to);
}

fn render_zones(stats: &Stats, area: Rect, to: &mut Buffer) {
    let mut flash = Flash::default();
    stats.devices.iter().for_each(|device| flash.add(&device.flash));
    let Zones { empty, open, sealed, reclaiming, retired } = flash.zones;
    let uses = [
        ("full", sealed, Color::Blue),
        ("open", open, Color::Green),
        ("being reclaimed", reclaiming, Color::Yellow),
        ("retired", retired, Color::Red),
        ("empty", empty, Color::DarkGray),
    ];
    let legend = uses.iter().flat_map(|(name, count, color)| {
        [Span::from("█ ").fg(*color), Span::from(format!("{count} {name}   "))]
    });
    let used = format!(
        "{} of {} in use",
        bytes(flash.used_bytes as f64),
        bytes(flash.capacity_bytes as f64)
    );
    let lines = vec![
        Line::default(),
        bar(&uses, area.width),
        legend.collect(),
        Line::from(format!("{used}, {} records", flash.records)),
    ];
    Paragraph::new(lines).render(area, to);
}

/// Bar of the zones by use. A use with any zone has a column at least.
fn bar(uses: &[(&str, u64, Color)], columns: u16) -> Line<'static> {
    let total: u64 = uses.iter().map(|(_, count, _)| count).sum();
    let columns = u64::from(columns);
    let mut left = columns;
    let mut spans = Vec::new();
    for (n, (_, count, color)) in uses.iter().enumerate() {
        let share = (count * columns).checked_div(total).unwrap_or(0).max(u64::from(*count != 0));
        // The last use, empty zones, takes what the others have left.
        let width = if n + 1 == uses.len() && *count != 0 { left } else { share.min(left) };
        left -= width;
        let glyph = if *color == Color::DarkGray { "░" } else { "█" };
        spans.push(Span::from(glyph.repeat(usize::try_from(width).unwrap_or(0))).fg(*color));
    }
    Line::from(spans)
}

/// What is wrong, one line each.
fn troubles(watched: &Watched) -> Vec<Line<'static>> {
    let stats = &watched.last.stats;
    let mut lines = Vec::new();
    if let Some(trouble) = &watched.trouble {
        lines.push(format!("no answer, trying again: {trouble}"));
    }
    for device in &stats.devices {
        for (count, how) in [(device.shards_lost, "lost"), (device.shards_isolated, "isolated")] {
            if count != 0 {
                lines.push(format!(
                    "device {}: {count} of {} shards {how}",
                    device.name, device.shards
                ));
            }
        }
    }
    for origin in &stats.origins {
        lines.extend(origin.trouble.iter().map(|why| format!("origin {}: {why}", origin.name)));
    }
    lines.into_iter().map(|line| Line::from(line).red()).collect()
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn bytes(count: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts of bytes")]
    let whole = count.max(0.0) as u64;
    human(Bytes(whole))
}

/// A time with two significant digits and the unit that fits.
fn time(time: Nanos) -> String {
    let (value, unit) = match time.0 {
        0..1_000 => (time.0 as f64, "ns"),
        1_000..1_000_000 => (time.0 as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (time.0 as f64 / 1e6, "ms"),
        _ => (time.0 as f64 / 1e9, "s"),
    };
    let digits = usize::from(value < 10.0);
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::commands::cache::stats::rates::tests::sample;

    fn watched() -> Watched {
        let start = Instant::now();
        let mut watched = Watched {
            server: "127.0.0.1:9090".into(),
            last: sample(start, 0, (0, Nanos::micros(150))),
            history: VecDeque::new(),
            trouble: None,
        };
        for second in 1..=4 {
            watched.note(sample(start, second, (1000 * second, Nanos::micros(150))));
        }
        watched
    }

    fn drawn(watched: &Watched, columns: u16, lines: u16) -> Vec<String> {
        let mut buffer = Buffer::empty(Rect::new(0, 0, columns, lines));
        watched.render(buffer.area, &mut buffer);
        let line = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..lines).map(|y| line(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn the_screen_shows_rates_percentiles_and_zones() {
        let lines = drawn(&watched(), 80, 16);
        assert_eq!(lines[0], "zonal 127.0.0.1:9090   cache on   q quits");
        assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["reads", "1000/s", "████"]);
        assert!(lines[2].starts_with("hits       100.0 %"), "{lines:#?}");
        assert!(lines[3].starts_with("served     1000.0 MiB/s, 100.0 % cached"), "{lines:#?}");
        assert_eq!(
            lines[9].split_whitespace().collect::<Vec<_>>().join(" "),
            "GetObject flash 1000 160 us 160 us 160 us 160 us"
        );
        assert_eq!(lines[11], "█".repeat(60) + &"░".repeat(20), "{lines:#?}");
        assert!(lines[12].starts_with("█ 9 full   █ 0 open"), "{lines:#?}");
    }

    #[test]
    fn trouble_is_at_the_end_and_a_small_terminal_is_no_fault() {
        let mut watched = watched();
        watched.trouble = Some("connection refused".into());
        let lines = drawn(&watched, 100, 20);
        let trouble = "no answer, trying again: connection refused";
        assert!(lines.iter().any(|line| line == trouble), "{lines:#?}");
        assert_eq!(line(&watched), "no answer: connection refused");
        for (columns, lines) in [(0, 0), (1, 1), (20, 5), (300, 3)] {
            let _ = drawn(&watched, columns, lines);
        }
    }

    #[test]
    fn an_interval_is_one_line_elsewhere() {
        assert_eq!(
            line(&watched()),
            "1000 reads/s, 100.0 % hits, 1000.0 MiB/s served, 1 origin requests/s, 0 B/s written, \
             GetObject flash p99 160 us"
        );
    }

    #[test]
    fn times_have_two_digits() {
        for (nanos, text) in [
            (950, "950 ns"),
            (1_500, "1.5 us"),
            (160_000, "160 us"),
            (9_900_000, "9.9 ms"),
            (31_000_000_000, "31 s"),
        ] {
            assert_eq!(time(Nanos(nanos)), text);
        }
    }
}
