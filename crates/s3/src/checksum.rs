//! Body checksums: computes and verifies `Content-MD5` and `x-amz-checksum-*`.

use std::fmt;

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest as Crc};
use http::{HeaderMap, Method, Request};
use md5::{Digest, Md5};
use ring::digest;

use crate::body::{DataSource, stream_body};
use crate::{BodyError, BoxBody};

/// An `x-amz-checksum-*` algorithm that Zonal computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checksum {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

/// Running checksum of the bytes so far.
#[derive(Clone)]
pub(crate) enum Checksummer {
    Crc(Crc, Checksum),
    Sha(digest::Context),
}

/// A body does not match a checksum header or trailer of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumMismatch {
    /// Name of the header or trailer, in lower case.
    pub header: &'static str,
}

impl fmt::Display for ChecksumMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the body is not the one that {} describes", self.header)
    }
}

impl std::error::Error for ChecksumMismatch {}

impl Checksum {
    pub(crate) const ALL: [Self; 5] =
        [Self::Crc32, Self::Crc32c, Self::Crc64Nvme, Self::Sha1, Self::Sha256];

    /// The algorithm of a header or trailer name, in upper or lower case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = name.trim();
        Self::ALL.into_iter().find(|checksum| checksum.name().eq_ignore_ascii_case(name))
    }

    /// Name of its header or trailer, in lower case.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Sha256 => "x-amz-checksum-sha256",
        }
    }

    const fn bytes(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Sha1 => digest::SHA1_OUTPUT_LEN,
            Self::Sha256 => digest::SHA256_OUTPUT_LEN,
        }
    }

    /// Length of the base64 value, in characters.
    pub(crate) const fn text_bytes(self) -> usize {
        self.bytes().div_ceil(3) * 4
    }

    pub(crate) fn start(self) -> Checksummer {
        let crc = |algorithm| Checksummer::Crc(Crc::new(algorithm), self);
        match self {
            Self::Crc32 => crc(CrcAlgorithm::Crc32IsoHdlc),
            Self::Crc32c => crc(CrcAlgorithm::Crc32Iscsi),
            Self::Crc64Nvme => crc(CrcAlgorithm::Crc64Nvme),
            Self::Sha1 => Checksummer::Sha(digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY)),
            Self::Sha256 => Checksummer::Sha(digest::Context::new(&digest::SHA256)),
        }
    }
}

impl Checksummer {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc(crc, _) => crc.update(bytes),
            Self::Sha(sha) => sha.update(bytes),
        }
    }

    /// The base64 value for a header or trailer.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Crc(crc, checksum) => {
                let bytes = crc.finalize().to_be_bytes();
                BASE64_STANDARD.encode(&bytes[bytes.len() - checksum.bytes()..])
            }
            Self::Sha(sha) => BASE64_STANDARD.encode(sha.clone().finish()),
        }
    }
}

/// Verifies a whole body against `Content-MD5` and `x-amz-checksum-*`. Returns true when at least
/// one of these headers is present.
///
/// # Errors
/// A checksum does not match.
pub fn verify_body(headers: &HeaderMap, body: &[u8]) -> Result<bool, ChecksumMismatch> {
    let stated = |name: &str| headers.get(name).map(|value| value.as_bytes().trim_ascii());
    let mut is_checked = false;
    if let Some(md5) = stated(CONTENT_MD5) {
        is_checked = true;
        if md5 != content_md5(body).as_bytes() {
            return Err(ChecksumMismatch { header: CONTENT_MD5 });
        }
    }
    for checksum in Checksum::ALL {
        let Some(stated) = stated(checksum.name()) else { continue };
        is_checked = true;
        let mut sum = checksum.start();
        sum.update(body);
        if stated != sum.text().as_bytes() {
            return Err(ChecksumMismatch { header: checksum.name() });
        }
    }
    Ok(is_checked)
}

/// The base64 MD5 of a body, the value of `Content-MD5`.
#[must_use]
pub fn content_md5(body: &[u8]) -> String {
    BASE64_STANDARD.encode(Md5::digest(body))
}

const CONTENT_MD5: &str = "content-md5";

/// Verifies the body of a PUT against its `x-amz-checksum-*` header as the body streams. The body
/// fails at its end with [`ChecksumMismatch`].
///
/// Other methods pass unverified: the checksum of a POST is that of the object that the request
/// assembles.
#[must_use]
pub fn verify(request: Request<BoxBody>) -> Request<BoxBody> {
    let headers = request.headers();
    let stated = Checksum::ALL.into_iter().find_map(|checksum| {
        let value = headers.get(checksum.name())?.to_str().ok()?;
        Some((checksum, value.trim().to_owned()))
    });
    match stated.filter(|_| request.method() == Method::PUT) {
        None => request,
        Some((checksum, stated)) => request.map(|inner| {
            stream_body(ChecksumVerifier { inner, checksum, sum: checksum.start(), stated })
        }),
    }
}

/// Yields `inner`, and fails at its end if the checksum does not match.
struct ChecksumVerifier {
    inner: BoxBody,
    checksum: Checksum,
    sum: Checksummer,
    stated: String,
}

impl DataSource for ChecksumVerifier {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        let data = self.inner.next().await?;
        match &data {
            Some(data) => self.sum.update(data),
            None if self.sum.text() == self.stated => {}
            None => return Err(ChecksumMismatch { header: self.checksum.name() }.into()),
        }
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(checksum: Checksum, expected: &str) {
        let mut sum = checksum.start();
        b"123456789".chunks(4).for_each(|piece| sum.update(piece));
        assert_eq!(sum.text(), expected, "{}", checksum.name());
        assert_eq!(expected.len(), checksum.text_bytes());
    }

    /// CRC check values come from the catalogue of parametrised CRC algorithms. The digests are
    /// those that `md5sum`, `sha1sum` and `sha256sum` print.
    #[test]
    fn the_published_values_come_out() {
        check(Checksum::Crc32, "y/Q5Jg==");
        check(Checksum::Crc32c, "4waSgw==");
        check(Checksum::Crc64Nvme, "rosUhgp5mIg=");
        check(Checksum::Sha1, "98O8HYCOBHMq32eZZczDTKeuNEE=");
        assert_eq!(content_md5(b"123456789"), "JfnnlDI7RTiF9RgfG2JNCw==");
        check(Checksum::Sha256, "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=");
    }
}
