//! Figures of the report: SVG that takes its colours from the page, so that it is light or dark.
//!
//! Names of lines stand beside the figure, never in it. Colours are as far apart as their number
//! allows, and every seventh line has another pattern.

use std::fmt::Write as _;

/// A figure.
pub(super) struct Figure {
    /// Name of the x axis, and of the y axis.
    pub(super) axes: (&'static str, &'static str),
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) lines: Vec<Line>,
    /// Places of the x axis with a line from top to bottom.
    pub(super) marks: Vec<(f64, String)>,
}

/// A line of a figure.
pub(super) struct Line {
    pub(super) name: String,
    /// Points, each with the half height of its band.
    pub(super) points: Vec<(f64, f64, f64)>,
    pub(super) style: Style,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// A thick line with points.
    Main,
    Thin,
    /// Points alone, for values that are no function of the axis.
    Points,
}

/// An axis.
pub(super) struct Scale {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) is_log: bool,
    pub(super) ticks: Vec<f64>,
    /// Writes a value.
    pub(super) label: fn(f64) -> String,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 48.0;

/// Angle between the hues of two lines: the golden angle leaves the largest gaps.
const HUE_STEP: f64 = 137.508;
/// Hue of the first line.
const HUE: f64 = 215.0;
/// Lines with the same pattern.
const PATTERN: usize = 7;
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];

impl Scale {
    /// Place of a value between 0 and 1.
    fn place(&self, value: f64) -> f64 {
        let of = |value: f64| if self.is_log { value.max(self.from).ln() } else { value };
        ((of(value) - of(self.from)) / (of(self.to) - of(self.from)).max(f64::MIN_POSITIVE))
            .clamp(0.0, 1.0)
    }

    /// An axis from 0 with round numbers.
    pub(super) fn of_amounts(most: f64, label: fn(f64) -> String) -> Self {
        let rough = (most / 5.0).max(1e-9);
        let power = 10.0_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
        let step = step.into_iter().find(|step| rough <= *step).unwrap_or(10.0 * power);
        let count = (most / step).ceil().max(1.0);
        let ticks = (0..20).map(f64::from).take_while(|number| *number <= count);
        let ticks = ticks.map(|number| number * step).collect();
        Self { from: 0.0, to: count * step, is_log: false, ticks, label }
    }
}

impl Line {
    /// Colour and pattern of the line with this number.
    pub(super) fn look(number: usize) -> String {
        let hue = (HUE + HUE_STEP * number as f64) % 360.0;
        let dash = DASHES[number / PATTERN % DASHES.len()];
        format!("--h:{hue:.0};--d:{dash}")
    }
}

impl Figure {
    pub(super) fn svg(&self) -> String {
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} by {}\">\n",
            self.axes.1, self.axes.0
        );
        self.draw_axes(&mut svg);
        for (number, line) in self.lines.iter().enumerate().rev() {
            self.draw_line(&mut svg, number, line);
        }
        for (x, name) in &self.marks {
            let at = self.at_x(*x);
            // A name beside its line stays within the figure.
            let (anchor, shift) = if at < WIDTH / 2.0 { ("start", 5.0) } else { ("end", -5.0) };
            let _ = writeln!(
                svg,
                "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
                 <text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{name}</text>",
                HEIGHT - BOTTOM,
                at + shift,
                TOP - 10.0,
            );
        }
        svg + "</svg>\n"
    }

    fn at_x(&self, x: f64) -> f64 {
        LEFT + self.x.place(x) * (WIDTH - LEFT - RIGHT)
    }

    fn at_y(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.place(y) * (HEIGHT - TOP - BOTTOM)
    }

    fn draw_axes(&self, svg: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for y in &self.y.ticks {
            let (at, label) = (self.at_y(*y), (self.y.label)(*y));
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8.0,
                at + 4.0
            );
        }
        for x in &self.x.ticks {
            let (at, label) = (self.at_x(*x), (self.x.label)(*x));
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{:.1}\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                bottom + 5.0,
                bottom + 19.0
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"rotate(-90)\" x=\"{:.1}\" y=\"14\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 8.0,
            self.axes.0,
            -f64::midpoint(TOP, bottom),
            self.axes.1,
        );
    }

    fn draw_line(&self, svg: &mut String, number: usize, line: &Line) {
        let look = Line::look(number);
        let at = |(x, y, _): &(f64, f64, f64)| (self.at_x(*x), self.at_y(*y));
        if line.points.iter().any(|(.., half)| 0.0 < *half) {
            let edge = |sign: f64| {
                let of = move |(x, y, half): &(f64, f64, f64)| {
                    format!("{:.1},{:.1}", self.at_x(*x), self.at_y(y + sign * half))
                };
                line.points.iter().map(of).collect::<Vec<_>>()
            };
            let lower: Vec<String> = edge(-1.0).into_iter().rev().collect();
            let _ = writeln!(
                svg,
                "<polygon class=\"band\" style=\"{look}\" points=\"{} {}\"/>",
                edge(1.0).join(" "),
                lower.join(" ")
            );
        }
        if line.style != Style::Points {
            let points = line.points.iter().map(at).map(|(x, y)| format!("{x:.1},{y:.1}"));
            let class = if line.style == Style::Main { "line main" } else { "line" };
            let points = points.collect::<Vec<_>>().join(" ");
            let _ =
                writeln!(svg, "<polyline class=\"{class}\" style=\"{look}\" points=\"{points}\"/>");
        }
        let radius = if line.style == Style::Thin { 2.0 } else { 4.0 };
        for point in &line.points {
            let (x, y) = at(point);
            let _ = writeln!(
                svg,
                "<circle class=\"dot\" style=\"{look}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\">\
                 <title>{}: {}, {}</title></circle>",
                line.name,
                (self.x.label)(point.0),
                (self.y.label)(point.1),
            );
        }
    }

    /// Names of the lines, with their colours.
    pub(super) fn legend(&self) -> String {
        let names = self.lines.iter().enumerate().map(|(number, line)| {
            format!(
                "<li style=\"{}\"><svg viewBox=\"0 0 26 8\"><line x1=\"1\" x2=\"25\" y1=\"4\" y2=\"4\" \
                 class=\"line main\"/></svg>{}</li>",
                Line::look(number),
                line.name
            )
        });
        format!("<ul class=\"legend\">{}</ul>\n", names.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn any_number_of_lines_look_different() {
        let looks: HashSet<String> = (0..40).map(Line::look).collect();
        assert_eq!(looks.len(), 40);
    }

    #[test]
    fn axes_end_at_round_numbers_above_all_values() {
        let scale = Scale::of_amounts(0.37, |amount| format!("{amount:.1}"));
        assert!((scale.to - 0.4).abs() < 1e-9, "{}", scale.to);
        assert_eq!(scale.ticks.len(), 5);
        assert!(0.0 < Scale::of_amounts(0.0, |amount| format!("{amount}")).to);
        assert!((scale.place(0.1) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn values_outside_an_axis_stay_at_its_ends() {
        let scale = Scale {
            from: 1.0,
            to: 100.0,
            is_log: true,
            ticks: Vec::new(),
            label: |_| String::new(),
        };
        assert_eq!((scale.place(0.0), scale.place(1e9)), (0.0, 1.0));
        assert!((scale.place(10.0) - 0.5).abs() < 1e-9);
    }
}
