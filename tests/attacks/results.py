"""The page about the attacks: how many of each family were tried over each server, and what came of them."""

import datetime
import platform

import report

PAGE = """# Attacks on a key

Written by `make attacks`, from `tests/attacks/results.py`: {date}, commit {commit}, {machine}, a debug build of Zonal.
{attacks} attacks, {runs} runs: **{served} served, {stale} stale reads.**

Each attack is a request, or a few, signed with a key that may do less than the request would: the tables in
`tests/attacks/attacks_*.py` have operations, keys and tricks. Zonal runs with its defaults but for short limits on
silent clients, and `freshness` as in the table. After each attack the judge compares the origin (objects, versions,
uploads, settings, users) with what it was, looks in the answers for what the key may not know, and reads every name
through Zonal and directly. *served*: something was told or changed that the key may not. *stale*: a read through Zonal
was not what the origin has. *skipped*: the server lacks what is attacked. All families run under
`immutable?missing=1h`, where nothing goes stale by itself; `control`, `stale` and `fresh-stale` again under `ttl=1h?missing=1h` and
`revalidate`; `as-signed` under `authorization = "origin"`.

| origin | family | runs | skipped | served | stale |
| --- | --- | --- | --- | --- | --- |
{rows}

| family | what is tried |
| --- | --- |
| `administration` | servers' own interfaces below the first word of a path |
| `as-signed` | what somebody could add to, or hide in, a request that the origin judges |
| `blind` | what a key that may not read can learn |
| `bucket`, `object`, `list` | every operation with every kind of key; lists beyond a prefix |
| `control` | what keys may do, which must work |
| `copy` | sources of copies that could be read in two ways |
| `delete` | documents that name other objects to the origin than to us |
| `fresh-bodies`, `fresh-stale` | documents, copies, uploads, framing, and writes before reads, by who read only what is documented |
| `fresh-names` | names, operations, parameters and headers that could be read in two ways; what origins keep for themselves within a bucket |
| `host`, `path` | buckets in the host, keys and buckets in every spelling |
| `method` | methods that S3 does not have, or not there |
| `operator` | the admin endpoint |
| `signature` | signatures that are none, or of something else |
| `stale` | writes in all forms, and whether the next read sees them |
| `vendor` | headers and parameters that mean something to one server |
| `wire` | bodies whose end could be read in two ways |

## What is not concluded

- Nothing about ways that nobody thought of.
- Nothing about servers other than these three, nor about AWS.
- Over a file system a name cannot be a folder as well, and whoever may write below it learns so: those attacks are
  skipped there.
- s3proxy keeps uploads as objects beside the others (`.mpus-*`, and one that is called as the upload): these are not
  looked at. What it leaves of an upload that broke off, after which it answers every list of that bucket 500, is removed
  by the suite: whoever may write there can do that, with Zonal or without.
"""


def page(tallies, attacks):
    """`tallies`: of each (origin, family)."""
    rows = [
        f"| {origin} | `{family}` | {tally.run} | {tally.skipped} | {tally.served} | {tally.stale} |"
        for (origin, family), tally in sorted(tallies.items())
    ]
    return PAGE.format(
        date=datetime.datetime.now(datetime.UTC).date(),
        commit=report.commit(),
        machine=f"Linux {platform.release()} {platform.machine()}",
        attacks=attacks,
        runs=sum(tally.run for tally in tallies.values()),
        served=sum(tally.served for tally in tallies.values()),
        stale=sum(tally.stale for tally in tallies.values()),
        rows="\n".join(rows),
    )
