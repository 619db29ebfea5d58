//! Market: what sizes, policies, freshness rules and kinds of drives cost, and which costs least.
//!
//! Every choice is the first row of a table. Rows within 2 % of the least cost are as cheap, and the
//! one with the fewest misses comes first. If the sample cannot tell the default of `zonal serve`
//! from the best row, the default comes first.

use zonal_base::Bytes;

use super::choice::{Basis, DriveCost, PolicyCost, RuleCost, SizeCost};
use super::curve::LARGE_ZONE;
use super::freshness::{self, Rule};
use super::prices::{DriveKind, MONTH_S, ReadPrice};
use super::{Estimate, Question, Sample, Survey};

/// Share of what a cache saves that confirmations may cost.
const CONFIRMING: [f64; 2] = [0.1, 0.5];

/// Loosest rule that may be recommended. A cached object that is overwritten past Zonal is stale for
/// the time of the rule, and nobody knows which writes go past it.
const fn loosest_rule(survey: &Survey) -> Rule {
    match survey.removals {
        0 => Rule::Ttl(3_600),
        _ if 0.0 < survey.overwritten => Rule::Ttl(60),
        _ => Rule::Immutable,
    }
}

/// Costs up to this many times the least are as cheap.
const ALIKE: f64 = 1.02;

/// Difference of shares that a table shows.
const SEEN: f64 = 0.001;

/// Misses that a smaller cache may have more where nothing has a price.
const POINT: f64 = 0.01;

/// Size below which a zoned drive gives a policy no choice.
pub(super) const ZONED_MIN: Bytes = Bytes(16 * LARGE_ZONE.0);

/// What all choices are made with.
pub(super) struct Market<'a> {
    question: &'a Question,
    pub(super) price: ReadPrice,
    pub(super) basis: Basis,
    reads_per_day: Option<f64>,
    /// Mean bytes of a read.
    mean: f64,
    /// Freshness rule, and the confirmations that it costs per hit.
    pub(super) rule: Rule,
    confirmed: f64,
}

impl Basis {
    pub(super) fn per_month(question: &Question, sample: &Sample) -> Self {
        match question.reads_per_s.or(sample.survey.reads_per_s()) {
            Some(rate) => Self { name: "a month".into(), reads: rate * MONTH_S, months: 1.0 },
            None => Self { name: "a million reads".into(), reads: 1e6, months: 0.0 },
        }
    }

    /// The same for the time of the trace.
    pub(super) fn of_trace(&self, sample: &Sample) -> Self {
        let reads = sample.survey.reads as f64;
        let months = self.months * reads / self.reads;
        let hours = months * MONTH_S / 3600.0;
        Self { name: format!("{hours:.1} h, the time of the trace"), reads, months }
    }
}

impl<'a> Market<'a> {
    pub(super) fn new(
        question: &'a Question,
        sample: &Sample,
        basis: Basis,
    ) -> Result<Self, String> {
        let rate = question.reads_per_s.or(sample.survey.reads_per_s());
        Ok(Self {
            question,
            price: question.prices.of(&question.origin, question.egress)?,
            basis,
            reads_per_day: rate.map(|rate| rate * 86_400.0),
            mean: sample.survey.read_bytes as f64 / sample.survey.reads as f64,
            rule: Rule::Revalidate,
            confirmed: 1.0,
        })
    }

    pub(super) fn without(&self) -> f64 {
        self.price.cost(self.basis.reads, self.basis.reads * self.mean)
    }

    /// All requests to the origin. A hit is confirmed as often as in a cache that holds everything.
    pub(super) fn requests(&self, estimate: &Estimate) -> f64 {
        let confirmations = (1.0 - estimate.misses) * self.confirmed;
        self.basis.reads * (estimate.fetches + confirmations)
    }

    fn origin_cost(&self, estimate: &Estimate) -> f64 {
        self.price.cost(self.requests(estimate), self.basis.reads * estimate.fetched_bytes)
    }

    /// Bytes that the cache writes in a day; unknown where the trace does not fill it.
    pub(super) fn written_a_day(&self, estimate: &Estimate) -> Option<f64> {
        let reads = self.reads_per_day.filter(|_| estimate.is_filled)?;
        Some(reads * estimate.flash_bytes)
    }

    fn drive_cost(&self, kind: &DriveKind, estimate: &Estimate) -> f64 {
        let written = self.written_a_day(estimate).unwrap_or(0.0);
        kind.per_month(Bytes(estimate.size), written) * self.basis.months
    }

    fn kinds(&self, size: Bytes) -> impl Iterator<Item = &DriveKind> {
        self.question.prices.drives().iter().filter(move |kind| !kind.zoned || ZONED_MIN <= size)
    }

    fn cheapest_drive(&self, estimate: &Estimate) -> f64 {
        let costs = self.kinds(Bytes(estimate.size)).map(|kind| self.drive_cost(kind, estimate));
        costs.min_by(f64::total_cmp).unwrap_or(0.0)
    }

    /// Chooses the strictest rule that leaves most of the savings, and returns the costs of all.
    pub(super) fn choose_rule(&mut self, curve: &[Estimate], survey: &Survey) -> Vec<RuleCost> {
        let Some(whole) = curve.last().filter(|whole| !whole.confirmations.is_empty()) else {
            return Vec::new();
        };
        let has_times = survey.seconds != 0;
        let hits = (1.0 - whole.misses).max(f64::MIN_POSITIVE);
        let known = freshness::ALL.into_iter().zip(&whole.confirmations);
        let known = known.filter(|(rule, _)| has_times || !matches!(rule, Rule::Ttl(_)));
        let mut costs = Vec::new();
        for (rule, confirmations) in known {
            (self.rule, self.confirmed) = (rule, confirmations / hits);
            let cost = RuleCost {
                rule: rule.to_string(),
                confirmations: *confirmations,
                origin_cost: self.origin_cost(whole),
            };
            costs.push((rule, self.confirmed, cost));
        }
        let loosest = loosest_rule(survey);
        let least = costs.last().map_or(0.0, |(.., cost)| cost.origin_cost);
        let saved = self.without() - least;
        let position = |rule| freshness::ALL.iter().position(|other| *other == rule);
        let allowed = costs.iter().take_while(|(rule, ..)| position(*rule) <= position(loosest));
        let chosen = CONFIRMING.iter().find_map(|share| {
            allowed.clone().find(|(.., cost)| cost.origin_cost - least <= share * saved)
        });
        // Where none leaves half of the savings, the loosest may leave some.
        let saves = |(.., cost): &&(Rule, f64, RuleCost)| cost.origin_cost < self.without();
        let chosen = chosen.or_else(|| allowed.clone().last().filter(saves));
        if let Some((rule, confirmed, _)) = chosen.or(costs.first()) {
            (self.rule, self.confirmed) = (*rule, *confirmed);
        }
        costs.into_iter().map(|(.., cost)| cost).collect()
    }

    pub(super) fn sizes(&self, curve: &[Estimate]) -> Vec<SizeCost> {
        let cost = |estimate: &Estimate| SizeCost {
            origin_cost: self.origin_cost(estimate),
            drive_cost: self.cheapest_drive(estimate),
            estimate: estimate.clone(),
        };
        curve.iter().map(cost).collect()
    }

    /// The size with the least cost. Without prices, or if no size pays: the smallest one that
    /// misses hardly more than the largest.
    pub(super) fn best_size(&self, sizes: &[SizeCost]) -> usize {
        let most = self.question.capacity.map_or(u64::MAX, |capacity| capacity.0);
        let allowed =
            || sizes.iter().enumerate().filter(|(at, one)| *at == 0 || one.estimate.size <= most);
        let total = |one: &SizeCost| one.origin_cost + one.drive_cost;
        let least = allowed().min_by(|(_, a), (_, b)| total(a).total_cmp(&total(b)));
        let pays = |one: &SizeCost| 0.0 < self.basis.months && total(one) < self.without();
        if let Some((at, one)) = least
            && pays(one)
        {
            return at;
        }
        let misses = allowed().map(|(_, one)| one.estimate.misses).fold(1.0, f64::min);
        let near = allowed().find(|(_, one)| one.estimate.misses <= misses + POINT);
        near.map_or(0, |(at, _)| at)
    }

    /// Orders estimates: those that are as cheap as the cheapest first, and among them those with
    /// the fewest misses. Rows that print alike are one. The first one is the default: it stays
    /// first if the sample cannot tell it from the best.
    pub(super) fn ranked(&self, estimates: Vec<Estimate>) -> Vec<PolicyCost> {
        let mut rows: Vec<PolicyCost> = Vec::new();
        for estimate in estimates {
            let cost = self.origin_cost(&estimate) + self.cheapest_drive(&estimate);
            let row = PolicyCost { estimate, equal: Vec::new(), cost, is_cheap: false };
            match rows.iter_mut().find(|known| known.is_equal(&row)) {
                Some(known) => known.equal.push(row.estimate.policy),
                None => rows.push(row),
            }
        }
        let least = rows.iter().map(|row| row.cost).fold(f64::MAX, f64::min);
        for row in &mut rows {
            row.is_cheap = row.cost <= least * ALIKE;
        }
        let order = |row: &PolicyCost| match row.is_cheap {
            true => (0.0, row.estimate.misses, row.estimate.flash_bytes),
            false => (row.cost, row.estimate.misses, row.estimate.flash_bytes),
        };
        let best = rows.iter().min_by(|a, b| compare(order(a), order(b))).cloned();
        let is_best = best.is_some_and(|best| rows[0].is_as_good_as(&best));
        let default = is_best.then(|| rows.remove(0));
        rows.sort_by(|a, b| compare(order(a), order(b)));
        default.into_iter().chain(rows).collect()
    }

    pub(super) fn drives(&self, small: &Estimate, large: Option<&Estimate>) -> Vec<DriveCost> {
        let cost = |kind: &DriveKind| {
            let estimate = large.filter(|_| kind.zoned).unwrap_or(small);
            let size = Bytes(small.size);
            let written = self.written_a_day(estimate);
            DriveCost {
                name: kind.name.clone(),
                drive_bytes: kind.whole(size),
                programmed_a_day: written.map(|bytes| bytes * kind.write_amplification),
                years: written.map(|bytes| kind.life(size, bytes)),
                drive_cost: self.drive_cost(kind, estimate),
                misses: estimate.misses,
                origin_cost: self.origin_cost(estimate),
            }
        };
        let mut drives: Vec<DriveCost> = self.kinds(Bytes(small.size)).map(cost).collect();
        let total =
            |one: &DriveCost| (one.origin_cost + one.drive_cost, one.misses, one.drive_bytes);
        drives.sort_by(|a, b| compare(total(a), total(b)));
        drives
    }
}

fn compare(a: (f64, f64, f64), b: (f64, f64, f64)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
}

impl PolicyCost {
    /// Whether a table would show the same numbers.
    fn is_equal(&self, other: &Self) -> bool {
        let (a, b) = (&self.estimate, &other.estimate);
        let near = |a: f64, b: f64, step: f64| (a - b).abs() < step / 2.0;
        a.chunk == b.chunk
            && near(a.misses, b.misses, 1e-3)
            && near(a.byte_misses, b.byte_misses, 1e-3)
            && near(a.flash_bytes, b.flash_bytes, 0.01 * a.flash_bytes.max(1.0))
    }

    /// Whether the sample cannot tell it from the best.
    fn is_as_good_as(&self, best: &Self) -> bool {
        let (a, b) = (&self.estimate, &best.estimate);
        let more = |a: f64, b: f64, error: f64| error.max(SEEN) < a - b;
        self.is_cheap
            && !more(a.misses, b.misses, a.misses_error.max(b.misses_error))
            && !more(a.byte_misses, b.byte_misses, a.byte_misses_error.max(b.byte_misses_error))
    }
}
