"""The kinds of damage. Each changes the files of a stopped volume and says exactly what it did.

A `Patient` has the devices by name and older copies of them. A kind that finds nothing to damage raises `NothingThere`.
On an emulated drive only what the drive would hold is damaged; a zone's write pointer stays where it is.
"""

import dataclasses

import flash

BLOCK = flash.BLOCK


class NothingThere(Exception):
    """This kind of damage has no target on this volume."""


@dataclasses.dataclass
class Patient:
    """What is damaged. `folder` has a file for each of `names`; `older` are folders of earlier copies."""

    folder: object
    names: tuple
    zone_bytes: dict
    older: dict

    def opened(self, name, folder=None):
        return flash.Flash((folder or self.folder) / name, self.zone_bytes[name], is_writable=folder is None)


def one(rng, things):
    if not things:
        raise NothingThere
    return rng.choice(things)


def chosen_device(patient, rng):
    """One that holds anything, with its name."""
    name = rng.choice(patient.names)
    return name, patient.opened(name)


def chosen_segment(device, rng, has=lambda segment: True):
    zones = device.used_zones()
    rng.shuffle(zones)
    for zone in zones:
        if fitting := [segment for segment in device.segments(zone) if has(segment)]:
            return rng.choice(fitting)
    raise NothingThere


def place(name, zone, at):
    return f"{name}: zone {zone}, block {at}"


# --- bits


def header_bit(patient, rng):
    """One bit of a segment's header."""
    name, device = chosen_device(patient, rng)
    segment = chosen_segment(device, rng)
    byte, bit = rng.randrange(segment.header_bytes), rng.randrange(8)
    device.flip(segment.zone, segment.at * BLOCK + byte, bit)
    return f"{place(name, segment.zone, segment.at)} (header), byte {byte}, bit {bit}"


def data_bit(patient, rng):
    """One bit of a block behind a header."""
    name, device = chosen_device(patient, rng)
    segment = chosen_segment(device, rng, lambda segment: segment.data_blocks)
    at = segment.at + segment.header_blocks + rng.randrange(segment.data_blocks)
    byte, bit = rng.randrange(BLOCK), rng.randrange(8)
    device.flip(segment.zone, at * BLOCK + byte, bit)
    return f"{place(name, segment.zone, at)} (data), byte {byte}, bit {bit}"


def any_bit(patient, rng):
    """One bit of any byte of a zone that was written to."""
    name, device = chosen_device(patient, rng)
    zone = one(rng, device.used_zones())
    at, byte, bit = rng.randrange(device.extent(zone)), rng.randrange(BLOCK), rng.randrange(8)
    device.flip(zone, at * BLOCK + byte, bit)
    return f"{place(name, zone, at)}, byte {byte}, bit {bit}"


# --- blocks and segments


def block_zeroed(patient, rng):
    """A block, of a header or of data, reads as zeros."""
    name, device = chosen_device(patient, rng)
    segment = chosen_segment(device, rng)
    at = segment.at + rng.randrange(segment.blocks) * rng.randrange(2)
    device.write(segment.zone, at, bytes(BLOCK))
    return place(name, segment.zone, at) + (" (header)" if at == segment.at else " (data)")


def blocks_exchanged(patient, rng):
    """Two blocks of one device have changed places: two headers, or two of data."""
    name, device = chosen_device(patient, rng)
    are_headers = rng.randrange(2)
    ends = []
    for _ in range(2):
        segment = chosen_segment(device, rng, lambda segment: are_headers or segment.data_blocks)
        within = 0 if are_headers else segment.header_blocks + rng.randrange(segment.data_blocks)
        ends.append((segment.zone, segment.at + within))
    exchange(device, ends, 1)
    what = "headers" if are_headers else "data"
    return f"{place(name, *ends[0])} and zone {ends[1][0]}, block {ends[1][1]} ({what})"


def segment_zeroed(patient, rng):
    """A segment, header and data, reads as zeros."""
    name, device = chosen_device(patient, rng)
    segment = chosen_segment(device, rng)
    device.write(segment.zone, segment.at, bytes(segment.blocks * BLOCK))
    return f"{place(name, segment.zone, segment.at)}, {segment.blocks} blocks"


def segments_exchanged(patient, rng):
    """Two segments of one length have changed places."""
    name, device = chosen_device(patient, rng)
    first = chosen_segment(device, rng)
    fitting = [
        segment
        for zone in device.used_zones()
        for segment in device.segments(zone)
        if segment.blocks == first.blocks and segment != first
    ]
    second = one(rng, fitting)
    exchange(device, [(first.zone, first.at), (second.zone, second.at)], first.blocks)
    return f"{place(name, first.zone, first.at)} and zone {second.zone}, block {second.at}, {first.blocks} blocks each"


def exchange(device, ends, count):
    contents = [device.read(zone, at, count) for zone, at in ends]
    if contents[0] == contents[1]:
        raise NothingThere
    for (zone, at), data in zip(ends, reversed(contents), strict=True):
        device.write(zone, at, data)


# --- zones


def zone_zeroed(patient, rng):
    """A zone reads as zeros."""
    name, device = chosen_device(patient, rng)
    zone = one(rng, device.used_zones())
    device.write(zone, 0, bytes(device.extent(zone) * BLOCK))
    return place(name, zone, 0) + f", {device.extent(zone)} blocks"


def zones_exchanged(patient, rng):
    """Two zones have changed contents."""
    name, device = chosen_device(patient, rng)
    zones = device.used_zones()
    if len(zones) < 2:
        raise NothingThere
    ends = [(zone, 0) for zone in rng.sample(zones, 2)]
    exchange(device, ends, min(device.extent(zone) for zone, _ in ends))
    return f"{name}: zones {ends[0][0]} and {ends[1][0]}"


def zone_replayed(patient, rng):
    """A zone has the contents of an earlier moment."""
    name, device = chosen_device(patient, rng)
    when = one(rng, sorted(patient.older))
    earlier = patient.opened(name, patient.older[when])
    zones = [zone for zone in device.used_zones() if device.contents(zone) != earlier.read(zone, 0, device.extent(zone))]
    zone = one(rng, [zone for zone in zones if earlier.read(zone, 0).strip(b"\0")])
    device.write(zone, 0, earlier.read(zone, 0, device.extent(zone)))
    earlier.close()
    return f"{name}: zone {zone} as it was at `{when}`"


# --- devices


def tail_lost(patient, rng):
    """A file is truncated; of an emulated drive, all behind some block reads as zeros."""
    name, device = chosen_device(patient, rng)
    zone = one(rng, device.used_zones())
    at = rng.randrange(device.extent(zone))
    if not device.is_drive:
        byte = zone * device.zone_bytes + at * BLOCK + rng.randrange(2) * rng.randrange(BLOCK)
        device.cut(byte)
        return f"{name}: {byte} bytes are left"
    device.write(zone, at, bytes((device.extent(zone) - at) * BLOCK))
    for later in range(zone + 1, device.zones):
        device.write(later, 0, bytes(device.extent(later) * BLOCK))
    return f"{place(name, zone, at)}, and all behind it, are zeros"


def device_zeroed(patient, rng):
    """One of the devices reads as zeros."""
    name, device = chosen_device(patient, rng)
    for zone in device.used_zones():
        device.write(zone, 0, bytes(device.extent(zone) * BLOCK))
    return f"{name}: all of it"


def replaced(patient, rng, names):
    when = one(rng, [when for when in sorted(patient.older) if when != "running" or names is not patient.names])
    for name in names:
        flash.copied(patient.older[when] / name, patient.folder / name)
    return when


def buffer_older(patient, rng):
    """The buffer device is an older copy of itself."""
    return f"b: as it was at `{replaced(patient, rng, ['b'])}`"


def capacity_older(patient, rng):
    """The capacity device is an older copy of itself."""
    return f"c: as it was at `{replaced(patient, rng, ['c'])}`"


def all_older(patient, rng):
    """All devices are copies of one earlier clean stop: that is not detectable. Expected: what was there at that time."""
    return f"all: as at `{replaced(patient, rng, patient.names)}`"


def tiers_mixed(patient, rng):
    """A segment, or the beginning of a zone, has what lies on the other tier."""
    name, other_name = rng.sample(patient.names, 2)
    device, other = patient.opened(name), patient.opened(other_name)
    source = chosen_segment(other, rng)
    target = chosen_segment(device, rng)
    count = min(source.blocks, device.extent(target.zone) - target.at)
    if rng.randrange(2):
        source, target = dataclasses.replace(source, at=0), dataclasses.replace(target, at=0)
        count = min(other.extent(source.zone), device.extent(target.zone))
    device.write(target.zone, target.at, other.read(source.zone, source.at, count))
    other.close()
    return f"{place(name, target.zone, target.at)}: {count} blocks of {place(other_name, source.zone, source.at)}"


def none(patient, rng):
    """Nothing: what is read must be right."""
    return "none"


def footer_bit(patient, rng):
    """One bit of the last blocks of a zone that ends in a footer."""
    name, device = chosen_device(patient, rng)
    last = device.zone_bytes // BLOCK - 1
    full = [zone for zone in device.used_zones() if device.read(zone, last)[BLOCK - 64 :][:4] == b"ZFTR"]
    zone = one(rng, full)
    byte, bit = BLOCK - 1 - rng.choice((rng.randrange(64), rng.randrange(2048))), rng.randrange(8)
    device.flip(zone, last * BLOCK + byte, bit)
    return f"{place(name, zone, last)} (footer), byte {byte}, bit {bit}"


CONTROL, ALL_OLDER = "none", "all-older"
# Kinds for any volume, and those that need two devices.
KINDS = {
    CONTROL: none,
    "header-bit": header_bit,
    "data-bit": data_bit,
    "any-bit": any_bit,
    "block-zeroed": block_zeroed,
    "blocks-exchanged": blocks_exchanged,
    "segment-zeroed": segment_zeroed,
    "segments-exchanged": segments_exchanged,
    "zone-zeroed": zone_zeroed,
    "zones-exchanged": zones_exchanged,
    "zone-replayed": zone_replayed,
    "tail-lost": tail_lost,
    ALL_OLDER: all_older,
}
KINDS_OF_TIERS = {
    "device-zeroed": device_zeroed,
    "buffer-older": buffer_older,
    "capacity-older": capacity_older,
    "tiers-mixed": tiers_mixed,
}
KINDS_OF_CACHE = {"footer-bit": footer_bit}
ALL_KINDS = {**KINDS, **KINDS_OF_TIERS, **KINDS_OF_CACHE}
