"""Clients of Zonal that check each byte: readers, writers, slow readers, and readers of objects that never arrive."""

import asyncio
import dataclasses
import pathlib
import socket
import sys
import time
import urllib.parse

import versions

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "attacks"))
import wire  # noqa: E402

BUCKET = "soak"
KEY = wire.Key("soak", "the secret of the soak")
# Without a byte for so long, a server counts as hung. A read may wait for several tries at the origin.
SILENCE_SECONDS_MAX = 60
HEAD_BYTES_MAX = 64 * 1024
PIECE = 64 * 1024


class Broken(Exception):
    """The connection ended: before an answer began (`refused`), or within its body (`cut`)."""


class Hung(Exception):
    """The server was silent for too long."""


class Wrong(Exception):
    """Bytes that are not those of the version that the entity tag names."""


@dataclasses.dataclass
class Answer:
    """A response. Its body, if it is an object's, was compared with the version that its entity tag names."""

    status: int
    headers: dict
    first_byte_seconds: float

    @property
    def version(self):
        return versions.version_of(self.headers["etag"]) if "etag" in self.headers else None

    @property
    def source(self):
        return self.headers.get("x-cache", "")


class Connection:
    """A keep-alive connection. `receive_bytes` makes a small window, so that a slow reader slows the server down."""

    def __init__(self, port, receive_bytes=None):
        self._address, self._receive_bytes = wire.Address(port), receive_bytes
        self._reader = self._writer = None

    async def call(self, method, name, headers=(), body=b"", pause=None):
        """`pause` is awaited before each piece of the body is read."""
        began = time.monotonic()
        try:
            return await self._call(method, name, headers, body, pause)
        except TimeoutError:
            self.close()
            raise Hung(f"{method} {name} after {time.monotonic() - began:.0f} s") from None
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            raise Broken("refused") from None
        except BaseException:
            self.close()
            raise

    async def _call(self, method, name, headers, body, pause):
        if self._writer is None:
            await self._open()
        signing = wire.Signing(payload="UNSIGNED-PAYLOAD")
        path = urllib.parse.quote(f"/{BUCKET}/{name}")
        request = wire.Request(method, path, headers=list(headers), body=body, signing=signing)
        began = time.monotonic()
        self._writer.write(request.encode(self._address, KEY))
        async with asyncio.timeout(SILENCE_SECONDS_MAX):
            await self._writer.drain()
            head = await self._reader.readuntil(b"\r\n\r\n")
        answer = Answer(*wire.heading(head[:-4]), time.monotonic() - began)
        if method != "HEAD" and answer.status not in (204, 304):
            await self._read_body(name, answer, pause, method == "GET")
        if answer.headers.get("connection", "").lower() == "close":
            self.close()
        return answer

    async def _open(self):
        connection = socket.socket()
        if self._receive_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_bytes)
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self._address.port))
        except BaseException:
            connection.close()
            raise
        limit = self._receive_bytes or HEAD_BYTES_MAX
        self._reader, self._writer = await asyncio.open_connection(sock=connection, limit=limit)

    async def _read_body(self, name, answer, pause, is_read):
        length = int(answer.headers.get("content-length", 0))
        is_object = is_read and answer.status in (200, 206) and answer.version is not None
        expected, done = expected_body(name, answer, length) if is_object else None, 0
        while done < length:
            if pause is not None:
                await pause()
            piece = await self._read_piece(length - done)
            if expected is not None and piece != expected[done : done + len(piece)]:
                raise Wrong(f"{name} {answer.headers['etag']} {answer.source}: bytes differ within {len(piece)} at {done}")
            done += len(piece)

    async def _read_piece(self, bytes_max):
        async with asyncio.timeout(SILENCE_SECONDS_MAX):
            try:
                piece = await self._reader.read(min(PIECE, bytes_max))
            except OSError as error:
                if isinstance(error, TimeoutError):
                    raise
                piece = b""
        if not piece:
            raise Broken("cut")
        return piece

    def close(self):
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None


def expected_body(name, answer, length):
    whole, etag = versions.content(name, answer.version), answer.headers["etag"]
    first, size = 0, length
    if answer.status == 206:
        span, _, size = answer.headers["content-range"].removeprefix("bytes ").partition("/")
        first, size = int(span.partition("-")[0]), int(size)
    expected = whole[first : first + length]
    if size != len(whole) or len(expected) != length or etag != versions.etag_of(name, answer.version):
        raise Wrong(f"{name} {etag} {answer.source}: size {size}, length {length} from {first} are of no version")
    return expected


async def stay_stalled(port, rng, tally):
    """Reads objects that never arrive, for ever."""
    connection = Connection(port)
    while True:
        name = f"{versions.STALLED}/{rng.randrange(100_000)}"
        # Where single bytes come, Zonal goes on waiting for the origin. That is no hang.
        answer = await tally.watch("stalled", connection.call("GET", name), hung="silent")
        if answer is not None and answer.status == 503:
            await asyncio.sleep(rng.uniform(0.5, 1.5))


SLOW_BYTES_PER_SECOND = 4096
SLOW_SECONDS = 90


async def stay_slow(port, rng, tally, names):
    """Reads large objects at a few KiB/s, and goes away before their end."""
    while True:
        connection, name = Connection(port, SLOW_BYTES_PER_SECOND), rng.choice(names)
        ends_at = time.monotonic() + rng.uniform(0.3, 1) * SLOW_SECONDS

        async def pause(ends_at=ends_at):
            await asyncio.sleep(1)
            if ends_at < time.monotonic():
                raise Enough

        answer = await tally.watch("slow", connection.call("GET", name, pause=pause))
        connection.close()
        if answer is not None and answer.status == 503:
            await asyncio.sleep(rng.uniform(0.5, 1.5))


class Enough(Exception):
    """A slow reader goes away."""
