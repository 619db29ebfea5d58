//! Receive buffer: bytes of a socket that are not parsed yet, of fixed size.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crate::handshake::OPTION_BYTES_MAX;

/// Buffer size: 128 KiB, enough for 31 writes of 4 KiB in one system call. Smaller payloads are
/// copied from here to their own buffer, which costs less than a system call for each.
pub(crate) const RECEIVED_BYTES: usize = 128 << 10;

const _: () = assert!(2 * OPTION_BYTES_MAX <= RECEIVED_BYTES, "an option fits with its header");

/// Received bytes that are not parsed yet.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    memory: Box<[u8]>,
    start: usize,
    end: usize,
}

impl ReceiveBuffer {
    pub(crate) fn new() -> Self {
        Self { memory: vec![0; RECEIVED_BYTES].into_boxed_slice(), start: 0, end: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    /// Removes `bytes` parsed bytes at the front.
    pub(crate) fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.end - self.start);
        self.start += bytes;
    }

    /// Reads from the stream into the free part of the buffer. Returns the number of bytes; 0 at
    /// the end of the stream.
    ///
    /// Requires: the buffer is not full.
    pub(crate) fn poll_fill<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        // Usually nothing or part of a header is left, so this copy is small.
        self.memory.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let mut room = ReadBuf::new(&mut self.memory[self.end..]);
        assert!(0 < room.capacity(), "whoever wants more has looked at what is here");
        ready!(Pin::new(stream).poll_read(cx, &mut room))?;
        let read = room.filled().len();
        self.end += read;
        Poll::Ready(Ok(read))
    }

    /// Async version of [`ReceiveBuffer::poll_fill`].
    pub(crate) async fn fill<S: AsyncRead + Unpin>(&mut self, stream: &mut S) -> io::Result<usize> {
        poll_fn(|cx| self.poll_fill(stream, cx)).await
    }
}
