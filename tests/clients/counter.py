"""A proxy in front of the origin: it counts object bodies, and keeps writes and reads in turn.

It relays HTTP/1.1 byte for byte, so signatures stay good, and reads along just enough to know which
request an answer belongs to and where its body ends.

Turns: versitygw looks an object's size, ETag and bytes up one after the other, and a write in
between makes one answer of two versions. So the last byte of a write is held back while a read of
the same object waits for the head of its answer (by then the file is open), and the other way
round. What the gateway in front makes of an origin that answers right is then what is tested.
"""

import asyncio
import collections
import dataclasses
import threading
import urllib.parse

# Bytes relayed at a time: 256 KiB, the size beyond which larger pieces no longer saved time.
PIECE_BYTES = 256 * 1024
# The longest head of a request or an answer: 64 KiB, twice what S3 allows.
HEAD_BYTES_MAX = 64 * 1024
# Requests of one connection that may wait for their answers: clients of S3 do not pipeline.
PIPELINED_MAX = 8
# Query parameters that a read of an object may have; any other asks for something else.
OBJECT_PARAMETERS = ("x-id", "x-amz-", "response-", "versionid", "partnumber")


@dataclasses.dataclass(frozen=True)
class Count:
    """What the origin was asked so far."""

    gets: int = 0
    body_bytes: int = 0
    heads: int = 0
    # All else: lists, writes, questions about the bucket.
    others: int = 0

    def since(self, earlier):
        return Count(
            self.gets - earlier.gets,
            self.body_bytes - earlier.body_bytes,
            self.heads - earlier.heads,
            self.others - earlier.others,
        )


class Turns:
    """Reads of a path together, or one write."""

    def __init__(self):
        self._reads = collections.Counter()
        self._writes = set()
        self._changed = asyncio.Condition()

    async def begin(self, path, is_write):
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_free(path, is_write))
            if is_write:
                self._writes.add(path)
            else:
                self._reads[path] += 1

    def _is_free(self, path, is_write):
        return path not in self._writes and not (is_write and 0 < self._reads[path])

    async def end(self, path, is_write):
        async with self._changed:
            if is_write:
                self._writes.discard(path)
            else:
                self._reads[path] -= 1
            self._changed.notify_all()


class Exchange:
    """A request, its turn, and whether its answer has begun."""

    def __init__(self, head, turns):
        self.method, self.target, _ = first_line(head)
        self._path = urllib.parse.urlsplit(self.target).path
        self._turns = turns
        self._has_turn = False
        self._is_answered = False

    @property
    def is_write(self):
        return self.method not in ("GET", "HEAD")

    async def take_turn(self):
        await self._turns.begin(self._path, self.is_write)
        self._has_turn = True
        # A refusal may come before the body was read: then there is nothing to wait for.
        if self._is_answered:
            await self.answered()

    async def answered(self):
        """The answer has begun, or will never come."""
        self._is_answered = True
        if self._has_turn:
            self._has_turn = False
            await self._turns.end(self._path, self.is_write)


class CountingProxy:
    """Runs in a thread of its own until the process ends. What comes in at `port` is counted, what
    comes in at `uncounted_port` only takes its turn."""

    def __init__(self, upstream_port):
        self._upstream_port = upstream_port
        self._lock = threading.Lock()
        self._count = Count()
        self._turns = None
        self.port = None
        self.uncounted_port = None
        listening = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(self._serve(listening)), daemon=True)
        thread.start()
        if not listening.wait(timeout=10):
            raise RuntimeError("the counting proxy does not listen")

    def count(self):
        with self._lock:
            return self._count

    async def _serve(self, listening):
        self._turns = Turns()
        counted = await self._listen(self._add)
        uncounted = await self._listen(lambda _: None)
        self.port = counted.sockets[0].getsockname()[1]
        self.uncounted_port = uncounted.sockets[0].getsockname()[1]
        listening.set()
        await asyncio.gather(counted.serve_forever(), uncounted.serve_forever())

    async def _listen(self, add):
        def connected(reader, writer):
            return self._connection(reader, writer, add)

        return await asyncio.start_server(connected, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)

    async def _connection(self, client_reader, client_writer, add):
        origin_reader, origin_writer = await asyncio.open_connection(
            "127.0.0.1", self._upstream_port, limit=HEAD_BYTES_MAX
        )
        asked = asyncio.Queue(PIPELINED_MAX)
        directions = [
            asyncio.create_task(self._requests(client_reader, origin_writer, asked)),
            asyncio.create_task(self._answers(origin_reader, client_writer, asked, add)),
        ]
        # When either side is done, so is the connection: S3 clients do not close one half.
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        for direction in directions:
            direction.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
        client_writer.close()
        origin_writer.close()

    async def _requests(self, reader, writer, asked):
        exchange = None
        try:
            while (head := await read_head(reader)) is not None:
                exchange = Exchange(head, self._turns)
                await asked.put(exchange)
                await relay_request(reader, writer, head, exchange)
        finally:
            if exchange is not None:
                await exchange.answered()

    async def _answers(self, reader, writer, asked, add):
        while (head := await read_head(reader)) is not None:
            status = int(first_line(head)[1])
            if 100 <= status < 200:
                writer.write(head)
                await writer.drain()
                continue
            exchange = await asked.get()
            is_get = exchange.method == "GET" and is_object(exchange.target)
            is_head = exchange.method == "HEAD"
            is_counted = is_get and status in (200, 206)
            is_other = not (is_counted or is_head)
            # Counted when it begins: an answer that nobody reads to the end was asked for, too. And
            # before it is relayed: who has it may look at the count.
            add(Count(gets=int(is_counted), heads=int(is_head), others=int(is_other)))
            writer.write(head)
            await writer.drain()
            await exchange.answered()
            if not is_head and status not in (204, 304):
                relayed = await relay_body(reader, writer, headers(head))
                add(Count(body_bytes=relayed if is_counted else 0))

    def _add(self, more):
        with self._lock:
            now = self._count
            self._count = Count(
                now.gets + more.gets,
                now.body_bytes + more.body_bytes,
                now.heads + more.heads,
                now.others + more.others,
            )


async def read_head(reader):
    """The head with its empty line; None at the end of the connection."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def first_line(head):
    parts = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    return parts if len(parts) == 3 else parts + [""]


def headers(head):
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return {name.strip().lower(): value.strip() for name, value in pairs}


def is_object(target):
    """Whether a request for `target` is for an object: it has a key, and asks for nothing else."""
    url = urllib.parse.urlsplit(target)
    key = url.path.lstrip("/").partition("/")[2]
    names = (name.lower() for name, _ in urllib.parse.parse_qsl(url.query, keep_blank_values=True))
    return key != "" and all(name.startswith(OBJECT_PARAMETERS) for name in names)


async def relay_request(reader, writer, head, exchange):
    """Relays a request. A write takes its turn in front of its last byte, which completes it."""
    fields = headers(head)
    length = int(fields.get("content-length", 0))
    is_chunked = "chunked" in fields.get("transfer-encoding", "").lower()
    if length == 0 or is_chunked:
        await exchange.take_turn()
        writer.write(head)
        if is_chunked:
            await relay_chunks(reader, writer)
    else:
        writer.write(head)
        await relay_exactly(reader, writer, length - 1)
        await exchange.take_turn()
        await relay_exactly(reader, writer, 1)
    await writer.drain()


async def relay_body(reader, writer, fields):
    """Relays the body of an answer and returns its length; without a length it ends with the
    connection."""
    if "chunked" in fields.get("transfer-encoding", "").lower():
        return await relay_chunks(reader, writer)
    if "content-length" in fields:
        return await relay_exactly(reader, writer, int(fields["content-length"]))
    relayed = 0
    while piece := await reader.read(PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
        relayed += len(piece)
    return relayed


async def relay_exactly(reader, writer, length):
    left = length
    while 0 < left:
        piece = await reader.read(min(left, PIECE_BYTES))
        if not piece:
            raise ConnectionError("the body ended early")
        writer.write(piece)
        await writer.drain()
        left -= len(piece)
    return length


async def relay_chunks(reader, writer):
    relayed = 0
    while True:
        line = await reader.readuntil(b"\r\n")
        writer.write(line)
        size = int(line.split(b";")[0], 16)
        if size == 0:
            break
        relayed += await relay_exactly(reader, writer, size)
        await relay_exactly(reader, writer, len(b"\r\n"))
    while (trailer := await reader.readuntil(b"\r\n")) != b"\r\n":
        writer.write(trailer)
    writer.write(b"\r\n")
    await writer.drain()
    return relayed
