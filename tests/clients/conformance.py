"""The S3 server's own conformance tests, directly and through Zonal: no verdict changes.

1. Two servers start; Zonal stands before the second.
2. Each test of the suite runs against both.
3. A test that passes directly must pass through Zonal. One that fails directly may pass: who comes in is Zonal's to
   say, and there it is stricter than the server.

A line for each test whose verdict changes, then `N the same, N better, N worse`; with `--report` a page of it.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import datetime
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

import report
import servers

# What clients use of S3, as far as an origin decides: the groups of the suite that a cache could break.
GROUPS = (
    "AbortMultipartUpload",
    "Authentication",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateMultipartUpload",
    "DeleteObject",
    "DeleteObjects",
    "GetObject",
    "HeadBucket",
    "HeadObject",
    "ListBuckets",
    "ListMultipartUploads",
    "ListObjectsV2",
    "ListParts",
    "PresignedAuth",
    "PutObject",
    "SignedStreamingPayload",
    "SignedStreamingPayloadTrailer",
    "UnsignedStreaminPayloadTrailer",
    "UnsignedStreamingPayloadTrailer",
    "UploadPart",
    "UploadPartCopy",
    "Versioning",
)
# Every so many tests are the core: of each group some, 60 in all.
CORE_TESTS = 60
# Seconds until a test must have ended: some upload for half a minute.
TEST_SECONDS_MAX = 180
# Both servers and Zonal know this key: answers name the owner of a bucket by it.
KEY, SECRET = "conformance", "conformance-secret"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zonal", required=True, help="the binary")
    parser.add_argument("--core", action="store_true", help=f"only {CORE_TESTS} tests, some of each group")
    parser.add_argument("--test", action="append", help="only this test, with what it prints")
    parser.add_argument("--report", type=pathlib.Path, help="write this page")
    arguments = parser.parse_args()
    names = arguments.test or all_names()
    if arguments.core:
        names = [names[n * len(names) // CORE_TESTS] for n in range(CORE_TESTS)]
    with running(arguments.zonal) as endpoints:
        # All tests call their buckets alike: so one at a time, at both servers at once.
        with concurrent.futures.ThreadPoolExecutor(len(endpoints)) as pool:
            verdicts = [list(pool.map(lambda one, name=name: run(name, *one), endpoints)) for name in names]
    results = [Result(name, *both) for name, both in zip(names, verdicts, strict=True)]
    for each in results:
        if each.outcome != "the same" or arguments.test:
            print(each.line())
    summed = summary(results)
    print(summed)
    if arguments.report:
        arguments.report.write_text(page(results, summed))
    return 1 if any(each.outcome == "worse" for each in results) else 0


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of a test, directly and through Zonal: whether it passes, and what it said."""

    name: str
    direct: tuple[bool, str]
    cached: tuple[bool, str]

    @property
    def group(self):
        return self.name.split("_")[0]

    @property
    def outcome(self):
        return {0: "the same", 1: "better", -1: "worse"}[self.cached[0] - self.direct[0]]

    def line(self):
        return f"{self.name}: {self.outcome}: directly {verdict(self.direct)}, through Zonal {verdict(self.cached)}"


def summary(results):
    counts = collections.Counter(each.outcome for each in results)
    passed = sum(each.direct[0] for each in results)
    same, better, worse = (counts[outcome] for outcome in ("the same", "better", "worse"))
    return f"{len(results)} tests, {passed} pass directly: {same} the same, {better} better, {worse} worse"


PAGE = """# An S3 server's own tests, through Zonal

Written by `make conformance`, from `tests/clients/conformance.py`: {date}, commit {commit}, {machine}.
The tests are those of {origin} (`versitygw test`), each run against that server directly and against Zonal before another
one of it, freshness `revalidate`, a debug build. **{summed}.**

A test that passes directly must pass through Zonal. One that fails directly may pass: who comes in is Zonal's to say, and
there it is stricter than the server.

| group | tests | pass directly | pass through Zonal | worse |
| --- | --- | --- | --- | --- |
{groups}

## Those that end otherwise

{others}
## What is not concluded

- Nothing about operations that are not in these groups: Zonal hands them on.
- Nothing about other servers, or about AWS: the tests are this server's idea of S3.
- Nothing about what a test does not ask. That one fails on both ways alike says nothing of Zonal; {failing} do.
"""


def page(results, summed):
    groups = {}
    for each in results:
        groups.setdefault(each.group, []).append(each)
    rows = [
        f"| {name} | {len(group)} | {sum(each.direct[0] for each in group)} | {sum(each.cached[0] for each in group)} "
        f"| {sum(each.outcome == 'worse' for each in group)} |"
        for name, group in groups.items()
    ]
    others = [f"- {each.line()}\n" for each in results if each.outcome != "the same"]
    return PAGE.format(
        date=datetime.datetime.now(datetime.UTC).date(),
        commit=report.commit(),
        machine=f"Linux {platform.release()} {platform.machine()}",
        origin=report.origin_version(),
        summed=summed,
        groups="\n".join(rows),
        others="".join(others) or "None.\n",
        failing=sum(not each.direct[0] and not each.cached[0] for each in results),
    )


def all_names():
    """The tests of the groups, in the order of their names."""
    help_text = subprocess.run(
        [servers.VERSITYGW, "test", "--help"], capture_output=True, check=True, text=True
    ).stdout
    names = re.findall(r"^ +(\w+?_\w+) +Runs", help_text, re.MULTILINE)
    return sorted(name for name in names if name.split("_")[0] in GROUPS)


@contextlib.contextmanager
def running(zonal):
    """Two servers and a Zonal: the endpoint of the first, that of Zonal before the second, and each server's folder."""
    scratch = servers.ROOT / "target"
    scratch.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-", dir=scratch))
        direct, behind, gateway = (servers.Endpoint(servers.free_port(), KEY, SECRET) for _ in range(3))
        place = pathlib.Path(folder)
        for name, endpoint in (("direct", direct), ("behind", behind)):
            (place / name).mkdir()
            stack.enter_context(servers.origin(place / name, endpoint))
        spec = f"s3:{behind.url}?region={servers.REGION}&path-style=true"
        environment = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        stack.enter_context(
            servers.serve(zonal, place, gateway, (spec, environment), "revalidate")
        )
        yield (direct, place / "direct"), (gateway, place / "behind")


def run(name, endpoint, folder):
    """Whether a test passes, and what it said. What a failed one left behind is taken away from its server."""
    try:
        return passes(name, endpoint)
    finally:
        for kind in ("objects", "metadata", "versions"):
            for path in (folder / kind).iterdir():
                shutil.rmtree(path, ignore_errors=True)


def passes(name, endpoint):
    command = [servers.VERSITYGW, "test", "-a", KEY, "-s", SECRET, "-e", endpoint.url, name]
    # The suite trusts no certificate but that one, and then fails even over HTTP.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, check=False, text=True, timeout=TEST_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return False, f"not done after {TEST_SECONDS_MAX} s"
    said = re.sub(r"\x1b\[\d*m", "", done.stdout + done.stderr).strip()
    # A test that fails says so and ends with 0 all the same.
    return re.search(rf"^PASS +{name}$", said, re.MULTILINE) is not None, said


def verdict(result):
    passed, said = result
    last = said.splitlines()[-1] if said else "nothing"
    return "passes" if passed else f"fails ({last})"


if __name__ == "__main__":
    sys.exit(main())
