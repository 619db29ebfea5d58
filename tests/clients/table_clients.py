"""The clients of tables: what they read, write, list and remove.

They are used as those of `s3_clients` are, and share their digests. Those that take the authority
of a certificate from the environment find it in SSL_CERT_FILE.
"""

import pathlib

import datafusion
import datafusion.object_store
import deltalake
import duckdb
import duckdb_extension_httpfs
import polars
import pyarrow
import pyarrow.fs
import pyarrow.parquet

from s3_clients import BUCKET, digest, folder, plain_table, table_digest
from servers import REGION


def file_table(path):
    return pyarrow.parquet.read_table(path)


def file_rows(path):
    """What a client reads that has written the table of a file."""
    return rows_digest(file_table(path))


def rows_digest(table):
    """Equal for equal rows: not every client promises an order of them."""
    return table_digest(plain_table(table).sort_by("id"))


# --- pyarrow


def pyarrow_filesystem(endpoint):
    return pyarrow.fs.S3FileSystem(
        access_key=endpoint.access_key,
        secret_key=endpoint.secret_key,
        endpoint_override=endpoint.host,
        scheme=endpoint.scheme,
        region=REGION,
        tls_ca_file_path=endpoint.ca_file and str(endpoint.ca_file),
    )


def pyarrow_table(endpoint, key):
    """The footer, then a range for each column of each row group, over several connections."""
    filesystem = pyarrow_filesystem(endpoint)
    return table_digest(pyarrow.parquet.read_table(f"{BUCKET}/{key}", filesystem=filesystem))


def pyarrow_rows(endpoint, key):
    """The same, whatever the order of the rows."""
    filesystem = pyarrow_filesystem(endpoint)
    return rows_digest(pyarrow.parquet.read_table(f"{BUCKET}/{key}", filesystem=filesystem))


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


def pyarrow_list(endpoint, key):
    """The files of a folder, with their sizes."""
    wanted = pyarrow.fs.FileSelector(f"{BUCKET}/{folder(key)}", recursive=True)
    found = pyarrow_filesystem(endpoint).get_file_info(wanted)
    return digest(repr(sorted((each.path, each.size) for each in found)).encode())


def pyarrow_delete(endpoint, key):
    """DELETE, after a look whether it is there."""
    pyarrow_filesystem(endpoint).delete_file(f"{BUCKET}/{key}")


# --- what polars and deltalake share: both are set up by the options of Rust's object_store


def object_store_options(endpoint):
    return {
        "aws_endpoint_url": endpoint.url,
        "aws_access_key_id": endpoint.access_key,
        "aws_secret_access_key": endpoint.secret_key,
        "aws_region": REGION,
        "aws_allow_http": "false" if endpoint.is_https else "true",
    }


# --- polars


def polars_scan(endpoint, key):
    return polars.scan_parquet(
        f"s3://{BUCKET}/{key}", storage_options=object_store_options(endpoint)
    )


def polars_table(endpoint, key):
    """No HEAD: a suffix range for the footer, then the columns."""
    return rows_digest(polars_scan(endpoint, key).collect().to_arrow())


def polars_glob(endpoint, key):
    """A list, then a sum over what it found."""
    frame = polars_scan(endpoint, folder(key) + "*.parquet")
    sums = frame.select(polars.len(), polars.col("id").sum(), polars.col("text").max())
    return digest(repr(sums.collect().rows()).encode())


def polars_write(endpoint, key, path):
    """A Parquet file, as a multipart upload."""
    frame = polars.from_arrow(file_table(path))
    frame.write_parquet(f"s3://{BUCKET}/{key}", storage_options=object_store_options(endpoint))


# --- DuckDB


def duckdb_connection(endpoint):
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    package = pathlib.Path(duckdb_extension_httpfs.__file__).parent
    extension = next(package.rglob("httpfs.duckdb_extension"))
    connection.execute(f"LOAD '{extension}'")
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{endpoint.access_key}', SECRET '{endpoint.secret_key}', "
        f"ENDPOINT '{endpoint.host}', REGION '{REGION}', URL_STYLE 'path', "
        f"USE_SSL {str(endpoint.is_https).lower()})"
    )
    if endpoint.is_https:
        connection.execute(f"SET ca_cert_file = '{endpoint.ca_file}'")
        connection.execute("SET enable_server_cert_verification = true")
    return connection


def duckdb_table(endpoint, key):
    """HEAD, the footer, then ranges; a new connection for each phase."""
    query = f"SELECT * FROM read_parquet('s3://{BUCKET}/{key}')"
    return rows_digest(duckdb_connection(endpoint).execute(query).to_arrow_table())


def duckdb_glob(endpoint, key):
    """A listing, then a sum over what it found."""
    pattern = folder(key) + "*.parquet"
    query = f"SELECT count(*), sum(id), max(text) FROM read_parquet('s3://{BUCKET}/{pattern}')"
    return digest(repr(duckdb_connection(endpoint).execute(query).fetchall()).encode())


def duckdb_read(endpoint, key):
    """The whole object as one value."""
    query = f"SELECT sha256(content) FROM read_blob('s3://{BUCKET}/{key}')"
    return duckdb_connection(endpoint).execute(query).fetchone()[0]


def duckdb_list(endpoint, key):
    """`glob`."""
    query = f"SELECT file FROM glob('s3://{BUCKET}/{folder(key)}*') ORDER BY file"
    return digest(repr(duckdb_connection(endpoint).execute(query).fetchall()).encode())


def duckdb_write(endpoint, key, path):
    """COPY into a Parquet file, as a multipart upload."""
    query = f"COPY (FROM read_parquet('{path}')) TO 's3://{BUCKET}/{key}' (FORMAT parquet)"
    duckdb_connection(endpoint).execute(query)


# --- DataFusion


def datafusion_context(endpoint):
    context = datafusion.SessionContext()
    store = datafusion.object_store.AmazonS3(
        bucket_name=BUCKET,
        region=REGION,
        access_key_id=endpoint.access_key,
        secret_access_key=endpoint.secret_key,
        endpoint=endpoint.url,
        allow_http=not endpoint.is_https,
    )
    context.register_object_store("s3://", store, BUCKET)
    return context


def datafusion_table(endpoint, key):
    """HEAD, the footer, then the columns."""
    frame = datafusion_context(endpoint).read_parquet(f"s3://{BUCKET}/{key}")
    return rows_digest(frame.to_arrow_table())


def datafusion_glob(endpoint, key):
    """A list, then a sum over what it found."""
    context = datafusion_context(endpoint)
    context.register_parquet("listed", f"s3://{BUCKET}/{folder(key)}")
    sums = context.sql("SELECT count(*), sum(id), max(text) FROM listed").to_arrow_table()
    return digest(repr([column.to_pylist() for column in sums.columns]).encode())


def datafusion_write(endpoint, key, path):
    """A Parquet file, as a multipart upload."""
    context = datafusion_context(endpoint)
    context.read_parquet(str(path)).write_parquet(f"s3://{BUCKET}/{key}")


# --- deltalake: an object is a folder of files and a log


def delta_place(endpoint, key):
    return {
        "table_or_uri": f"s3://{BUCKET}/{key}",
        "storage_options": {
            **object_store_options(endpoint),
            # A new entry of the log must not overwrite another: the store itself says so.
            "aws_conditional_put": "etag",
        },
    }


def delta_open(endpoint, key):
    place = delta_place(endpoint, key)
    return deltalake.DeltaTable(place["table_or_uri"], storage_options=place["storage_options"])


def delta_table(endpoint, key):
    """A list of the log, its entries, the question for the next one, then the files."""
    return rows_digest(delta_open(endpoint, key).to_pyarrow_table())


def delta_list(endpoint, key):
    """The log, and what it says of the files. Not its `history`: that keeps Python's lock while it
    waits, and the counting proxy needs it to answer."""
    table = delta_open(endpoint, key)
    return digest(repr((table.version(), sorted(table.file_uris()))).encode())


def delta_write(endpoint, key, path):
    """A new version of the table that replaces all rows."""
    deltalake.write_deltalake(**delta_place(endpoint, key), data=file_table(path), mode="overwrite")


def delta_append(endpoint, key, path):
    """A new version of the table with more rows."""
    deltalake.write_deltalake(**delta_place(endpoint, key), data=file_table(path), mode="append")


def delta_delete(endpoint, key):
    """A new version of the table without rows, and then its files are removed."""
    table = delta_open(endpoint, key)
    table.delete()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
