//! NBD client that sends any sequence of bytes a test needs.

use std::collections::HashMap;
use std::path::Path;

use bytes::{Buf, BufMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISCONNECT: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const STATUS: u16 = 7;

pub(crate) const FUA: u16 = 1;

pub(crate) const LIST: u32 = 3;
pub(crate) const GO: u32 = 7;
pub(crate) const STRUCTURED_REPLY: u32 = 8;
pub(crate) const SET_META_CONTEXT: u32 = 10;

const ACK: u32 = 1;
const IS_ERROR: u32 = 1 << 31;

/// A client connection. [`Client::structured`] switches to structured replies.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    is_structured: bool,
    /// Lengths of the outstanding reads, by cookie.
    reads: HashMap<u64, u32>,
}

/// A reply, assembled from its chunks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) cookie: u64,
    pub(crate) error: u32,
    /// Data of a read, with holes as zeros.
    pub(crate) data: Vec<u8>,
    /// Bytes in hole chunks.
    pub(crate) hole_bytes: u64,
    /// Length and flags of each extent.
    pub(crate) extents: Vec<(u32, u32)>,
}

impl Client {
    /// Connects, reads the greeting, and sends all client flags.
    pub(crate) async fn connect(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).await.unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).await.unwrap();
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
        stream.write_all(&[0, 0, 0, 3]).await.unwrap();
        Self { stream, is_structured: false, reads: HashMap::new() }
    }

    /// Sends an option, and returns its replies.
    pub(crate) async fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.put_u32(option);
        bytes.put_u32(u32::try_from(data.len()).unwrap());
        bytes.put_slice(data);
        self.stream.write_all(&bytes).await.unwrap();
        let mut answers = Vec::new();
        loop {
            assert_eq!(self.stream.read_u64().await.unwrap(), 0x0003_E889_0455_65A9);
            assert_eq!(self.stream.read_u32().await.unwrap(), option);
            let kind = self.stream.read_u32().await.unwrap();
            let length = self.stream.read_u32().await.unwrap();
            let mut data = vec![0; length as usize];
            self.stream.read_exact(&mut data).await.unwrap();
            answers.push((kind, data));
            if kind == ACK || kind & IS_ERROR != 0 {
                return answers;
            }
        }
    }

    pub(crate) async fn structured(&mut self) {
        assert_eq!(self.option(STRUCTURED_REPLY, &[]).await[0].0, ACK);
        self.is_structured = true;
    }

    /// Negotiates `base:allocation`.
    pub(crate) async fn allocation(&mut self, export: &str) {
        let query = b"base:allocation";
        let mut data = Vec::new();
        data.put_u32(u32::try_from(export.len()).unwrap());
        data.put_slice(export.as_bytes());
        data.put_u32(1);
        data.put_u32(15);
        data.put_slice(query);
        assert_eq!(self.option(SET_META_CONTEXT, &data).await.len(), 2);
    }

    /// Chooses an export, and returns its size and flags.
    pub(crate) async fn go(&mut self, export: &str) -> (u64, u16) {
        let mut data = Vec::new();
        data.put_u32(u32::try_from(export.len()).unwrap());
        data.put_slice(export.as_bytes());
        data.put_u16(0);
        let answers = self.option(GO, &data).await;
        assert_eq!(answers.last().map(|(kind, _)| *kind), Some(ACK));
        let mut info = &answers[0].1[..];
        assert_eq!(info.get_u16(), 0);
        (info.get_u64(), info.get_u16())
    }

    /// Sends a request header.
    pub(crate) async fn ask(&mut self, (kind, flags): (u16, u16), cookie: u64, span: (u64, u32)) {
        let bytes = request((kind, flags), cookie, span);
        if kind == READ {
            self.reads.insert(cookie, span.1);
        }
        self.stream.write_all(&bytes).await.unwrap();
    }

    pub(crate) async fn write(&mut self, flags: u16, cookie: u64, offset: u64, data: &[u8]) {
        let length = u32::try_from(data.len()).unwrap();
        self.ask((WRITE, flags), cookie, (offset, length)).await;
        self.stream.write_all(data).await.unwrap();
    }

    /// Sends a request, and returns its reply, which must come next.
    pub(crate) async fn asked(&mut self, command: (u16, u16), span: (u64, u32)) -> Reply {
        self.ask(command, 77, span).await;
        let reply = self.reply().await;
        assert_eq!(reply.cookie, 77);
        reply
    }

    pub(crate) async fn written(&mut self, flags: u16, offset: u64, data: &[u8]) {
        self.write(flags, 77, offset, data).await;
        let reply = self.reply().await;
        assert_eq!((reply.cookie, reply.error), (77, 0));
    }

    /// Reads bytes.
    pub(crate) async fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        let reply = self.asked((READ, 0), (offset, length)).await;
        assert_eq!(reply.error, 0);
        reply.data
    }

    /// The next reply. Its chunks must follow each other.
    pub(crate) async fn reply(&mut self) -> Reply {
        let magic = self.stream.read_u32().await.unwrap();
        if magic == 0x668E_33EF {
            return self.chunks().await;
        }
        assert_eq!(magic, 0x6744_6698);
        let error = self.stream.read_u32().await.unwrap();
        let cookie = self.stream.read_u64().await.unwrap();
        let length = self.reads.remove(&cookie).filter(|_| error == 0).unwrap_or(0);
        assert!(!self.is_structured || length == 0, "replies to reads are structured");
        let mut data = vec![0; length as usize];
        self.stream.read_exact(&mut data).await.unwrap();
        Reply { cookie, error, data, hole_bytes: 0, extents: Vec::new() }
    }

    /// Requires: the magic number of the first chunk was read.
    async fn chunks(&mut self) -> Reply {
        assert!(self.is_structured);
        let mut reply =
            Reply { cookie: 0, error: 0, data: Vec::new(), hole_bytes: 0, extents: Vec::new() };
        loop {
            let flags = self.stream.read_u16().await.unwrap();
            let kind = self.stream.read_u16().await.unwrap();
            reply.cookie = self.stream.read_u64().await.unwrap();
            let length = self.stream.read_u32().await.unwrap();
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).await.unwrap();
            let mut payload = &payload[..];
            match kind {
                0 => assert!(payload.is_empty()),
                1 => {
                    payload.advance(8);
                    assert!(!payload.is_empty());
                    reply.data.put_slice(payload);
                }
                2 => {
                    payload.advance(8);
                    let hole = payload.get_u32();
                    reply.hole_bytes += u64::from(hole);
                    reply.data.put_bytes(0, hole as usize);
                }
                5 => {
                    assert_eq!(payload.get_u32(), 1);
                    while payload.has_remaining() {
                        reply.extents.push((payload.get_u32(), payload.get_u32()));
                    }
                }
                0x8001 => reply.error = payload.get_u32(),
                _ => panic!("a chunk of kind {kind}"),
            }
            if flags & 1 != 0 {
                let length = self.reads.remove(&reply.cookie).filter(|_| reply.error == 0);
                assert_eq!(reply.data.len(), length.unwrap_or(0) as usize);
                return reply;
            }
            assert_eq!(self.stream.read_u32().await.unwrap(), 0x668E_33EF);
        }
    }

    /// Waits until the server has closed the connection. True if it had nothing more to say.
    pub(crate) async fn is_over(&mut self) -> bool {
        self.stream.read_u8().await.is_err()
    }
}

/// An encoded request header.
pub(crate) fn request(
    (kind, flags): (u16, u16),
    cookie: u64,
    (offset, length): (u64, u32),
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(28);
    bytes.put_u32(0x2560_9513);
    bytes.put_u16(flags);
    bytes.put_u16(kind);
    bytes.put_u64(cookie);
    bytes.put_u64(offset);
    bytes.put_u32(length);
    bytes
}
