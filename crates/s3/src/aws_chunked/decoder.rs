//! `aws-chunked` decoder: no I/O, strict, bounded memory.

use std::fmt;

use bytes::Bytes;
use http::StatusCode;
use ring::digest;

use crate::sigv4::{EMPTY_SHA256, Signature, SigningKey, sha256_hex};

/// Line length limit in bytes. A size or trailer with its signature takes 150 bytes; longer lines
/// than the limit are refused.
const LINE_BYTES_MAX: usize = 1024;

/// Minimum size of a signed chunk, except the last (S3's limit).
const CHUNK_BYTES_MIN: u64 = 8 << 10;

/// Limit of trailer lines. S3 uses one checksum trailer per request; more lines than this are
/// refused.
const TRAILERS_MAX: usize = 8;

/// Chunk signature chain: each chunk signature covers the previous signature. If a request has the
/// chain in its extensions, the decoder verifies its chunks as they stream. Without the chain, the
/// decoder checks only the syntax of the signatures.
#[derive(Clone, Debug)]
pub struct SignatureChain {
    /// The key that verified the request's own signature.
    pub key: SigningKey,
    /// The request's `x-amz-date`.
    pub timestamp: String,
    /// Credential scope of the request, as text: `20130524/us-east-1/s3/aws4_request`.
    pub scope: String,
    /// Seed signature: the signature of the request itself, which the first chunk covers. The
    /// decoder advances it from chunk to chunk.
    pub signature: Signature,
}

/// Reason why an `aws-chunked` payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkedError {
    /// A line exceeds 1 KiB, or there are too many trailers.
    TooLong,
    /// A chunk size is invalid, a line end is missing, or a line is not UTF-8.
    Malformed,
    /// A signed chunk other than the last is smaller than 8 KiB.
    TooSmall,
    /// The trailer is missing, has no colon, or is not exactly the announced one.
    BadTrailer,
    /// The trailer's value has the wrong length for a checksum of this name.
    BadTrailerValue(&'static str),
    /// A chunk or trailer lacks its signature.
    Unsigned,
    /// A signature does not match.
    WrongSignature,
    /// The payload is longer or shorter than `x-amz-decoded-content-length`.
    WrongLength,
    /// The payload ends too early, or bytes follow its end.
    WrongEnd,
}

impl ChunkedError {
    /// Status and error code of S3's answer.
    pub(crate) const fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::WrongSignature => (StatusCode::FORBIDDEN, "SignatureDoesNotMatch"),
            Self::TooSmall => (StatusCode::BAD_REQUEST, "InvalidChunkSizeError"),
            Self::BadTrailer => (StatusCode::BAD_REQUEST, "MalformedTrailerError"),
            Self::BadTrailerValue(_) => (StatusCode::BAD_REQUEST, "InvalidRequest"),
            Self::TooLong
            | Self::Malformed
            | Self::Unsigned
            | Self::WrongLength
            | Self::WrongEnd => (StatusCode::BAD_REQUEST, "IncompleteBody"),
        }
    }
}

impl fmt::Display for ChunkedError {
    /// The message of S3.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadTrailerValue(name) => {
                return write!(f, "Value for {name} trailing header is invalid.");
            }
            Self::WrongSignature => {
                "The request signature we calculated does not match the signature you provided."
            }
            Self::TooSmall => "Only the last chunk is allowed to have a size less than 8192 bytes",
            Self::BadTrailer => {
                "The request contained trailing data that was not well-formed or did not conform to our \
                 published schema."
            }
            Self::WrongLength => {
                "You did not provide the number of bytes specified by the Content-Length HTTP header"
            }
            Self::TooLong | Self::Malformed | Self::Unsigned | Self::WrongEnd => {
                "The request body terminated unexpectedly"
            }
        })
    }
}

impl std::error::Error for ChunkedError {}

/// Parser state: meaning of the next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Size,
    Data { left: u64 },
    DataEnd,
    Trailer,
    Nothing,
}

/// Trailer: name in lower case, and value.
pub(super) type Trailer = (String, String);

/// Incremental decoder of one payload.
pub(super) struct Decoder {
    expects: Expects,
    /// Incomplete line received so far.
    line: Vec<u8>,
    /// Payload bytes not yet covered by a chunk header.
    missing_bytes: u64,
    /// The previous chunk was smaller than [`CHUNK_BYTES_MIN`], so it must be the last one with
    /// data.
    was_small: bool,
    is_signed: bool,
    trailer_is_signed: bool,
    chain: Option<SignatureChain>,
    /// Signature of the current chunk.
    signature: Option<Signature>,
    hash: digest::Context,
    trailers: Vec<Trailer>,
}

impl Decoder {
    pub(super) fn unsigned(bytes: u64) -> Self {
        Self {
            expects: Expects::Size,
            line: Vec::new(),
            missing_bytes: bytes,
            was_small: false,
            is_signed: false,
            trailer_is_signed: false,
            chain: None,
            signature: None,
            hash: digest::Context::new(&digest::SHA256),
            trailers: Vec::new(),
        }
    }

    pub(super) fn signed(bytes: u64, chain: Option<SignatureChain>) -> Self {
        Self { is_signed: true, chain, ..Self::unsigned(bytes) }
    }

    pub(super) fn signed_with_trailer(bytes: u64, chain: Option<SignatureChain>) -> Self {
        Self { trailer_is_signed: true, ..Self::signed(bytes, chain) }
    }

    /// Trailers received so far; complete after the end of the payload.
    pub(super) fn trailers(&self) -> &[Trailer] {
        &self.trailers
    }

    /// Consumes bytes from the front of `input`. Returns the next piece of payload, or `None` if
    /// the decoder needs more input.
    pub(super) fn decode(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, ChunkedError> {
        loop {
            match self.expects {
                _ if input.is_empty() => return Ok(None),
                Expects::Size => match self.take_line(input)? {
                    None => return Ok(None),
                    Some(line) => self.begin_chunk(&line)?,
                },
                Expects::Data { left } => return Ok(Some(self.take_data(left, input))),
                Expects::DataEnd => match self.take_line(input)? {
                    None => return Ok(None),
                    Some(line) if line.is_empty() => self.end_chunk()?,
                    Some(_) => return Err(ChunkedError::Malformed),
                },
                Expects::Trailer => match self.take_line(input)? {
                    None => return Ok(None),
                    Some(line) if line.is_empty() => self.end_payload()?,
                    Some(line) => self.keep_trailer(&line)?,
                },
                Expects::Nothing => return Err(ChunkedError::WrongEnd),
            }
        }
    }

    /// Checks that the payload is complete. Call after the last input.
    pub(super) fn finish(&self) -> Result<(), ChunkedError> {
        if self.expects == Expects::Nothing { Ok(()) } else { Err(ChunkedError::WrongEnd) }
    }

    /// Consumes one line and returns it without its line end. `None` if the line is not complete
    /// yet.
    fn take_line(&mut self, input: &mut Bytes) -> Result<Option<Vec<u8>>, ChunkedError> {
        while !input.is_empty() {
            let end =
                input.iter().position(|byte| *byte == b'\n').map_or(input.len(), |end| end + 1);
            if self.line.len() + end > LINE_BYTES_MAX {
                return Err(ChunkedError::TooLong);
            }
            self.line.extend_from_slice(&input.split_to(end));
            if self.line.ends_with(b"\r\n") {
                self.line.truncate(self.line.len() - 2);
                return Ok(Some(std::mem::take(&mut self.line)));
            }
        }
        Ok(None)
    }

    fn begin_chunk(&mut self, line: &[u8]) -> Result<(), ChunkedError> {
        let line = str::from_utf8(line).map_err(|_| ChunkedError::Malformed)?;
        let (size, extension) = line.split_once(';').unwrap_or((line, ""));
        let is_size = size.len() <= 16 && size.bytes().all(|digit| digit.is_ascii_hexdigit());
        let size = if is_size { u64::from_str_radix(size, 16).ok() } else { None };
        let size = size.ok_or(ChunkedError::Malformed)?;
        self.missing_bytes =
            self.missing_bytes.checked_sub(size).ok_or(ChunkedError::WrongLength)?;
        let signature = extension.strip_prefix("chunk-signature=").and_then(Signature::parse);
        if self.is_signed && signature.is_none() {
            return Err(ChunkedError::Unsigned);
        }
        self.signature = signature;
        if size != 0 {
            if self.is_signed && self.was_small {
                return Err(ChunkedError::TooSmall);
            }
            self.was_small = size < CHUNK_BYTES_MIN;
            self.expects = Expects::Data { left: size };
            return Ok(());
        }
        if self.missing_bytes != 0 {
            return Err(ChunkedError::WrongLength);
        }
        self.end_chunk()?;
        self.expects = Expects::Trailer;
        Ok(())
    }

    fn take_data(&mut self, left: u64, input: &mut Bytes) -> Bytes {
        let bytes = left.min(input.len() as u64);
        let data = input.split_to(zonal_base::index(bytes));
        if self.chain.is_some() {
            self.hash.update(&data);
        }
        let left = left - bytes;
        self.expects = if left == 0 { Expects::DataEnd } else { Expects::Data { left } };
        data
    }

    fn end_chunk(&mut self) -> Result<(), ChunkedError> {
        self.expects = Expects::Size;
        let hash = std::mem::replace(&mut self.hash, digest::Context::new(&digest::SHA256));
        if self.chain.is_none() {
            return Ok(());
        }
        let hash = crate::sigv4::hex(hash.finish().as_ref());
        let signature = self.signature.ok_or(ChunkedError::Unsigned)?;
        self.check_link("PAYLOAD", &format!("{EMPTY_SHA256}\n{hash}"), signature)
    }

    fn keep_trailer(&mut self, line: &[u8]) -> Result<(), ChunkedError> {
        let line = str::from_utf8(line).map_err(|_| ChunkedError::Malformed)?;
        let (name, value) = line.split_once(':').ok_or(ChunkedError::BadTrailer)?;
        if self.trailers.len() == TRAILERS_MAX {
            return Err(ChunkedError::TooLong);
        }
        self.trailers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        Ok(())
    }

    fn end_payload(&mut self) -> Result<(), ChunkedError> {
        self.expects = Expects::Nothing;
        let position = self.trailers.iter().position(|(name, _)| name == TRAILER_SIGNATURE);
        let signature = position.map(|position| self.trailers.remove(position).1);
        if !self.trailer_is_signed {
            return Ok(());
        }
        if signature.is_none() && self.trailers.is_empty() {
            return Err(ChunkedError::BadTrailer);
        }
        let signature = signature.as_deref().and_then(Signature::parse);
        let signature = signature.ok_or(ChunkedError::Unsigned)?;
        let lines: String =
            self.trailers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        self.check_link("TRAILER", &sha256_hex(lines.as_bytes()), signature)
    }

    /// Verifies one signature of the chain, and makes it the previous signature of the next one.
    fn check_link(
        &mut self,
        what: &str,
        hashes: &str,
        signature: Signature,
    ) -> Result<(), ChunkedError> {
        let Some(chain) = &mut self.chain else { return Ok(()) };
        let SignatureChain { key, timestamp, scope, signature: previous } = &*chain;
        let text = format!("AWS4-HMAC-SHA256-{what}\n{timestamp}\n{scope}\n{previous}\n{hashes}");
        if !key.verify(&text, &signature) {
            return Err(ChunkedError::WrongSignature);
        }
        chain.signature = signature;
        Ok(())
    }
}

/// Trailer line with the signature of the trailers before it.
const TRAILER_SIGNATURE: &str = "x-amz-trailer-signature";
