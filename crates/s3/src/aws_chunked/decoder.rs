//! Decoder of chunks: no I/O, strict, bounded memory.

use std::fmt;

use bytes::Bytes;
use http::StatusCode;
use ring::digest;

use crate::sigv4::{EMPTY_SHA256, Signature, SigningKey, sha256_hex};

/// The longest line: a size or trailer with its signature takes 150 bytes. Longer ones are refused.
const LINE_BYTES_MAX: usize = 1024;

/// What every signed chunk has but for the last; S3's bound.
const CHUNK_BYTES_MIN: u64 = 8 << 10;

/// S3 knows trailers of one checksum; more than this many lines are refused.
const TRAILERS_MAX: usize = 8;

/// What verifies the signatures of chunks: each one signs the one before it. In the extensions of a request it has the
/// chunks verified as they stream; without it only the form of their signatures is checked.
#[derive(Clone, Debug)]
pub struct SignatureChain {
    /// The key that verified the request's own signature.
    pub key: SigningKey,
    /// The request's `x-amz-date`.
    pub timestamp: String,
    /// The request's scope, as text.
    pub scope: String,
    /// The request's own signature, which the first chunk signs (the seed signature).
    pub signature: Signature,
}

/// Why a payload is not what `aws-chunked` says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkedError {
    /// A line is longer than any that a client sends, or there are too many trailers.
    TooLong,
    /// Not a size, no line end where one belongs.
    Malformed,
    /// A chunk that is not the last has less than S3's least.
    TooSmall,
    /// The trailer is none, or not the one that was announced.
    BadTrailer,
    /// The value in the trailer cannot be a checksum of this name.
    BadTrailerValue(&'static str),
    /// A chunk or trailer without its signature.
    Unsigned,
    /// A signature does not fit what it signs.
    WrongSignature,
    /// More or fewer bytes than `x-amz-decoded-content-length` says.
    WrongLength,
    /// The payload ended in the middle, or goes on after its end.
    WrongEnd,
}

impl ChunkedError {
    /// The status and code with which S3 answers it.
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
    /// In S3's words.
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

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Size,
    Data { left: u64 },
    DataEnd,
    Trailer,
    Nothing,
}

/// A trailer by its lower-case name.
pub(super) type Trailer = (String, String);

/// Where the decoder is in a payload.
pub(super) struct Decoder {
    expects: Expects,
    /// The part of a line that has come so far.
    line: Vec<u8>,
    /// Payload bytes that must still come.
    missing_bytes: u64,
    /// A chunk came that only the last may be like.
    was_small: bool,
    is_signed: bool,
    trailer_is_signed: bool,
    chain: Option<SignatureChain>,
    /// Of the chunk under way.
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

    /// The trailers; complete once the payload has ended.
    pub(super) fn trailers(&self) -> &[Trailer] {
        &self.trailers
    }

    /// Takes bytes from the front of `input`; the next piece of payload, or `None` when it needs more.
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

    /// Call it when there is no more input.
    pub(super) fn finish(&self) -> Result<(), ChunkedError> {
        if self.expects == Expects::Nothing { Ok(()) } else { Err(ChunkedError::WrongEnd) }
    }

    /// A whole line without its end, once it is there.
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

    /// Checks one link of the chain; the next one hangs on it.
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

/// The line that signs the trailers before it.
const TRAILER_SIGNATURE: &str = "x-amz-trailer-signature";
