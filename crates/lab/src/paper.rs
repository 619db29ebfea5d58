//! Replay of published experiments in virtual time at full size, next to the published figures.
//!
//! 1. `published`: the figures as printed.
//! 2. One file per paper (`zncache`, `znsccache`, `zcachelib`, `csal`): its experiments, and which
//!    cell is which figure of which experiment. The paper's claims are in `claims`, or next to its
//!    file.
//! 3. `report`: published and measured figures, deviations and verdicts. `ours` adds the same drive
//!    under Zonal's defaults, `exhibit` results without printed figures, and `plots` the drawn
//!    figures.
//! 4. `scoreboard`: how many cells of each paper are how near to the published figures.

mod claims;
mod csal;
mod exhibit;
mod lookups;
mod ours;
mod plots;
mod published;
mod recommended;
mod report;
mod scoreboard;
mod tenancy;
mod zcachelib;
mod zncache;
mod znsccache;

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::bench::Progress;
use crate::experiment::{Campaign, Experiment};
pub use claims::{Claim, Verdict};
pub use exhibit::{Exhibit, Row};
pub use ours::Ours;
pub use published::Published;
pub use report::{Cell, DriveModel, PaperReport};
pub use scoreboard::Scoreboard;
pub use zcachelib::{Scheme, ZCacheLib};
pub use zncache::{Part, ZnCache};
pub use znsccache::{Kind, Variant, ZnsCCache};

/// A paper whose experiments can be run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// "ZNCache - ZNS Workload Analysis" (Ramsden and Cheng, 2025).
    ZnCache,
    /// "ZNSCCACHE: ZNS Based Chunk Cache" (Ramsden, 2024).
    ZnsCCache,
    /// "A Zoned Storage Optimized Flash Cache on ZNS SSDs" (Yang, Guo, Zhao and Cao, 2023).
    ZCacheLib,
    /// "Performance Characterization of NVMe Flash Devices with Zoned Namespaces (ZNS)"
    /// (Doekemeijer, Tehrany and others, 2023).
    Zns,
    /// "A Media-Aware Cloud Storage Acceleration Layer (CSAL) Cache Solution" (Zhou and others,
    /// 2023).
    Csal,
}

/// Selected tables and figures of a paper. An empty choice means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Numbers of tables.
    pub tables: Vec<u32>,
    /// Numbers of figures.
    pub figures: Vec<u32>,
}

impl Paper {
    /// All papers, in the order of their numbers.
    pub const ALL: [Self; 5] =
        [Self::ZnCache, Self::ZnsCCache, Self::ZCacheLib, Self::Zns, Self::Csal];

    /// Number and title of the paper.
    #[must_use]
    pub const fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::ZnCache => ("000", "ZNCache - ZNS Workload Analysis"),
            Self::ZnsCCache => ("001", "ZNSCCACHE: ZNS Based Chunk Cache"),
            Self::ZCacheLib => ("002", "A Zoned Storage Optimized Flash Cache on ZNS SSDs"),
            Self::Zns => (
                "003",
                "Performance Characterization of NVMe Flash Devices with Zoned Namespaces (ZNS)",
            ),
            Self::Csal => {
                ("004", "A Media-Aware Cloud Storage Acceleration Layer (CSAL) Cache Solution")
            }
        }
    }

    /// Tables and figures that can be run here.
    #[must_use]
    pub fn has(self) -> Choice {
        match self {
            Self::ZnCache => Choice { tables: (5..=16).collect(), figures: plots::numbers() },
            Self::ZnsCCache => Choice { tables: (3..=5).collect(), figures: (3..=8).collect() },
            Self::ZCacheLib => Choice { tables: vec![1, 2], figures: vec![2, 7, 8, 9, 10] },
            Self::Zns => Choice::default(),
            Self::Csal => Choice { tables: Vec::new(), figures: (6..=10).collect() },
        }
    }

    /// Tables and figures with printed numbers: those that the scoreboard counts.
    #[must_use]
    pub fn scored(self) -> Choice {
        let mut choice = Choice::default();
        for figure in Published::of(self) {
            let (numbers, number) = match figure.table.strip_prefix("figure ") {
                Some(number) => (&mut choice.figures, number),
                None => (&mut choice.tables, figure.table),
            };
            let number = number.parse().expect("a number in the paper's file");
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        choice
    }

    /// Checks that the paper has the chosen tables and figures.
    ///
    /// # Errors
    /// When a chosen number is unknown.
    pub fn check(self, choice: &Choice) -> Result<(), String> {
        let Choice { tables, figures } = self.has();
        let (number, _) = self.name();
        let unknown = |chosen: &[u32], have: &[u32]| chosen.iter().any(|one| !have.contains(one));
        if unknown(&choice.tables, &tables) || unknown(&choice.figures, &figures) {
            let span = |what, have: &[u32]| match have {
                [] => format!("no {what}"),
                [first, .., last] if (last - first) as usize + 1 == have.len() => {
                    format!("{what} {first} to {last}")
                }
                some => {
                    let numbers: Vec<String> = some.iter().map(ToString::to_string).collect();
                    format!("{what} {}", numbers.join(", "))
                }
            };
            let (tables, figures) = (span("tables", &tables), span("figures", &figures));
            return Err(format!("available for paper {number}: {tables} and {figures}"));
        }
        Ok(())
    }

    /// Runs the experiments of a choice in a campaign, and reports their results. `ours` adds the
    /// same workloads under Zonal's defaults.
    ///
    /// # Errors
    /// When a run fails, or its result cannot be stored.
    pub fn run(
        self,
        (choice, ours): (&Choice, bool),
        campaign: &Campaign,
        progress: &Progress,
    ) -> Result<PaperReport, String> {
        let run = |experiments| campaign.of::<Experiment>(experiments).run(progress);
        Ok(match self {
            Self::ZnCache => zncache::report(choice, &run(zncache::experiments(choice, ours))?),
            Self::ZnsCCache => {
                let done = run(znsccache::experiments(choice, ours))?;
                let lookups = campaign.of(lookups::runs(choice)).run(progress)?;
                znsccache::report(choice, &done, &lookups)
            }
            Self::ZCacheLib => {
                let done = campaign.of(zcachelib::runs(choice)).run(progress)?;
                let served = if ours { zcachelib::ours() } else { Vec::new() };
                let served = campaign.of(served).run(progress)?;
                let report = zcachelib::report(choice, &done);
                PaperReport { ours: zcachelib::ours_rows(&done, &served), ..report }
            }
            Self::Zns => recommended::report(&campaign.of(recommended::runs()).run(progress)?),
            Self::Csal => {
                let done = campaign.of(csal::experiments(choice)).run(progress)?;
                let tenants = campaign.of(tenancy::runs(choice)).run(progress)?;
                csal::report(choice, &done, &tenants)
            }
        })
    }

    /// True when the paper's drives and workloads can be run under Zonal's defaults.
    #[must_use]
    pub const fn has_ours(self) -> bool {
        matches!(self, Self::ZnCache | Self::ZnsCCache | Self::ZCacheLib)
    }
}

impl Paper {
    /// True when the paper's figures are charts ([`PaperReport::draw`]).
    #[must_use]
    pub const fn has_charts(self) -> bool {
        matches!(self, Self::ZnCache)
    }

    /// Title of a table or figure.
    fn title(self, table: &str) -> &'static str {
        match self {
            Self::ZnCache => zncache::title(table),
            Self::ZnsCCache => znsccache::title(table),
            Self::ZCacheLib => zcachelib::title(table),
            Self::Zns => recommended::TITLE,
            Self::Csal => csal::title(table),
        }
    }

    /// Groups of rows that the report counts together: the group's name, and the prefix of its
    /// rows.
    const fn groups(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::ZnCache => &[("ZNS", "ZNS"), ("block", "Block")],
            Self::ZnsCCache => &[("32 KiB", "small"), ("1 MiB", "large")],
            Self::ZCacheLib => &[("in place", "Reg"), ("in zones", "Z")],
            Self::Zns => &[],
            Self::Csal => &[("O+Q", "O+Q"), ("QLC", "QLC"), ("TLC", "TLC")],
        }
    }
}

impl Choice {
    fn is_all(&self) -> bool {
        self.tables.is_empty() && self.figures.is_empty()
    }

    fn of_tables(&self, paper: Paper) -> Vec<u32> {
        if self.is_all() { paper.has().tables } else { self.tables.clone() }
    }

    /// True when the choice includes this place: `5` or `figure 6`.
    fn has(&self, place: &str) -> bool {
        let is_in = |numbers: &[u32], number: &str| {
            number.parse().is_ok_and(|number| numbers.contains(&number))
        };
        self.is_all()
            || match place.strip_prefix("figure ") {
                Some(number) => is_in(&self.figures, number),
                None => is_in(&self.tables, place),
            }
    }
}

impl FromStr for Paper {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|paper| paper.name().0 == text);
        found.ok_or_else(|| {
            let numbers = Self::ALL.map(|paper| paper.name().0).join(", ");
            format!("unknown paper {text:?}: write {numbers}")
        })
    }
}

impl fmt::Display for Paper {
    /// Writes the number that [`FromStr`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().0)
    }
}

impl Serialize for Paper {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
