"""A small NBD client: fixed newstyle, NBD_OPT_GO, simple replies.

Requests are pipelined, and each is answered on its own: an error of one is an answer like any other. Whole blocks only.
"""

import socket
import struct

BLOCK = 4096
# Requests under way at once. Their replies are small or read while they arrive, so neither side waits for the other.
PIPELINED_MAX = 32

INIT_MAGIC, OPTION_MAGIC, REPLY_MAGIC = b"NBDMAGIC", b"IHAVEOPT", 0x0003E889045565A9
REQUEST_MAGIC, SIMPLE_MAGIC = 0x25609513, 0x67446698
FIXED_NEWSTYLE, NO_ZEROES = 1, 2
OPT_GO = 7
REP_ACK, REP_INFO, REP_ERROR = 1, 3, 1 << 31
INFO_EXPORT = 0
READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 2, 3, 4, 6
FLAG_FUA = 1
# Seconds until a silent server counts as one that hangs.
SILENCE_SECONDS_MAX = 30


class ProtocolError(Exception):
    """The server said something that is not NBD."""


class Client:
    """One connection to one export."""

    def __init__(self, path, export=""):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(SILENCE_SECONDS_MAX)
        self._socket.connect(str(path))
        self._reader = self._socket.makefile("rb", buffering=1 << 20)
        self._cookie = 0
        self.bytes = self._handshake(export.encode())

    def close(self):
        try:
            self._socket.sendall(struct.pack(">IHHQQI", REQUEST_MAGIC, 0, DISCONNECT, 0, 0, 0))
        except OSError:
            pass  # It may be dead by now.
        self._reader.close()
        self._socket.close()

    def _handshake(self, export):
        magic, option, flags = struct.unpack(">8s8sH", self._exactly(18))
        if magic != INIT_MAGIC or option != OPTION_MAGIC or not flags & FIXED_NEWSTYLE:
            raise ProtocolError("no fixed newstyle")
        self._socket.sendall(struct.pack(">I", FIXED_NEWSTYLE | NO_ZEROES))
        data = struct.pack(">I", len(export)) + export + struct.pack(">H", 0)
        self._socket.sendall(OPTION_MAGIC + struct.pack(">II", OPT_GO, len(data)) + data)
        size = None
        while True:
            magic, _, kind, length = struct.unpack(">QIII", self._exactly(20))
            data = self._exactly(length)
            if magic != REPLY_MAGIC or kind & REP_ERROR:
                raise ProtocolError(f"the option is answered {kind:#x}: {data[:200]!r}")
            if kind == REP_ACK:
                break
            if kind == REP_INFO and struct.unpack(">H", data[:2])[0] == INFO_EXPORT:
                size = struct.unpack(">Q", data[2:10])[0]
        if size is None:
            raise ProtocolError("the size of the export is not said")
        return size

    def _exactly(self, length):
        data = self._reader.read(length)
        if len(data) != length:
            raise ConnectionError("the server closed the connection")
        return data

    def send(self, command, offset=0, length=0, data=b"", flags=0):
        """Sends one request; its answer comes with `answer`."""
        self._cookie += 1
        head = struct.pack(">IHHQQI", REQUEST_MAGIC, flags, command, self._cookie, offset, length or len(data))
        self._socket.sendall(head + data)
        return self._cookie

    def answer(self, reads):
        """The next answer, as (cookie, error, bytes). `reads`: the lengths of reads under way, by cookie."""
        magic, error, cookie = struct.unpack(">IIQ", self._exactly(16))
        if magic != SIMPLE_MAGIC:
            raise ProtocolError(f"a reply begins with {magic:#x}")
        length = reads.pop(cookie, 0)
        return cookie, error, self._exactly(length) if length and not error else b""

    def call(self, command, offset=0, length=0, data=b"", flags=0):
        """One request and its answer: the error, 0 when there is none."""
        self.send(command, offset, length, data, flags)
        return self.answer({})[1]

    def read_all(self, ranges):
        """Yields (range, error, bytes) of each (first block, blocks), in the order of the answers."""
        waiting, reads, under_way = list(reversed(ranges)), {}, {}
        while waiting or under_way:
            while waiting and len(under_way) < PIPELINED_MAX:
                first, count = waiting.pop()
                cookie = self.send(READ, first * BLOCK, count * BLOCK)
                reads[cookie], under_way[cookie] = count * BLOCK, (first, count)
            cookie, error, data = self.answer(reads)
            yield under_way.pop(cookie), error, data
