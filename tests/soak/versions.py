"""What each object holds, and which of its versions an answer may show.

An object's content is a stretch of one random pool that its name and version choose, so that nothing needs to be kept.
Its entity tag is made of the same two, so that an answer says which version it claims to be.
"""

import dataclasses
import math
import random
import zlib

MIB = 1024 * 1024
SIZE_MIN, SIZE_MAX = 1024, 8 * MIB
POOL = memoryview(random.Random(47).randbytes(3 * SIZE_MAX))

# Longest wait of Zonal for the beginning of an origin's answer. A read may share a HEAD that was sent so long before.
ANSWER_SECONDS = 3


@dataclasses.dataclass(frozen=True)
class Rule:
    """A freshness rule of Zonal, for the objects below its prefix."""

    prefix: str
    freshness: str
    # Longest time for which a write past Zonal may stay unseen, ANSWER_SECONDS included.
    stale_seconds: float


RULES = (
    Rule("revalidate", "revalidate", ANSWER_SECONDS),
    Rule("ttl", "ttl=5s", 5 + ANSWER_SECONDS),
    Rule("failing", "ttl=2s?stale-if-error=20s", 2 + 20 + ANSWER_SECONDS),
    Rule("updating", "ttl=2s?stale-while-revalidate=5s", 2 + 5 + ANSWER_SECONDS),
    Rule("immutable", "immutable", math.inf),
)
RULE_OF = {rule.prefix: rule for rule in RULES}
# Objects of which the origin sends no byte, or one every few seconds.
STALLED = "stalled"


def rule_of(name):
    return RULE_OF[name.partition("/")[0]]


def _draw(name, version):
    return zlib.crc32(f"{name}#{version}".encode())


def size_of(name, version):
    """From 1 KiB to 8 MiB. Objects with an even number keep their size."""
    if name.startswith(STALLED):
        return SIZE_MAX // 2
    draw = _draw(name, version if int(name.rpartition("/")[2]) % 2 else 0)
    return int(SIZE_MIN * (SIZE_MAX / SIZE_MIN) ** (draw % 10_007 / 10_007))


def content(name, version):
    first = _draw(name, version) % (2 * SIZE_MAX)
    return POOL[first : first + size_of(name, version)]


def etag_of(name, version):
    return f'"{zlib.crc32(name.encode()):08x}{version:024x}"'


def version_of(etag):
    return int(etag[9:33], 16)


@dataclasses.dataclass
class Write:
    """One change of an object. `version` rises by one each time."""

    version: int
    begun: float
    is_removal: bool
    # When it was acknowledged, or when a purge after it was. Infinite: never, so it may or may not have happened.
    ended: float = math.inf
    # So long after `ended` what was there before may be read.
    stale_seconds: float = 0


class History:
    """All writes of one object. Its writers take turns."""

    def __init__(self, name):
        self.name = name
        self.writes = [Write(0, -math.inf, True, -math.inf)]
        # A removal of which nobody knows whether it happened can arrive late, after later writes.
        self.may_be_missing = False

    def begin(self, now, is_removal=False):
        write = Write(self.writes[-1].version + 1, now, is_removal)
        self.writes.append(write)
        return write

    def judge(self, version, began, ended):
        """Says what is wrong with an answer, or nothing. `version`: what it showed, or None if it was 404."""
        if version is None:
            if self.may_be_missing or any(self._may_show(write, began, ended) for write in self.writes if write.is_removal):
                return None
            return "missing"
        if not 0 < version < len(self.writes) or self.writes[version].is_removal:
            return "wrong: no such version"
        return None if self._may_show(self.writes[version], began, ended) else "stale"

    def _may_show(self, write, began, ended):
        later = self.writes[write.version + 1 :]
        return write.begun <= ended and all(began <= other.ended + other.stale_seconds for other in later)
