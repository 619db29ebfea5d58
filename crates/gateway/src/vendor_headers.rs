//! Vendor headers outside the table of operations, configured as `harmless` or `passed`.
//!
//! A new SDK may send a header with its reads that does not change the result: declare it
//! `harmless`. An origin may have a header of its own for writes: declare it `passed`. Otherwise a
//! read with such a header bypasses the cache, and a write is refused.

use std::error::Error;
use std::fmt;

use http::HeaderName;

use crate::api::{is_known, is_vendors, reads_know};

/// Configured vendor headers, with names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VendorHeaders {
    harmless: Box<[Box<str>]>,
    passed: Box<[Box<str>]>,
}

/// Why a header cannot be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadVendorHeader {
    /// The name is not a legal header name.
    NotAHeader,
    /// The table of operations knows the header: for `harmless`, some read has it; for `passed`,
    /// any operation.
    Known,
    /// The name has no vendor's prefix.
    NotAVendors,
    /// The name has an underscore. Some servers take it for a hyphen, so such headers are never
    /// forwarded.
    HasUnderscore,
    /// The name is a prefix.
    Prefix,
    /// The header makes the origin change more than the objects that the request names.
    ReachesFurther,
}

impl fmt::Display for BadVendorHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAHeader => "is not a header name",
            Self::Known => {
                "is a header that Zonal knows: remove it (docs/s3-operations.md lists what it does)"
            }
            Self::NotAVendors => {
                "needs no entry: Zonal drops headers without a vendor prefix such as x-amz-"
            }
            Self::HasUnderscore => {
                "needs no entry: Zonal drops headers with an underscore in the name"
            }
            Self::Prefix => "is a wildcard: write each header name in full",
            Self::ReachesFurther => {
                "cannot be passed: it makes the origin change more than the request names, which \
                 would bypass access rules"
            }
        })
    }
}

impl Error for BadVendorHeader {}

/// Prefixes of headers with which origins replicate among themselves, unpack archives, or delete
/// everything below a name.
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
    /// Declares a header harmless: reads with it are answered from the cache, and the header is
    /// dropped.
    ///
    /// # Errors
    /// The name is not a header name, or the header needs no entry.
    pub fn with_harmless(mut self, name: &str) -> Result<Self, BadVendorHeader> {
        self.harmless = and(self.harmless, checked(name, reads_know)?);
        Ok(self)
    }

    /// Declares a header passed: writes may carry it, and it is forwarded unchanged.
    ///
    /// # Errors
    /// The name is not a header name, the header needs no entry, or it makes an origin do more than
    /// a key may.
    pub fn with_passed(mut self, name: &str) -> Result<Self, BadVendorHeader> {
        let of_name = name.trim().to_ascii_lowercase();
        if REACH_FURTHER.iter().any(|prefix| of_name.starts_with(prefix)) {
            return Err(BadVendorHeader::ReachesFurther);
        }
        let name = checked(name, is_known)?;
        self.passed = and(self.passed, name);
        Ok(self)
    }

    /// True if the configuration could pass this header with writes.
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
            // Another operation has this header, and the gateway interprets it.
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
