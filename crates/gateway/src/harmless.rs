//! Headers of reads that the configuration says change nothing about what is read.
//!
//! A new SDK may send a header that the table of reads does not know. Until the table does, its reads go past the cache.

use std::error::Error;
use std::fmt;

use http::HeaderName;

use crate::api::{is_vendors, reads_know};

/// See the module. Names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HarmlessHeaders(Box<[Box<str>]>);

/// A name that cannot be one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHarmlessHeader {
    /// No header has this name.
    NotAHeader,
    /// Reads know it: what it means is not for the configuration to say.
    Known,
    /// It has no vendor's prefix: it is dropped in any case.
    NotAVendors,
}

impl fmt::Display for BadHarmlessHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAHeader => "is not the name of a header",
            Self::Known => "is a header that Zonal knows; leave it out (docs/s3-operations.md lists what it does)",
            Self::NotAVendors => {
                "needs no entry: a header without a vendor's prefix, such as x-amz-, never keeps a read from the cache"
            }
        })
    }
}

impl Error for BadHarmlessHeader {}

impl HarmlessHeaders {
    /// Adds a name.
    ///
    /// # Errors
    /// It is no name of a header, or one that means something.
    pub fn with(self, name: &str) -> Result<Self, BadHarmlessHeader> {
        let header = HeaderName::from_bytes(name.trim().as_bytes());
        let header = header.map_err(|_| BadHarmlessHeader::NotAHeader)?;
        if reads_know(header.as_str()) {
            return Err(BadHarmlessHeader::Known);
        }
        if !is_vendors(header.as_str()) {
            return Err(BadHarmlessHeader::NotAVendors);
        }
        let mut names = self.0.into_vec();
        names.push(header.as_str().into());
        Ok(Self(names.into()))
    }

    pub(crate) fn have(&self, name: &str) -> bool {
        self.0.iter().any(|known| **known == *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_reads_do_not_know_can_be_harmless() {
        let add = |name| HarmlessHeaders::default().with(name);
        assert!(add("X-Amz-New").unwrap().have("x-amz-new"));
        assert!(!add("x-amz-new").unwrap().have("x-amz-newer"));
        for known in [
            "x-amz-server-side-encryption-customer-key",
            "X-Amz-Expected-Bucket-Owner",
            "range",
            "x-amz-te",
        ] {
            assert_eq!(add(known), Err(BadHarmlessHeader::Known), "{known}");
        }
        assert_eq!(add("a b"), Err(BadHarmlessHeader::NotAHeader));
        for name in ["x-company", "authorization", "host"] {
            assert_eq!(add(name), Err(BadHarmlessHeader::NotAVendors), "{name}");
        }
    }
}
