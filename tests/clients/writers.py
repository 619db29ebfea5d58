"""One response is one version, while writers overwrite what readers read.

Writers overwrite a few keys at random, half of the time through the gateway and half directly at
the origin; readers read ranges of them through the gateway. Every answer must be a part of one
version, with that version's ETag and size. A read that starts after a write was acknowledged
through the gateway sees that write or a younger one. When the writers have stopped, every key must
soon be read as it was last written.

An answer that was cut off is no answer: the gateway cuts the connection when the rest of a version
is gone. Cuts are counted, and must be rare.
"""

import argparse
import collections
import dataclasses
import hashlib
import random
import sys
import threading
import time

import botocore.config
import botocore.exceptions

import s3_clients
import servers

KEYS = 20
WRITERS = 2
READERS = 4
SECONDS = 30
# A pause between the writes of one writer, so that a version lives long enough to be hit.
WRITE_PAUSE_SECONDS = 0.05
# The share of reads that may be cut: a guess, to notice when cutting becomes the rule.
CUT_SHARE_MAX = 0.05
# Seconds after which the last version must be read everywhere. The gateway may answer from a recent
# confirmation by the origin, but for less than a second or two.
SETTLE_SECONDS_MAX = 10

# The content of a version is one line, repeated: its key, its number, and a line feed.
LINE = "{:04d} {:010d}\n"
LINE_BYTES = len(LINE.format(0, 0))
# Sizes from a third of a chunk to several chunks and never a multiple of one: 80 KiB to 2 MiB.
LINES_MIN, LINES_MAX = 80 * 1024 // LINE_BYTES, 2 * 1024 * 1024 // LINE_BYTES


@dataclasses.dataclass
class Key:
    """What the test knows of one key. Its writers take turns, so that versions have an order."""

    number: int
    turn: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    # The youngest version that was begun, and the youngest acknowledged through the gateway.
    begun: int = 0
    floor: int = 0

    @property
    def name(self):
        return f"writers/{self.number}"


class Violation(Exception):
    """The gateway broke its word."""


class Tally:
    """Counts from many threads, and the first violations."""

    SHOWN_MAX = 10

    def __init__(self):
        self._lock = threading.Lock()
        self.counts = collections.Counter()
        self.violations = []

    def add(self, name):
        with self._lock:
            self.counts[name] += 1

    def violated(self, violation):
        with self._lock:
            self.counts["violations"] += 1
            if len(self.violations) < self.SHOWN_MAX:
                self.violations.append(str(violation))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zonal", help="the binary; without it the test tests itself")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    tally, keys = Tally(), [Key(number) for number in range(KEYS)]
    with servers.running(arguments.zonal) as running:
        s3_clients.boto3_client(running.direct).create_bucket(Bucket=s3_clients.BUCKET)
        prepare(running, keys)
        run(running, keys, tally, arguments)
        settle(running, keys, tally)
    return report(tally, running.is_cached, arguments.seed)


def prepare(running, keys):
    client = one_try_client(running.gateway)
    for key in keys:
        write(client, key, is_gateway=True)


def run(running, keys, tally, arguments):
    """Lets writers and readers loose until the time is over."""
    end = time.monotonic() + arguments.seconds
    works = [write_one] * WRITERS + [read_one] * READERS
    threads = [
        threading.Thread(target=loop, args=(work, running, keys, tally, random.Random(seed), end))
        for seed, work in enumerate(works, arguments.seed * len(works))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def loop(work, running, keys, tally, chance, end):
    """Repeats one piece of work with clients of its own: boto3 reuses their connections."""
    clients = one_try_client(running.gateway), one_try_client(running.direct_in_turn)
    while time.monotonic() < end:
        try:
            work(clients, keys[chance.randrange(KEYS)], tally, chance)
        except Violation as violation:
            tally.violated(violation)
        except Exception as error:  # Whatever it is, it must be counted, and the others go on.
            tally.violated(f"{work.__name__}: {type(error).__name__}: {error}")


def one_try_client(endpoint):
    """A client that shows every failure instead of trying again."""
    config = botocore.config.Config(
        signature_version="s3v4",
        s3={"addressing_style": "path"},
        retries={"total_max_attempts": 1},
        response_checksum_validation="when_required",
    )
    return s3_clients.boto3_client(endpoint, config)


# --- writing


def lines_of(key, version):
    """How long a version is: any length, and always the same for the same version."""
    mixed = hashlib.sha256(f"{key} {version}".encode()).digest()
    return LINES_MIN + int.from_bytes(mixed[:8]) % (LINES_MAX - LINES_MIN)


def content(key, version):
    return LINE.format(key, version).encode() * lines_of(key, version)


def write_one(clients, key, tally, chance):
    is_gateway = chance.random() < 0.5
    write(clients[0] if is_gateway else clients[1], key, is_gateway)
    tally.add("writes through the gateway" if is_gateway else "direct writes")
    time.sleep(WRITE_PAUSE_SECONDS)


def write(client, key, is_gateway):
    with key.turn:
        key.begun += 1
        version = key.begun
        client.put_object(Bucket=s3_clients.BUCKET, Key=key.name, Body=content(key.number, version))
        if is_gateway:
            key.floor = version


# --- reading


def read_one(clients, key, tally, chance):
    floor = key.floor
    try:
        answer, body = get(clients[0], key, random_range(chance))
    except (botocore.exceptions.IncompleteReadError, botocore.exceptions.ResponseStreamingError):
        tally.add("cut reads")
        return
    version = judge(key, answer, body)
    ceiling = key.begun
    if not floor <= version <= ceiling:
        raise Violation(f"{key.name}: read {version}, but {floor} was acknowledged before the read")
    tally.add("reads")
    tally.add(answer["ResponseMetadata"]["HTTPHeaders"].get("x-cache", "no X-Cache"))


def random_range(chance):
    """Closed, open-ended and suffix ranges, some past the end, and whole objects."""
    start, length = chance.randrange(LINES_MIN * LINE_BYTES), chance.randrange(1, 1024 * 1024)
    shapes = [f"bytes={start}-{start + length}", f"bytes={start}-", f"bytes=-{length}", None]
    return chance.choice(shapes)


def get(client, key, wanted):
    condition = {} if wanted is None else {"Range": wanted}
    answer = client.get_object(Bucket=s3_clients.BUCKET, Key=key.name, **condition)
    return answer, answer["Body"].read()


def judge(key, answer, body):
    """The version that an answer is a part of. Everything about it must fit that version."""
    start, size = place(answer, body)
    # The number of the first whole line; the shortest answers have to be judged by their size.
    first = -start % LINE_BYTES
    if first + LINE_BYTES <= len(body):
        version = int(body[first : first + LINE_BYTES].split()[1])
    else:
        version = version_of(key, answer["ETag"])
    whole = content(key.number, version)
    if size != len(whole):
        raise Violation(f"{key.name}: version {version} has {len(whole)} bytes, not {size}")
    if body != whole[start : start + len(body)]:
        raise Violation(f"{key.name}: bytes {start}+{len(body)} are not all of version {version}")
    if answer["ETag"].strip('"') != hashlib.md5(whole).hexdigest():
        raise Violation(f"{key.name}: bytes of version {version}, but the ETag {answer['ETag']}")
    return version


def place(answer, body):
    """Where the body begins, and how long the whole object is."""
    if "ContentRange" not in answer:
        return 0, len(body)
    span, size = answer["ContentRange"].removeprefix("bytes ").split("/")
    start, end = map(int, span.split("-"))
    if end - start + 1 != len(body):
        raise Violation(f"the body has {len(body)} bytes, Content-Range says {span}")
    return start, int(size)


def version_of(key, etag):
    """Finds the version by its ETag, youngest first."""
    for version in range(key.begun, 0, -1):
        if hashlib.md5(content(key.number, version)).hexdigest() == etag.strip('"'):
            return version
    raise Violation(f"{key.name}: no version has the ETag {etag}")


# --- the end


def settle(running, keys, tally):
    """Every key is read as it was last written, before long."""
    client = one_try_client(running.gateway)
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    for key in keys:
        while (version := judge(key, *get(client, key, None))) != key.begun:
            if deadline < time.monotonic():
                tally.violated(f"{key.name}: still read as {version}, last written {key.begun}")
                break
            time.sleep(0.05)


def report(tally, is_cached, seed):
    counts = tally.counts
    for name, count in sorted(counts.items()):
        print(f"{name:<28}{count:7}")
    for violation in tally.violations:
        print(f"VIOLATION: {violation}")
    complaints = []
    if counts["violations"]:
        complaints.append(f"{counts['violations']} violations")
    if counts["reads"] * CUT_SHARE_MAX < counts["cut reads"]:
        complaints.append("too many reads were cut")
    if not min(counts["reads"], counts["direct writes"], counts["writes through the gateway"]):
        complaints.append("nothing was read or written")
    if is_cached and not counts["HIT"] + counts["REVALIDATED"]:
        complaints.append("nothing came from the cache, so nothing was shown")
    print(f"seed {seed}: {', '.join(complaints) or 'every answer was one version'}")
    print("0 passed, 1 failed" if complaints else "1 passed, 0 failed")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
