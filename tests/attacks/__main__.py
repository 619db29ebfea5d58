"""Attacks on Zonal: who holds a key tries to get more than the key may do.

    python3 tests/attacks --zonal BIN [--versitygw BIN] [--minio BIN] [--s3proxy CLASSPATH] [--core] [--only NAME]

1. Each origin that is named starts in a folder of its own and is filled with secrets (world.py).
2. Zonal starts before it, once for each freshness; one attack runs after the other (attacks_*.py).
3. The judge (judge.py) looks at the origin and the cache after each; what was changed is repaired.

Exit code: 0 when no attack was served, 1 when one was, 2 when it could not be tried.
"""

import argparse
import collections
import dataclasses
import fnmatch
import importlib
import pathlib
import sys
import time

import judge as judges
import origins
import results
import world as worlds
from attack import Actor

HERE = pathlib.Path(__file__).resolve().parent
# What shows stale bytes first runs everything; the others repeat the writes.
FIRST = "immutable?missing=1h"
OTHERS = ("ttl=1h?missing=1h", "revalidate")
REPEATED = ("stale", "control", "fresh-stale")
# Of the attacks that are not marked, every so many are in the core, which takes half a minute.
CORE_STRIDE = 100
SHOWN_BYTES_MAX = 3000


@dataclasses.dataclass
class Tally:
    run: int = 0
    skipped: int = 0
    served: int = 0
    stale: int = 0


class Suite:
    """What was asked for on the command line, and what came of it."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.attacks = chosen(arguments)
        self.tallies = collections.defaultdict(Tally)
        self.violated = 0
        # Attacks that ended at the signature, and so never reached what they aim at.
        self.unproven = []

    def run(self):
        for name, kind in origins.KINDS.items():
            if program := getattr(self.arguments, name):
                with origins.started(kind, program) as origin:
                    self.run_origin(origin)

    def run_origin(self, origin):
        world = worlds.World(origin)
        world.fill()
        for freshness in (FIRST, *OTHERS, worlds.JUDGED_BY_ORIGIN):
            attacks = [attack for attack in self.attacks if self.runs_under(attack, freshness)]
            if not attacks:
                continue
            began = time.monotonic()
            with worlds.gateway(self.arguments.zonal, origin, freshness) as gateway:
                self.run_attacks(attacks, world, gateway, freshness)
            print(f"# {origin.name}, {freshness}: {len(attacks)} attacks in {time.monotonic() - began:.1f} s", flush=True)

    def runs_under(self, attack, freshness):
        if attack.family == "as-signed":
            return freshness == worlds.JUDGED_BY_ORIGIN
        is_repeated = attack.family in REPEATED and (attack.is_core or not self.arguments.core)
        return freshness == FIRST or (freshness in OTHERS and is_repeated)

    def run_attacks(self, attacks, world, gateway, freshness):
        judge = judges.Judge(world, gateway)
        if wrong := judge.begin():
            raise RuntimeError(f"before any attack: {wrong[:3]}")
        for attack in attacks:
            tally = self.tallies[world.origin.name, attack.family]
            if not attack.needs <= world.has:
                tally.skipped += 1
                continue
            actor = Actor(attack, world, gateway)
            actor.run()
            violations, touched = judge.verdict(actor, rights_of(attack))
            tally.run += 1
            self.report(attack, actor, violations, world.origin, freshness)
            if touched:
                world.repair(touched, any("administration" in violation.text for violation in violations))
                if wrong := judge.begin(touched):
                    raise RuntimeError(f"after {attack.name}, although repaired: {wrong[:3]}")

    def report(self, attack, actor, violations, origin, freshness):
        tally = self.tallies[origin.name, attack.family]
        kinds = {violation.kind for violation in violations}
        tally.stale += "stale" in kinds
        tally.served += bool(kinds - {"stale"})
        last = actor.answers[-1] if actor.answers else None
        if last is not None and last.code == "SignatureDoesNotMatch" and attack.family not in ("signature", "wire", "host"):
            self.unproven.append(f"{origin.name}: {attack.name}")
        if violations:
            self.violated += 1
            texts = "; ".join(f"{violation.kind}: {violation.text}" for violation in violations[:4])
            more = f" and {len(violations) - 4} more" if 4 < len(violations) else ""
            print(f"VIOLATED {origin.name}, {freshness}: {attack.name}: {texts}{more}")
            print(f"    {self.again(attack, origin)}", flush=True)
        if self.arguments.show:
            show(attack, actor)

    def again(self, attack, origin):
        """The command that runs one attack alone."""
        program = getattr(self.arguments, origin.name)
        words = ["python3 tests/attacks --zonal", self.arguments.zonal, f"--{origin.name}", program]
        return " ".join([*words, "--show --only", f"'{attack.name}'"])

    def table(self):
        print(f"{'origin':<12}{'family':<14}{'run':>6}{'skipped':>9}{'served':>8}{'stale':>7}")
        for (origin, family), tally in sorted(self.tallies.items()):
            print(f"{origin:<12}{family:<14}{tally.run:>6}{tally.skipped:>9}{tally.served:>8}{tally.stale:>7}")
        ran = sum(tally.run for tally in self.tallies.values())
        print(f"{len(self.attacks)} attacks, {ran} runs, {self.violated} violated")
        for name in self.unproven:
            print(f"# ended at the signature, so nothing else was tried: {name}")
        return ran


def rights_of(attack):
    access, rules = worlds.RIGHTS[attack.judged_as]
    return worlds.Rights(access, rules)


def chosen(arguments):
    attacks = []
    for path in sorted(HERE.glob("attacks_*.py")):
        attacks += importlib.import_module(path.stem).ATTACKS
    names = collections.Counter(attack.name for attack in attacks)
    if twice := [name for name, count in names.items() if 1 < count]:
        raise RuntimeError(f"two attacks of one name: {twice}")
    if arguments.only:
        attacks = [attack for attack in attacks if fnmatch.fnmatchcase(attack.name, arguments.only)]
    if arguments.core:
        attacks = [attack for place, attack in enumerate(attacks) if attack.is_core or place % CORE_STRIDE == 0]
    return attacks


def show(attack, actor):
    """The bytes of an attack, for who mends what it found."""
    for sent, answer in zip(actor.sent, actor.answers, strict=True):
        print(f"--- {attack.name}: sent")
        print(sent[:SHOWN_BYTES_MAX].decode("latin-1"))
        print("--- answered")
        print(answer.raw[:SHOWN_BYTES_MAX].decode("latin-1"))


def main():
    parser = argparse.ArgumentParser(prog="attacks", description=__doc__.splitlines()[0])
    parser.add_argument("--zonal", required=True, help="the binary")
    parser.add_argument("--versitygw", help="run over versitygw: its binary")
    parser.add_argument("--minio", help="run over MinIO: its binary")
    parser.add_argument("--s3proxy", help="run over s3proxy: its class path")
    parser.add_argument("--core", action="store_true", help="a part of it that takes half a minute")
    parser.add_argument("--only", metavar="NAME", help="attacks of that name; * and ? stand for others")
    parser.add_argument("--report", type=pathlib.Path, help="write this page")
    parser.add_argument("--show", action="store_true", help="print what is sent and answered")
    parser.add_argument("--list", action="store_true", help="print the names of attacks, and run none")
    arguments = parser.parse_args()
    suite = Suite(arguments)
    if arguments.list:
        print("\n".join(attack.name for attack in suite.attacks))
        return 0
    if not suite.attacks or not any(getattr(arguments, name) for name in origins.KINDS):
        print("nothing to run: name an origin, and attacks that there are", file=sys.stderr)
        return 2
    try:
        suite.run()
    except (RuntimeError, OSError) as error:
        suite.table()
        print(f"cannot go on: {error}", file=sys.stderr)
        return 2
    if arguments.report:
        arguments.report.write_text(results.page(suite.tallies, len(suite.attacks)))
    return 2 if not suite.table() else 1 if suite.violated else 0


if __name__ == "__main__":
    sys.exit(main())
