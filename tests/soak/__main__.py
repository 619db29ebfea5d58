"""A soak: `zonal serve` for half an hour between a faulty origin, a faulty drive and many clients, and killed at times.

    python3 tests/soak --zonal BIN [--minutes N] [--seed S] [--shards N] [--report PAGE]

At the same time
- 16 checkers read, overwrite, remove and purge objects, through Zonal and past it, under five freshness rules;
- 500 clients read objects whose bytes never arrive;
- 300 clients read large objects at 4 KiB/s;
- the origin cuts bodies, answers 503, late or not at all, and gives each answer other headers (origin.py);
- every 20 seconds something goes wrong for a while: Zonal is killed, the drive answers nothing or late, the origin
  stops, refuses connections, or answers 503 to everything.

Each byte is compared with the version that its ETag names, and each version with those that its rule allows
(versions.py). The soak fails if an answer was wrong, older than its rule allows, or missing although it exists; if a
reader saw no byte for a minute; if Zonal ended by itself; or if, after all faults, it does not cache again.

An error or a body that was cut is no wrong answer. Both are counted.

Exit code: 0 when all was right, 1 when something was wrong, 2 when the soak could not run.
"""

import argparse
import asyncio
import multiprocessing
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

import clients
import origin
import report
import versions
from checkers import Checkers
from tally import Tally
from zonal import Failed, Zonal, free_port

STALLED, SLOW = 500, 300
# Time between two faults, and how many faults lie between two kills.
FAULT_SECONDS, KILL_EACH = 20, 7
HEALING_SECONDS_MIN, HEALING_SECONDS_MAX = 20, 400
# Of the objects that are read twice in the end, so many must be hits. The rest is the share of faults of the origin.
HITS_SHARE_MIN = 0.9


class Soak:
    def __init__(self, arguments, folder):
        self.arguments, self.rng = arguments, random.Random(arguments.seed)
        self.tally, self.faults, self.hits_share = Tally(), [], 0
        origin_port = free_port()
        self.origin = multiprocessing.Process(target=origin.run, args=(origin_port, arguments.seed), daemon=True)
        self.origin.start()
        self.zonal = Zonal(arguments.zonal, folder, origin_port, arguments.shards)
        self.checkers = Checkers(self.zonal, origin_port, self.tally)

    async def run(self):
        await self.zonal.start()
        await self.checkers.prepare()
        large = [name for name in self.checkers.names if 2 * versions.MIB < versions.size_of(name, 1)]
        port, chance = self.zonal.port, random.Random(self.rng.random())
        crowd = [self._task(clients.stay_stalled(port, chance, self.tally)) for _ in range(STALLED)]
        crowd += [self._task(clients.stay_slow(port, chance, self.tally, large)) for _ in range(SLOW)]
        work = [self._task(self.checkers.work(random.Random(self.rng.random()))) for _ in range(self.checkers.AT_ONCE)]
        await self._go_wrong(time.monotonic() + 60 * self.arguments.minutes)
        await self._heal()
        for task in work + crowd:
            task.cancel()
        await asyncio.gather(*work, *crowd, return_exceptions=True)
        await self.checkers.read_all()
        self.hits_share = await self.checkers.hits_share()
        if self.hits_share < HITS_SHARE_MIN:
            self.tally.violation("end", "not cached", f"{self.hits_share:.0%} of what was read twice were hits")
        await self.zonal.stop()

    async def _heal(self):
        """Waits until Zonal uses the drive and the origin again. It waits longer for a drive that failed more often."""
        ends_at = time.monotonic() + HEALING_SECONDS_MAX
        await asyncio.sleep(HEALING_SECONDS_MIN)
        while not await self.zonal.is_well():
            if ends_at < time.monotonic():
                raise Failed(f"not well {HEALING_SECONDS_MAX} s after the last fault")
            await asyncio.sleep(1)

    def _task(self, work):
        async def reported():
            try:
                await work
            except Exception as error:
                print(f"the soak itself failed: {error!r}", flush=True)
                self.zonal.kill()
                self.origin.kill()
                os._exit(2)

        return asyncio.create_task(reported())

    async def _go_wrong(self, ends_at):
        """Faults one after another, and a kill after some of them."""
        count = 0
        while time.monotonic() + FAULT_SECONDS < ends_at:
            await asyncio.sleep(FAULT_SECONDS)
            self.zonal.check()
            count += 1
            fault = self._kill if count % KILL_EACH == 1 else self.rng.choice(self._others())
            name = fault.__name__.strip("_").replace("_", " ")
            self.faults.append(name)
            print(f"{time.monotonic() - self.tally.began:7.1f} s  {name}", flush=True)
            await fault()

    def _others(self):
        return (self._drive_late, self._drive_silent, self._origin_stopped, self._origin_refuses, self._origin_busy)

    async def _kill(self):
        self.tally.is_down = True
        self.zonal.kill()
        await self.zonal.start()
        await asyncio.sleep(1)
        self.tally.is_down = False

    async def _drive_late(self):
        await self.zonal.hurt_device("slow 2s", 5)

    async def _drive_silent(self):
        await self.zonal.hurt_device("hangs", 8)

    async def _origin_stopped(self):
        os.kill(self.origin.pid, signal.SIGSTOP)
        await asyncio.sleep(self.rng.uniform(1, 15))
        os.kill(self.origin.pid, signal.SIGCONT)

    async def _origin_refuses(self):
        os.kill(self.origin.pid, signal.SIGUSR1)
        await asyncio.sleep(origin.OUTAGE_SECONDS)

    async def _origin_busy(self):
        os.kill(self.origin.pid, signal.SIGUSR2)
        await asyncio.sleep(origin.OUTAGE_SECONDS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zonal", required=True, type=lambda path: pathlib.Path(path).resolve(), metavar="BIN", help="the program under test")
    parser.add_argument("--minutes", type=float, default=30, metavar="N", help="how long things go wrong (default: 30)")
    parser.add_argument("--seed", type=int, default=1, help="of the choices, not of the timing")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--report", type=pathlib.Path, metavar="PAGE", help="write this page")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zonal-soak-") as folder:
        soak = Soak(arguments, pathlib.Path(folder))
        try:
            asyncio.run(soak.run())
        except Failed as failed:
            soak.tally.violation("zonal", "failed", failed)
        finally:
            soak.origin.kill()
        for line in soak.zonal.panics():
            soak.tally.violation("zonal", "panicked", line)
    print("\n".join(report.lines(soak)))
    if arguments.report:
        arguments.report.write_text(report.page(soak))
    return 1 if soak.tally.violations else 0


if __name__ == "__main__":
    sys.exit(main())
