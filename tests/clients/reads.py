"""Real clients read and write through Zonal, and see what they would see without it.

1. Every client gets a Parquet file and a 100 MB blob of its own at the origin.
2. Each operation runs directly at the origin and through the gateway, with equal results.
3. Once the bytes are cached, it runs again with no origin GET at all.
4. What a client uploads through the gateway is read back directly, byte for byte.
5. The same for multipart uploads with a local folder as the origin.

One line for each client and operation, then `N passed, N failed`.
"""

import argparse
import random
import sys
import time
import traceback

import pyarrow
import pyarrow.parquet

import s3_clients
import servers

# A table of about 10 MB in several row groups: numbers, floats and text, as analytics has them.
ROWS = 400_000
ROWS_PER_GROUP = 50_000
# A blob larger than the window of a fetch and than a client's part size, and no multiple of either.
BLOB_BYTES = 100_000_000
# Written through the gateway: enough for three parts of a multipart upload.
UPLOAD_BYTES = 20_000_001
# Written to a local folder: four parts of 8 MiB, which is boto3's own size, the last one shorter.
FOLDER_BYTES = 30_000_001
# Chunks reach flash behind the reader's back, and when its queue is full some are left out: so many
# reads may still go to the origin before the bytes must all be here.
WARMING_READS_MAX = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--zonal", help="the binary; without it the test tests itself")
    parser.add_argument("--client", help="only this client")
    arguments = parser.parse_args()
    with servers.running(arguments.zonal) as running:
        table, blob = write_files(running.folder)
        s3_clients.boto3_client(running.direct).create_bucket(Bucket=s3_clients.BUCKET)
        names = [arguments.client] if arguments.client else list(s3_clients.TABLES)
        results = []
        for name in names:
            results.extend(client_results(running, name, table, blob))
    if arguments.zonal is not None and "boto3" in names:
        title = f"{'boto3':<8} {'upload to folder':<16}"
        results.append(reported(title, lambda: write_to_folder(arguments.zonal)))
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 0 if all(results) else 1


def write_files(folder):
    """The same seed writes the same files, so that a failure can be looked at again."""
    chance = random.Random(1)
    columns = {
        "id": pyarrow.array(range(ROWS)),
        "value": pyarrow.array([chance.random() for _ in range(ROWS)]),
        "text": pyarrow.array([f"{chance.getrandbits(48):012x}" for _ in range(ROWS)]),
    }
    table = folder / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), table, row_group_size=ROWS_PER_GROUP)
    blob = folder / "blob"
    blob.write_bytes(chance.randbytes(BLOB_BYTES))
    upload = folder / "upload"
    upload.write_bytes(chance.randbytes(UPLOAD_BYTES))
    return table, blob


def client_results(running, client, table, blob):
    """Yields whether each operation of a client went well. Every operation has an object of its
    own, so that it meets a cold cache."""
    origin = s3_clients.boto3_client(running.direct)
    for kind, file, operations in (
        ("table", table, s3_clients.TABLES.get(client, [])),
        ("blob", blob, s3_clients.BLOBS.get(client, [])),
    ):
        for operation in operations:
            key = f"{client}/{operation.__name__}-{kind}/{file.name}"
            origin.upload_file(str(file), s3_clients.BUCKET, key)
            title = f"{client:<8} {operation.__name__.partition('_')[2] + ' ' + kind:<16}"
            yield reported(title, lambda: read(running, operation, key))
    upload = s3_clients.UPLOADS.get(client)
    if upload is not None:
        yield reported(f"{client:<8} {'upload':<16}", lambda: write(running, upload, client))


def reported(title, run):
    """Runs one test, prints its line, and says whether it went well."""
    try:
        print(f"{title} {run()}", flush=True)
        return True
    except Exception as error:  # A client may raise anything; the others must run all the same.
        print(f"{title} FAILED: {type(error).__name__}: {error}", flush=True)
        if not isinstance(error, AssertionError):
            traceback.print_exc()
        return False


def read(running, operation, key):
    """Runs an operation directly, cold and warm, and returns how long each took."""
    expected, direct_seconds = timed(lambda: operation(running.direct, key))
    cold, cold_seconds, cold_count = counted(running, operation, key)
    assert cold == expected, "the first read through the gateway differs from a direct read"
    warmed = warm(running, operation, key, expected)
    line = f"direct {direct_seconds:5.2f} s  cold {cold_seconds:5.2f} s"
    line += f", {cold_count.gets:3} origin GETs"
    if warmed is None:
        return line
    warm_seconds, warming_reads = warmed
    late = "" if warming_reads == 1 else f" (at read {warming_reads + 1})"
    return f"{line}  warm {warm_seconds:5.2f} s, 0 origin GETs{late}"


def warm(running, operation, key, expected):
    """Repeats a read until it needs no origin GET; None where there is no cache."""
    if not running.is_cached:
        return None
    for warming_reads in range(1, WARMING_READS_MAX + 1):
        seen, seconds, count = counted(running, operation, key)
        assert seen == expected, "a repeated read through the gateway differs from a direct read"
        if count.gets == 0:
            return seconds, warming_reads
    raise AssertionError(f"read {WARMING_READS_MAX + 1} times and still {count.gets} origin GETs")


def write(running, upload, client):
    """Uploads twice through the gateway, and reads each back on both ways: the second must replace
    what the gateway knows of the first."""
    seconds = 0.0
    for content in ("upload", "blob"):
        path, key = running.folder / content, f"{client}/uploaded"
        _, took = timed(lambda: upload(running.gateway, key, path))
        seconds += took
        for endpoint in (running.direct, running.gateway, running.gateway):
            is_equal = s3_clients.boto3_download(endpoint, key) == s3_clients.file_digest(path)
            assert is_equal, f"read back from {endpoint.host}: not {content}"
    return f"written in {seconds:5.2f} s, read back directly and through the gateway"


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
    return f"written in {seconds:5.2f} s, read back from the folder and through the gateway"


def counted(running, operation, key):
    before = running.counter.count()
    seen, seconds = timed(lambda: operation(running.gateway, key))
    return seen, seconds, running.counter.count().since(before)


def timed(run):
    start = time.monotonic()
    result = run()
    return result, time.monotonic() - start


if __name__ == "__main__":
    sys.exit(main())
