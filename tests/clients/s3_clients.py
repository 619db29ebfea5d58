"""The clients of objects: what they read, write, list and remove.

A read takes an endpoint and the name of an object, and returns a digest of what it saw: equal
digests are equal bytes (or, for tables, equal columns). A write takes the path of a file, too. Each
client is set up as its documentation says for an S3 server of one's own, and otherwise left alone:
its retries, its parallel ranges and its checksums are what is tested.
"""

import contextlib
import hashlib
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.request

import boto3
import botocore.config
import minio
import obstore
import obstore.exceptions
import obstore.store
import pyarrow
import pyarrow.parquet
import s3fs
import urllib3
from s3torchconnectorclient._mountpoint_s3_client import MountpointS3Client

from servers import REGION

BUCKET = "e2e"


def digest(data):
    return hashlib.sha256(data).hexdigest()


def table_digest(table):
    """Equal for equal columns, however the client cut them into batches and keeps its texts."""
    sink = pyarrow.BufferOutputStream()
    whole = plain_table(table).combine_chunks()
    with pyarrow.ipc.new_stream(sink, whole.schema) as stream:
        stream.write_table(whole)
    return digest(sink.getvalue())


def plain_table(table):
    """With the simplest of the types that hold the same values."""
    plain = {pyarrow.large_string(): pyarrow.string(), pyarrow.string_view(): pyarrow.string()}
    fields = [(field.name, plain.get(field.type, field.type)) for field in table.schema]
    return table.cast(pyarrow.schema(fields))


def folder(key):
    """The prefix up to the last slash."""
    return key.rpartition("/")[0] + "/"


def file_digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- boto3


SIGNED = botocore.config.Config(signature_version="s3v4", s3={"addressing_style": "path"})


def boto3_client(endpoint, config=SIGNED, url=None):
    return boto3.client(
        "s3",
        endpoint_url=url or endpoint.url,
        aws_access_key_id=endpoint.access_key,
        aws_secret_access_key=endpoint.secret_key,
        region_name=REGION,
        config=config,
        verify=endpoint.ca_file and str(endpoint.ca_file),
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
    context = ssl.create_default_context(cafile=endpoint.ca_file) if endpoint.is_https else None
    with urllib.request.urlopen(url, timeout=60, context=context) as answer:
        return digest(answer.read())


def boto3_virtual(endpoint, key):
    """The bucket in the host, where the server has a domain: GET, a list and a presigned URL."""
    if endpoint.domain is None:
        return boto3_get(endpoint, key)
    style = botocore.config.Config(signature_version="s3v4", s3={"addressing_style": "virtual"})
    url = f"{endpoint.scheme}://{endpoint.domain}:{endpoint.port}"
    context = ssl.create_default_context(cafile=endpoint.ca_file) if endpoint.is_https else None
    with on_this_machine(endpoint.domain):
        client = boto3_client(endpoint, style, url)
        body = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        assert client.list_objects_v2(Bucket=BUCKET, Prefix=key)["Contents"][0]["Key"] == key
        wanted = {"Bucket": BUCKET, "Key": key}
        url = client.generate_presigned_url("get_object", Params=wanted, ExpiresIn=600)
        assert f"//{BUCKET}.{endpoint.domain}:" in url, url
        with urllib.request.urlopen(url, timeout=60, context=context) as answer:
            assert answer.read() == body
    return digest(body)


@contextlib.contextmanager
def on_this_machine(domain):
    """Names below a domain are this machine's: not every resolver knows that of `localhost`."""
    resolve = socket.getaddrinfo

    def resolve_ours(host, *arguments, **named):
        is_ours = str(host).endswith(domain)
        return resolve("127.0.0.1" if is_ours else host, *arguments, **named)

    socket.getaddrinfo = resolve_ours
    try:
        yield
    finally:
        socket.getaddrinfo = resolve


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


def boto3_keys(endpoint, prefix):
    pages = boto3_client(endpoint).get_paginator("list_objects_v2")
    found = pages.paginate(Bucket=BUCKET, Prefix=prefix)
    return [entry["Key"] for page in found for entry in page.get("Contents", [])]


def boto3_put(endpoint, key, path):
    """One PUT."""
    boto3_client(endpoint).put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())


def boto3_upload(endpoint, key, path):
    """Parallel parts of one multipart upload, when the file is large."""
    extra = {"Metadata": {"purpose": "end to end"}, "ContentType": "application/x-test"}
    boto3_client(endpoint).upload_file(str(path), BUCKET, key, ExtraArgs=extra)


def boto3_delete(endpoint, key):
    """DELETE."""
    boto3_client(endpoint).delete_object(Bucket=BUCKET, Key=key)


def boto3_delete_many(endpoint, key):
    """A document of keys to remove, one of them unknown."""
    keys = [{"Key": key}, {"Key": f"{key}-unknown"}]
    boto3_client(endpoint).delete_objects(Bucket=BUCKET, Delete={"Objects": keys})


# --- the aws command line


def run_program(name, arguments, environment):
    """Runs a program of the environment in which this script runs, with nothing else in its
    environment: nothing of the user's own configuration may reach it."""
    command = [sys.executable, pathlib.Path(sys.executable).parent / name, *arguments]
    environment = {"PATH": os.environ["PATH"], **environment}
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{name} {' '.join(arguments)}: {done.stderr.decode().strip()}")
    return done.stdout


def aws(endpoint, *arguments):
    environment = {
        "AWS_ACCESS_KEY_ID": endpoint.access_key,
        "AWS_SECRET_ACCESS_KEY": endpoint.secret_key,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    if endpoint.is_https:
        environment["AWS_CA_BUNDLE"] = str(endpoint.ca_file)
    return run_program("aws", ["--endpoint-url", endpoint.url, *arguments], environment)


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
    """`aws s3 cp`, as a multipart upload when the file is large."""
    aws(endpoint, "s3", "cp", "--no-progress", str(path), f"s3://{BUCKET}/{key}")


def aws_delete(endpoint, key):
    """`aws s3 rm`."""
    aws(endpoint, "s3", "rm", f"s3://{BUCKET}/{key}")


# --- s3fs


def s3fs_filesystem(endpoint):
    options = {"endpoint_url": endpoint.url, "region_name": REGION}
    if endpoint.is_https:
        options["verify"] = str(endpoint.ca_file)
    return s3fs.S3FileSystem(
        key=endpoint.access_key,
        secret=endpoint.secret_key,
        client_kwargs=options,
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
    """One PUT, or parts of a multipart upload when the file is large."""
    s3fs_filesystem(endpoint).put_file(str(path), f"{BUCKET}/{key}")


def s3fs_list(endpoint, key):
    """`ls` of a folder, with sizes and ETags."""
    found = s3fs_filesystem(endpoint).ls(f"{BUCKET}/{folder(key)}", detail=True)
    return digest(repr([(each["Key"], each["size"], each["ETag"]) for each in found]).encode())


def s3fs_delete(endpoint, key):
    """DeleteObjects, also for one object."""
    s3fs_filesystem(endpoint).rm(f"{BUCKET}/{key}")


# --- obstore


def obstore_store(endpoint):
    trusted = {"root_certificate": endpoint.ca_file.read_bytes()} if endpoint.is_https else {}
    return obstore.store.S3Store(
        BUCKET,
        endpoint=endpoint.url,
        access_key_id=endpoint.access_key,
        secret_access_key=endpoint.secret_key,
        region=REGION,
        client_options={"allow_http": not endpoint.is_https, **trusted},
    )


def obstore_get(endpoint, key):
    """The whole object as a stream."""
    seen = hashlib.sha256()
    for piece in obstore.get(obstore_store(endpoint), key):
        seen.update(piece)
    return seen.hexdigest()


def obstore_ranges(endpoint, key):
    """HEAD, then several ranges at once."""
    store = obstore_store(endpoint)
    size = obstore.head(store, key)["size"]
    starts, ends = [0, 100_000, size // 2, size - 9], [70_000, 1_200_000, size // 2 + 5, size]
    pieces = obstore.get_ranges(store, key, starts=starts, ends=ends)
    return digest(b"".join(bytes(piece) for piece in pieces))


def obstore_condition(endpoint, key):
    """If-None-Match is answered 304, If-Match in full."""
    store = obstore_store(endpoint)
    etag = obstore.head(store, key)["e_tag"]
    try:
        obstore.get(store, key, options={"if_none_match": etag})
        raise AssertionError("a GET of what the client has was answered in full")
    except obstore.exceptions.NotModifiedError:
        pass
    return digest(bytes(obstore.get(store, key, options={"if_match": etag}).bytes()))


def obstore_list(endpoint, key):
    """A stream of lists."""
    found = obstore.list(obstore_store(endpoint), folder(key)).collect()
    return digest(repr([(each["path"], each["size"], each["e_tag"]) for each in found]).encode())


def obstore_put(endpoint, key, path):
    """One PUT, or parts of 5 MiB in parallel when the file is large."""
    obstore.put(obstore_store(endpoint), key, path)


def obstore_create(endpoint, key, path):
    """PUT with If-None-Match: *. Whether there was no object yet."""
    try:
        obstore.put(obstore_store(endpoint), key, path, mode="create")
        return True
    except obstore.exceptions.AlreadyExistsError:
        return False


def obstore_delete(endpoint, key):
    """DeleteObjects, also for one object."""
    obstore.delete(obstore_store(endpoint), key)


# --- Mountpoint's client, of the AWS Common Runtime (CRT)


@contextlib.contextmanager
def mountpoint_client(endpoint):
    """It takes its keys from the environment only, when it is first used."""
    mine = {
        "AWS_ACCESS_KEY_ID": endpoint.access_key,
        "AWS_SECRET_ACCESS_KEY": endpoint.secret_key,
    }
    before = {name: os.environ.get(name) for name in mine}
    os.environ.update(mine)
    try:
        yield MountpointS3Client(REGION, endpoint=endpoint.url, force_path_style=True)
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def mountpoint_get(endpoint, key):
    """No HEAD: ranges of 8 MiB in parallel, with If-Match from the second on."""
    seen = hashlib.sha256()
    with mountpoint_client(endpoint) as client:
        for piece in client.get_object(BUCKET, key):
            seen.update(piece)
    return seen.hexdigest()


def mountpoint_list(endpoint, key):
    """A stream of lists."""
    with mountpoint_client(endpoint) as client:
        pages = client.list_objects(BUCKET, folder(key))
        found = [(each.key, each.size, each.etag) for page in pages for each in page.object_info]
    return digest(repr(found).encode())


def mountpoint_put(endpoint, key, path):
    """A multipart upload, also for a small object."""
    with mountpoint_client(endpoint) as client:
        stream = client.put_object(BUCKET, key)
        stream.write(path.read_bytes())
        stream.close()


def mountpoint_delete(endpoint, key):
    """DELETE."""
    with mountpoint_client(endpoint) as client:
        client.delete_object(BUCKET, key)


# --- minio-py


def minio_client(endpoint):
    """Without a region it asks for the bucket's."""
    pool = urllib3.PoolManager(ca_certs=str(endpoint.ca_file)) if endpoint.is_https else None
    return minio.Minio(
        endpoint.host,
        access_key=endpoint.access_key,
        secret_key=endpoint.secret_key,
        secure=endpoint.is_https,
        http_client=pool,
    )


def minio_get(endpoint, key):
    """The whole object as a stream."""
    seen = hashlib.sha256()
    with minio_client(endpoint).get_object(BUCKET, key) as answer:
        for piece in answer.stream(1_000_000):
            seen.update(piece)
    return seen.hexdigest()


def minio_range(endpoint, key):
    """A part of the object."""
    with minio_client(endpoint).get_object(BUCKET, key, offset=1000, length=2_000_000) as answer:
        return digest(answer.read())


def minio_download(endpoint, key):
    """HEAD, then the whole object into a file."""
    with tempfile.TemporaryDirectory() as temporary:
        file = f"{temporary}/object"
        minio_client(endpoint).fget_object(BUCKET, key, file)
        return file_digest(file)


def minio_list(endpoint, key):
    """A list without a delimiter."""
    found = minio_client(endpoint).list_objects(BUCKET, folder(key), recursive=True)
    return digest(repr([(each.object_name, each.size, each.etag) for each in found]).encode())


def minio_put(endpoint, key, path):
    """One PUT, or parts of 5 MiB when the file is large."""
    minio_client(endpoint).fput_object(BUCKET, key, str(path))


def minio_delete(endpoint, key):
    """DELETE."""
    minio_client(endpoint).remove_object(BUCKET, key)


# --- s3cmd


def s3cmd(endpoint, *arguments):
    options = ["--config", os.devnull, "--no-progress", "--region", REGION]
    options += ["--host", endpoint.host, "--host-bucket", endpoint.host]
    options += ["--access_key", endpoint.access_key, "--secret_key", endpoint.secret_key]
    options += ["--ssl", "--ca-certs", str(endpoint.ca_file)] if endpoint.is_https else ["--no-ssl"]
    return run_program("s3cmd", [*options, *arguments], {})


def s3cmd_get(endpoint, key):
    """HEAD, then the whole object."""
    with tempfile.TemporaryDirectory() as temporary:
        file = f"{temporary}/object"
        s3cmd(endpoint, "get", f"s3://{BUCKET}/{key}", file)
        return file_digest(file)


def s3cmd_list(endpoint, key):
    """`s3cmd ls`."""
    return digest(s3cmd(endpoint, "ls", "--recursive", f"s3://{BUCKET}/{folder(key)}"))


def s3cmd_put(endpoint, key, path):
    """One PUT, or parts of 15 MB when the file is large."""
    s3cmd(endpoint, "put", str(path), f"s3://{BUCKET}/{key}")


def s3cmd_delete(endpoint, key):
    """`s3cmd del`."""
    s3cmd(endpoint, "del", f"s3://{BUCKET}/{key}")
