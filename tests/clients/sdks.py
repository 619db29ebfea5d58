"""The AWS SDKs for Java and JavaScript, and Hadoop's S3A, read and write through Zonal.

1. Each read has an object of its own: small, large, or large and uploaded in parts. The client
   reads it directly at the origin and through the gateway, with equal results.
2. The client reads it again until the cache has it. Then the origin sees no GET, and the gateway
   answers nothing past the cache (`X-Cache: BYPASS`). One kind of read goes past it: that of an
   object uploaded in parts, part by part.
3. The client writes through the gateway: a PUT, parts, presigned URLs. The object is read back
   directly, byte for byte, and by the client through the gateway; then the client overwrites it.
4. An object that Hadoop renames or removes through the gateway is gone on both ways.

`CLIENTS` has the versions. Maven and npm fetch what is missing. One line for each client and
operation says what the origin was asked. The last line is `N passed, N failed`.
"""

import argparse
import contextlib
import dataclasses
import functools
import random
import re
import subprocess
import sys
import time
import traceback
import urllib.parse
import urllib.request
from collections.abc import Callable

import botocore.exceptions

import reads
import s3_clients
import sdk_programs
import servers

# The X-Cache of an answer that neither came from the cache nor went into it.
BYPASS = "BYPASS"
COUNTER = re.compile(r'zonal_gateway_(outcomes|bypasses)_total\{\w+="([^"]+)"\} (\d+)')
# Seconds until the gateway must have answered with its counters.
METRICS_SECONDS_MAX = 10


@dataclasses.dataclass(frozen=True)
class Flavour:
    """One of the ways in which an SDK reads and writes."""

    # For each kind of object, the operations that read it. The first of all also reads back what
    # the client wrote.
    reads: dict[str, list[str]]
    # The operations that write, each with the kind of object.
    writes: list[tuple[str, str]]
    # The operations that rename or remove an object.
    changes: list[str] = dataclasses.field(default_factory=list)

    @property
    def read_back(self):
        return next(iter(self.reads.values()))[0]


@dataclasses.dataclass(frozen=True)
class Client:
    """An SDK at one version."""

    build: Callable[[], sdk_programs.Program]
    flavours: dict[str, Flavour]
    # For each presigned operation, query parameters that the SDK must put into the URL. Without
    # them the test would show nothing.
    presigned: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)


# The first two are put at the origin with one PUT each, the third in parts.
READS = {"small": ["get", "head"], "large": ["get", "range"], "parts": ["get"]}
WHOLE_READS = {"small": ["get"], "large": ["get"], "parts": ["get"]}
WRITES = [("put", "small"), ("upload", "large")]
PRESIGNED_READS = {"small": ["presigned-get"], "large": ["presigned-get"]}
PRESIGNED_WRITES = [("presigned-put", "small"), ("presigned-put", "large")]

JAVA = {
    "sync": Flavour(READS, WRITES),
    "async": Flavour(READS, WRITES),
    "transfer": Flavour(READS, WRITES),
    "crt": Flavour(READS, WRITES),
    # It has no HEAD and no range of its own.
    "crt-transfer": Flavour(WHOLE_READS, WRITES),
    "presigner": Flavour(PRESIGNED_READS, PRESIGNED_WRITES),
}
HADOOP = {
    "s3a": Flavour(
        {
            "small": ["get", "head", "list"],
            "large": ["get", "positions", "vectored"],
            "parts": ["get"],
        },
        WRITES,
        ["rename", "delete"],
    )
}
JAVASCRIPT = {
    "client": Flavour(READS, WRITES),
    "presigner": Flavour(
        {"small": ["presigned-get", "presigned-head"], "large": ["presigned-get"]},
        [*PRESIGNED_WRITES, ("presigned-upload", "large")],
    ),
}
# The checksum of no bytes: the SDK signs the URL before it has the body.
EMPTY_CHECKSUM = {"x-amz-checksum-crc32": "AAAAAA==", "x-amz-sdk-checksum-algorithm": "CRC32"}
JAVASCRIPT_PRESIGNED = {
    "presigned-get": {"x-amz-checksum-mode": "ENABLED", "x-id": "GetObject"},
    "presigned-put": EMPTY_CHECKSUM,
    "presigned-upload": EMPTY_CHECKSUM,
}


def java(sdk_version, crt_version):
    return Client(functools.partial(sdk_programs.java, sdk_version, crt_version), JAVA)


def hadoop(version):
    return Client(functools.partial(sdk_programs.hadoop, version), HADOOP)


def javascript(version):
    build = functools.partial(sdk_programs.javascript, version)
    return Client(build, JAVASCRIPT, JAVASCRIPT_PRESIGNED)


CLIENTS = {
    # The last version that sends no checksums by default, two later ones, and the newest.
    "java-2.29.52": java("2.29.52", "0.33.3"),
    "java-2.33.5": java("2.33.5", "0.38.9"),
    "java-2.41.24": java("2.41.24", "0.40.3"),
    "java-2.57.8": java("2.57.8", "0.49.0"),
    # The first contains the SDK 2.29.52. The second contains 2.35.4, and reads ahead by default.
    "hadoop-3.4.2": hadoop("3.4.2"),
    "hadoop-3.4.3": hadoop("3.4.3"),
    # The first version that sends checksums by default, and the newest.
    "javascript-3.729.0": javascript("3.729.0"),
    "javascript-3.1175.0": javascript("3.1175.0"),
}
# `java` stands for all versions of it.
NAMES = [*dict.fromkeys(name.partition("-")[0] for name in CLIENTS), *CLIENTS]


@dataclasses.dataclass(frozen=True)
class Subject:
    """A client, the servers, and the client's running programs."""

    client: Client
    running: servers.Servers
    # One for each endpoint, by port.
    sessions: dict[int, sdk_programs.Session]

    def operation(self, flavour, name):
        """Returns a function that runs an operation at an endpoint and returns what it saw."""

        def run(endpoint, key, *file):
            fields = self.sessions[endpoint.port].ask(flavour, name, key, *file)
            wanted = self.client.presigned.get(name)
            if wanted is not None:
                signed = dict(urllib.parse.parse_qsl(fields[1]))
                assert wanted.items() <= signed.items(), f"{name}: the URL has only {signed}"
            return fields[0]

        return run

    def read_back(self, flavour):
        return self.operation(flavour, self.client.flavours[flavour].read_back)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zonal", help="the binary; without it the test tests itself")
    only = {"choices": NAMES, "action": "append", "default": []}
    parser.add_argument("--client", **only, help="only this client; may be repeated")
    parser.add_argument("--without", **only, help="all but this client; may be repeated")
    parser.add_argument("--build", action="store_true", help="build the programs, and test nothing")
    arguments = parser.parse_args()
    wanted = arguments.client or NAMES
    names = [
        name
        for name in CLIENTS
        if is_among(name, wanted) and not is_among(name, arguments.without)
    ]
    if arguments.build:
        # `all` would end with the first failure, and leave the others to be fetched by the test.
        return 0 if False not in [built(name) is not None for name in names] else 1
    results = [result for name in names for result in results_of(name, arguments.zonal)]
    failed = results.count(False)
    print(f"{len(results) - failed} passed, {failed} failed")
    # A run without any test is not a success.
    return 1 if failed or not results else 0


def is_among(name, names):
    return name in names or name.partition("-")[0] in names


def built(name):
    """Builds the program of a client; `None` when that fails."""
    start = time.monotonic()
    try:
        program = CLIENTS[name].build()
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        print(f"{name:<20} build FAILED: {error}", flush=True)
        return None
    print(f"{name:<20} built in {time.monotonic() - start:.1f} s", flush=True)
    return program


def results_of(name, zonal):
    """Runs all tests of a client, and returns for each whether it passed. Each client has servers
    of its own, so that the flash has room for all its objects."""
    client, program = CLIENTS[name], built(name)
    if program is None:
        return [False]
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(servers.running(zonal))
        sessions = {}
        for endpoint in (running.direct, running.gateway):
            folder = running.folder / f"program-{endpoint.port}"
            session = sdk_programs.Session(program, endpoint, folder)
            sessions[endpoint.port] = session
            stack.callback(session.close)
        write_files(running.folder)
        s3_clients.boto3_client(running.direct).create_bucket(Bucket=s3_clients.BUCKET)
        subject = Subject(client, running, sessions)
        return [is_good(name, title, run) for title, run in tests(subject)]


def write_files(folder):
    """Writes the local files: the contents of objects, and what overwrites them."""
    chance = random.Random(1)
    for name, size in {
        "small": reads.SMALL_BYTES,
        # As long as the first: only the ETag tells them apart.
        "small-2": reads.SMALL_BYTES,
        "large": reads.UPLOAD_BYTES,
        "large-2": reads.UPLOAD_BYTES + 1_000_000,
    }.items():
        (folder / name).write_bytes(chance.randbytes(size))


def tests(subject):
    """The tests of a client, each with its title."""
    for name, flavour in subject.client.flavours.items():
        for kind, operations in flavour.reads.items():
            for operation in operations:
                run = functools.partial(read, subject, name, operation, kind)
                yield f"{name} {operation} {kind}", run
        for operation, kind in flavour.writes:
            run = functools.partial(write, subject, name, operation, kind)
            yield f"{name} {operation} {kind}", run
        for operation in flavour.changes:
            run = functools.partial(change, subject, name, operation)
            yield f"{name} {operation}", run


def is_good(name, title, run):
    """Runs one test and prints its line."""
    title = f"{name:<20} {title:<32}"
    try:
        print(f"{title} {run()}", flush=True)
        return True
    except Exception as error:  # A client may fail in any way; the others must run all the same.
        print(f"{title} FAILED: {type(error).__name__}: {error}", flush=True)
        if not isinstance(error, AssertionError | RuntimeError):
            traceback.print_exc()
        return False


# --- reading


def read(subject, flavour, name, kind):
    """Runs an operation directly, cold and warm."""
    running = subject.running
    file = running.folder / ("small" if kind == "small" else "large")
    key, operation = f"{flavour}/{name}-{kind}/{kind}", subject.operation(flavour, name)
    # Of these, boto3's upload is the one in parts.
    put = s3_clients.boto3_upload if kind == "parts" else s3_clients.boto3_put
    put(running.direct, key, file)
    expected, direct_seconds = reads.timed(lambda: operation(running.direct, key))
    if name in ("get", "presigned-get"):
        assert expected == s3_clients.file_digest(file), "directly it reads other bytes"
    seen, seconds, cold = reads.counted(running, operation, key)
    assert seen == expected, "the first read through the gateway differs from a direct read"
    line = f"direct {direct_seconds:5.2f} s  cold {seconds:5.2f} s, {asked(cold)}"
    if not running.is_cached:
        return line
    before, failures = counters(running), []
    try:
        seconds, warm, warming_reads = reads.warmed(running, operation, key, expected)
        late = "" if warming_reads == 1 else f" (at read {warming_reads + 1})"
        line += f"  warm {seconds:5.2f} s, {asked(warm)}{late}"
    except AssertionError as error:
        failures.append(str(error))
    # A list has no X-Cache: the gateway keeps none.
    failures += [] if name == "list" else past_the_cache(before, counters(running))
    assert not failures, f"{'; '.join(failures)}; cold {asked(cold)}"
    return line


def counters(running):
    """The gateway's answers by X-Cache, and those past the cache by reason."""
    url = f"http://127.0.0.1:{running.gateway.admin_port}/metrics"
    with urllib.request.urlopen(url, timeout=METRICS_SECONDS_MAX) as answer:
        text = answer.read().decode()
    found = {(family, label): int(n) for family, label, n in COUNTER.findall(text)}
    assert ("outcomes", BYPASS) in found, f"no such counter at {url}"
    return found


def grown(before, after):
    """The counters that grew between two looks at them, and by how much."""
    return {name: n - before.get(name, 0) for name, n in after.items() if before.get(name, 0) < n}


def bypasses(before, after):
    """The answers past the cache by reason."""
    more = grown(before, after).items()
    return {reason: n for (family, reason), n in more if family == "bypasses"}


def past_the_cache(before, after):
    """Says what is wrong with the answers between two looks at the counters."""
    more = grown(before, after)
    if ("outcomes", BYPASS) in more:
        why = bypasses(before, after) or "no reason counted"
        yield f"{more['outcomes', BYPASS]} answers were BYPASS ({why})"
    elif more == {}:
        # Then the client has a cache of its own, and the test shows nothing.
        yield "no read came to the gateway"


def asked(count):
    return f"{count.gets} GET {count.heads} HEAD {count.others} other"


# --- writing


def write(subject, flavour, name, kind):
    """Writes through the gateway and reads back on both ways, then does the same once more over the
    first object, which by then is in the cache: it was read through the gateway twice."""
    running, lines = subject.running, []
    operation, read_back = subject.operation(flavour, name), subject.read_back(flavour)
    key = f"{flavour}/written/{name}-{kind}"
    for file in (running.folder / kind, running.folder / f"{kind}-2"):
        _, seconds, count = reads.counted(running, operation, key, file)
        expected = s3_clients.file_digest(file)
        assert s3_clients.boto3_get(running.direct, key) == expected, "the origin has other bytes"
        for _ in range(2):
            seen = read_back(running.gateway, key)
            assert seen == expected, f"read back through the gateway: not {file.name}"
        lines.append(f"{seconds:5.2f} s, {asked(count)}")
    return f"written {lines[0]}  over it {lines[1]}"


# --- renaming and removing


def change(subject, flavour, name):
    """Renames or removes an object of the cache through the gateway."""
    running = subject.running
    operation, read_back = subject.operation(flavour, name), subject.read_back(flavour)
    key, file = f"{flavour}/{name}/small", running.folder / "small"
    s3_clients.boto3_put(running.direct, key, file)
    for _ in range(2):
        assert read_back(running.gateway, key) == s3_clients.file_digest(file)
    _, seconds, count = reads.counted(running, operation, key)
    for endpoint in (running.gateway, running.direct, running.gateway):
        try:
            s3_clients.boto3_get(endpoint, key)
            raise AssertionError(f"still there at {endpoint.url}")
        except botocore.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "NoSuchKey", error
    if name == "rename":
        for endpoint in (running.gateway, running.direct, running.gateway):
            seen = read_back(endpoint, f"{key}-renamed")
            assert seen == s3_clients.file_digest(file), f"other bytes at {endpoint.url}"
    return f"done in {seconds:5.2f} s, {asked(count)}"


if __name__ == "__main__":
    sys.exit(main())
