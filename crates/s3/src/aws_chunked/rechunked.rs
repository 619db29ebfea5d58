//! Re-encoder: writes a decoded payload as unsigned chunks, with the received checksum as trailer.

use std::collections::VecDeque;

use bytes::Bytes;

use super::decoded::Decoded;
use super::decoder::ChunkedError;
use crate::BodyError;
use crate::body::DataSource;
use crate::checksum::Checksum;

/// Payload bytes per chunk, except the last. S3's own clients use 64 KiB; S3 requires at least 8
/// KiB.
const CHUNK_BYTES: u64 = 64 << 10;

/// Checksum trailers that Zonal forwards without verifying, with the length of their base64 values
/// in characters. The origin verifies them.
const LEFT_TO_THE_ORIGIN: [(&str, usize); 5] = [
    ("x-amz-checksum-sha512", 88),
    ("x-amz-checksum-md5", 24),
    ("x-amz-checksum-xxhash64", 12),
    ("x-amz-checksum-xxhash3", 12),
    ("x-amz-checksum-xxhash128", 24),
];

/// Encoding parameters known before the payload arrives, enough for the Content-Length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkLayout {
    /// Name of the trailer, and length of its value in characters.
    trailer: (&'static str, usize),
    payload_bytes: u64,
}

impl ChunkLayout {
    /// Content-Length of the encoded body, in bytes.
    pub(super) fn encoded_bytes(self) -> u64 {
        let full_chunks = self.payload_bytes / CHUNK_BYTES;
        let rest = self.payload_bytes % CHUNK_BYTES;
        let chunk = |bytes: u64| format!("{bytes:x}\r\n").len() as u64 + bytes + 2;
        let last = if rest == 0 { 0 } else { chunk(rest) };
        let (name, text_bytes) = self.trailer;
        let trailer = "0\r\n".len() + name.len() + 1 + text_bytes + 2 + 2;
        full_chunks * chunk(CHUNK_BYTES) + last + trailer as u64
    }
}

/// Yields chunks of [`CHUNK_BYTES`], independent of the frame sizes of the incoming payload.
pub(super) struct Rechunked {
    payload: Decoded,
    layout: ChunkLayout,
    /// Payload bytes that belong to chunks without a header yet.
    not_begun_bytes: u64,
    chunk_left: u64,
    /// Encoded pieces that the receiver has not polled yet. Bounded by one frame of payload, with
    /// at most three pieces (header, data, line end) per chunk.
    ready: VecDeque<Bytes>,
    ended: bool,
}

impl Rechunked {
    /// `None` if the trailer is not a checksum of known length.
    pub(super) fn layout(trailer: &str, payload_bytes: u64) -> Option<ChunkLayout> {
        let trailer = match Checksum::named(trailer) {
            Some(checksum) => (checksum.name(), checksum.text_bytes()),
            None => *LEFT_TO_THE_ORIGIN
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(trailer.trim()))?,
        };
        Some(ChunkLayout { trailer, payload_bytes })
    }

    pub(super) fn new(payload: Decoded, layout: ChunkLayout) -> Self {
        let not_begun_bytes = layout.payload_bytes;
        Self {
            payload,
            layout,
            not_begun_bytes,
            chunk_left: 0,
            ready: VecDeque::new(),
            ended: false,
        }
    }

    /// Splits one payload frame at chunk boundaries, and queues the encoded pieces.
    fn cut(&mut self, mut data: Bytes) {
        while !data.is_empty() {
            if self.chunk_left == 0 {
                self.chunk_left = self.not_begun_bytes.min(CHUNK_BYTES);
                self.not_begun_bytes -= self.chunk_left;
                self.ready.push_back(format!("{:x}\r\n", self.chunk_left).into());
            }
            let piece = data.split_to(zonal_base::index(self.chunk_left.min(data.len() as u64)));
            self.chunk_left -= piece.len() as u64;
            self.ready.push_back(piece);
            if self.chunk_left == 0 {
                self.ready.push_back(Bytes::from_static(b"\r\n"));
            }
        }
    }

    fn trailer(&self) -> Result<Bytes, ChunkedError> {
        let (name, text_bytes) = self.layout.trailer;
        match self.payload.trailers() {
            [(_, value)] if value.len() == text_bytes => {
                Ok(format!("0\r\n{name}:{value}\r\n\r\n").into())
            }
            _ => Err(ChunkedError::BadTrailerValue(name)),
        }
    }
}

impl DataSource for Rechunked {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            if self.ended {
                return Ok(None);
            }
            match self.payload.next().await? {
                Some(data) => self.cut(data),
                None => {
                    self.ended = true;
                    self.ready.push_back(self.trailer()?);
                }
            }
        }
    }
}
