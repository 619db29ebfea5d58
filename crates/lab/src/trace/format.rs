//! Trace formats: names, properties, and detection by file name.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::log::LogFormat;

/// Format of a trace. Each reader's file says which columns it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Binary records of libCacheSim.
    OracleGeneral,
    /// `.lis` files of the ARC authors.
    Arc,
    /// Key-value or block csv of CacheLib.
    Cachelib,
    /// Csv of Twitter's in-memory caches.
    Twitter,
    /// Block csv of Microsoft Research, Cambridge.
    Msr,
    /// Block csv of the Storage Performance Council.
    Spc,
    /// Text, one line per request: object id.
    Text,
    /// Text, one line per request: object id and size.
    TextSize,
    /// One little-endian 32-bit object id per request.
    U32Le,
    /// One big-endian 32-bit object id per request.
    U32Be,
    /// One little-endian 64-bit object id per request.
    U64Le,
    /// One big-endian 64-bit object id per request.
    U64Be,
    /// Access log.
    Log(LogFormat),
}

impl Format {
    /// Every format with its name on the command line.
    pub const ALL: [(&'static str, Self); 18] = [
        ("oracleGeneral", Self::OracleGeneral),
        ("arc", Self::Arc),
        ("cachelib", Self::Cachelib),
        ("twitter", Self::Twitter),
        ("msr", Self::Msr),
        ("spc", Self::Spc),
        ("text", Self::Text),
        ("text-size", Self::TextSize),
        ("u32le", Self::U32Le),
        ("u32be", Self::U32Be),
        ("u64le", Self::U64Le),
        ("u64be", Self::U64Be),
        ("s3-log", Self::Log(LogFormat::S3)),
        ("cloudtrail", Self::Log(LogFormat::CloudTrail)),
        ("cloudfront", Self::Log(LogFormat::CloudFront)),
        ("nginx", Self::Log(LogFormat::Nginx)),
        ("haproxy", Self::Log(LogFormat::Haproxy)),
        ("zonal-log", Self::Log(LogFormat::Zonal)),
    ];

    /// The format of an access log.
    pub(super) const fn log(self) -> Option<LogFormat> {
        match self {
            Self::Log(log) => Some(log),
            _ => None,
        }
    }

    /// Whether the format has object sizes.
    #[must_use]
    pub const fn has_sizes(self) -> bool {
        match self {
            Self::OracleGeneral
            | Self::Arc
            | Self::Cachelib
            | Self::Twitter
            | Self::Msr
            | Self::Spc
            | Self::TextSize
            | Self::Log(_) => true,
            Self::Text | Self::U32Le | Self::U32Be | Self::U64Le | Self::U64Be => false,
        }
    }

    /// Whether the format may have request times.
    #[must_use]
    pub const fn may_have_times(self) -> bool {
        match self {
            Self::OracleGeneral
            | Self::Cachelib
            | Self::Twitter
            | Self::Msr
            | Self::Spc
            | Self::Text
            | Self::TextSize
            | Self::Log(_) => true,
            Self::Arc | Self::U32Le | Self::U32Be | Self::U64Le | Self::U64Be => false,
        }
    }

    /// Detects the format by file name, ignoring the suffix of the compression:
    /// `x.oracleGeneral.bin.zst` is `oracleGeneral`. Ambiguous names return `None`.
    #[must_use]
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let words = || name.split(['.', '_']).skip(1);
        if words().any(|word| word == "lis") {
            return Some(Self::Arc);
        }
        if words().any(|word| word == "oraclegeneral") {
            return Some(Self::OracleGeneral);
        }
        let named = |(format, _): &&(&str, Self)| {
            *format != "text" && name.split('.').skip(1).any(|word| word == *format)
        };
        Self::ALL.iter().find(named).map(|(_, format)| *format)
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        known.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("unknown trace format {text:?}: write {}", names.join(", "))
        })
    }
}

impl fmt::Display for Format {
    /// Writes the name that the parser reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            Self::ALL.iter().find(|(_, format)| format == self).map_or("", |(name, _)| *name);
        f.write_str(name)
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: Option<Format>) {
        assert_eq!(Format::of_name(Path::new(name)), expected, "guessing {name}");
    }

    #[test]
    fn formats_are_guessed_from_names_that_leave_no_doubt() {
        check("cloudPhysicsIO.oracleGeneral.bin.zst", Some(Format::OracleGeneral));
        check("dir.lis/w.oracleGeneral", Some(Format::OracleGeneral));
        check("P3.lis.zst", Some(Format::Arc));
        check("P3.lis", Some(Format::Arc));
        check("ids.u64be.gz", Some(Format::U64Be));
        check("cluster.twitter.csv", Some(Format::Twitter));
        check("proj_0.msr.csv.gz", Some(Format::Msr));
        check("w.text-size.xz", Some(Format::TextSize));
        check("corda_trace.gz", None);
        check("notes.text", None);
        check("a.csv", None);
        check("lis", None);
    }

    #[test]
    fn formats_are_read_as_they_are_written() {
        for (name, format) in Format::ALL {
            assert_eq!(name.parse(), Ok(format));
            assert_eq!(format.to_string(), name);
        }
        assert!("csv".parse::<Format>().is_err());
    }
}
