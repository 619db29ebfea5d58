//! Line charts, over categories or over time.

use std::path::Path;

use plotters::prelude::{
    BLACK, ChartBuilder, Circle, Color, DrawingAreaErrorKind, IntoDrawingArea, LineSeries,
    PathElement, RGBColor, SVGBackend, SeriesLabelPosition, ShapeStyle, WHITE,
};
use plotters::series::DashedLineSeries;

/// A line of a chart.
#[derive(Clone, Debug, Default)]
pub struct ChartLine {
    /// Name in the legend.
    pub name: String,
    /// Points measured on the drive.
    pub drive: Vec<(f64, f64)>,
    /// Points measured here.
    pub here: Vec<(f64, f64)>,
}

/// Labels of the x axis.
#[derive(Clone, Debug)]
pub enum Along {
    /// Categories, at 0, 1, 2, ...
    Places(Vec<String>),
    /// Numbers.
    Numbers,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// File name, without its extension.
    pub file: &'static str,
    /// Title.
    pub title: &'static str,
    /// Label of the x axis.
    pub x: &'static str,
    /// Label of the y axis.
    pub y: &'static str,
    /// Ticks of the x axis.
    pub along: Along,
    /// The lines.
    pub lines: Vec<ChartLine>,
}

const SIZE: (u32, u32) = (720, 440);
const FONT: &str = "sans-serif";
/// Palette for colour-blind readers (Okabe and Ito; their yellow is brown here, for a white
/// background).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(150, 75, 0),
];
/// Factor of the y axis above the highest point.
const HEADROOM: f64 = 1.08;
/// Largest number of points that are drawn with marks; more would hide the curve.
const MARKS_MAX: usize = 40;

/// Draws four charts as one file, two by two. The legends fit lines that fall from left to right.
pub(crate) fn write_panels(charts: &[Chart; 4], path: &Path) -> Result<(), String> {
    let root = SVGBackend::new(path, (SIZE.0 * 2, SIZE.1 * 2)).into_drawing_area();
    let panels = root.split_evenly((2, 2));
    let mut drawn = charts.iter().zip(&panels);
    let drawn = drawn
        .try_for_each(|(chart, panel)| chart.draw(panel, SeriesLabelPosition::LowerLeft))
        .and_then(|()| root.present());
    drawn.map_err(|why| why.to_string())
}

impl Chart {
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.here.is_empty())
    }

    /// Draws the chart with the legend above the lines, for lines that begin low.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        self.write_with_names(SeriesLabelPosition::UpperLeft, path)
    }

    /// Draws the chart with the legend below the lines, for lines that end high.
    pub(crate) fn write_with_names_below(&self, path: &Path) -> Result<(), String> {
        let position = match self.along {
            Along::Places(_) => SeriesLabelPosition::LowerLeft,
            Along::Numbers => SeriesLabelPosition::LowerRight,
        };
        self.write_with_names(position, path)
    }

    fn write_with_names(&self, at: SeriesLabelPosition, path: &Path) -> Result<(), String> {
        let root = SVGBackend::new(path, SIZE).into_drawing_area();
        self.draw(&root, at).and_then(|()| root.present()).map_err(|why| why.to_string())
    }

    fn draw(
        &self,
        root: &plotters::drawing::DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
        names: SeriesLabelPosition,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        root.fill(&WHITE)?;
        let (x_end, y_end) = self.ends();
        let mut builder = ChartBuilder::on(root);
        builder.caption(self.title, (FONT, 18)).margin(12);
        builder.x_label_area_size(44).y_label_area_size(72);
        let x_start = if matches!(self.along, Along::Places(_)) { -0.3 } else { 0.0 };
        let mut chart = builder.build_cartesian_2d(x_start..x_end, 0.0..y_end)?;
        let label = |x: &f64| self.label(*x);
        // Steps of 0.1 add up to 0.30000000000000004.
        let number = |y: &f64| ((y * 1e9).round() / 1e9).to_string();
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(self.x).y_desc(self.y).light_line_style(WHITE);
        mesh.x_label_formatter(&label).y_label_formatter(&number);
        if let Along::Places(places) = &self.along {
            mesh.x_labels(places.len() + 1);
        }
        mesh.draw()?;
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let thin = ShapeStyle { color: (*colour).into(), filled: false, stroke_width: 1 };
            let drive = DashedLineSeries::new(line.drive.iter().copied(), 5, 4, thin);
            chart.draw_series(drive)?;
            let marks = if line.here.len() <= MARKS_MAX { line.here.as_slice() } else { &[] };
            let thick = ShapeStyle { color: (*colour).into(), filled: true, stroke_width: 2 };
            chart.draw_series(marks.iter().map(|at| Circle::new(*at, 3, thick)))?;
            let drawn = chart.draw_series(LineSeries::new(line.here.iter().copied(), thick))?;
            drawn
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], thick));
        }
        let mut labels = chart.configure_series_labels();
        labels.position(names);
        labels.border_style(BLACK).background_style(WHITE.mix(0.8)).draw()
    }

    /// Right and upper end of the axes.
    fn ends(&self) -> (f64, f64) {
        let points = || self.lines.iter().flat_map(|line| line.here.iter().chain(&line.drive));
        let greatest =
            |at: fn(&(f64, f64)) -> f64| points().map(at).fold(f64::MIN_POSITIVE, f64::max);
        let (x, y) = (greatest(|point| point.0), greatest(|point| point.1));
        let x = if matches!(self.along, Along::Places(_)) { x + 0.3 } else { x * HEADROOM };
        (x, y * HEADROOM)
    }

    fn label(&self, x: f64) -> String {
        match &self.along {
            Along::Numbers => format!("{x:.0}"),
            Along::Places(places) => {
                let is_there = |place: usize| (place as f64 - x).abs() < 1e-6;
                let at = (0..places.len()).find(|place| is_there(*place));
                at.map_or_else(String::new, |at| places[at].clone())
            }
        }
    }
}
