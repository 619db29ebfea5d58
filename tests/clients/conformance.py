"""The S3 server's own conformance tests, directly and through Zonal: no verdict changes.

1. Two servers start; Zonal stands before the second.
2. Each test of the suite runs against both.
3. A test that passes directly must pass through Zonal. One that fails directly may pass: who comes in is Zonal's to
   say, and there it is stricter than the server.

A line for each test whose verdict changes, then `N the same, N better, N worse`.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

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
    arguments = parser.parse_args()
    names = arguments.test or all_names()
    if arguments.core:
        names = [names[n * len(names) // CORE_TESTS] for n in range(CORE_TESTS)]
    with running(arguments.zonal) as endpoints:
        # All tests call their buckets alike: so one at a time, at both servers at once.
        with concurrent.futures.ThreadPoolExecutor(len(endpoints)) as pool:
            verdicts = [list(pool.map(lambda one, name=name: run(name, *one), endpoints)) for name in names]
    counts = collections.Counter()
    for name, (direct, cached) in zip(names, verdicts, strict=True):
        outcome = {0: "the same", 1: "better", -1: "worse"}[cached[0] - direct[0]]
        counts[outcome] += 1
        if outcome != "the same" or arguments.test:
            print(f"{name}: {outcome}: directly {verdict(direct)}, through Zonal {verdict(cached)}")
    passed = sum(direct[0] for direct, _ in verdicts)
    same, better, worse = (counts[outcome] for outcome in ("the same", "better", "worse"))
    print(f"{len(names)} tests, {passed} pass directly: {same} the same, {better} better, {worse} worse")
    return 0 if worse == 0 else 1


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
