"""The block device: volumes with a history, and trials on damaged copies of them."""

import collections
import dataclasses
import json
import pathlib
import pickle
import random
import shutil
import sys
import urllib.request

import damages
import flash
import nbd
import server
from contents import CLASSES, ERROR, RIGHT, WRONG, Contents, content

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "clients"))
from servers import free_port  # noqa: E402

BUFFER, CAPACITY = "b", "c"
EXPORT = "disk"
MIB = 1 << 20
ZN540_ZONE_BLOCKS = 1077 * MIB // nbd.BLOCK

# Blocks of a request in the histories, and how often each.
REQUEST_BLOCKS = (1, 1, 1, 2, 4, 16, 64)
# Requests under way at once while a history is written.
PIPELINED_MAX = 16
# Of the blocks, so many are written often, and so many of the requests go there.
HOT_SHARE, HOT_REQUESTS = 0.2, 0.5
TRIMS_SHARE = 0.04
FLUSH_EVERY = 60
# Requests behind the last flush before a kill, and those whose answer is not waited for.
UNFLUSHED_REQUESTS, UNANSWERED_REQUESTS = 40, 6
READ_BLOCKS = 16

# Of the trials, so many go on: blocks are written, so that what was damaged may be moved, and all is read after a restart.
GOES_ON = 1 / 3
GOES_ON_REQUESTS = 250

CLEAN, KILLED = "clean", "killed"


@dataclasses.dataclass(frozen=True)
class Kind:
    """Devices of a volume: their specs for a folder, their zones, and how long a history fills them."""

    capacity: str
    buffer: str
    capacity_zone_bytes: int
    buffer_zone_bytes: int
    export_mib: int
    # Of each stretch of the history that ends with a clean stop.
    requests: int
    stretches: int = 3
    # Trials on this kind for each on files: a start may take a second.
    weight: int = 1
    # Zones of the drives that are made here: made by Zonal they would take their whole space.
    drives: dict = dataclasses.field(default_factory=dict)

    def specs(self, folder):
        return self.capacity.format(folder / CAPACITY), self.buffer.format(folder / BUFFER)

    @property
    def zone_bytes(self):
        return {CAPACITY: self.capacity_zone_bytes, BUFFER: self.buffer_zone_bytes}


KINDS = {
    "file": Kind("file:{}?size=96MiB&zone=2MiB", "file:{}?size=32MiB&zone=2MiB", 2 * MIB, 2 * MIB, 72, 1200, weight=3),
    "conventional": Kind(
        "emulator:sn540?size=256MiB&zone=16MiB&backing={}", "file:{}?size=32MiB&zone=2MiB", 16 * MIB, 2 * MIB, 72, 1600, weight=2
    ),
    "zoned": Kind(
        "emulator:zn540?zones=11&backing={}", "emulator:zn540?zones=4&backing={}", 0, 0, 64, 120, stretches=9,
        drives={CAPACITY: 11, BUFFER: 4}),
}


class Block:
    """A running `zonal block` on the devices in a folder."""

    def __init__(self, zonal, kind, folder, *more):
        capacity, buffer = kind.specs(folder)
        self._socket = folder / "s"
        self._socket.unlink(missing_ok=True)
        self.admin = f"127.0.0.1:{free_port()}"
        words = ["block", "--data-dir", folder / "data", "--socket", self._socket, "--admin", self.admin]
        words += ["--capacity", capacity, "--buffer", buffer, "--log-level", "warn"]
        self.server = server.Server([zonal, *map(str, words), *more], folder / "log")
        self.client = self.server.wait_until(self._connected)

    def _connected(self):
        return nbd.Client(self._socket, EXPORT)

    def moved_bytes(self):
        """What compaction and what collection moved since the start."""
        with urllib.request.urlopen(f"http://{self.admin}/stats", timeout=nbd.SILENCE_SECONDS_MAX) as answer:
            tenants = json.load(answer)["tenants"]
        return [sum(tenant[name] for tenant in tenants) for name in ("compacted_bytes", "collected_bytes")]

    def stop(self):
        self.client.close()
        self.server.stop()

    def kill(self):
        self.server.kill()
        self.client.close()


class History:
    """Writes to a running block device, and keeps the model of what it must hold."""

    def __init__(self, contents, rng):
        self.contents, self._rng = contents, rng
        self._under_way = {}
        self._busy = set()
        self.failed = 0

    def write(self, client, requests):
        for place in range(requests):
            self.request(client)
            if place % FLUSH_EVERY == FLUSH_EVERY - 1:
                self.flush(client)

    def fill(self, client, share):
        """Writes the first blocks in order."""
        blocks = int(len(self.contents.blocks) * share)
        for first in range(0, blocks, READ_BLOCKS):
            self._send(client, first, min(READ_BLOCKS, blocks - first), is_trim=False)
        self.flush(client)

    def flush(self, client):
        self.drain(client)
        if client.call(nbd.FLUSH):
            self.failed += 1
        else:
            self.contents.flushed()

    def drain(self, client):
        while self._under_way:
            self._answered(client)

    def leave_unanswered(self, client, requests):
        """Sends some more, whose answers nobody waits for: each block is old or new then."""
        for _ in range(requests):
            self.request(client)
        for first, count, version in self._under_way.values():
            self.contents.sent(first, count, version)
        self._under_way.clear()
        self._busy.clear()

    def request(self, client):
        rng, blocks = self._rng, len(self.contents.blocks)
        count = rng.choice(REQUEST_BLOCKS)
        within = int(blocks * HOT_SHARE) if rng.random() < HOT_REQUESTS else blocks
        self._send(client, rng.randrange(within - count), count, rng.random() < TRIMS_SHARE)

    def _send(self, client, first, count, is_trim):
        while self._busy.intersection(range(first, first + count)) or PIPELINED_MAX <= len(self._under_way):
            self._answered(client)
        version = self.contents.new_version()
        if is_trim:
            command = self._rng.choice((nbd.TRIM, nbd.WRITE_ZEROES))
            cookie = client.send(command, first * nbd.BLOCK, count * nbd.BLOCK)
            version = -version
        else:
            data = b"".join(content(block, version) for block in range(first, first + count))
            cookie = client.send(nbd.WRITE, first * nbd.BLOCK, data=data)
        self._under_way[cookie] = (first, count, version)
        self._busy.update(range(first, first + count))

    def _answered(self, client):
        cookie, error, _ = client.answer({})
        first, count, version = self._under_way.pop(cookie)
        self._busy.difference_update(range(first, first + count))
        if error:
            self.failed += 1
            self.contents.sent(first, count, version)
        else:
            self.contents.acknowledged(first, count, version)


# --- volumes


@dataclasses.dataclass
class Volume:
    """Copies of a block device at several moments, with what it must have held at each."""

    folder: pathlib.Path
    kind_name: str
    # By the name of the moment: `clean` and `killed` are damaged, all others only give older contents.
    models: dict

    @property
    def kind(self):
        return KINDS[self.kind_name]

    def moments_before(self, stop):
        later = (CLEAN, KILLED) if stop == CLEAN else (KILLED,)
        return {moment: self.folder / moment for moment in self.models if moment not in later}


def prepared(zonal, folder, kind_name, seed, work):
    """Makes a volume, or takes one that was made before with the same seed. `work`: a short path, for a socket."""
    noted = folder / "models"
    if noted.exists():
        return Volume(folder, kind_name, pickle.loads(noted.read_bytes()))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    volume = Volume(folder, kind_name, {})
    make(zonal, volume, random.Random(seed), work)
    noted.write_bytes(pickle.dumps(volume.models))
    return volume


def make(zonal, volume, rng, work):
    kind = volume.kind
    work.mkdir()
    for name, zones in kind.drives.items():
        flash.made_drive(work / name, b"zn540", zones, ZN540_ZONE_BLOCKS)
    history, moved = None, [0, 0]
    for stretch in range(kind.stretches):
        block = Block(zonal, kind, work, "--export", f"{EXPORT}={kind.export_mib}MiB")
        if history is None:
            history = History(Contents(block.client.bytes // nbd.BLOCK), rng)
            history.fill(block.client, 0.7)
        history.write(block.client, kind.requests)
        if stretch == kind.stretches - 2:
            history.flush(block.client)
            keep(volume, work, "running", history)
            history.write(block.client, kind.requests // 2)
        history.flush(block.client)
        moved = [sum(pair) for pair in zip(moved, block.moved_bytes(), strict=True)]
        block.stop()
        is_last = stretch == kind.stretches - 1
        if is_last or kind.stretches - 4 < stretch:
            keep(volume, work, CLEAN if is_last else f"stop-{stretch}", history)
        finish_begun_zones(kind, work, is_last)
    block = Block(zonal, kind, work)
    history.write(block.client, kind.requests // 2)
    history.flush(block.client)
    for _ in range(UNFLUSHED_REQUESTS):
        history.request(block.client)
    history.drain(block.client)
    history.leave_unanswered(block.client, UNANSWERED_REQUESTS)
    block.kill()
    keep(volume, work, KILLED, history)
    if history.failed:
        raise RuntimeError(f"{volume.folder}: {history.failed} requests failed before any damage")
    if not all(moved):
        raise RuntimeError(f"{volume.folder}: compaction moved {moved[0]} bytes, collection {moved[1]}: that tries too little")
    shutil.rmtree(work)


def keep(volume, work, moment, history):
    target = volume.folder / moment
    target.mkdir()
    for name in (BUFFER, CAPACITY):
        flash.copied(work / name, target / name)
    volume.models[moment] = history.contents.copy()


def finish_begun_zones(kind, work, is_last):
    """Zones of a gibibyte would never be full, and nothing collected: the drive ends those that were begun."""
    if is_last or kind.capacity_zone_bytes:
        return
    device = flash.Flash(work / CAPACITY)
    for zone in device.used_zones():
        device.finish(zone)
    device.close()


# --- trials


@dataclasses.dataclass
class Outcome:
    """What became of a trial."""

    damage: str = ""
    # "", or "refused", "crashed", "hung", "nothing": the last where there was nothing to damage.
    end: str = ""
    message: str = ""
    is_clear: bool = True
    # Blocks by class; of a start with --salvage after one that was refused, in `salvaged`.
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    salvaged: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    # Some blocks that were wrong.
    examples: list = dataclasses.field(default_factory=list)
    went_on: bool = False
    was_salvaged: bool = False


def tried(zonal, volume, stop, damage_name, rng, work):
    """One trial: copies the volume, damages the copy, starts and reads."""
    outcome = Outcome()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for name in (BUFFER, CAPACITY):
        flash.copied(volume.folder / stop / name, work / name)
    patient = damages.Patient(work, (BUFFER, CAPACITY), volume.kind.zone_bytes, volume.moments_before(stop))
    model = volume.models[stop]
    try:
        outcome.damage = damages.ALL_KINDS[damage_name](patient, rng)
    except damages.NothingThere:
        outcome.end = "nothing"
        return outcome
    if damage_name == damages.ALL_OLDER:
        moment = outcome.damage.split("`")[1]
        model = volume.models[moment]
    goes_on = rng.random() < GOES_ON
    try:
        judge(zonal, volume.kind, work, model.copy() if goes_on else model, outcome, rng if goes_on else None)
    except server.Refused as refused:
        outcome.end, outcome.message = "crashed" if refused.is_crash else "refused", refused.message
        outcome.is_clear = refused.is_clear
        if outcome.end == "refused" and not outcome.went_on:
            salvage(zonal, volume.kind, work, model, outcome)
    except (server.Hung, TimeoutError) as error:
        outcome.end, outcome.message = "hung", str(error)
    except (OSError, nbd.ProtocolError) as error:
        outcome.end, outcome.message = "crashed", str(error)
    shutil.rmtree(work)
    return outcome


def judge(zonal, kind, work, model, outcome, rng):
    block = Block(zonal, kind, work)
    try:
        worst = read_back(block.client, model, outcome, settles=rng is not None)
        tally(outcome.counts, worst)
        if rng is not None:
            outcome.went_on = True
            go_on(zonal, kind, work, model, outcome, rng, block, worst)
    finally:
        block.kill()


def go_on(zonal, kind, work, model, outcome, rng, block, worst):
    """Writes, stops, starts, and reads again: what was an error must not have become anything older."""
    history = History(model, rng)
    history.write(block.client, GOES_ON_REQUESTS)
    history.flush(block.client)
    block.stop()
    again = Block(zonal, kind, work)
    try:
        later = read_back(again.client, model, outcome)
    finally:
        again.kill()
    outcome.counts.clear()
    tally(outcome.counts, [max(pair, key=CLASSES.index) for pair in zip(worst, later, strict=True)])


def salvage(zonal, kind, work, model, outcome):
    outcome.was_salvaged = True
    try:
        block = Block(zonal, kind, work, "--salvage")
    except (server.Refused, server.Hung):
        outcome.salvaged["refused"] += 1
        return
    try:
        tally(outcome.salvaged, read_back(block.client, model, None))
    except OSError as error:
        outcome.end, outcome.message = "crashed", f"with --salvage: {error}"
    finally:
        block.kill()


def tally(counts, classes):
    counts.update(each for each in classes if each != RIGHT)


def read_back(client, model, outcome, settles=False):
    """The class of each block of the export."""
    blocks = len(model.blocks)
    classes = [RIGHT] * blocks
    singles = []
    ranges = [(first, min(READ_BLOCKS, blocks - first)) for first in range(0, blocks, READ_BLOCKS)]
    for (first, count), error, data in client.read_all(ranges):
        if error:
            singles += [(block, 1) for block in range(first, first + count)]
        else:
            classify(model, first, count, data, classes, outcome, settles)
    for (block, _), error, data in client.read_all(singles):
        if error:
            classes[block] = ERROR
        else:
            classify(model, block, 1, data, classes, outcome, settles)
    return classes


EXAMPLES_MAX = 4


def classify(model, first, count, data, classes, outcome, settles):
    for place in range(count):
        found = data[place * nbd.BLOCK : (place + 1) * nbd.BLOCK]
        block = first + place
        classes[block] = model.judged(block, found)
        if settles:
            model.settle(block, found)
        if outcome is not None and classes[block] in WRONG and len(outcome.examples) < EXAMPLES_MAX:
            outcome.examples.append(f"block {block} is {classes[block]}")
