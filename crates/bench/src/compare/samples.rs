//! Samples with median and spread, and the rows of the table.

/// Repeated measurements of one value, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    pub(crate) values: Vec<f64>,
}

impl Samples {
    pub(crate) fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// Median; of an even number, the mean of the middle two. NaN without samples.
    pub(crate) fn median(&self) -> f64 {
        let sorted = self.sorted();
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => f64::NAN,
            n if n % 2 == 0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        }
    }

    /// Ratio of each sample to its neighbour in `other`.
    pub(crate) fn over(&self, other: &Self) -> Self {
        let pairs = self.values.iter().zip(&other.values);
        Self { values: pairs.map(|(ours, theirs)| ours / theirs).collect() }
    }

    /// `12.3 (11.9 to 14.0)`: median and range.
    pub(crate) fn text(&self) -> String {
        let sorted = self.sorted();
        match (sorted.first(), sorted.last()) {
            (Some(first), Some(last)) if first != last => {
                format!("{} ({} to {})", short(self.median()), short(*first), short(*last))
            }
            (Some(first), _) => short(*first),
            _ => "none".into(),
        }
    }
}

/// Formats three or four significant digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        n if 1000.0 <= n || n == 0.0 => format!("{value:.0}"),
        n if 100.0 <= n => format!("{value:.1}"),
        n if 10.0 <= n => format!("{value:.2}"),
        n if 0.1 <= n => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

/// Goal of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// At least this value.
    AtLeast(f64),
    /// At most this value.
    AtMost(f64),
    /// Median of the pairwise ratios to the reference: at least this value.
    RatioAtLeast(f64),
    /// Median of the pairwise ratios to the reference: at most this value.
    RatioAtMost(f64),
    /// No goal, for information.
    None,
}

/// Reference value of a row.
#[derive(Clone, Debug)]
pub(crate) enum Reference {
    /// Measured in turns with Zonal.
    Measured(&'static str, Samples),
    /// A published value.
    Said(&'static str),
}

/// Row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) measure: String,
    pub(crate) unit: &'static str,
    pub(crate) reference: Reference,
    pub(crate) ours: Samples,
    pub(crate) goal: Goal,
    /// Reason why the row was not measured.
    pub(crate) failure: Option<String>,
}

impl Row {
    pub(crate) fn new(measure: &str, unit: &'static str, ours: Samples, goal: Goal) -> Self {
        let (measure, reference) = (measure.to_owned(), Reference::Said(""));
        Self { measure, unit, reference, ours, goal, failure: None }
    }

    pub(crate) fn beside(mut self, name: &'static str, samples: Samples) -> Self {
        self.reference = Reference::Measured(name, samples);
        self
    }

    pub(crate) fn said(mut self, what: &'static str) -> Self {
        self.reference = Reference::Said(what);
        self
    }

    pub(crate) fn failed(measure: &str, why: String) -> Self {
        let row = Self::new(measure, "", Samples::default(), Goal::None);
        Self { failure: Some(why), ..row }
    }

    pub(crate) fn ratio(&self) -> Option<Samples> {
        match &self.reference {
            Reference::Measured(_, samples) => Some(self.ours.over(samples)),
            Reference::Said(_) => None,
        }
    }

    /// True if the goal is reached; `None` without a goal.
    pub(crate) fn is_reached(&self) -> Option<bool> {
        let ratio = self.ratio().map_or(f64::NAN, |ratio| ratio.median());
        let ours = self.ours.median();
        match self.goal {
            Goal::AtLeast(least) => Some(least <= ours),
            Goal::AtMost(most) => Some(ours <= most),
            Goal::RatioAtLeast(least) => Some(least <= ratio),
            Goal::RatioAtMost(most) => Some(ratio <= most),
            Goal::None => None,
        }
    }

    /// Text for a terminal.
    pub(crate) fn line(&self) -> String {
        let verdict = match self.is_reached() {
            Some(true) => "reached",
            Some(false) => "NOT REACHED",
            None => "",
        };
        let ours = self.ours.text();
        let ratio =
            self.ratio().map_or_else(String::new, |ratio| format!("ratio {}", ratio.text()));
        format!("  {:<55} {ours} {} {ratio} {verdict}", self.measure, self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        Samples { values: values.to_vec() }
    }

    #[test]
    fn the_median_stands_between_the_extremes() {
        assert!(samples(&[]).median().is_nan());
        assert_eq!(samples(&[3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(samples(&[4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert_eq!(samples(&[300.0, 100.0, 200.0]).text(), "200.0 (100.0 to 300.0)");
        assert_eq!(samples(&[0.0]).text(), "0");
    }

    #[test]
    fn a_goal_is_judged_by_the_median_of_pairwise_ratios() {
        let ours = samples(&[9.0, 18.0, 27.0]);
        let row = Row::new("m", "s", ours, Goal::RatioAtLeast(0.9));
        let row = row.beside("fio", samples(&[10.0, 20.0, 100.0]));
        assert_eq!(row.is_reached(), Some(true));
        assert_eq!(Row { goal: Goal::RatioAtMost(0.5), ..row.clone() }.is_reached(), Some(false));
        assert_eq!(Row { goal: Goal::AtLeast(19.0), ..row.clone() }.is_reached(), Some(false));
        assert_eq!(Row { goal: Goal::AtMost(18.0), ..row.clone() }.is_reached(), Some(true));
        let without = row.said("a number from a paper");
        assert_eq!(without.is_reached(), Some(false), "no ratio, no goal");
    }
}
