"""A faulty S3 origin in a process of its own.

It resets connections in mid-body, answers 503, answers late, answers nothing, and can be made to do so for everything.
Each answer has headers that differ from the one before. A PUT is kept only if its version is younger than what is
there, so that one that arrives late changes nothing.

    kill -USR1    refuses connections for a while
    kill -USR2    answers 503 to everything for a while
"""

import asyncio
import contextlib
import email.utils
import itertools
import random
import re
import signal
import time

import versions

MODIFIED = email.utils.formatdate(1_700_000_000, usegmt=True)
LOCATION = b'<?xml version="1.0"?><LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"/>'
# Share of requests with each fault.
RESET, BUSY, LATE, SILENT, CLOSED = 0.02, 0.01, 0.01, 0.001, 0.005
# An answer that is late, is decided before the wait: it may tell of a version that is replaced meanwhile.
LATE_SECONDS_MAX = 2.5
# Of a stalled object one byte each, and of every second one none.
TRICKLE_SECONDS = 5
OUTAGE_SECONDS = 8
PIECE = 256 * 1024


class Lost(Exception):
    """The connection is given up."""


class Origin:
    def __init__(self, seed):
        self._rng = random.Random(seed)
        self._versions = {}
        self._youngest = {}
        self._requests = itertools.count()
        self._connections = set()
        self._refuses_until = self._busy_until = 0

    async def serve(self, port):
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._refuse)
        loop.add_signal_handler(signal.SIGUSR2, self._be_busy)
        while True:
            server = await asyncio.start_server(self._connected, "127.0.0.1", port, backlog=1024)
            while self._refuses_until <= time.monotonic():
                await asyncio.sleep(0.1)
            server.close()
            for writer in list(self._connections):
                writer.transport.abort()
            await asyncio.sleep(OUTAGE_SECONDS)

    def _refuse(self):
        self._refuses_until = time.monotonic() + OUTAGE_SECONDS

    def _be_busy(self):
        self._busy_until = time.monotonic() + OUTAGE_SECONDS

    async def _connected(self, reader, writer):
        self._connections.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._answer(Request(head), reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        except Lost:
            writer.transport.abort()
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _answer(self, request, reader, writer):
        if "100-continue" in request.headers.get("expect", ""):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(int(request.headers.get("content-length", 0)))
        is_direct = "x-amz-meta-direct" in request.headers
        if not is_direct:
            await self._maybe_fail(writer)
        if not request.name:
            return await self._send(writer, request, "200 OK", LOCATION)
        if request.method == "PUT":
            return await self._put(writer, request, body)
        if request.method == "DELETE":
            self._versions.pop(request.name, None)
            return await self._send(writer, request, "204 No Content", b"")
        return await self._get(writer, request)

    async def _maybe_fail(self, writer):
        if time.monotonic() < self._busy_until or self._rng.random() < BUSY:
            body = b"<Error><Code>SlowDown</Code></Error>"
            writer.write(b"HTTP/1.1 503 Slow Down\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
            await writer.drain()
            raise ConnectionResetError
        if self._rng.random() < CLOSED:
            raise Lost
        if self._rng.random() < SILENT:
            await asyncio.sleep(60)
            raise Lost

    async def _put(self, writer, request, body):
        version = int(request.headers["x-amz-meta-version"])
        if body != versions.content(request.name, version):
            return await self._send(writer, request, "400 Bad Request", b"<Error><Code>BadDigest</Code></Error>")
        if version < self._youngest.get(request.name, 0):
            return await self._send(writer, request, "409 Conflict", b"<Error><Code>OperationAborted</Code></Error>")
        self._versions[request.name] = self._youngest[request.name] = version
        etag = versions.etag_of(request.name, version)
        return await self._send(writer, request, "200 OK", b"", {"ETag": etag})

    async def _get(self, writer, request):
        name = request.name
        version = 1 if name.startswith(versions.STALLED) else self._versions.get(name)
        if self._rng.random() < LATE:
            await asyncio.sleep(self._rng.uniform(0, LATE_SECONDS_MAX))
        if version is None:
            return await self._send(writer, request, "404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>")
        etag = versions.etag_of(name, version)
        headers = {"ETag": etag, "Last-Modified": MODIFIED, "Accept-Ranges": "bytes"}
        if request.headers.get("if-match", etag) != etag:
            return await self._send(writer, request, "412 Precondition Failed", b"<Error><Code>PreconditionFailed</Code></Error>")
        if request.headers.get("if-none-match") == etag:
            return await self._send(writer, request, "304 Not Modified", b"", headers)
        body, status = versions.content(name, version), "200 OK"
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", "")):
            first, last = int(asked[1]), min(int(asked[2] or len(body)), len(body) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
            body, status = body[first : last + 1], "206 Partial Content"
        return await self._send(writer, request, status, body, headers)

    async def _send(self, writer, request, status, body, headers=None):
        lines = [f"HTTP/1.1 {status}", f"x-amz-request-id: {next(self._requests):016X}"]
        lines += [f"Expires: {email.utils.formatdate(time.time() + 3600, usegmt=True)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        lines += [f"Content-Length: {len(body)}"] if not status.startswith(("204", "304")) else []
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        if request.method != "HEAD":
            if request.name.startswith(versions.STALLED):
                await self._trickle(writer, request, body)
            resets_at = self._rng.randrange(len(body)) if body and self._rng.random() < RESET else None
            for first in range(0, len(body), PIECE):
                if resets_at is not None and resets_at < first + PIECE:
                    writer.write(body[first:resets_at])
                    await writer.drain()
                    raise Lost
                writer.write(body[first : first + PIECE])
                await writer.drain()
        await writer.drain()

    async def _trickle(self, writer, request, body):
        while True:
            await asyncio.sleep(TRICKLE_SECONDS)
            if writer.is_closing():
                raise Lost
            if int(request.name.rpartition("/")[2]) % 2:
                writer.write(body[:1])
                body = body[1:]
                await writer.drain()


class Request:
    """The head of a request."""

    def __init__(self, head):
        lines = head.decode("latin-1").split("\r\n")
        self.method, target, _ = lines[0].split(" ")
        self.name = target.partition("?")[0].lstrip("/").partition("/")[2]
        pairs = [line.partition(":") for line in lines[1:] if line]
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}


def run(port, seed):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(Origin(seed).serve(port))
