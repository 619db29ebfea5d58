"""The clients that people point at S3, each with what it reads and writes.

An operation takes an endpoint and the name of an object, and returns a digest of what it saw: equal
digests are equal bytes (or, for tables, equal columns). Each client is set up as its documentation
says for an S3 server of one's own, and otherwise left alone: its retries, its parallel ranges and
its checksums are what is tested.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

import boto3
import botocore.config
import duckdb
import duckdb_extension_httpfs
import polars
import pyarrow
import pyarrow.fs
import pyarrow.parquet
import s3fs

from servers import REGION

BUCKET = "e2e"


def digest(data):
    return hashlib.sha256(data).hexdigest()


def table_digest(table):
    """Equal for equal columns, however the client cut them into batches."""
    sink = pyarrow.BufferOutputStream()
    whole = table.combine_chunks().replace_schema_metadata(None)
    with pyarrow.ipc.new_stream(sink, whole.schema) as stream:
        stream.write_table(whole)
    return digest(sink.getvalue())


def folder(key):
    """The prefix up to the last slash."""
    return key.rpartition("/")[0] + "/"


def file_digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- boto3


SIGNED = botocore.config.Config(signature_version="s3v4", s3={"addressing_style": "path"})


def boto3_client(endpoint, config=SIGNED):
    return boto3.client(
        "s3",
        endpoint_url=endpoint.url,
        aws_access_key_id=endpoint.access_key,
        aws_secret_access_key=endpoint.secret_key,
        region_name=REGION,
        config=config,
    )


def boto3_get(endpoint, key):
    """The whole object in one GET, with the checksum that boto3 verifies."""
    return digest(boto3_client(endpoint).get_object(Bucket=BUCKET, Key=key)["Body"].read())


def boto3_download(endpoint, key):
    """HEAD, then parallel ranges with If-Match."""
    with tempfile.NamedTemporaryFile() as file:
        boto3_client(endpoint).download_file(BUCKET, key, file.name)
        return file_digest(file.name)


def boto3_ranges(endpoint, key):
    """Closed, open-ended and suffix ranges, with what the headers say of them."""
    client = boto3_client(endpoint)
    size = client.head_object(Bucket=BUCKET, Key=key)["ContentLength"]
    seen = hashlib.sha256()
    for wanted in ("0-0", "5-1048580", f"{size - 7}-", "-65536", f"-{2 * size}"):
        answer = client.get_object(Bucket=BUCKET, Key=key, Range=f"bytes={wanted}")
        seen.update(answer["ContentRange"].encode())
        seen.update(answer["ETag"].encode())
        seen.update(answer["Body"].read())
    return seen.hexdigest()


def boto3_presigned(endpoint, key):
    """A URL that needs no client at all."""
    url = boto3_client(endpoint).generate_presigned_url(
        "get_object", Params={"Bucket": BUCKET, "Key": key}, ExpiresIn=600
    )
    with urllib.request.urlopen(url, timeout=60) as answer:
        return digest(answer.read())


def boto3_head(endpoint, key):
    """The headers that a client may rely on."""
    head = boto3_client(endpoint).head_object(Bucket=BUCKET, Key=key)
    names = ("ContentLength", "ContentType", "ETag", "LastModified", "AcceptRanges", "Metadata")
    return digest("\n".join(f"{name}: {head.get(name)}" for name in names).encode())


def boto3_list(endpoint, key):
    """A listing by prefix and delimiter."""
    wanted = {"Bucket": BUCKET, "Prefix": folder(key), "Delimiter": "/"}
    pages = boto3_client(endpoint).get_paginator("list_objects_v2")
    found = []
    for page in pages.paginate(**wanted, PaginationConfig={"PageSize": 1}):
        entries = page.get("Contents", [])
        found += [(entry["Key"], entry["Size"], entry["ETag"]) for entry in entries]
    return digest(repr(found).encode())


def boto3_upload(endpoint, key, path):
    """Parallel parts of one multipart upload."""
    extra = {"Metadata": {"purpose": "end to end"}, "ContentType": "application/x-test"}
    boto3_client(endpoint).upload_file(str(path), BUCKET, key, ExtraArgs=extra)


# --- the aws command line


def aws(endpoint, *arguments):
    """Runs the command line of the environment in which this script runs."""
    program = pathlib.Path(sys.executable).parent / "aws"
    # Nothing of the user's own configuration may reach it.
    environment = {
        "PATH": os.environ["PATH"],
        "AWS_ACCESS_KEY_ID": endpoint.access_key,
        "AWS_SECRET_ACCESS_KEY": endpoint.secret_key,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    command = [sys.executable, program, "--endpoint-url", endpoint.url, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"aws {' '.join(arguments)}: {done.stderr.decode().strip()}")
    return done.stdout


def aws_copy(endpoint, key):
    """`aws s3 cp`: HEAD, then parallel ranges with If-Match."""
    with tempfile.TemporaryDirectory() as temporary:
        file = f"{temporary}/object"
        aws(endpoint, "s3", "cp", "--no-progress", f"s3://{BUCKET}/{key}", file)
        return file_digest(file)


def aws_range(endpoint, key):
    """`aws s3api get-object --range`."""
    with tempfile.TemporaryDirectory() as temporary:
        file = f"{temporary}/range"
        wanted = ["--bucket", BUCKET, "--key", key, "--range", "bytes=1000-2000000"]
        aws(endpoint, "s3api", "get-object", *wanted, file)
        return file_digest(file)


def aws_list(endpoint, key):
    """`aws s3 ls`."""
    return digest(aws(endpoint, "s3", "ls", "--recursive", f"s3://{BUCKET}/{folder(key)}"))


def aws_upload(endpoint, key, path):
    """`aws s3 cp`, as a multipart upload."""
    aws(endpoint, "s3", "cp", "--no-progress", str(path), f"s3://{BUCKET}/{key}")


# --- s3fs


def s3fs_filesystem(endpoint):
    return s3fs.S3FileSystem(
        key=endpoint.access_key,
        secret=endpoint.secret_key,
        client_kwargs={"endpoint_url": endpoint.url, "region_name": REGION},
        use_listings_cache=False,
    )


def s3fs_read(endpoint, key):
    """Ranges with read-ahead, in order."""
    with s3fs_filesystem(endpoint).open(f"{BUCKET}/{key}", "rb") as file:
        seen = hashlib.sha256()
        while piece := file.read(3_000_000):
            seen.update(piece)
        return seen.hexdigest()


def s3fs_table(endpoint, key):
    """A Parquet file through a Python file."""
    with s3fs_filesystem(endpoint).open(f"{BUCKET}/{key}", "rb") as file:
        return table_digest(pyarrow.parquet.read_table(file))


def s3fs_ranges(endpoint, key):
    """Many ranges at once."""
    starts = list(range(0, 9_000_000, 1_000_000))
    paths, ends = [f"{BUCKET}/{key}"] * len(starts), [start + 70_000 for start in starts]
    return digest(b"".join(s3fs_filesystem(endpoint).cat_ranges(paths, starts, ends)))


def s3fs_upload(endpoint, key, path):
    """Parts of a multipart upload, one after the other."""
    s3fs_filesystem(endpoint).put_file(str(path), f"{BUCKET}/{key}")


# --- pyarrow


def pyarrow_filesystem(endpoint):
    return pyarrow.fs.S3FileSystem(
        access_key=endpoint.access_key,
        secret_key=endpoint.secret_key,
        endpoint_override=endpoint.host,
        scheme="http",
        region=REGION,
    )


def pyarrow_table(endpoint, key):
    """The footer, then a range for each column of each row group, over several connections."""
    filesystem = pyarrow_filesystem(endpoint)
    return table_digest(pyarrow.parquet.read_table(f"{BUCKET}/{key}", filesystem=filesystem))


def pyarrow_column(endpoint, key):
    """One column of all row groups."""
    filesystem = pyarrow_filesystem(endpoint)
    table = pyarrow.parquet.read_table(f"{BUCKET}/{key}", columns=["value"], filesystem=filesystem)
    return table_digest(table)


def pyarrow_read(endpoint, key):
    """The whole object as a stream."""
    with pyarrow_filesystem(endpoint).open_input_stream(f"{BUCKET}/{key}") as stream:
        return digest(stream.read())


def pyarrow_upload(endpoint, key, path):
    """A body in aws-chunked form with a checksum behind it."""
    with pyarrow_filesystem(endpoint).open_output_stream(f"{BUCKET}/{key}") as stream:
        stream.write(path.read_bytes())


# --- polars


def polars_table(endpoint, key):
    """No HEAD: a suffix range for the footer, then the columns."""
    options = {
        "aws_endpoint_url": endpoint.url,
        "aws_access_key_id": endpoint.access_key,
        "aws_secret_access_key": endpoint.secret_key,
        "aws_region": REGION,
        "aws_allow_http": "true",
    }
    frame = polars.scan_parquet(f"s3://{BUCKET}/{key}", storage_options=options)
    return table_digest(frame.collect().to_arrow())


# --- DuckDB


def duckdb_connection(endpoint):
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    package = pathlib.Path(duckdb_extension_httpfs.__file__).parent
    extension = next(package.rglob("httpfs.duckdb_extension"))
    connection.execute(f"LOAD '{extension}'")
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{endpoint.access_key}', SECRET '{endpoint.secret_key}', "
        f"ENDPOINT '{endpoint.host}', REGION '{REGION}', URL_STYLE 'path', USE_SSL false)"
    )
    return connection


def duckdb_table(endpoint, key):
    """HEAD, the footer, then ranges; a new connection for each phase."""
    query = f"SELECT * FROM read_parquet('s3://{BUCKET}/{key}') ORDER BY id"
    return table_digest(duckdb_connection(endpoint).execute(query).to_arrow_table())


def duckdb_glob(endpoint, key):
    """A listing, then a sum over what it found."""
    pattern = folder(key) + "*.parquet"
    query = f"SELECT count(*), sum(id), max(text) FROM read_parquet('s3://{BUCKET}/{pattern}')"
    return digest(repr(duckdb_connection(endpoint).execute(query).fetchall()).encode())


def duckdb_read(endpoint, key):
    """The whole object as one value."""
    query = f"SELECT sha256(content) FROM read_blob('s3://{BUCKET}/{key}')"
    return duckdb_connection(endpoint).execute(query).fetchone()[0]


# What each client does with a Parquet file, with a large blob, and to bring an object in.
TABLES = {
    "boto3": [boto3_get, boto3_ranges, boto3_presigned, boto3_head, boto3_list],
    "aws": [aws_copy, aws_list],
    "s3fs": [s3fs_table, s3fs_ranges],
    "pyarrow": [pyarrow_table, pyarrow_column],
    "polars": [polars_table],
    "duckdb": [duckdb_table, duckdb_glob],
}
# polars reads tables only.
BLOBS = {
    "boto3": [boto3_download, boto3_get],
    "aws": [aws_copy, aws_range],
    "s3fs": [s3fs_read],
    "pyarrow": [pyarrow_read],
    "duckdb": [duckdb_read],
}
UPLOADS = {
    "boto3": boto3_upload,
    "aws": aws_upload,
    "s3fs": s3fs_upload,
    "pyarrow": pyarrow_upload,
}
