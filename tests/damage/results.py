"""What came of the trials: a line for each that failed, and the page with all counts."""

import collections
import dataclasses
import datetime
import pathlib
import platform
import re
import subprocess
import textwrap

import block
import cache
import damages
from contents import ERROR, FOREIGN, GARBLED, STALE, UNFLUSHED, WRONG, ZERO

ROOT = pathlib.Path(__file__).resolve().parents[2]
MESSAGES_MAX = 40

# The project's longest line in Markdown, less a little.
LINE_CHARACTERS = 118
# What no block or object may be when nothing was damaged.
NOT_RIGHT = (ERROR, UNFLUSHED, *WRONG, cache.WRONG_BYTES)


@dataclasses.dataclass(frozen=True)
class Trial:
    number: int
    target: str
    device: str
    stop: str
    damage: str
    volume: int
    outcome: block.Outcome

    @property
    def has_failed(self):
        outcome = self.outcome
        if outcome.end in ("crashed", "hung"):
            return True
        if self.damage == damages.CONTROL and (outcome.end or any(outcome.counts[name] for name in NOT_RIGHT)):
            return True
        return self.is_judged and self.is_wrong

    @property
    def is_judged(self):
        """A cache was killed at rest, a block device under writes."""
        return self.stop == block.CLEAN or self.target != "block"

    @property
    def is_wrong(self):
        return any(self.outcome.counts[name] for name in (*WRONG, cache.WRONG_BYTES))

    def __str__(self):
        outcome = self.outcome
        words = [f"{self.number}: {self.target}/{self.device}/{self.stop}/{self.damage}, volume {self.volume}: {outcome.damage}:"]
        words += [outcome.end] if outcome.end else []
        words += [f"{count} {name}" for name, count in sorted(outcome.counts.items())]
        words += [f"salvaged {name} {count}" for name, count in sorted(outcome.salvaged.items())]
        words += ["(after more writes and a restart)"] if outcome.went_on else []
        words += [f"({'; '.join(outcome.examples)})"] if outcome.examples else []
        words += [f"[{outcome.message}]"] if outcome.message else []
        return " ".join(words)


ENDS = ("trials", "failed", "refused", "unclear", "broke")
CLASSES_OF_BLOCKS = (ERROR, UNFLUSHED, STALE, ZERO, GARBLED, FOREIGN)
CLASSES_OF_OBJECTS = (cache.HIT, cache.MISS, ERROR, STALE, cache.WRONG_BYTES)


def tables(trials):
    """The lines of one table for the block device and one for the cache."""
    tried = [trial for trial in trials if trial.outcome.end != "nothing"]
    lines = []
    for is_block, classes in ((True, CLASSES_OF_BLOCKS), (False, CLASSES_OF_OBJECTS)):
        if group := [trial for trial in tried if (trial.target == "block") == is_block]:
            lines += ["", *table(group, classes)]
    return lines[1:]


def table(trials, classes):
    order = list(damages.ALL_KINDS)
    groups = collections.defaultdict(list)
    for trial in trials:
        groups[trial.target, trial.device, trial.stop, order.index(trial.damage)].append(trial)
    columns = ("target", "devices", "stop", "damage", *ENDS, *classes)
    yield row(columns)
    yield row(["---"] * 4 + ["---:"] * (len(columns) - 4))
    for (*key, kind), group in sorted(groups.items()):
        yield row([*key, order[kind], *counted(group, classes)])
    yield row(["all", "", "", "", *counted(trials, classes)])


def row(cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def counted(group, classes):
    sums = collections.Counter()
    for trial in group:
        outcome = trial.outcome
        sums["failed"] += trial.has_failed
        sums["refused"] += outcome.end == "refused"
        sums["unclear"] += outcome.end == "refused" and not outcome.is_clear
        sums["broke"] += outcome.end in ("crashed", "hung")
        sums.update(outcome.counts)
    return len(group), *(sums[name] for name in (*ENDS[1:], *classes))


PAGE = """# Damage at rest

Written by `make damage`, from `tests/damage/results.py`: {date}, commit {commit}, {machine}.
{trials} trials with seed {seed}: **{failed} failed.**

Each trial stops a volume, damages what lies on its devices, starts again and reads everything. What is judged and what
is not stands at the top of `tests/damage/__main__.py`; the kinds of damage are the functions of
`tests/damage/damages.py`. The columns from `error` on are blocks, of the cache from `hit` on objects, summed over the
trials. A clean stop is SIGTERM; `killed` is SIGKILL: of a block device under writes, of a cache three seconds after
the last one. A stale, zero, garbled, foreign or wrong one fails the trial, except of a block device that was killed.

| devices | what they are |
| --- | --- |
| `file` | two files |
| `conventional` | the model of an SN540 with its bytes in a file; as buffer of the block device a plain file |
| `zoned` | models of a ZN540 with their bytes in files |

| column | what it counts |
| --- | --- |
| failed | trials that failed |
| refused | starts that were refused |
| unclear | of these, those whose message lacks the device or what to do |
| broke | processes that crashed or hung |
| error | blocks that are EIO |
| unflushed | after a kill, blocks older than acknowledged, and not older than the last flush |
| stale | older than that |
| zero | zeros that nobody wrote |
| garbled | the right block with some of its bits turned over |
| foreign | another block, or garbage |
| hit, miss | objects with the right bytes, from flash or from the origin |
| wrong | objects with other bytes than any version has |

{table}

## What `--salvage` serves where a start was refused

By kind of damage, blocks in all. It is documented that some may be older than acknowledged; nothing of it is judged.

{salvaged}

## Refusals

Each message once, with paths as `PATH`.

{messages}

## What is not concluded

- Nothing about damage to an emulated drive's own header and its table of zones: zones keep their write pointers.
- Nothing about damage while Zonal runs, and nothing about power cuts.
- A trial is one draw. That a kind did not fail in this many trials does not say that it cannot.
"""


def page(trials, seed):
    return PAGE.format(
        date=datetime.datetime.now(datetime.UTC).date(),
        commit=commit(),
        machine=f"Linux {platform.release()} {platform.machine()}",
        trials=len(trials),
        seed=seed,
        failed=sum(trial.has_failed for trial in trials),
        table="\n".join(tables(trials)),
        salvaged="\n".join(salvaged(trials)),
        messages="\n".join(messages(trials)),
    )


def salvaged(trials):
    names = ("refused", ERROR, STALE, ZERO, GARBLED, FOREIGN)
    sums = collections.defaultdict(collections.Counter)
    for trial in trials:
        if trial.outcome.was_salvaged:
            sums[trial.damage].update({"trials": 1, **trial.outcome.salvaged})
    yield "| damage | trials | " + " | ".join(names) + " |"
    yield "| --- |" + " ---: |" * (len(names) + 1)
    for damage, counts in sorted(sums.items()):
        yield f"| {damage} | {counts['trials']} | " + " | ".join(str(counts[name]) for name in names) + " |"


def messages(trials):
    """Refusals and crashes, with what differs from trial to trial made equal."""
    found = collections.Counter()
    for trial in trials:
        if message := trial.outcome.message:
            made_equal = re.sub(r"\d+|[0-9a-f]{8,}", "N", re.sub(r"/\S*/trial-\d+/", "PATH/", message))
            clear = "" if trial.outcome.is_clear else " **unclear**"
            found[f"{trial.outcome.end}{clear}: `{made_equal}`"] += 1
    lines = [f"- {count} x {message}" for message, count in found.most_common(MESSAGES_MAX)]
    return [textwrap.fill(line, LINE_CHARACTERS, subsequent_indent="  ") for line in lines] or ["None."]


def commit():
    """The commit that was tested, and whether it was changed."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
