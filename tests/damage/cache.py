"""The cache: volumes with a history, and trials on damaged copies of them.

Whatever changes in it changes through Zonal, or is purged after it changed, and both are
acknowledged only when they are durable. So even under `immutable` no old version may be served: after damage an object
is a hit with the right bytes, or a miss.
"""

import concurrent.futures
import dataclasses
import functools
import pathlib
import pickle
import random
import shutil
import struct
import sys
import threading
import time
import urllib.request

import damages
import flash
import origin as origins
import server
from block import CLEAN, KILLED, MIB, ZN540_ZONE_BLOCKS, Outcome
from contents import ERROR, STALE

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("clients", "attacks")]
import wire  # noqa: E402
from servers import free_port  # noqa: E402

DEVICE, BUCKET = "device", "bkt"
KEY = wire.Key("damage", "the secret of the suite")

# Classes of an object that was read, besides `error` and `stale`.
HIT, MISS, WRONG_BYTES = "hit", "miss", "wrong"
HITS = ("HIT", "REVALIDATED")

OBJECTS = 160
# Sizes of objects: some are one packed record, some are several chunks of 64 KiB.
SIZES = (900, 5_000, 30_000, 70_000, 250_000)
# Of what changes, so much is removed, and so much changes past Zonal and is purged.
REMOVED_SHARE, PURGED_SHARE = 0.15, 0.2
# Seconds after which the loss of a removal is noticed, also after a kill (docs/serve/devices.md: two).
LISTED_SECONDS = 3
# Seconds after which what was admitted is on flash, also if the process is killed (README.md: half a second).
ADMITTED_SECONDS = 0.7
# Objects that change at the same time, and reads behind each change.
AT_ONCE, READS = 8, 3

IMMUTABLE, REVALIDATE = "immutable", "revalidate"
TARGETS = {"cache-immutable": IMMUTABLE, "cache-revalidate": REVALIDATE}


@dataclasses.dataclass(frozen=True)
class Kind:
    """The device of a cache, and how long a history fills it."""

    spec: str
    zone_bytes: int
    # Objects that change in each stretch of the history, of which each ends with a clean stop.
    changes: int
    stretches: int = 4
    drive_zones: int = 0
    weight: int = 1


KINDS = {
    "file": Kind("file:{}?size=32MiB&zone=2MiB", 2 * MIB, 110, weight=2),
    "conventional": Kind("emulator:sn540?size=256MiB&zone=16MiB&backing={}", 16 * MIB, 900, weight=1),
    "zoned": Kind("emulator:zn540?zones=8&backing={}", 0, 60, stretches=5, drive_zones=8),
}


@functools.lru_cache(maxsize=2048)
def content(number, version):
    """The bytes of a version of an object, which say whose they are; also their length does."""
    size = random.Random(number * 100_003 + version).choice(SIZES) + number
    line = b"object" + struct.pack("<QQ", number, version) + b" of the suite"
    return (line * (size // len(line) + 1))[:size]


def name_of(number):
    return f"{number % 4}/{number:04}"


def content_of_name(name, version):
    return content(int(name.partition("/")[2]), version)


class Cache:
    """A running `zonal serve` on the device in a folder, before an origin."""

    def __init__(self, zonal, kind, folder, origin, freshness):
        self.origin = origin
        self.address, self.admin = wire.Address(free_port()), wire.Address(free_port())
        words = ["serve", "--data-dir", folder / "data", "--listen", self.address.host, "--admin", self.admin.host]
        words += ["--device", kind.spec.format(folder / DEVICE), "--shards", 1, "--policy", "zone-fifo", "--dram", 0]
        words += ["--chunk", "64KiB", "--origin", origin.spec, "--origin-bucket", BUCKET, "--freshness", freshness, "--log-level", "warn"]
        words += ["--origin-access-key", "o", "--origin-secret-key", "the origin asks for none"]
        words += ["--access-key", KEY.access_key, "--secret-key", KEY.secret_key]
        self.server = server.Server([zonal, *map(str, words)], folder / "log")
        self._sessions = threading.local()
        # One purge at a time: another would be answered 409.
        self._purging = threading.Lock()
        self.server.wait_until(self._ready)

    def _ready(self):
        with urllib.request.urlopen(f"{self.admin.url}/readyz", timeout=5) as answer:
            return answer.status

    @property
    def session(self):
        """A connection for each thread."""
        if not hasattr(self._sessions, "own"):
            self._sessions.own = wire.Session(self.address, KEY)
        return self._sessions.own

    def get(self, number):
        return self.session.call("GET", f"/{BUCKET}/{name_of(number)}")

    def put(self, number, version):
        self.origin.expected[name_of(number)] = version
        return self.session.call("PUT", f"/{BUCKET}/{name_of(number)}", body=content(number, version))

    def delete(self, number):
        return self.session.call("DELETE", f"/{BUCKET}/{name_of(number)}")

    def change_past_it(self, number, version):
        """The origin changes by itself, and then the object is purged."""
        self.origin.versions[name_of(number)] = version
        order = f"{BUCKET}/{name_of(number)}\n".encode()
        request = urllib.request.Request(f"{self.admin.url}/cache/purge", data=order, method="POST")
        with self._purging, urllib.request.urlopen(request, timeout=30) as answer:
            report = answer.read()
        if b'"removed":true' not in report:
            raise RuntimeError(f"before any damage: a purge says {report!r}")

    def stop(self):
        self.server.stop()

    def kill(self):
        self.server.kill()


class History:
    """Changes objects, reads them, and keeps which version each has; of a removed object it is negative."""

    def __init__(self, rng):
        self._rng, self._made = rng, 0
        # All versions of each object, the last of them the present one.
        self.versions = {}

    def stretch(self, cache, changes):
        unknown = [number for number in range(OBJECTS) if number not in self.versions]
        numbers = unknown + [int(OBJECTS * self._rng.random() ** 2) for _ in range(changes)]
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as executor:
            for first in range(0, len(numbers), AT_ONCE):
                # What is changed at the same time are different objects.
                steps = [self._step(number) for number in dict.fromkeys(numbers[first : first + AT_ONCE])]
                for number, version in executor.map(lambda step, cache=cache: step(cache), steps):
                    self.versions[number].append(version)

    def _step(self, number):
        """How an object changes, all that is left to chance decided."""
        self._made += 1
        version, draw = self._made, self._rng.random()
        known = self.versions.setdefault(number, [])
        is_there = bool(known) and 0 < known[-1]
        others = [self._rng.choice((number, self._rng.randrange(OBJECTS))) for _ in range(READS)]

        def step(cache):
            changed = version
            if is_there and draw < REMOVED_SHARE:
                expect(cache.delete(number), (204, 200))
                changed = -version
            elif is_there and draw < REMOVED_SHARE + PURGED_SHARE:
                cache.change_past_it(number, version)
            else:
                expect(cache.put(number, version), (200,))
            for other in others:
                cache.get(other)
            return number, changed

        return step


def expect(answer, statuses):
    if answer.status not in statuses:
        raise RuntimeError(f"before any damage: {answer} {answer.body[:300]!r}")


# --- volumes


@dataclasses.dataclass
class Volume:
    """Copies of a device at several moments, with the versions of each object."""

    folder: pathlib.Path
    kind_name: str
    models: dict

    @property
    def kind(self):
        return KINDS[self.kind_name]

    def moments_before(self, stop):
        later = (CLEAN, KILLED) if stop == CLEAN else (KILLED,)
        return {moment: self.folder / moment for moment in self.models if moment not in later}


def prepared(zonal, folder, kind_name, seed, work):
    """Makes a volume, or takes one that was made before with the same seed."""
    noted = folder / "models"
    if noted.exists():
        return Volume(folder, kind_name, pickle.loads(noted.read_bytes()))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    volume = Volume(folder, kind_name, {})
    with origins.serving(content_of_name) as origin:
        make(zonal, volume, random.Random(seed), work, origin)
    noted.write_bytes(pickle.dumps(volume.models))
    return volume


def make(zonal, volume, rng, work, origin):
    kind, history = volume.kind, History(rng)
    work.mkdir()
    if kind.drive_zones:
        flash.made_drive(work / DEVICE, b"zn540", kind.drive_zones, ZN540_ZONE_BLOCKS)
    for stretch in range(kind.stretches):
        cache = Cache(zonal, kind, work, origin, IMMUTABLE)
        history.stretch(cache, kind.changes)
        if stretch == kind.stretches - 2:
            time.sleep(ADMITTED_SECONDS)
            keep(volume, work, "running", history)
        cache.stop()
        is_last = stretch == kind.stretches - 1
        if is_last or kind.stretches - 4 < stretch:
            keep(volume, work, CLEAN if is_last else f"stop-{stretch}", history)
        if kind.drive_zones and not is_last:
            finish_begun_zones(work)
    cache = Cache(zonal, kind, work, origin, IMMUTABLE)
    history.stretch(cache, kind.changes // 2)
    time.sleep(LISTED_SECONDS)
    cache.kill()
    keep(volume, work, KILLED, history)
    shutil.rmtree(work)


def finish_begun_zones(work):
    """Zones of a gibibyte would never be full, and none emptied: the drive ends those that were begun."""
    device = flash.Flash(work / DEVICE)
    for zone in device.used_zones():
        device.finish(zone)
    device.close()


def keep(volume, work, moment, history):
    target = volume.folder / moment
    target.mkdir()
    flash.copied(work / DEVICE, target / DEVICE)
    volume.models[moment] = {number: list(versions) for number, versions in history.versions.items()}


# --- trials


def tried(zonal, volume, stop, damage_name, freshness, rng, work):
    """One trial: copies the device, damages the copy, starts and reads."""
    outcome = Outcome()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    flash.copied(volume.folder / stop / DEVICE, work / DEVICE)
    patient = damages.Patient(work, (DEVICE,), {DEVICE: volume.kind.zone_bytes}, volume.moments_before(stop))
    try:
        outcome.damage = damages.ALL_KINDS[damage_name](patient, rng)
    except damages.NothingThere:
        outcome.end = "nothing"
        return outcome
    model, earlier = volume.models[stop], {}
    if damage_name == damages.ALL_OLDER and freshness == IMMUTABLE:
        earlier = volume.models[outcome.damage.split("`")[1]]
    try:
        with origins.serving(content_of_name) as origin:
            origin.versions = {name_of(number): known[-1] for number, known in model.items() if 0 < known[-1]}
            cache = Cache(zonal, volume.kind, work, origin, freshness)
            try:
                read_back(cache, model, earlier, outcome)
            finally:
                cache.kill()
    except server.Refused as refused:
        outcome.end, outcome.message = "crashed" if refused.is_crash else "refused", refused.message
        outcome.is_clear = refused.is_clear
    except server.Hung as error:
        outcome.end, outcome.message = "hung", str(error)
    except OSError as error:
        outcome.end, outcome.message = "crashed", str(error)
    shutil.rmtree(work)
    return outcome


def read_back(cache, model, earlier, outcome):
    for number, versions in sorted(model.items()):
        answer = cache.get(number)
        found = judged(number, versions, earlier.get(number, ())[-1:], answer)
        outcome.counts[found] += 1
        if found in (STALE, WRONG_BYTES, ERROR):
            outcome.examples.append(f"{name_of(number)} is {found}: {answer} {answer.header('x-cache')}")
    del outcome.examples[4:]


def judged(number, versions, also_allowed, answer):
    """The class of an answer. `also_allowed`: versions that count as present."""
    allowed = [versions[-1], *also_allowed]
    if answer.status == 404:
        return MISS if any(version < 0 for version in allowed) else WRONG_BYTES
    if answer.status != 200:
        return ERROR
    is_hit = (answer.header("x-cache") or "") in HITS
    if any(0 < version and answer.body == content(number, version) for version in allowed):
        return HIT if is_hit else MISS
    if any(0 < version and answer.body == content(number, version) for version in versions):
        return STALE
    # A cut body is an error that its reader sees.
    return ERROR if len(answer.body) < int(answer.header("content-length") or 0) else WRONG_BYTES
