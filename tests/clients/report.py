"""The page about the clients: what each did over HTTP and HTTPS, and what the origin was asked."""

import dataclasses
import datetime
import importlib.metadata
import platform
import subprocess

from counter import Count
from servers import ROOT, VERSITYGW

PAGE = """# Real clients

Written by `make clients`, from `tests/clients/report.py`: {date}, commit {commit}, {machine}, Python {python}.
The origin is {origin}, freshness is `revalidate`, Zonal is a debug build. **{verdict}**

Each client is as it comes; it was told the endpoint, the keys and, over HTTPS, the authority that signed the
certificate. A read gave the same bytes (of tables: the same columns) as one directly at the origin. What was written
was read back directly, and twice by the client itself through the gateway; then it was written over, and the next reads
showed what was written last. What was removed was found on neither way.

Numbers are requests that came to the origin: GETs of objects / HEADs / all else (writes, lists, questions about the
bucket, objects that are not there). *Cold* is the first time; *warm* is the same read again, at the latest the sixth.
With `revalidate` a warm read costs HEADs, and no GET.

Before this page is written, the same tests pass over HTTP under `ttl=60s` and under `immutable`.

| client | version | package |
| --- | --- | --- |
{clients}

| client | operation | http | cold | warm | https | cold | warm |
| --- | --- | --- | --- | --- | --- | --- | --- |
{rows}
{failures}
## What the operations are

| word | what it is |
| --- | --- |
| `small`, `large`, `blob` | bytes: 3 kB, 20 MB, 100 MB |
| `rows`, `table` | tables of 1,000 rows and of 400,000 (10 MB, 8 row groups): Parquet files, or tables of Delta Lake |
| the same of a write | a client of tables writes `rows` as small and `table` as large |
| `condition` | GET with If-None-Match is answered 304, and with If-Match in full |
| `create` | PUT with If-None-Match: * makes an object, and is answered 412 when there is one |
| `append` | a table grows six times, through the gateway and directly in turn; an open reader asks for each entry of the log before it is there, and sees it when it is |
| `delete vacuum` | all rows of a table are removed, then its files |
| `upload to folder` | a multipart upload where the origin is a folder |

polars, DuckDB and DataFusion have nothing that removes an object. polars, DataFusion and deltalake read tables only.

## What is not concluded

- Nothing about speed: the origin, the gateway and the clients shared a machine, and the build is one for tests.
- Nothing about buckets in the name of the host: all clients were told to put the bucket into the path.
- Nothing about retries after errors: the origin was well all the time.
"""


@dataclasses.dataclass(frozen=True)
class Requests:
    """What a test tells: a line for who watches, and what the origin was asked."""

    line: str
    cold: Count | None = None
    warm: Count | None = None


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of a test: what the origin was asked, or why it failed."""

    scheme: str
    client: str
    operation: str
    requests: Requests | None = None
    failure: str | None = None


def page(results, packages):
    """The whole page. `packages` names the package of each client."""
    failed = [result for result in results if result.failure is not None]
    verdict = f"{len(results) - len(failed)} passed, {len(failed)} failed."
    versions = {name: importlib.metadata.version(package) for name, package in packages.items()}
    return PAGE.format(
        date=datetime.datetime.now(datetime.UTC).date(),
        commit=commit(),
        machine=f"Linux {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        origin=origin_version(),
        verdict=verdict,
        clients="\n".join(
            f"| {name} | {versions[name]} | `{package}` |" for name, package in packages.items()
        ),
        rows="\n".join(rows(results)),
        failures="".join(["\n## Failures\n\n", *map(failure_line, failed)]) if failed else "",
    )


def rows(results):
    """A line for each operation, with what became of it over HTTP and over HTTPS."""
    found = {(each.client, each.operation, each.scheme): each for each in results}
    for client, operation in dict.fromkeys((each.client, each.operation) for each in results):
        both = [found.get((client, operation, scheme)) for scheme in ("http", "https")]
        yield f"| {client} | {operation} | {' | '.join(map(cells, both))} |"


def cells(result):
    if result is None:
        return "not run | |"
    if result.failure is not None:
        return "**fails** | |"
    return f"ok | {asked(result.requests.cold)} | {asked(result.requests.warm)}"


def asked(count):
    return "" if count is None else f"{count.gets} / {count.heads} / {count.others}"


def failure_line(result):
    first = result.failure.splitlines()[0]
    return f"- {result.client}, {result.operation}, {result.scheme}: {first}\n"


def commit():
    """The commit that was tested, and whether it was changed."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return said.stdout.strip()


def origin_version():
    version = VERSITYGW.with_suffix(".version").read_text().strip()
    return f"versitygw {version}"
