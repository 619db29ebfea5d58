"""What all clients saw, counted; and every violation in words."""

import asyncio
import collections
import time

from clients import Broken, Enough, Hung, Wrong

VIOLATIONS_SHOWN_MAX = 20
# Latencies of hits, in seconds, of which the report shows percentiles.
LATENCIES_MAX = 2_000_000


class Tally:
    def __init__(self):
        self.counts = collections.Counter()
        self.violations = []
        self.hit_seconds = []
        self.began = time.monotonic()
        # True while nothing answers because Zonal was killed.
        self.is_down = False

    def add(self, who, what):
        self.counts[who, what] += 1

    def violation(self, who, what, text):
        self.add(who, what)
        self.violations.append(f"{time.monotonic() - self.began:7.1f} s  {who} {what}: {text}")
        print(self.violations[-1], flush=True)

    async def watch(self, who, call, hung="hung"):
        """Awaits a call and counts how it ended. Returns the answer, or None."""
        try:
            answer = await call
        except Wrong as wrong:
            self.violation(who, "wrong", wrong)
        except Hung as what:
            if hung == "hung" and not self.is_down:
                self.violation(who, "hung", what)
            else:
                self.add(who, hung)
        except Broken as broken:
            self.add(who, f"{broken}{', killed' if self.is_down else ''}")
            await asyncio.sleep(0.2)
        except Enough:
            self.add(who, "left")
        else:
            self.add(who, answer.source if answer.status in (200, 206) and answer.source != "BYPASS" else str(answer.status))
            return answer
        return None

    def hit(self, seconds):
        if len(self.hit_seconds) < LATENCIES_MAX:
            self.hit_seconds.append(seconds)

    def percentile(self, share):
        ordered = sorted(self.hit_seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0
