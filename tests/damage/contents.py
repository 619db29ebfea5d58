"""What each block of an export may hold, and what a block that was read turns out to be.

A block's content repeats its number and its version, so that what is read says whose it is and how old. Version 0 is a
hole that was never written; a trim makes a version, too, whose content is zeros.
"""

import copy
import dataclasses
import struct
import zlib

BLOCK = 4096
MAGIC = b"ZDAMAGED"
ZEROS = bytes(BLOCK)
# Bits by which a block may differ from what it should be and still count as that block, garbled.
GARBLED_BITS_MAX = 64

# Classes of a block, from best to worst.
RIGHT = "right"
UNFLUSHED = "unflushed"  # after a kill: older than acknowledged, but nothing that was flushed is missing
ERROR = "error"
STALE = "stale"
ZERO = "zero"
GARBLED = "garbled"  # the right block with some bits turned over
FOREIGN = "foreign"
CLASSES = (RIGHT, UNFLUSHED, ERROR, STALE, ZERO, GARBLED, FOREIGN)
WRONG = (STALE, ZERO, GARBLED, FOREIGN)


def content(block, version):
    """The bytes of a version of a block."""
    head = MAGIC + struct.pack("<QQ", block, version)
    return (head + struct.pack("<II", zlib.crc32(head), 0)) * (BLOCK // 32)


def told(data):
    """The block and version that some content says it is of, or None."""
    magic, block, version = data[:8], *struct.unpack_from("<QQ", data, 8)
    return (block, version) if magic == MAGIC and data == content(block, version) else None


@dataclasses.dataclass
class Kept:
    """The versions of one block. `versions[-1]` was acknowledged last; holes are negative, and 0."""

    versions: list = dataclasses.field(default_factory=lambda: [0])
    # Place in `versions` of what the last flush covered.
    flushed: int = 0
    # Versions that were sent and not acknowledged when the process was killed.
    maybe: tuple = ()


class Contents:
    """A model of an export."""

    def __init__(self, blocks):
        self.blocks = [Kept() for _ in range(blocks)]
        self.made = 0
        self._unflushed = set()

    def copy(self):
        return copy.deepcopy(self)

    def new_version(self):
        self.made += 1
        return self.made

    def acknowledged(self, first, count, version):
        """A write, or with a negative version a trim, was answered."""
        for block in range(first, first + count):
            self.blocks[block].versions.append(version)
            self._unflushed.add(block)

    def sent(self, first, count, version):
        """A write was sent, and the process killed before it was answered."""
        for block in range(first, first + count):
            self.blocks[block].maybe += (version,)

    def flushed(self):
        for block in self._unflushed:
            self.blocks[block].flushed = len(self.blocks[block].versions) - 1
        self._unflushed.clear()

    def judged(self, block, data):
        """The class of what was read."""
        kept = self.blocks[block]
        if self._is(data, block, kept.versions[-1]) or any(self._is(data, block, version) for version in kept.maybe):
            return RIGHT
        if any(self._is(data, block, version) for version in kept.versions[kept.flushed :]):
            return UNFLUSHED
        if data == ZEROS:
            return ZERO
        found = told(data)
        if found is not None and found[0] == block and found[1] in kept.versions:
            return STALE
        expected = ZEROS if kept.versions[-1] <= 0 else content(block, kept.versions[-1])
        return GARBLED if bits_apart(data, expected) <= GARBLED_BITS_MAX else FOREIGN

    def settle(self, block, data):
        """What a start made of a block is what it stays: of what a kill left open, this was found."""
        kept = self.blocks[block]
        for version in (*kept.maybe, *kept.versions[kept.flushed :]):
            if self._is(data, block, version):
                kept.versions.append(version)
                kept.flushed, kept.maybe = len(kept.versions) - 1, ()
                break
        self._unflushed.discard(block)

    @staticmethod
    def _is(data, block, version):
        return data == (content(block, version) if 0 < version else ZEROS)


def bits_apart(one, other):
    return (int.from_bytes(one, "little") ^ int.from_bytes(other, "little")).bit_count()
