//! Vendor headers outside the table of operations, and what the configuration says of them.
//!
//! A new SDK may send a header with its reads that changes nothing about what is read: `harmless`. An origin may have a
//! header of its own for writes: `passed`. Without either, a read goes past the cache and a write is refused.

use std::error::Error;
use std::fmt;

use http::HeaderName;

use crate::api::{is_known, is_vendors, reads_know};

/// See the module. Names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VendorHeaders {
    harmless: Box<[Box<str>]>,
    passed: Box<[Box<str>]>,
}

/// A header that the configuration has no say in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadVendorHeader {
    /// No header has this name.
    NotAHeader,
    /// The table says what it means to reads; to writes, where some operation knows it.
    Known,
    /// It has no vendor's prefix.
    NotAVendors,
    /// Some servers take an underscore for a hyphen, so no such header is sent to any.
    HasUnderscore,
    /// It is the beginning of names.
    Prefix,
    /// It makes the origin change more than the request names.
    ReachesFurther,
}

impl fmt::Display for BadVendorHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAHeader => "is not the name of a header",
            Self::Known => "is a header that Zonal knows; leave it out (docs/s3-operations.md lists what it does)",
            Self::NotAVendors => {
                "needs no entry: a header without a vendor's prefix, such as x-amz-, is dropped and nothing else"
            }
            Self::HasUnderscore => "needs no entry: a header with an underscore in its name is dropped",
            Self::Prefix => "is the beginning of names: write whole names, each by itself",
            Self::ReachesFurther => {
                "cannot be passed: with it an origin changes more than the request names, so no rule of a key would hold"
            }
        })
    }
}

impl Error for BadVendorHeader {}

/// Prefixes of headers by which origins replicate among themselves, unpack archives, or delete what is below a name.
const REACH_FURTHER: [&str; 8] = [
    "rgwx-",
    "x-amz-meta-minio-",
    "x-amz-meta-snowball-",
    "x-amz-meta-x-minio-",
    "x-minio-force-",
    "x-minio-internal-",
    "x-minio-replication-",
    "x-minio-source-",
];

impl VendorHeaders {
    /// Reads with this header are answered from the cache; the header is dropped.
    ///
    /// # Errors
    /// It is no name of a header, or one that needs no entry.
    pub fn with_harmless(mut self, name: &str) -> Result<Self, BadVendorHeader> {
        self.harmless = and(self.harmless, checked(name, reads_know)?);
        Ok(self)
    }

    /// Writes may carry this header; it is handed on as it is.
    ///
    /// # Errors
    /// It is no name of a header, one that needs no entry, or one with which an origin does more than a key may.
    pub fn with_passed(mut self, name: &str) -> Result<Self, BadVendorHeader> {
        let of_name = name.trim().to_ascii_lowercase();
        if REACH_FURTHER.iter().any(|prefix| of_name.starts_with(prefix)) {
            return Err(BadVendorHeader::ReachesFurther);
        }
        let name = checked(name, is_known)?;
        self.passed = and(self.passed, name);
        Ok(self)
    }

    /// Whether writes could be told to carry it.
    pub(crate) fn can_pass(name: &str) -> bool {
        Self::default().with_passed(name).is_ok()
    }

    pub(crate) fn is_harmless(&self, name: &str) -> bool {
        self.harmless.iter().any(|known| **known == *name)
    }

    pub(crate) fn is_passed(&self, name: &str) -> bool {
        self.passed.iter().any(|known| **known == *name)
    }
}

fn checked(name: &str, is_known: fn(&str) -> bool) -> Result<Box<str>, BadVendorHeader> {
    let header = HeaderName::from_bytes(name.trim().as_bytes());
    let header = header.map_err(|_| BadVendorHeader::NotAHeader)?;
    match header.as_str() {
        name if is_known(name) => Err(BadVendorHeader::Known),
        name if !is_vendors(name) => Err(BadVendorHeader::NotAVendors),
        name if name.contains('_') => Err(BadVendorHeader::HasUnderscore),
        name if name.ends_with(['-', '*']) => Err(BadVendorHeader::Prefix),
        name => Ok(name.into()),
    }
}

fn and(names: Box<[Box<str>]>, name: Box<str>) -> Box<[Box<str>]> {
    names.into_iter().chain([name]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_known_takes_an_entry() {
        let read = |name| VendorHeaders::default().with_harmless(name);
        let write = |name| VendorHeaders::default().with_passed(name);
        assert!(read("X-Amz-New").unwrap().is_harmless("x-amz-new"));
        assert!(!read("x-amz-new").unwrap().is_harmless("x-amz-newer"));
        assert!(write("X-Rgw-New").unwrap().is_passed("x-rgw-new"));
        assert!(!read("x-amz-new").unwrap().is_passed("x-amz-new"), "it is said of reads");
        for (name, bad) in [
            ("x-amz-expected-bucket-owner", BadVendorHeader::Known),
            ("X-Amz-Server-Side-Encryption-Customer-Key", BadVendorHeader::Known),
            ("range", BadVendorHeader::Known),
            ("a b", BadVendorHeader::NotAHeader),
            ("x-amz-a_b", BadVendorHeader::HasUnderscore),
            ("x-rgw-*", BadVendorHeader::Prefix),
            ("x-rgw-", BadVendorHeader::Prefix),
            ("x-company", BadVendorHeader::NotAVendors),
            ("authorization", BadVendorHeader::NotAVendors),
            ("x_amz_acl", BadVendorHeader::NotAVendors),
        ] {
            assert_eq!((read(name).err(), write(name).err()), (Some(bad), Some(bad)), "{name}");
        }
    }

    #[test]
    fn a_write_carries_nothing_that_decides_what_it_does() {
        for (name, bad) in [
            // Another operation has it, and looks at it.
            ("x-amz-copy-source", BadVendorHeader::Known),
            ("x-amz-grant-full-control", BadVendorHeader::Known),
            ("x-amz-meta-snowball-auto-extract", BadVendorHeader::ReachesFurther),
            ("x-minio-force-delete", BadVendorHeader::ReachesFurther),
            ("X-Minio-Source-Etag", BadVendorHeader::ReachesFurther),
            ("rgwx-uid", BadVendorHeader::ReachesFurther),
        ] {
            assert_eq!(VendorHeaders::default().with_passed(name), Err(bad), "{name}");
            assert!(VendorHeaders::default().with_harmless(name).is_ok(), "{name}: reads drop it");
        }
    }
}
