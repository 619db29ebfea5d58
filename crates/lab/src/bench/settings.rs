//! Benchmark flags: the settings that every cache under test shares.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use zonal_base::Bytes;

use crate::Distribution;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Gets by the distribution; misses are fetched and admitted.
    ReadThrough,
    /// Gets of keys on flash only.
    Hits,
    /// Inserts distinct new keys at --rate, then reads them all back.
    Insert,
    /// Flash hits beside writes at --rate, first with empty zones, then with reclaim. Needs an
    /// empty cache.
    Reclaim,
    /// Fills the cache, then inserts at --rate and prints the live keys; meant to be killed.
    Churn,
    /// Counts the keys that survived a churn, and measures the time to open the cache.
    Count,
    /// No gets: measures the CPU use of an idle cache.
    Idle,
}

/// Number of keys, absolute or relative to the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// This many keys.
    Count(u64),
    /// As many keys as fill this many times the cache.
    Capacity(f64),
}

impl Keys {
    /// Number of keys for a cache and a value of these sizes; at least 1.
    #[must_use]
    pub fn count(self, capacity: Bytes, value: Bytes) -> u64 {
        match self {
            Self::Count(count) => count.max(1),
            Self::Capacity(times) => part_of(capacity.0 / value.0, times).max(1),
        }
    }
}

/// Largest number of keys: a key's number shares 64 bits with the tag of its set.
const KEYS_MAX: u64 = 1 << 32;

impl FromStr for Keys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write a count such as 100000, or a multiple of the cache such as 2x".into();
        match text.strip_suffix('x') {
            Some(times) => match times.parse::<f64>() {
                Ok(times) if 0.0 < times && times <= 1000.0 => Ok(Self::Capacity(times)),
                _ => Err(wrong()),
            },
            None => match text.parse::<u64>() {
                Ok(count) if 0 < count && count <= KEYS_MAX => Ok(Self::Count(count)),
                _ => Err(wrong()),
            },
        }
    }
}

impl fmt::Display for Keys {
    /// Writes the form that `from_str` reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Capacity(times) => write!(f, "{times}x"),
        }
    }
}

/// Rate of new values, per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// This many bytes per second.
    Bytes(Bytes),
    /// A share of the device's write bandwidth in percent. The bandwidth is measured first.
    Percent(u8),
    /// No limit: as fast as the loops go.
    Max,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WRITE: &str = "write bytes per second such as 200MiB, a share of the device's write \
                             bandwidth such as 80%, or max";
        if text == "max" {
            return Ok(Self::Max);
        }
        match text.strip_suffix('%') {
            Some(percent) => match percent.parse() {
                Ok(percent @ 1..=100) => Ok(Self::Percent(percent)),
                _ => Err(WRITE.into()),
            },
            None => match text.parse::<Bytes>() {
                Ok(bytes) if bytes != Bytes(0) => Ok(Self::Bytes(bytes)),
                Ok(_) => Err(WRITE.into()),
                Err(error) => Err(error.why.into()),
            },
        }
    }
}

impl fmt::Display for Rate {
    /// Writes the form that `from_str` reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Max => f.write_str("max"),
        }
    }
}

/// The workload.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchSettings {
    /// Mode of the measurement
    #[arg(long, value_enum, default_value_t = Mode::ReadThrough)]
    pub mode: Mode,
    /// Size of each value
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    pub value: Bytes,
    /// Bytes to read of each value, at a random multiple of this size [without it: the whole value]
    #[arg(long, value_name = "SIZE")]
    pub range: Option<Bytes>,
    /// Number of keys: a count, or a multiple of the capacity [default: 2x; 0.25x with --mode
    /// insert and reclaim]
    #[arg(long, value_name = "N|Nx")]
    pub keys: Option<Keys>,
    /// Key distribution: zipf:THETA (exact, ranks permuted) or uniform
    #[arg(long, value_name = "DIST", default_value = "zipf:0.99")]
    pub dist: Distribution,
    /// Number of closed loops that issue gets concurrently
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub tasks: usize,
    /// Measured time in seconds, all segments together
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub seconds: f64,
    /// Number of equal parts of the measured time, each reported separately
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub segments: u32,
    /// Warm-up time in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub warmup_seconds: f64,
    /// Time limit in seconds for filling the cache
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub prefill_seconds: f64,
    /// Fill rate, bytes per second
    #[arg(long, value_name = "RATE", default_value = "400MiB")]
    pub prefill_rate: Rate,
    /// Insert rate with --mode insert, reclaim and churn [default: 80%; 100MiB with reclaim and
    /// churn]
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Number of keys that the churn had inserted, with --mode count
    #[arg(long, value_name = "N")]
    pub inserted: Option<u64>,
    /// Random seed; equal seeds give equal keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Largest number of loops: more would only measure their own queue.
const TASKS_MAX: usize = 4096;

/// Largest value: some of the compared caches keep a value in memory as a whole.
const VALUE_MAX: Bytes = Bytes::mib(64);

/// Unit of a range in bytes: values are checked by the sector.
const SECTOR: u64 = 512;

impl BenchSettings {
    /// Checks the flags against each other.
    ///
    /// # Errors
    /// When flags contradict each other or are out of range; the text says what to write.
    pub fn check(&self) -> Result<(), String> {
        let is_span = |seconds: f64| seconds.is_finite() && (0.0..=86_400.0).contains(&seconds);
        if self.tasks == 0 || TASKS_MAX < self.tasks {
            return Err(format!("--tasks {}: write 1 to {TASKS_MAX}", self.tasks));
        }
        if self.value == Bytes(0) || VALUE_MAX < self.value {
            return Err(format!("--value {}: write 1B to {VALUE_MAX}", self.value));
        }
        if self.segments == 0 || 1000 < self.segments {
            return Err(format!("--segments {}: write 1 to 1000", self.segments));
        }
        if !is_span(self.seconds) || self.seconds == 0.0 {
            return Err(format!(
                "--seconds {}: write more than 0 and at most one day",
                self.seconds
            ));
        }
        if !is_span(self.warmup_seconds) || !is_span(self.prefill_seconds) {
            return Err("--warmup-seconds and --prefill-seconds: write 0 to 86400".into());
        }
        if let Some(range) = self.range
            && (self.value < range || range == Bytes(0) || !range.0.is_multiple_of(SECTOR))
        {
            return Err(format!("--range {range}: write a multiple of 512B, at most --value"));
        }
        if self.rate.is_some() && matches!(self.mode, Mode::ReadThrough | Mode::Hits | Mode::Idle) {
            return Err("--rate needs --mode insert, reclaim or churn".into());
        }
        if self.inserted.is_some() && self.mode != Mode::Count {
            return Err("--inserted needs --mode count".into());
        }
        Ok(())
    }

    /// Number of keys, or the mode's default without `--keys`.
    #[must_use]
    pub fn key_count(&self, capacity: Bytes) -> u64 {
        let default = match self.mode {
            Mode::Insert | Mode::Reclaim => Keys::Capacity(0.25),
            _ => Keys::Capacity(2.0),
        };
        self.keys.unwrap_or(default).count(capacity, self.value)
    }

    pub(crate) fn rate(&self) -> Rate {
        let default = match self.mode {
            Mode::Insert => Rate::Percent(80),
            _ => Rate::Bytes(Bytes::mib(100)),
        };
        self.rate.unwrap_or(default)
    }

    pub(crate) fn segment(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.segments))
    }
}

/// `times` of `whole`, rounded down.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; saturates")]
pub(crate) fn part_of(whole: u64, times: f64) -> u64 {
    (whole as f64 * times) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_keys(text: &str, expected: Option<u64>) {
        let count = text.parse::<Keys>().ok().map(|keys| keys.count(Bytes::mib(1), Bytes::kib(64)));
        assert_eq!(count, expected, "parsing {text:?}");
    }

    #[test]
    fn keys_are_a_count_or_a_multiple_of_the_cache() {
        check_keys("100", Some(100));
        check_keys("2x", Some(32));
        check_keys("0.25x", Some(4));
        check_keys("0.001x", Some(1));
        for text in ["", "x", "0", "0x", "-1", "2X", "nanx", "infx", "1e3", "4294967297"] {
            check_keys(text, None);
        }
    }

    #[track_caller]
    fn check_rate(text: &str, expected: Option<Rate>) {
        assert_eq!(text.parse::<Rate>().ok(), expected, "parsing {text:?}");
        if let Some(rate) = expected {
            assert_eq!(rate.to_string(), text);
        }
    }

    #[test]
    fn rates_are_bytes_a_share_or_everything() {
        check_rate("200MiB", Some(Rate::Bytes(Bytes::mib(200))));
        check_rate("80%", Some(Rate::Percent(80)));
        check_rate("max", Some(Rate::Max));
        for text in ["", "0%", "101%", "200MX", "200", "0B", "fast"] {
            check_rate(text, None);
        }
    }
}
