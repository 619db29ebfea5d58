"""Damage at rest: what Zonal makes of devices that changed while nobody used them.

    python3 tests/damage --zonal BIN [--trials N] [--seed S] [--only PATTERN] [--volumes DIR] [--report PAGE]

A trial
1. copies a prepared volume: a block device or a cache that was filled, overwritten, trimmed, compacted and collected,
   and then stopped with SIGTERM (`clean`) or with SIGKILL (`killed`: a block device under writes, a cache at rest);
2. damages the copy (damages.py): bits, blocks, segments, zones, whole devices, older copies of any of them;
3. starts Zonal on it, reads everything, and compares it with what the volume's model allows (contents.py).

Of the block device each block is one of

    right       what was acknowledged last; after a kill also what was under way
    unflushed   after a kill only: older than acknowledged, but not older than the last flush
    error       EIO
    stale       a version that had been replaced before the stop, after a kill before the last flush
    zero        zeros that nobody wrote
    garbled     the right block with some of its bits turned over
    foreign     another block, or bytes that are no block

In a third of the trials the start is followed by writes, a clean stop, another start and another read. The class of a
block is then the worse of its two. A start may be refused; its message must name the device and say what to do, or it
is counted as unclear. After a refusal `--salvage` is tried, and what it serves is counted apart and not judged.

Of the cache each object is one of

    hit, miss   the right bytes, from flash or from the origin
    error       an answer other than 200, or one that was cut
    stale       a version that had been replaced, removed or purged
    wrong       any other bytes

All that changed at the cache's origin changed through Zonal, or was purged afterwards. So nothing may be stale under
`immutable` either (cache.py).

A trial fails when anything was stale, zero, garbled, foreign or wrong; when a trial without damage (`none`) did not
read right; or when the process crashed or hung. After the kill of a block device, wrong classes are counted and shown,
and fail nothing. What is older because all devices are older (`all-older`) cannot be detected, so it is judged
by the contents at that earlier time.

Not judged: damage to an emulated drive's own header and table of zones, so a zone keeps its write pointer; damage while
Zonal runs; speed; power cuts, which the simulator has.

Damage is a function of the seed, the number of the trial and the bytes of the volume. The volumes' bytes depend on the
timing of real processes: keep them with `--volumes`, and a trial can be repeated exactly with `--trial NUMBER`.

A trial on `zoned` takes 16 GiB of disk for as long as it runs; all others together take 5.

Exit code: 0 when no trial failed, 1 when one did, 2 when the suite could not run.
"""

import argparse
import concurrent.futures
import contextlib
import fnmatch
import itertools
import pathlib
import random
import sys
import tempfile
import threading
import time

import block
import cache
import damages
import results
import server

# What is tried, and how often: that of the block device is the harder promise.
TARGETS = {"block": 1, "cache-immutable": 0.35, "cache-revalidate": 0.2}
# Volumes of each kind of device. Damage goes to copies of them.
VOLUMES = 2
# Controls and what cannot be detected need fewer trials than the rest.
RARE = (damages.CONTROL, damages.ALL_OLDER)
RARE_SHARE = 1 / 3


def combinations(pattern):
    """All (target, device kind, stop, damage), each so often as it is to be drawn."""
    found = []
    for target, device, stop in itertools.product(TARGETS, block.KINDS, (block.CLEAN, block.KILLED)):
        kinds = block.KINDS if target == "block" else cache.KINDS
        more = damages.KINDS_OF_TIERS if target == "block" else damages.KINDS_OF_CACHE
        for damage in (*damages.KINDS, *more):
            weight = TARGETS[target] * kinds[device].weight * (RARE_SHARE if damage in RARE else 1)
            found.append((target, device, stop, damage, weight))
    return [each for each in found if fnmatch.fnmatchcase("/".join(each[:4]), pattern)]


class Suite:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.combinations = combinations(arguments.only)
        self.volumes = {}
        self.zoned_at_once = threading.Lock()

    def prepare(self, executor):
        """Makes the volumes, each kind's beside the others."""
        wanted = {(each[0].partition("-")[0], each[1], place) for each in self.combinations for place in range(VOLUMES)}
        volumes = {key: executor.submit(self.prepared, *key) for key in sorted(wanted)}
        self.volumes = {key: future.result() for key, future in volumes.items()}

    def prepared(self, target, device, place):
        arguments = self.arguments
        name = f"{target}-{device}-{place}"
        folder = (arguments.volumes or self.folder) / f"seed-{arguments.seed}" / name
        with self.room(device):
            made = block.prepared if target == "block" else cache.prepared
            return made(arguments.zonal, folder, device, f"{arguments.seed}/{name}", self.folder / name)

    def room(self, device):
        """One zoned drive at a time: Zonal allocates all of it, 16 GiB of disk."""
        return self.zoned_at_once if device == "zoned" else contextlib.nullcontext()

    def drawn(self, number):
        """The trial of that number: its random numbers and what it is."""
        rng = random.Random(f"{self.arguments.seed}/{number}")
        weights = [each[4] for each in self.combinations]
        return rng, rng.choices(self.combinations, weights)[0][:4], rng.randrange(VOLUMES)

    def tried(self, number):
        rng, (target, device, stop, damage), place = self.drawn(number)
        volume = self.volumes[target.partition("-")[0], device, place]
        work = self.folder / f"trial-{number}"
        with self.room(device):
            if target == "block":
                outcome = block.tried(self.arguments.zonal, volume, stop, damage, rng, work)
            else:
                outcome = cache.tried(self.arguments.zonal, volume, stop, damage, cache.TARGETS[target], rng, work)
        return results.Trial(number, target, device, stop, damage, place, outcome)

    def again(self, trial):
        """The command that runs one trial alone."""
        arguments = self.arguments
        words = ["python3 tests/damage --zonal", arguments.zonal, "--seed", arguments.seed, "--trial", trial.number]
        if arguments.only != "*":
            words += ["--only", f"'{arguments.only}'"]
        if arguments.volumes:
            words += ["--volumes", arguments.volumes]
        return " ".join(map(str, words))


def main():
    parser = argparse.ArgumentParser(prog="damage", description=__doc__.splitlines()[0])
    parser.add_argument("--zonal", required=True, help="the binary")
    parser.add_argument("--trials", type=int, default=100, metavar="N", help="how many")
    parser.add_argument("--seed", default="1", help="of volumes and damage")
    parser.add_argument("--trial", type=int, action="append", metavar="NUMBER", help="only this one (may be given several times)")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="such as 'block/zoned/clean/header-*'")
    parser.add_argument("--volumes", type=pathlib.Path, metavar="DIR", help="keep the prepared volumes there, and use them again")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="trials at once")
    parser.add_argument("--report", type=pathlib.Path, metavar="PAGE", help="write this page")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zd-") as folder:
        suite = Suite(arguments, pathlib.Path(folder))
        if not suite.combinations:
            print(f"nothing is called {arguments.only}", file=sys.stderr)
            return 2
        return run(suite, arguments)


def run(suite, arguments):
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as executor:
        try:
            suite.prepare(executor)
        except (server.Refused, server.Hung, RuntimeError, OSError) as error:
            print(f"a volume could not be prepared: {error}", file=sys.stderr)
            return 2
        prepared = time.monotonic()
        print(f"# volumes: {prepared - began:.1f} s", flush=True)
        trials = []
        for trial in executor.map(suite.tried, arguments.trial or range(arguments.trials)):
            trials.append(trial)
            show(suite, trial, arguments.trial is not None)
    seconds = time.monotonic() - prepared
    print("\n".join(results.tables(trials)))
    failed = sum(trial.has_failed for trial in trials)
    print(f"{len(trials)} trials, {failed} failed; {prepared - began:.0f} s for the volumes, {seconds:.0f} s for the trials")
    if arguments.report:
        arguments.report.write_text(results.page(trials, arguments.seed))
    return 1 if failed else 0


def show(suite, trial, is_verbose):
    if trial.has_failed or is_verbose:
        print(f"{'FAILED' if trial.has_failed else 'passed'} {trial}")
        print(f"    {suite.again(trial)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
