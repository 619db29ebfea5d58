//! The advice in sentences: the recommendation, what it gives, and why.

use zonal_base::Bytes;

use super::Advice;
use super::choice::SizeCost;
use super::curve::SIZE_MIN;

const GIB: f64 = (1_u64 << 30) as f64;

/// Longest life that is stated: beyond it, a drive fails for other reasons.
const YEARS_MAX: f64 = 99.0;

/// Hits below which a cache that saves no money is of no use.
const HITS_MIN: f64 = 0.05;

/// Share of a difference that a reader would notice.
const NOTED: f64 = 0.005;

impl Advice {
    pub(super) fn say(&self) -> Vec<String> {
        let mut said = vec![self.what_to_take(), self.what_it_gives(), self.what_it_costs()];
        said.push(self.drive());
        said.extend(self.latency());
        said.push(self.why_this_size());
        said.extend(self.more_and_less());
        said.extend(self.why_this_policy());
        said.push(self.why_this_freshness());
        said.extend(self.too_short());
        said.extend(self.why_this_drive());
        said.push(self.how_it_was_found());
        said
    }

    fn what_to_take(&self) -> String {
        let choice = &self.choice;
        let only = if self.is_cut { "Interrupted: from what is known by now, " } else { "" };
        if self.is_useless() {
            return format!(
                "{only}Recommended: no cache. Hardly anything is read again: even {} of flash \
                 would hit {:.1} % of the reads.",
                gib(choice.estimate.size as f64),
                100.0 * (1.0 - choice.estimate.misses),
            );
        }
        format!(
            "{only}Recommended: {} of flash ({}), policy {}, chunks of {}, freshness {}.",
            gib(choice.estimate.size as f64),
            choice.drive,
            choice.estimate.policy,
            Bytes(choice.estimate.chunk),
            choice.freshness,
        )
    }

    /// Whether a cache neither saves money nor answers reads.
    fn is_useless(&self) -> bool {
        !self.choice.pays && 1.0 - HITS_MIN < self.choice.estimate.misses
    }

    fn what_it_gives(&self) -> String {
        let estimate = &self.choice.estimate;
        format!(
            "Hits: {} of the reads, {} of the bytes.",
            percent(1.0 - estimate.misses, estimate.misses_error),
            percent(1.0 - estimate.byte_misses, estimate.byte_misses_error),
        )
    }

    fn what_it_costs(&self) -> String {
        let (choice, basis) = (&self.choice, &self.basis);
        let per_read = choice.origin_requests / basis.reads;
        let requests = format!(
            "Origin: {} requests in {}, all included ({per_read:.2} per read), and {} of data; \
             without a cache {} and {}.",
            count(choice.origin_requests),
            basis.name,
            gib(basis.reads * choice.estimate.fetched_bytes),
            count(basis.reads),
            gib(basis.reads * self.survey.read_bytes as f64 / self.survey.reads as f64),
        );
        let currency = &self.price.currency;
        let money = format!(
            " Cost at {} ({}): {} {currency}, and {} for the drive, instead of {}.",
            self.price.origin,
            self.price.egress,
            money(choice.origin_cost),
            money(choice.drive_cost),
            money(self.without),
        );
        let pays = match (basis.months == 0.0, choice.pays) {
            (true, _) => " The trace has no times: add --reads-per-s for costs of a month.",
            (_, true) => "",
            (_, false) if self.is_useless() => " A cache saves no money here.",
            (_, false) => " A cache saves no money here: it is for latency.",
        };
        requests + &money + pays
    }

    fn drive(&self) -> String {
        let choice = &self.choice;
        match (choice.written_a_day, choice.years) {
            (Some(written), Some(years)) => {
                let more = if YEARS_MAX <= years { "more than " } else { "" };
                format!(
                    "Drive: {} written a day; {more}{:.1} years until its rated writes are used.",
                    gib(written),
                    years.min(YEARS_MAX)
                )
            }
            _ if self.basis.months == 0.0 && self.survey.seconds == 0 => {
                "Drive: bytes a day and life are unknown, because the trace has no times.".into()
            }
            _ => "Drive: bytes a day and life are unknown, because the trace is too short to fill \
                  the cache."
                .into(),
        }
    }

    fn latency(&self) -> Option<String> {
        let run = self.runs.first()?;
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let origin = ms(self.origin_latency_ns);
        if run.hit.count == 0 {
            return Some("Latency: unknown, because the runs had no hits.".into());
        }
        Some(format!(
            "Latency on the model of {}, {} gets in flight: hits p50 {:.2} ms, p99 {:.2}, p99.9 \
             {:.2}; misses p50 {:.1} ms, p99 {:.1}, with {origin:.0} ms at the origin.",
            run.drive,
            self.tasks,
            ms(run.hit.p50_ns),
            ms(run.hit.p99_ns),
            ms(run.hit.p999_ns),
            ms(run.miss.p50_ns),
            ms(run.miss.p99_ns),
        ))
    }

    fn chosen_size(&self) -> Option<(usize, &SizeCost)> {
        let size = self.choice.estimate.size;
        self.sizes.iter().enumerate().find(|(_, one)| one.estimate.size == size)
    }

    fn why_this_size(&self) -> String {
        let size = self.choice.estimate.size;
        let footprint = gib(self.footprint as f64);
        let all = format!("All that the trace reads takes {footprint} on flash.");
        let is_largest = self.sizes.last().is_some_and(|last| last.estimate.size == size);
        let is_limit = self.capacity.is_some_and(|most| size + Bytes::mib(64).0 > most);
        if is_largest && size == SIZE_MIN.0 {
            return format!(
                "Size: the smallest that Zonal should have, eight zones of 64 MiB, holds \
                 everything. {all}"
            );
        }
        if is_limit && !is_largest {
            return format!("Size: all that --capacity allows. {all}");
        }
        if is_largest {
            return format!(
                "Size: it holds everything that the trace reads, beside the zones that a cache \
                 keeps empty. More has no use. {all}"
            );
        }
        match self.choice.pays && 0.0 < self.basis.months {
            true => format!(
                "Size: each larger one costs more for the drive than it saves at the origin. {all}"
            ),
            false => format!(
                "Size: the smallest one that misses at most one point more than the largest. {all}"
            ),
        }
    }

    /// The next sizes below and above.
    fn more_and_less(&self) -> Option<String> {
        let (at, _) = self.chosen_size()?;
        let say = |one: &SizeCost| {
            format!(
                "{} hits {:.1} % of the reads and costs {}",
                gib(one.estimate.size as f64),
                100.0 * (1.0 - one.estimate.misses),
                money(one.origin_cost + one.drive_cost)
            )
        };
        let less = at.checked_sub(2).and_then(|less| self.sizes.get(less)).map(say);
        let more = self.sizes.get(at + 2).or(self.sizes.get(at + 1)).map(say);
        let both: Vec<String> = less.into_iter().chain(more).collect();
        (!both.is_empty()).then(|| format!("Other sizes: {}.", both.join("; ")))
    }

    fn why_this_policy(&self) -> Vec<String> {
        let mut said = Vec::new();
        let ([best, others @ ..], chunks) = (&self.policies[..], &self.chunks) else {
            return said;
        };
        if let Some(other) = others.first() {
            let (a, b) = (&best.estimate, &other.estimate);
            said.push(format!(
                "Policy, with chunks of 256KiB: next is {} with {:.1} % hits and {:.0} KiB written per read, instead of \
                 {:.1} % and {:.0} KiB.",
                b.policy,
                100.0 * (1.0 - b.misses),
                b.flash_bytes / 1024.0,
                100.0 * (1.0 - a.misses),
                a.flash_bytes / 1024.0,
            ));
        }
        if 1 < best.equal.len() {
            said.push(format!("Equal to {}: {}.", best.estimate.policy, best.equal.join(", ")));
        }
        said.push(match chunks.len() {
            1 if self.is_cut => "Chunk size: not compared, because of the interruption.".into(),
            1 => "Chunk size: no difference, because no object is larger than a chunk.".into(),
            _ => {
                let each = chunks
                    .iter()
                    .map(|row| format!("{} costs {}", Bytes(row.estimate.chunk), money(row.cost)));
                format!("Chunk size: {}.", each.collect::<Vec<_>>().join(", "))
            }
        });
        said
    }

    fn why_this_freshness(&self) -> String {
        let Some(strict) = self.freshness.first() else {
            return "Freshness: not compared, because of the interruption.".into();
        };
        let chosen = self.freshness.iter().find(|cost| cost.rule == self.choice.freshness);
        let seen = match (self.survey.removals, self.survey.overwritten) {
            (0, _) => "The trace shows no writes, so nobody knows how often objects change.".into(),
            (_, 0.0) => "No object was overwritten after a read.".into(),
            (_, share) => {
                format!("{:.2} % of the objects were overwritten after a read.", 100.0 * share)
            }
        };
        let Some(chosen) = chosen.filter(|chosen| chosen.rule != strict.rule) else {
            let loosest = self.freshness.last().map_or(0.0, |cost| cost.origin_cost);
            return format!(
                "Freshness: {} costs {}, and no rule less than {}. {seen}",
                strict.rule,
                money(strict.origin_cost),
                money(loosest)
            );
        };
        format!(
            "Freshness: {} costs {} with everything cached, {} would cost {} ({:.2} \
             confirmations per read). Writes through Zonal are seen at once; those past it within \
             that time. {seen}",
            chosen.rule,
            money(chosen.origin_cost),
            strict.rule,
            money(strict.origin_cost),
            strict.confirmations,
        )
    }

    fn too_short(&self) -> Option<String> {
        let is_short = !self.choice.estimate.is_filled;
        is_short.then(|| {
            "The trace is too short to fill this cache: half of it reads less than fits. Its \
             misses are first reads of objects, of which nobody knows how long they go on. So they \
             are counted for the time of the trace, and not extrapolated."
                .into()
        })
    }

    fn why_this_drive(&self) -> Option<String> {
        let others = self.drives.get(1..)?;
        let say = |one: &super::choice::DriveCost| {
            let life = one.years.map_or(String::new(), |years| {
                format!(" (life {:.1} years)", years.min(YEARS_MAX))
            });
            format!("{} {}{life}", one.name, money(one.drive_cost))
        };
        let each: Vec<String> = others.iter().map(say).collect();
        let ours = self.drives.first().map_or(0.0, |one| one.drive_cost);
        (!each.is_empty() && 0.0 < ours)
            .then(|| format!("Drive kinds: this one {}; {}.", money(ours), each.join(", ")))
    }

    fn how_it_was_found(&self) -> String {
        let sample = match self.rate {
            1.0 => "Replays used all requests.".to_owned(),
            rate => format!(
                "Replays used one object in {:.0}, with the cache scaled down as much; intervals \
                 cover 95 %.",
                1.0 / rate
            ),
        };
        format!(
            "{sample} Figures are those of the second half of the trace, after the first half has \
             filled the cache."
        )
    }
}

/// A share, with its interval if there is one.
pub(super) fn percent(share: f64, error: f64) -> String {
    match error < NOTED / 10.0 {
        true => format!("{:.1} %", 100.0 * share),
        false => format!("{:.1} % ± {:.1}", 100.0 * share, 100.0 * error),
    }
}

/// An amount.
pub(super) fn money(amount: f64) -> String {
    match amount {
        0.0 => "0".into(),
        1000.0.. => format!("{amount:.0}"),
        1.0.. => format!("{amount:.2}"),
        _ => format!("{amount:.4}"),
    }
}

/// A number of bytes.
pub(super) fn gib(bytes: f64) -> String {
    let gib = bytes / GIB;
    match gib {
        1024.0.. => format!("{:.1} TiB", gib / 1024.0),
        100.0.. => format!("{gib:.0} GiB"),
        1.0.. => format!("{gib:.1} GiB"),
        _ if 1.0 <= gib * 1024.0 => format!("{:.0} MiB", gib * 1024.0),
        _ => format!("{:.0} KiB", gib * 1024.0 * 1024.0),
    }
}

/// A number of requests: exact below ten million.
pub(super) fn count(number: f64) -> String {
    match number {
        1e9.. => format!("{:.2} billion", number / 1e9),
        1e7.. => format!("{:.2} million", number / 1e6),
        _ => {
            let digits = format!("{number:.0}");
            let groups = digits.as_bytes().rchunks(3).rev();
            let groups = groups.map(|group| String::from_utf8_lossy(group).into_owned());
            groups.collect::<Vec<_>>().join(",")
        }
    }
}
