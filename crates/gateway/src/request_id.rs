//! Request ids, which link a client's log to the gateway's.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;
use zonal_base::mix64;

/// Request id: sixteen hexadecimal digits, in S3's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId([u8; 16]);

/// Generator of request ids. They are unique within a process, and start at another value in the
/// next one.
#[derive(Debug)]
pub(crate) struct RequestIds {
    next: AtomicU64,
}

impl RequestIds {
    /// Starts at a random value.
    pub(crate) fn new() -> Self {
        Self { next: AtomicU64::new(RandomState::new().build_hasher().finish()) }
    }

    /// The next request id.
    pub(crate) fn next(&self) -> RequestId {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        let mut rest = mix64(self.next.fetch_add(1, Ordering::Relaxed));
        let mut text = [0; 16];
        for digit in &mut text {
            *digit = DIGITS[zonal_base::index(rest >> 60)];
            rest <<= 4;
        }
        RequestId(text)
    }
}

impl RequestId {
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits")
    }

    pub(crate) fn to_header(self) -> HeaderValue {
        HeaderValue::from_bytes(&self.0).expect("hexadecimal digits")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_is_given_twice() {
        let ids = RequestIds::new();
        let names: BTreeSet<String> = (0..1000).map(|_| ids.next().as_str().to_owned()).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() == 16));
    }
}
