"""What lies on a device, read as docs/formats says: where zones are, and which segments stand in them.

Damage is aimed with it. Checksums are not looked at, except that one of an emulated drive's own entries is made.
"""

import dataclasses
import os
import struct

BLOCK = 4096
MIB = 1 << 20

# Of the block device (docs/formats/shaper.md) and of the zone log (docs/formats/zonelog.md).
SHAPER, ZONE_LOG = b"ZSHP", b"ZSEG"
SHAPER_ENTRIES_AT, SHAPER_ENTRY_BYTES, SHAPER_TRIM = 128, 20, 1
ZONE_LOG_FRAME_BYTES = 64

# Of the file of a modelled drive (docs/formats/backing.md).
DRIVE = b"ZNLDRIVE"
DRIVE_ENTRIES_AT, DRIVE_ENTRY_BYTES = 4096, 16
DRIVE_MODELS_ZONED = (b"zn540",)


@dataclasses.dataclass(frozen=True)
class Segment:
    """A header with what it describes, in blocks of its zone."""

    zone: int
    at: int
    header_blocks: int
    data_blocks: int
    # Bytes of the header that mean something.
    header_bytes: int

    @property
    def blocks(self):
        return self.header_blocks + self.data_blocks


class Flash:
    """A device's file, open for reading and writing. `zone_bytes` is what a plain file was formatted with."""

    def __init__(self, path, zone_bytes=None, is_writable=True):
        self.path = path
        self._file = open(path, "r+b" if is_writable else "rb", buffering=0)  # noqa: SIM115
        self.file_bytes = os.fstat(self._file.fileno()).st_size
        self.is_drive = self.is_zoned = False
        self._first_byte = 0
        if (head := self._at(0, 40))[:8] == DRIVE:
            self.is_drive = True
            count, capacity = struct.unpack_from("<II", head, 12)
            self._first_byte = first_byte(count)
            self.is_zoned = head[20:36].rstrip(b"\0") in DRIVE_MODELS_ZONED
            if self.is_zoned:
                zone_bytes = capacity * BLOCK
            self.bytes = count * capacity * BLOCK
        else:
            self.bytes = self.file_bytes
        self.zone_bytes = zone_bytes
        self.zones = self.bytes // zone_bytes

    def close(self):
        self._file.close()

    def _at(self, offset, length):
        return os.pread(self._file.fileno(), length, offset)

    def offset(self, zone):
        return self._first_byte + zone * self.zone_bytes

    def read(self, zone, at, count=1):
        """Blocks of a zone; what the file lacks is zeros."""
        data = self._at(self.offset(zone) + at * BLOCK, count * BLOCK)
        return data.ljust(count * BLOCK, b"\0")

    def write(self, zone, at, data):
        os.pwrite(self._file.fileno(), data, self.offset(zone) + at * BLOCK)

    def flip(self, zone, byte, bit):
        at, within = divmod(byte, BLOCK)
        data = bytearray(self.read(zone, at))
        data[within] ^= 1 << bit
        self.write(zone, at, bytes(data))

    def extent(self, zone):
        """Blocks of a zone that the device hands out: up to the write pointer, where it has one."""
        if not self.is_zoned:
            return self.zone_bytes // BLOCK
        return struct.unpack("<I", self._at(DRIVE_ENTRIES_AT + zone * DRIVE_ENTRY_BYTES, 4))[0]

    def used_zones(self):
        return [zone for zone in range(self.zones) if self.extent(zone) and self.read(zone, 0).strip(b"\0")]

    def contents(self, zone):
        return self.read(zone, 0, self.extent(zone))

    def cut(self, byte):
        """Truncates a plain file."""
        os.ftruncate(self._file.fileno(), byte)

    def finish(self, zone):
        """What a drive may do by itself: a zone that was begun becomes full where it stands."""
        entry = struct.pack("<IBBBBI", self.extent(zone), 1, 0, 0, 0, zone)
        at = DRIVE_ENTRIES_AT + zone * DRIVE_ENTRY_BYTES
        os.pwrite(self._file.fileno(), entry + struct.pack("<I", crc32c(entry)), at)

    def segments(self, zone):
        """The segments that belong to a zone's present filling, from header to header."""
        at, before, found = 0, 0, []
        while at < self.extent(zone) and (segment := self._segment(zone, at, before)) is not None:
            segment, before = segment
            found.append(segment)
            at += segment.blocks
        return found

    def _segment(self, zone, at, before):
        header = self.read(zone, at)
        if header[:4] == SHAPER:
            (place,), (named,) = struct.unpack_from("<I", header, 28), struct.unpack_from("<I", header, 40)
            (number,), (entries,) = struct.unpack_from("<Q", header, 32), struct.unpack_from("<H", header, 64)
            if place != at or named != before or not number:
                return None
            kinds = [header[SHAPER_ENTRIES_AT + each * SHAPER_ENTRY_BYTES + 7] for each in range(entries)]
            blocks = sum(kind != SHAPER_TRIM for kind in kinds)
            length = SHAPER_ENTRIES_AT + entries * SHAPER_ENTRY_BYTES
            return Segment(zone, at, 1, blocks, length), struct.unpack_from("<I", header, 124)[0]
        if header[:4] == ZONE_LOG:
            (named,), (blocks,) = struct.unpack_from("<I", header, 52), struct.unpack_from("<H", header, 46)
            if named != before:
                return None
            return Segment(zone, at, header[6], blocks, header[6] * BLOCK), struct.unpack_from("<I", header, 60)[0]
        return None


def crc32c(data):
    """CRC-32C of a few bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def made_drive(path, model, zones, zone_blocks):
    """The file of a drive that was never written to, without the space that it would take."""
    header = struct.pack("<8sHHII16s", DRIVE, 1, 0, zones, zone_blocks, model)
    with open(path, "wb") as file:
        file.write(header + struct.pack("<I", crc32c(header)))
        file.truncate(first_byte(zones) + zones * zone_blocks * BLOCK)


def first_byte(zones):
    """Where the zones of a drive's file begin."""
    return -(-(DRIVE_ENTRIES_AT + zones * DRIVE_ENTRY_BYTES) // MIB) * MIB


def copied(source, target):
    """Copies a device's file. Of a drive with zones nothing is copied that lies behind a write pointer."""
    device = Flash(source, 1 << 40, is_writable=False)
    ranges = [(0, device.file_bytes)]
    if device.is_zoned:
        ranges = [(0, first_byte(device.zones))]
        ranges += [(device.offset(zone), device.extent(zone) * BLOCK) for zone in range(device.zones)]
    device.close()
    with open(source, "rb") as reader, open(target, "wb") as writer:
        writer.truncate(device.file_bytes)
        for first, length in ranges:
            writer.seek(first)
            while 0 < length and (moved := os.sendfile(writer.fileno(), reader.fileno(), first, length)):
                first, length = first + moved, length - moved
