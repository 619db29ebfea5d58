//! Prices: what origins charge for reads, and what drives cost, from a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zonal_base::Bytes;

/// Prices of the file that belongs to the program.
const BUILT_IN: &str = include_str!("../../data/prices.toml");

/// A price file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Currency of all amounts.
    pub currency: String,
    origin: BTreeMap<String, OriginPrice>,
    drive: Vec<DriveKind>,
}

/// Prices of reads from a storage class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OriginPrice {
    /// A million GET or HEAD requests.
    pub million_requests: f64,
    /// A GiB that is read.
    pub retrieval: f64,
    egress: BTreeMap<Egress, f64>,
}

/// Where the cache is, as seen from the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Egress {
    /// In the region of the bucket.
    #[default]
    SameRegion,
    /// In another region of the same provider.
    OtherRegion,
    /// Elsewhere, over the Internet.
    Internet,
}

/// A kind of drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DriveKind {
    /// Name.
    pub name: String,
    /// Whether it has zones.
    pub zoned: bool,
    /// Price of a GiB.
    pub dollars_per_gib: f64,
    /// Rated drive writes per day, for `years`.
    pub dwpd: f64,
    /// Rated life.
    pub years: f64,
    /// Share of the drive that is never written, which keeps the write amplification low.
    pub unused_percent: f64,
    /// Bytes that the drive programs per byte that the cache writes.
    pub write_amplification: f64,
}

/// Price of reads from one origin, by requests and bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadPrice {
    /// Name of the storage class.
    pub origin: String,
    /// Where the cache is.
    pub egress: Egress,
    /// Currency of the amounts.
    pub currency: String,
    /// A million GET or HEAD requests.
    pub million_requests: f64,
    /// A GiB: retrieval and egress.
    pub gib: f64,
}

/// Highest price: far above any, so that sums have few digits.
const PRICE_MAX: f64 = 1e6;

const GIB: f64 = (1_u64 << 30) as f64;

/// Days of a month.
const MONTH_DAYS: f64 = 365.25 / 12.0;

impl Prices {
    /// Reads a price file, or takes the built-in prices.
    ///
    /// # Errors
    /// When the file cannot be read or is invalid.
    pub fn read(path: Option<&Path>) -> Result<Self, String> {
        let Some(path) = path else { return Self::parse(BUILT_IN) };
        let name = path.display();
        let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        Self::parse(&text).map_err(|why| format!("{name}: {why}"))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let prices: Self = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            format!("line {}: {}", before.matches('\n').count() + 1, error.message().trim())
        })?;
        let amounts = prices.origin.values().flat_map(|origin| {
            [origin.million_requests, origin.retrieval]
                .into_iter()
                .chain(origin.egress.values().copied())
        });
        let of_drives = prices.drive.iter().map(|drive| drive.dollars_per_gib);
        if amounts.chain(of_drives).any(|amount| !(0.0..=PRICE_MAX).contains(&amount)) {
            return Err(format!("a price is not a number from 0 to {PRICE_MAX}"));
        }
        for drive in &prices.drive {
            let has_sense = 0.0 < drive.dwpd
                && 0.0 < drive.years
                && (0.0..100.0).contains(&drive.unused_percent)
                && 1.0 <= drive.write_amplification;
            if !has_sense {
                return Err(format!(
                    "drive {:?}: write dwpd and years above 0, unused-percent below 100, and \
                     write-amplification of 1 or more",
                    drive.name
                ));
            }
        }
        if prices.drive.iter().all(|drive| drive.zoned) {
            return Err(
                "add a [[drive]] with zoned = false: small caches have no zoned drive".into()
            );
        }
        Ok(prices)
    }

    /// Price of reads from a storage class.
    ///
    /// # Errors
    /// When the file does not have it. The text lists what there is.
    pub fn of(&self, origin: &str, egress: Egress) -> Result<ReadPrice, String> {
        let Some(price) = self.origin.get(origin) else {
            let names: Vec<&str> = self.origin.keys().map(String::as_str).collect();
            return Err(format!("there is no price of {origin:?}: write {}", names.join(", ")));
        };
        let Some(leaving) = price.egress.get(&egress) else {
            return Err(format!("the price of {origin} has no egress to there"));
        };
        Ok(ReadPrice {
            origin: origin.into(),
            egress,
            currency: self.currency.clone(),
            million_requests: price.million_requests,
            gib: price.retrieval + leaving,
        })
    }

    /// The kinds of drives.
    #[must_use]
    pub fn drives(&self) -> &[DriveKind] {
        &self.drive
    }
}

impl ReadPrice {
    /// Price of requests and bytes.
    pub(super) fn cost(&self, requests: f64, bytes: f64) -> f64 {
        requests / 1e6 * self.million_requests + bytes / GIB * self.gib
    }
}

impl DriveKind {
    /// Size of the drive for a cache.
    pub(super) fn whole(&self, cache: Bytes) -> f64 {
        cache.0 as f64 / (1.0 - self.unused_percent / 100.0)
    }

    /// Life in years at so many bytes a day that the cache writes.
    pub(super) fn life(&self, cache: Bytes, bytes_a_day: f64) -> f64 {
        let rated = self.dwpd * self.years * 365.25 * self.whole(cache);
        let a_year = bytes_a_day * self.write_amplification * 365.25;
        if a_year == 0.0 { f64::MAX } else { rated / a_year }
    }

    /// Price of a month: the drive lasts its rated life, or less if it wears out before.
    pub(super) fn per_month(&self, cache: Bytes, bytes_a_day: f64) -> f64 {
        let years = self.life(cache, bytes_a_day).min(self.years);
        self.whole(cache) / GIB * self.dollars_per_gib / (years * 12.0)
    }
}

/// Seconds of a month.
pub(super) const MONTH_S: f64 = MONTH_DAYS * 86_400.0;

impl FromStr for Egress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "same-region" => Ok(Self::SameRegion),
            "other-region" => Ok(Self::OtherRegion),
            "internet" => Ok(Self::Internet),
            _ => Err(format!("{text:?}: write same-region, other-region or internet")),
        }
    }
}

impl std::fmt::Display for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::SameRegion => "same-region",
            Self::OtherRegion => "other-region",
            Self::Internet => "internet",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_bytes_have_the_prices_of_their_class() {
        let prices = Prices::read(None).expect("built in");
        let price = prices.of("s3-standard-ia", Egress::Internet).expect("it is there");
        assert_eq!((price.million_requests, price.gib), (1.0, 0.01 + 0.09));
        assert!((price.cost(2e6, 10.0 * GIB) - 3.0).abs() < 1e-9);
        let why = prices.of("s4", Egress::Internet).expect_err("there is none");
        assert!(why.starts_with("there is no price of \"s4\": write azure-cool, azure-hot, gcs-"));
    }

    #[test]
    fn a_drive_that_wears_out_early_costs_more_a_month() {
        let prices = Prices::read(None).expect("built in");
        let drive = &prices.drives()[0];
        let (size, day) = (Bytes::mib(100 << 10), 100.0 * GIB);
        // 100 GiB at one drive write a day.
        assert!((drive.life(size, day) - 5.0).abs() < 1e-9);
        assert!((drive.per_month(size, day) - 10.0 / 60.0).abs() < 1e-9);
        assert!((drive.per_month(size, 2.0 * day) - 10.0 / 30.0).abs() < 1e-9);
        assert!((drive.per_month(size, 0.0) - 10.0 / 60.0).abs() < 1e-9);
    }

    #[test]
    fn a_file_without_sense_is_refused() {
        let refused = |from: &str, to: &str| {
            Prices::parse(&BUILT_IN.replace(from, to)).expect_err("it makes no sense")
        };
        assert_eq!(refused("0.40", "-0.40"), "a price is not a number from 0 to 1000000");
        assert!(refused("dwpd = 0.3", "dwpd = 0.0").starts_with("drive \"NVMe, QLC\": write dwpd"));
        assert!(refused("currency", "money").contains("unknown field `money`"));
    }
}
