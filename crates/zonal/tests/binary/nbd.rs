//! Minimal NBD client for tests: old-style export choice (NBD_OPT_EXPORT_NAME) and simple replies.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// NBD command types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Read = 0,
    Write = 1,
    Flush = 3,
    Trim = 4,
}

/// One connection.
pub(crate) struct Nbd {
    stream: UnixStream,
    /// Size of the export, in bytes.
    pub(crate) size: u64,
}

impl Nbd {
    pub(crate) fn connect(socket: &Path, export: &str) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        let mut banner = [0; 18];
        stream.read_exact(&mut banner)?;
        assert_eq!(&banner[..16], b"NBDMAGICIHAVEOPT");
        let length = u32::try_from(export.len()).unwrap().to_be_bytes();
        let parts = [&[0, 0, 0, 3], &b"IHAVEOPT"[..], &1_u32.to_be_bytes(), &length];
        stream.write_all(&[&parts.concat(), export.as_bytes()].concat())?;
        let mut answer = [0; 10];
        stream.read_exact(&mut answer)?;
        let size = u64::from_be_bytes(answer[..8].try_into().unwrap());
        Ok(Self { stream, size })
    }

    /// Sends a request without waiting for the reply. `data` is the payload of a write.
    pub(crate) fn ask(
        &mut self,
        command: Command,
        cookie: u64,
        (offset, length): (u64, u32),
        data: &[u8],
    ) -> io::Result<()> {
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend([0, 0, 0, command as u8]);
        request.extend(cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(length.to_be_bytes());
        request.extend(data);
        self.stream.write_all(&request)
    }

    /// Reads the next reply, which must be a success, and returns its cookie.
    pub(crate) fn answered(&mut self) -> io::Result<u64> {
        let (error, cookie) = self.reply()?;
        assert_eq!(error, 0, "an error was answered");
        Ok(cookie)
    }

    /// Reads the next reply and returns its error, 0 for none.
    pub(crate) fn outcome(&mut self) -> io::Result<u32> {
        self.reply().map(|(error, _)| error)
    }

    fn reply(&mut self) -> io::Result<(u32, u64)> {
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply)?;
        assert_eq!(reply[..4], *b"\x67\x44\x66\x98");
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        Ok((error, u64::from_be_bytes(reply[8..].try_into().unwrap())))
    }

    /// Reads the payload that follows a reply.
    pub(crate) fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut data = vec![0; length];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }

    /// Sends a request and waits for its reply. Requires: no other request is running.
    pub(crate) fn carry_out(
        &mut self,
        command: Command,
        offset: u64,
        data: &[u8],
    ) -> io::Result<()> {
        let length = u32::try_from(data.len()).unwrap();
        self.ask(command, 1, (offset, length), data)?;
        self.answered().map(drop)
    }

    /// Reads a range. Requires: no other request is running.
    pub(crate) fn read(&mut self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        let found = self.try_read(offset, length)?;
        Ok(found.unwrap_or_else(|error| panic!("error {error} was answered")))
    }

    /// Reads a range, or returns the error that was answered. Requires: no other request is
    /// running.
    pub(crate) fn try_read(
        &mut self,
        offset: u64,
        length: u32,
    ) -> io::Result<Result<Vec<u8>, u32>> {
        self.ask(Command::Read, 1, (offset, length), &[])?;
        match self.outcome()? {
            0 => self.take(length as usize).map(Ok),
            error => Ok(Err(error)),
        }
    }
}
