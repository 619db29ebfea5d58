"""Real clients read and write through Zonal, and see what they would see without it.

1. Each read has an object of its own, small or large, bytes or a table, as far as the client goes.
   It runs directly at the origin and through the gateway, with equal results.
2. Once the bytes are cached, it runs again with no origin GET at all.
3. What a client writes through the gateway is read back directly, byte for byte, and by the client
   itself through the gateway; then it writes over it, and reads what it wrote last.
4. What a client removes through the gateway is gone on both ways.
5. A table of Delta Lake grows on both ways, and its reader sees each new version at once.
6. The same for multipart uploads with a local folder as the origin.

Over HTTP, with `--https` over HTTPS, with `--report` over both. One line for each client and
operation, then `N passed, N failed`.
"""

import argparse
import contextlib
import dataclasses
import functools
import os
import pathlib
import random
import sys
import time
import traceback
from collections.abc import Callable

import botocore.exceptions
import pyarrow
import pyarrow.parquet

import report
import s3_clients
import servers
import table_clients
from roster import CLIENTS

# A table of about 10 MB in several row groups: numbers, floats and text, as analytics has them.
ROWS = 400_000
ROWS_PER_GROUP = 50_000
SMALL_ROWS = 1000
# A small object: less than a block of the device, and no multiple of anything.
SMALL_BYTES = 3001
# A blob larger than the window of a fetch and than a client's part size, and no multiple of either.
BLOB_BYTES = 100_000_000
# Written through the gateway: enough for three parts of a multipart upload.
UPLOAD_BYTES = 20_000_001
# Written to a local folder: four parts of 8 MiB, which is boto3's own size, the last one shorter.
FOLDER_BYTES = 30_000_001
# Chunks reach flash behind the reader's back, and when its queue is full some are left out: so many
# reads may still go to the origin before the bytes must all be here. The report says it, too.
WARMING_READS_MAX = 5


@dataclasses.dataclass(frozen=True)
class Test:
    """One operation of one client."""

    client: str
    operation: str
    run: Callable[[], report.Requests]
    # Whether it belongs to the few that `--quick` runs.
    is_quick: bool = False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zonal", help="the binary; without it the test tests itself")
    only = {"choices": CLIENTS, "action": "append", "default": []}
    parser.add_argument("--client", **only, help="only this client; may be repeated")
    parser.add_argument("--without", **only, help="all but this client; may be repeated")
    parser.add_argument("--https", action="store_true", help="over HTTPS")
    parser.add_argument("--freshness", default="revalidate", help="the rule of all objects")
    parser.add_argument("--quick", action="store_true", help="one read and one write of each")
    parser.add_argument("--report", type=pathlib.Path, help="over both; write this page")
    arguments = parser.parse_args()
    if arguments.zonal is None and (arguments.https or arguments.report):
        parser.error("HTTPS needs --zonal: the counting proxy speaks plain HTTP")
    is_https = [False, True] if arguments.report else [arguments.https]
    results = [result for each in is_https for result in results_over(each, arguments)]
    if arguments.report:
        packages = {name: client.package for name, client in CLIENTS.items()}
        arguments.report.write_text(report.page(results, packages))
    failed = sum(result.failure is not None for result in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    # Nothing was tried: no client is left, or none has such a test.
    return 1 if failed or not results else 0


def results_over(is_https, arguments):
    """The results over HTTP or HTTPS."""
    wanted = arguments.client or CLIENTS
    names = [name for name in CLIENTS if name in wanted and name not in arguments.without]
    with contextlib.ExitStack() as stack:
        certificates = None
        if is_https:
            certificates = stack.enter_context(servers.certificates_made())
            # For the clients that have no option of their own; no server of the test sees it.
            os.environ["SSL_CERT_FILE"] = str(certificates.ca_file)
        rule = arguments.freshness
        running = stack.enter_context(servers.running(arguments.zonal, rule, certificates))
        write_files(running.folder)
        s3_clients.boto3_client(running.direct).create_bucket(Bucket=s3_clients.BUCKET)
        tests = [test for name in names for test in client_tests(running, name)]
        if running.is_cached and "boto3" in names and not is_https:
            run = functools.partial(write_to_folder, arguments.zonal)
            tests.append(Test("boto3", "upload to folder", run))
        return [result(test, is_https) for test in tests if test.is_quick or not arguments.quick]


def write_files(folder):
    """The files of each kind: what is read, what is written, and what is written over that. The
    same seed writes the same files, so that a failure can be looked at again."""
    chance = random.Random(1)
    for name, size in {
        "small": SMALL_BYTES,
        # As long as the first: only the ETag tells them apart.
        "small-2": SMALL_BYTES,
        "large": UPLOAD_BYTES,
        "large-2": UPLOAD_BYTES + 1_000_000,
        "blob": BLOB_BYTES,
    }.items():
        (folder / name).write_bytes(chance.randbytes(size))
    for name, rows in {
        "rows": SMALL_ROWS,
        "rows-2": SMALL_ROWS + 1,
        "table": ROWS,
        "table-2": ROWS + 1,
    }.items():
        write_table(folder / f"{name}.parquet", rows, chance)


def write_table(path, rows, chance):
    columns = {
        "id": pyarrow.array(range(rows)),
        "value": pyarrow.array([chance.random() for _ in range(rows)]),
        "text": pyarrow.array([f"{chance.getrandbits(48):012x}" for _ in range(rows)]),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=ROWS_PER_GROUP)


def file_name(kind):
    return f"{kind}.parquet" if kind in ("rows", "table") else kind


def client_tests(running, name):
    """All that a client can do."""
    client = CLIENTS[name]
    for kind, operations in client.reads.items():
        for operation in operations:
            is_first = operation is client.read_back and kind == client.small_kind
            run = functools.partial(read, running, name, operation, kind)
            yield Test(name, f"{verb(operation)} {kind}", run, is_first)
    small, large = ("rows", "table") if client.writes_tables else ("small", "large")
    for title, operation, kind in (
        ("small", client.write_small, small),
        ("large", client.write_large, large),
    ):
        suffix = ".parquet" if client.writes_tables else ""
        key = f"{name}/written/{title}{suffix}"
        for which, file in (("write", f"{kind}{suffix}"), ("overwrite", f"{kind}-2{suffix}")):
            run = functools.partial(write, running, name, operation, key, running.folder / file)
            yield Test(name, f"{which} {title}", run, (which, title) == ("write", "small"))
    if client.create is not None:
        yield Test(name, "create", functools.partial(create, running, name, client.create))
    for operation in client.deletes:
        yield Test(name, verb(operation), functools.partial(remove, running, name, operation))
    if client.is_delta:
        yield Test(name, "append", functools.partial(append, running))
        yield Test(name, "delete vacuum", functools.partial(vacuum, running))


def verb(operation):
    return operation.__name__.partition("_")[2].replace("_", " ")


def result(test, is_https):
    """Runs one test and prints its line."""
    scheme = "https" if is_https else "http"
    title = f"{scheme:<5} {test.client:<10} {test.operation:<17}"
    try:
        requests = test.run()
        print(f"{title} {requests.line}", flush=True)
        return report.Result(scheme, test.client, test.operation, requests)
    except Exception as error:  # A client may raise anything; the others must run all the same.
        failure = f"{type(error).__name__}: {error}"
        print(f"{title} FAILED: {failure}", flush=True)
        if not isinstance(error, AssertionError):
            traceback.print_exc()
        return report.Result(scheme, test.client, test.operation, failure=failure)


# --- reading


def read(running, name, operation, kind):
    """Runs an operation directly, cold and warm."""
    file = running.folder / file_name(kind)
    key = f"{name}/{operation.__name__}-{kind}/{file.name}"
    prepare(running, name, key, file)
    expected, direct_seconds = timed(lambda: operation(running.direct, key))
    seen, cold_seconds, cold = counted(running, operation, key)
    assert seen == expected, "the first read through the gateway differs from a direct read"
    line = f"direct {direct_seconds:5.2f} s  cold {cold_seconds:5.2f} s, {cold.gets:3} origin GETs"
    if not running.is_cached:
        return report.Requests(line, cold)
    seconds, warm, warming_reads = warmed(running, operation, key, expected)
    late = "" if warming_reads == 1 else f" (at read {warming_reads + 1})"
    return report.Requests(f"{line}  warm {seconds:5.2f} s, 0 origin GETs{late}", cold, warm)


def prepare(running, name, key, file):
    """Puts a file at the origin, or a table of Delta Lake with its rows."""
    if CLIENTS[name].is_delta:
        table_clients.delta_write(running.direct, key, file)
    else:
        origin = s3_clients.boto3_client(running.direct)
        origin.upload_file(str(file), s3_clients.BUCKET, key)


def warmed(running, operation, key, expected):
    """Repeats a read until it needs no origin GET."""
    for warming_reads in range(1, WARMING_READS_MAX + 1):
        seen, seconds, count = counted(running, operation, key)
        assert seen == expected, "a repeated read through the gateway differs from a direct read"
        if count.gets == 0:
            return seconds, count, warming_reads
    raise AssertionError(f"read {WARMING_READS_MAX + 1} times and still {count.gets} origin GETs")


# --- writing


def write(running, name, operation, key, file):
    """Writes through the gateway, and reads it back on both ways, through the gateway twice: what
    was there before under that name was read from the cache just as often."""
    _, seconds, count = counted(running, operation, key, file)
    client = CLIENTS[name]
    if client.writes_tables:
        expected = table_clients.file_rows(file)
        straight = table_clients.delta_table if client.is_delta else table_clients.pyarrow_rows
    else:
        expected = s3_clients.file_digest(file)
        straight = s3_clients.boto3_get
    assert straight(running.direct, key) == expected, "the origin holds other bytes"
    for _ in range(2):
        seen = client.read_back(running.gateway, key)
        assert seen == expected, f"read back through the gateway: not {file.name}"
    line = f"written in {seconds:5.2f} s, read back directly and through the gateway"
    return report.Requests(line, count)


def create(running, name, operation):
    """Of two writes that may not replace anything, the second is refused and changes nothing."""
    key, first = f"{name}/create/small", running.folder / "small"
    is_created, seconds, count = counted(running, operation, key, first)
    assert is_created, "refused, and there was no object"
    is_created = operation(running.gateway, key, running.folder / "small-2")
    assert not is_created, "written over an object"
    for endpoint in (running.direct, running.gateway):
        seen = CLIENTS[name].read_back(endpoint, key)
        assert seen == s3_clients.file_digest(first), f"changed at {endpoint.url}"
    return report.Requests(f"written in {seconds:5.2f} s, a second time refused", count)


def write_to_folder(zonal):
    """Uploads twice in parts, and reads each back from the folder and twice through the gateway."""
    chance, key, seconds = random.Random(2), "dir/uploaded", 0.0
    with servers.over_a_folder(zonal, s3_clients.BUCKET) as (gateway, bucket):
        client, upload = s3_clients.boto3_client(gateway), bucket.parent / "upload"
        for _ in range(2):
            upload.write_bytes(content := chance.randbytes(FOLDER_BYTES))
            _, took = timed(lambda: client.upload_file(str(upload), s3_clients.BUCKET, key))
            seconds += took
            assert (bucket / key).read_bytes() == content, "the folder holds other bytes"
            for _ in range(2):
                seen = s3_clients.boto3_download(gateway, key)
                assert seen == s3_clients.digest(content), "read back through the gateway"
        names = [path.name for path in (bucket / ".zonal-uploads").iterdir()]
        assert names == [], f"left over: {names}"
    line = f"written in {seconds:5.2f} s, read back from the folder and through the gateway"
    return report.Requests(line)


# --- removing


def remove(running, name, operation):
    """Removes through the gateway what was read from the cache, and finds it on neither way."""
    key, file = f"{name}/{operation.__name__}/small", running.folder / "small"
    prepare(running, name, key, file)
    for _ in range(2):
        assert s3_clients.boto3_get(running.gateway, key) == s3_clients.file_digest(file)
    _, seconds, count = counted(running, operation, key)
    for endpoint in (running.gateway, running.direct, running.gateway):
        try:
            s3_clients.boto3_get(endpoint, key)
            raise AssertionError(f"still there at {endpoint.url}")
        except botocore.exceptions.ClientError as error:
            assert error.response["Error"]["Code"] == "NoSuchKey", error
    return report.Requests(f"removed in {seconds:5.2f} s, gone on both ways", count)


# --- Delta Lake


def append(running):
    """A table grows, written through the gateway and directly in turn. A reader that stays open
    asks for the next entry of the log, which is not there yet, and must see it when it is."""
    key, file = "deltalake/append/table", running.folder / "rows.parquet"
    table_clients.delta_write(running.gateway, key, file)
    reader = table_clients.delta_open(running.gateway, key)
    before = running.counter.count()
    for version, writer in enumerate((running.gateway, running.direct) * 3, start=1):
        reader.update_incremental()
        assert reader.version() == version - 1, f"version {reader.version()} before it was written"
        table_clients.delta_append(writer, key, file)
        reader.update_incremental()
        assert reader.version() == version, f"version {version} is written, {reader.version()} read"
        seen = table_clients.delta_table(running.gateway, key)
        assert seen == table_clients.delta_table(running.direct, key), "other rows than directly"
    count = running.counter.count().since(before)
    return report.Requests("every version was seen at once", count)


def vacuum(running):
    """Removes all rows and then the files that held them."""
    key, file = "deltalake/vacuum/table", running.folder / "rows.parquet"
    table_clients.delta_write(running.direct, key, file)
    table_clients.delta_table(running.gateway, key)
    _, seconds, count = counted(running, table_clients.delta_delete, key)
    for endpoint in (running.direct, running.gateway):
        assert table_clients.delta_open(endpoint, key).count() == 0, f"rows left at {endpoint.url}"
    left = s3_clients.boto3_keys(running.direct, f"{key}/")
    left = [each for each in left if "/_delta_log/" not in each]
    assert left == [], f"left over: {left}"
    return report.Requests(f"removed in {seconds:5.2f} s, gone on both ways", count)


def counted(running, operation, *arguments):
    before = running.counter.count()
    seen, seconds = timed(lambda: operation(running.gateway, *arguments))
    return seen, seconds, running.counter.count().since(before)


def timed(run):
    start = time.monotonic()
    done = run()
    return done, time.monotonic() - start


if __name__ == "__main__":
    sys.exit(main())
