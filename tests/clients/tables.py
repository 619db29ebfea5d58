"""How much sooner a query over Parquet files is answered the second time, for clients of tables.

    client -------------------------> toxiproxy (latency) -> versitygw -> a folder
    client -> zonal serve ----------> toxiproxy (latency) -> versitygw
    client -> the same files, in the folder

Each client asks for all columns, and for the sum of one, of the same set of files: directly at the
origin (after a run that does not count, so that nobody pays for what a client does once), as files of
its own machine, which is as soon as any cache could answer, and through Zonal in each freshness mode,
once while nothing is cached and then again. Answers must be equal.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import random
import statistics
import sys
import tempfile
import time
import urllib.request

import duckdb
import polars
import pyarrow
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet

import report
import servers
import table_clients
import s3_clients


TOXIPROXY = servers.ROOT / ".tools/bin/toxiproxy"
FOLDER = "set"
FILES_OF_SET = f"{s3_clients.BUCKET}/{FOLDER}/*.parquet"
# Files of the set, and row groups of each: of 16 MiB in a set of 1 GiB, as Spark and DuckDB write them.
FILES = 16
GROUPS = 4
# Six columns: two of whole numbers, two of floats, of 8 bytes each, and two texts of 16 characters.
ROW_BYTES = 64
# Runs of each that are counted.
RUNS = 2
MODES = ("revalidate", "ttl=60s", "immutable")
COLUMN = "price"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zonal", required=True, help="the binary, a release build")
    parser.add_argument("--mib", type=int, default=1024, help="size of the set, in MiB")
    parser.add_argument("--latency", type=int, default=20, help="of the origin, in ms")
    parser.add_argument("--report", type=pathlib.Path, help="write this page")
    arguments = parser.parse_args()
    with far_origin(arguments) as (folder, far):
        lines = [
            each
            for query, clients in CLIENTS.items()
            for client, ask in clients.items()
            for each in measured((client, query, ask), far, folder, arguments.zonal)
        ]
    page = PAGE.format(
        commit=report.commit(),
        mib=arguments.mib,
        latency=arguments.latency,
        files=FILES,
        runs=RUNS,
        rows="\n".join(map(line, lines)),
    )
    if arguments.report:
        arguments.report.write_text(page)
    print(page)
    if not all(each.is_right for each in lines):
        sys.exit("some answers differ")


@dataclasses.dataclass(frozen=True)
class Line:
    """What one query took, in seconds, and what of the last was the client's own work."""

    client: str
    query: str
    mode: str
    direct: float
    files: float
    first: float
    second: float
    own: float
    is_right: bool


def line(each):
    verdict = "" if each.is_right else " **wrong**"
    return (
        f"| {each.client} | {each.query} | {each.mode} | {each.direct:.2f} | {each.first:.2f} "
        f"| {each.second:.2f} | {each.direct / each.second:.1f} x{verdict} "
        f"| {each.files:.2f} | {each.direct / each.files:.1f} x | {each.own:.2f} |"
    )


def measured(asked, far, folder, zonal):
    """A line for each freshness mode, each with an empty cache."""
    client, query, ask = asked
    expected, *_ = timed(ask, far)
    direct = [timed(ask, far) for _ in range(RUNS)]
    # The folder of the origin, which the kernel has in memory.
    files = [timed(ask, folder / "objects") for _ in range(RUNS)]
    for mode in MODES:
        with cache(zonal, folder, far, mode) as gateway:
            first = timed(ask, gateway)
            # What was read is on flash within half a second.
            time.sleep(1)
            second = [timed(ask, gateway) for _ in range(RUNS)]
        answers = [*direct, *files, first, *second]
        is_right = all(answer == expected for answer, *_ in answers)
        runs = direct, files, [first], second
        took = [statistics.mean(took for _, took, _ in each) for each in runs]
        own = statistics.mean(own for *_, own in second)
        found = Line(client, query, mode, *took, own, is_right)
        print(line(found), file=sys.stderr, flush=True)
        yield found


def timed(ask, place):
    """The answer, of a whole set what tells it from another one, how long it took, and the client's CPU for it."""
    begin, busy = time.perf_counter(), time.process_time()
    answer = ask(place)
    took, own = time.perf_counter() - begin, time.process_time() - busy
    return facts(answer) if isinstance(answer, pyarrow.Table) else answer, took, own


def facts(table):
    compute = pyarrow.compute
    sums = [compute.sum(table[name]).as_py() for name in ("id", COLUMN, "score")]
    texts = [compute.min_max(table[name]).as_py() for name in ("session", "place")]
    return table.num_rows, [round(each, 3) for each in sums], texts


@contextlib.contextmanager
def far_origin(arguments):
    """The set at an origin behind its latency, and a folder for what comes and goes."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        origin = servers.Endpoint(servers.free_port(), "origin-key", "origin-secret-1")
        stack.enter_context(servers.origin(folder, origin))
        s3_clients.boto3_client(origin).create_bucket(Bucket=s3_clients.BUCKET)
        write_set(table_clients.pyarrow_filesystem(origin), arguments.mib)
        far = dataclasses.replace(origin, port=servers.free_port())
        stack.enter_context(latency(folder, origin.port, far.port, arguments.latency))
        yield folder, far


@contextlib.contextmanager
def cache(zonal, folder, far, mode):
    """Zonal before the origin, with nothing cached."""
    gateway = servers.Endpoint(servers.free_port(), "gateway-key", "gateway-secret-1")
    before = f"http://{far.host}", far
    with scratch() as own, servers.cache(zonal, own, gateway, before, (mode, None)):
        yield gateway


@contextlib.contextmanager
def scratch():
    folder = servers.ROOT / "target"
    with tempfile.TemporaryDirectory(prefix="tables-", dir=folder) as made:
        yield pathlib.Path(made)


@contextlib.contextmanager
def latency(folder, upstream, port, milliseconds):
    """toxiproxy, which holds what the upstream answers back for so long."""
    if not TOXIPROXY.is_file():
        sys.exit(f"{TOXIPROXY} is missing: `make tables` installs it")
    control = servers.free_port()
    command = [TOXIPROXY, "-host", "127.0.0.1", "-port", control]
    ready = f"http://127.0.0.1:{control}/version"
    with servers.process(command, {}, folder / "toxiproxy.log", ready):
        proxy = {
            "name": "origin",
            "listen": f"127.0.0.1:{port}",
            "upstream": f"127.0.0.1:{upstream}",
        }
        post(control, "/proxies", proxy)
        attributes = {"latency": milliseconds, "jitter": 0}
        toxic = {"name": "far", "type": "latency", "attributes": attributes}
        post(control, "/proxies/origin/toxics", toxic)
        yield


def post(port, path, document):
    body = json.dumps(document).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body)
    with urllib.request.urlopen(request, timeout=5):
        pass


def write_set(filesystem, mib):
    """Files that do not compress, of what analytics has."""
    chance = random.Random(1)
    rows = mib * 1024 * 1024 // FILES // ROW_BYTES
    for number in range(FILES):
        first = number * rows
        columns = {
            "id": pyarrow.array(range(first, first + rows)),
            "user": integers(chance, rows),
            COLUMN: pyarrow.compute.random(rows, initializer=number),
            "score": pyarrow.compute.random(rows, initializer=FILES + number),
            "session": texts(chance, rows),
            "place": texts(chance, rows),
        }
        pyarrow.parquet.write_table(
            pyarrow.table(columns),
            f"{s3_clients.BUCKET}/{FOLDER}/{number:02}.parquet",
            filesystem=filesystem,
            row_group_size=rows // GROUPS,
            use_dictionary=False,
            compression="none",
        )


def integers(chance, rows):
    values = pyarrow.py_buffer(chance.randbytes(8 * rows))
    return pyarrow.Array.from_buffers(pyarrow.int64(), rows, [None, values])


def texts(chance, rows):
    """16 hexadecimal digits each."""
    ends = pyarrow.array(range(0, 16 * rows + 1, 16), pyarrow.int32()).buffers()[1]
    digits = pyarrow.py_buffer(chance.randbytes(8 * rows).hex().encode())
    return pyarrow.Array.from_buffers(pyarrow.string(), rows, [None, ends, digits])


# --- What is asked.


# Of an endpoint, or of a folder that has buckets as folders.


def pyarrow_set(place):
    if isinstance(place, pathlib.Path):
        return pyarrow.dataset.dataset(place / s3_clients.BUCKET / FOLDER)
    filesystem = table_clients.pyarrow_filesystem(place)
    return pyarrow.dataset.dataset(f"{s3_clients.BUCKET}/{FOLDER}", filesystem=filesystem)


def pyarrow_whole(place):
    return pyarrow_set(place).to_table()


def pyarrow_column(place):
    column = pyarrow_set(place).to_table(columns=[COLUMN])[COLUMN]
    return round(pyarrow.compute.sum(column).as_py(), 3)


def polars_set(place):
    if isinstance(place, pathlib.Path):
        return polars.scan_parquet(place / FILES_OF_SET)
    options = table_clients.object_store_options(place)
    return polars.scan_parquet(f"s3://{FILES_OF_SET}", storage_options=options)


def polars_whole(place):
    return polars_set(place).collect().to_arrow()


def polars_column(place):
    return round(polars_set(place).select(polars.col(COLUMN).sum()).collect().item(), 3)


def duckdb_ask(place, query):
    if isinstance(place, pathlib.Path):
        connection, files = duckdb.connect(), place / FILES_OF_SET
    else:
        connection, files = table_clients.duckdb_connection(place), f"s3://{FILES_OF_SET}"
    return connection.execute(f"SELECT {query} FROM read_parquet('{files}')")


def duckdb_whole(place):
    return duckdb_ask(place, "*").to_arrow_table()


def duckdb_column(place):
    return round(duckdb_ask(place, f"sum({COLUMN})").fetchone()[0], 3)


CLIENTS = {
    "all columns": {"pyarrow": pyarrow_whole, "DuckDB": duckdb_whole, "polars": polars_whole},
    "the sum of one": {"pyarrow": pyarrow_column, "DuckDB": duckdb_column, "polars": polars_column},
}

PAGE = """# Tables, the second time

Written by `make tables`, from `tests/clients/tables.py`, at commit {commit}: {files} Parquet files, {mib} MiB of numbers and texts that do
not compress, at versitygw behind toxiproxy, which holds what it answers back for {latency} ms. Seconds; *direct*, *second* and *files* are means of {runs} runs.
*Files* is the same query over the same files on the client's own machine, in the kernel's memory: no cache can answer sooner, so the ratio beside it is the highest that could be reached here. The client's CPU is that of all its threads during *second*.

| client | query | freshness | direct | through Zonal, first | second | direct / second | files | direct / files | client's CPU |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{rows}

## What is not concluded

- Client, cache, proxy and origin shared a machine of two cores: what a client computes is in all columns.
- The proxy adds its own work to *direct* and *first*; of a real line of this latency, the width would count as well.
"""


if __name__ == "__main__":
    main()
