"""What a soak found, as text and as a page."""

import platform

SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1}


def lines(soak):
    yield ""
    for who, counts in of_each(soak.tally):
        yield f"{who:11} {sum(counts.values()):8}  " + ", ".join(f"{what} {count}" for what, count in counts.items())
    yield f"hits, first byte: {latencies(soak.tally)}"
    yield f"faults: {faults(soak)}"
    yield f"starts: {len(soak.zonal.start_seconds)}, at most {max(soak.zonal.start_seconds, default=0):.1f} s"
    yield f"memory: at most {soak.zonal.peak_kib // 1024} MiB resident"
    yield f"violations: {len(soak.tally.violations)}"


def of_each(tally):
    """Each kind of client, and what happened to its requests how often."""
    for who in sorted({who for who, _ in tally.counts}):
        yield who, {what: count for (other, what), count in sorted(tally.counts.items()) if other == who}


def latencies(tally):
    return ", ".join(f"{name} {1000 * tally.percentile(share):.1f} ms" for name, share in SHARES.items())


def faults(soak):
    return ", ".join(f"{name} {soak.faults.count(name)}" for name in sorted(set(soak.faults)))


PAGE = """# Soak

Written by `make soak-serve` ([tests/soak](../../tests/soak/__main__.py)): {minutes:g} minutes of `zonal serve` between a
faulty origin, a faulty drive and many clients. The drive is an emulated one of 512 MiB, {shards} shards. Clients, origin
and Zonal share {processors}.

- 16 checkers read, overwrite, remove and purge 300 objects under five freshness rules, through Zonal and past it. Each
  byte is compared with the version that its ETag names, and each version with those that its rule allows.
- 500 clients read objects whose bytes never arrive, 300 read at 4 KiB/s.
- Of the origin's answers 2 % break off, 1 % are 503, 1 % late, 0.5 % closed and 0.1 % never come.
- Every 20 s something fails for a while: Zonal is killed, the drive answers late or nothing, the origin stops, refuses
  connections, or is busy.

| | |
| --- | --- |
| answers that were wrong, staler than their rule, or missing | {violations} |
| faults | {faults} |
| longest start after a kill | {start_seconds:.1f} s |
| answers that were compared | {checked:,} |
| hits, time to the first byte, with all of the above | {latencies} |
| objects that were hits at their second read after all faults | {hits_share:.0%} |
| most resident memory | {memory_mib} MiB |

How requests ended. A word in capitals is the `X-Cache` of a right answer from the cache, a number is the status of any
other. `cut` bodies ended too soon, `refused` requests got no answer; `killed` means that Zonal was down. `left` and
`silent` are the client's own doing.

| clients | requests | how they ended |
| --- | --- | --- |
{rows}
"""


def page(soak):
    tally = soak.tally
    rows = [
        f"| {who} | {sum(counts.values()):,} | {', '.join(f'{what} {count:,}' for what, count in counts.items())} |"
        for who, counts in of_each(tally)
    ]
    return PAGE.format(
        minutes=soak.arguments.minutes,
        shards=soak.arguments.shards,
        processors=processors(),
        faults=faults(soak),
        start_seconds=max(soak.zonal.start_seconds),
        violations=len(tally.violations),
        checked=sum(count for (who, what), count in tally.counts.items() if who == "checker" and is_answer(what)),
        latencies=latencies(tally),
        hits_share=soak.hits_share,
        memory_mib=soak.zonal.peak_kib // 1024,
        rows="\n".join(rows),
    )


def is_answer(what):
    """Whether an object's bytes, or their absence, were compared: all but refusals and broken connections."""
    return what.isupper() or what in ("200", "206", "404")


def processors():
    with open("/proc/cpuinfo") as lines:
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(models)} x {models[0]}" if models else platform.processor()
