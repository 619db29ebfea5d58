"""Clients that know what each answer may be, because they alone write."""

import asyncio
import time

import versions
from clients import Broken, Connection, Hung
from versions import History

OBJECTS_PER_RULE = 60
# Objects that are only read in the end, to see that Zonal caches again.
FRESH = 60
# A write that is not answered by then is given up: nobody knows whether it happened.
DIRECT_SECONDS_MAX = 20


class Checkers:
    AT_ONCE = 16

    def __init__(self, zonal, origin_port, tally):
        self._zonal, self._tally, self._origin_port = zonal, tally, origin_port
        self._histories = {
            f"{rule.prefix}/{number}": History(f"{rule.prefix}/{number}")
            for rule in versions.RULES
            for number in range(OBJECTS_PER_RULE)
        }
        self._turns = {name: asyncio.Lock() for name in self._histories}
        # One purge at a time: another would be answered 409.
        self._purging = asyncio.Lock()
        self.names = list(self._histories)

    async def prepare(self):
        direct = Connection(self._origin_port)
        for name in self.names:
            await self._write_directly(direct, name)
        for number in range(FRESH):
            name = f"immutable/{OBJECTS_PER_RULE + number}"
            self._histories[name] = History(name)
            await self._write_directly(direct, name)
        direct.close()

    async def work(self, rng):
        """Reads and writes for ever. Half of the reads are of a tenth of the objects."""
        through, direct = Connection(self._zonal.port), Connection(self._origin_port)
        while True:
            name = rng.choice(self.names[:: rng.choice((1, 10))])
            draw = rng.random()
            if draw < 0.03:
                await self._write(through, name, rng.random() < 0.2)
            elif draw < 0.06:
                await self._write_past(direct, name)
            elif draw < 0.1:
                await self._read(through, name, "HEAD", {})
            elif draw < 0.5:
                await self._read(through, name, "GET", self._range(rng, name))
            else:
                await self._read(through, name, "GET", {})

    def _range(self, rng, name):
        size = versions.size_of(name, len(self._histories[name].writes) - 1)
        first = rng.randrange(size)
        return {"Range": f"bytes={first}-{rng.randrange(first, size)}"}

    # --- reads

    async def _read(self, connection, name, method, headers):
        began = time.monotonic()
        answer = await self._tally.watch("checker", connection.call(method, name, headers.items()))
        if answer is None:
            return None
        if answer.status in (200, 206, 404):
            version = None if answer.status == 404 else answer.version
            found = self._histories[name].judge(version, began, time.monotonic())
            if found is not None:
                self._tally.violation("checker", found, self._describe(name, answer, began))
        if answer.source == "HIT" and method == "GET":
            self._tally.hit(answer.first_byte_seconds)
        return answer

    def _describe(self, name, answer, began):
        shown = answer.version if answer.status != 404 else None
        later = [write for write in self._histories[name].writes if shown is None or shown <= write.version]
        told = [f"{write.version}{' removed' if write.is_removal else ''} {began - write.begun:.1f}..{began - write.ended:.1f} s ago" for write in later[-4:]]
        return f"{name} {answer.status} {answer.source} shows {shown}; {', '.join(told)}"

    # --- writes

    async def _write(self, connection, name, is_removal):
        """A PUT or DELETE through Zonal: seen by every read that begins after its answer."""
        async with self._turns[name]:
            write = self._histories[name].begin(time.monotonic(), is_removal)
            if is_removal:
                call = connection.call("DELETE", name)
            else:
                headers = [("x-amz-meta-version", str(write.version))]
                call = connection.call("PUT", name, headers, bytes(versions.content(name, write.version)))
            answer = await self._tally.watch("writer", call)
            if answer is not None and answer.status in (200, 204):
                write.ended = time.monotonic()
            elif is_removal:
                self._histories[name].may_be_missing = True

    async def _write_past(self, connection, name):
        """A PUT at the origin. Under `immutable` only a purge makes it seen, and half of the others are purged, too."""
        async with self._turns[name]:
            write = await self._write_directly(connection, name)
            rule = versions.rule_of(name)
            if write.ended < float("inf") and (rule.prefix == "immutable" or write.version % 2):
                await self._purge(name, write)

    async def _write_directly(self, connection, name):
        write = self._histories[name].begin(time.monotonic())
        write.stale_seconds = versions.rule_of(name).stale_seconds
        headers = [("x-amz-meta-version", str(write.version)), ("x-amz-meta-direct", "yes")]
        try:
            async with asyncio.timeout(DIRECT_SECONDS_MAX):
                answer = await connection.call("PUT", name, headers, bytes(versions.content(name, write.version)))
        except (TimeoutError, Broken, Hung):
            connection.close()
            self._tally.add("past Zonal", "unknown")
            await asyncio.sleep(0.5)
            return write
        self._tally.add("past Zonal", str(answer.status))
        if answer.status == 200:
            write.ended = time.monotonic()
        return write

    async def _purge(self, name, write):
        async with self._purging:
            try:
                report = await self._zonal.ask("/cache/purge", f"soak/{name}\n".encode())
            except OSError:
                self._tally.add("purge", "failed")
                return
        if b'"removed":true' in report:
            self._tally.add("purge", "removed")
            write.ended, write.stale_seconds = time.monotonic(), 0
        else:
            self._tally.add("purge", "not removed")

    # --- the end

    async def read_all(self):
        connection = Connection(self._zonal.port)
        for name in self.names:
            await self._read(connection, name, "GET", {})
        connection.close()

    async def hits_share(self):
        """Of fresh objects that are read twice, how many are hits."""
        connection, hits, reads = Connection(self._zonal.port), 0, 0
        for number in range(FRESH):
            name = f"immutable/{OBJECTS_PER_RULE + number}"
            if await self._read(connection, name, "GET", {}):
                again = await self._read(connection, name, "GET", {})
                hits += again is not None and again.source == "HIT"
                reads += 1
        connection.close()
        return hits / max(1, reads)
