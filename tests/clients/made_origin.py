"""An S3 origin that has every object one asks for, makes its bytes up, and counts what it is asked.

All objects are of one size. It answers HEAD, and GET with and without a range, to anybody; it
looks at no signature, and writes nothing down but counts. The bytes of an object follow from its
key, so that whoever reads them can tell whether they are right.
"""

import asyncio
import collections
import hashlib
import threading

# The content of every object repeats after 1 MiB; where it begins depends on the key.
PATTERN_BYTES = 1 << 20
# Bytes that are handed to a connection at a time: 256 KiB.
PIECE_BYTES = 256 << 10
# The longest head of a request: 64 KiB, twice what S3 allows.
HEAD_BYTES_MAX = 64 << 10

_ONE = b"".join(hashlib.sha256(n.to_bytes(4)).digest() for n in range(PATTERN_BYTES // 32))
# Twice and a piece more: a piece is one slice, wherever it begins.
PATTERN = memoryview(_ONE + _ONE[:PIECE_BYTES])


def shift(path):
    """Where in the pattern an object begins."""
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:4]) % PATTERN_BYTES


def content(path, start, end):
    """The bytes that `path` has from `start` to `end`."""
    pieces, at = [], start
    while at < end:
        pieces.append(piece(path, at, end))
        at += len(pieces[-1])
    return b"".join(pieces)


def piece(path, start, end):
    """Some of the bytes from `start` on, `end` at most."""
    at = (shift(path) + start) % PATTERN_BYTES
    return PATTERN[at : at + min(end - start, PIECE_BYTES)]


class MadeOrigin:
    """Listens on `address` in a thread of its own until the process ends."""

    def __init__(self, object_bytes, address="127.0.0.1"):
        self.object_bytes = object_bytes
        self._lock = threading.Lock()
        self._asked = {"HEAD": collections.Counter(), "GET": collections.Counter()}
        self.port = None
        listening = threading.Event()
        serve = lambda: asyncio.run(self._serve(address, listening))
        threading.Thread(target=serve, daemon=True).start()
        if not listening.wait(timeout=10):
            raise RuntimeError("the made-up origin does not listen")

    def asked(self, method):
        """How often each path was asked for so far."""
        with self._lock:
            return self._asked[method].copy()

    async def _serve(self, address, listening):
        server = await asyncio.start_server(self._connection, address, 0, limit=HEAD_BYTES_MAX)
        self.port = server.sockets[0].getsockname()[1]
        listening.set()
        await server.serve_forever()

    async def _connection(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                await self._answer(head, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, head, writer):
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        path = target.split("?")[0]
        fields = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
        if method not in self._asked:
            writer.write(b"HTTP/1.1 501 Not Implemented\r\ncontent-length: 0\r\n\r\n")
            return
        if path.strip("/").count("/") == 0:
            # The service or a bucket: Zonal asks at its start whether it is let in.
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            return
        with self._lock:
            self._asked[method][path] += 1
        start, end, size = 0, self.object_bytes, self.object_bytes
        status, place = "200 OK", ""
        if "range" in fields:
            first_byte, last_byte = fields["range"].removeprefix("bytes=").split("-")
            start, end = int(first_byte), min(int(last_byte) + 1, size)
            status = "206 Partial Content"
            place = f"content-range: bytes {start}-{end - 1}/{size}\r\n"
        writer.write(
            f"HTTP/1.1 {status}\r\ncontent-length: {end - start}\r\n{place}"
            f'etag: "{shift(path):08x}"\r\naccept-ranges: bytes\r\n'
            "last-modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n".encode()
        )
        while method == "GET" and start < end:
            bytes_now = piece(path, start, end)
            writer.write(bytes_now)
            await writer.drain()
            start += len(bytes_now)
