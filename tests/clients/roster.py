"""The twelve clients, and what each of them can do.

What a client is given to read is of a kind: `small` and `blob` are bytes, `rows` and `table` a
small and a large table. A client writes bytes or tables; here none writes both.
"""

import dataclasses
from collections.abc import Callable

import s3_clients as s3
import table_clients as tables


@dataclasses.dataclass(frozen=True)
class Client:
    """What a client can do."""

    # The package whose version counts.
    package: str
    # For each kind, what reads, lists or asks about an object of that kind. The very first also
    # reads back what the client wrote.
    reads: dict[str, list[Callable]]
    # What writes a small object, and what writes a large one.
    write_small: Callable
    write_large: Callable
    # What removes an object.
    deletes: list[Callable] = dataclasses.field(default_factory=list)
    # What writes an object unless there is one, and says which it was.
    create: Callable | None = None
    # Whether its objects are folders of files and a log.
    is_delta: bool = False

    @property
    def small_kind(self):
        return next(iter(self.reads))

    @property
    def read_back(self):
        return self.reads[self.small_kind][0]

    @property
    def writes_tables(self):
        return self.small_kind == "rows"


CLIENTS = {
    "boto3": Client(
        package="boto3",
        reads={
            "small": [s3.boto3_get, s3.boto3_list, s3.boto3_virtual],
            "table": [s3.boto3_get, s3.boto3_ranges, s3.boto3_presigned, s3.boto3_head],
            "blob": [s3.boto3_download, s3.boto3_get],
        },
        write_small=s3.boto3_put,
        write_large=s3.boto3_upload,
        deletes=[s3.boto3_delete, s3.boto3_delete_many],
    ),
    "aws": Client(
        package="awscli",
        reads={
            "small": [s3.aws_copy, s3.aws_list],
            "table": [s3.aws_copy],
            "blob": [s3.aws_copy, s3.aws_range],
        },
        write_small=s3.aws_upload,
        write_large=s3.aws_upload,
        deletes=[s3.aws_delete],
    ),
    "s3fs": Client(
        package="s3fs",
        reads={
            "small": [s3.s3fs_read, s3.s3fs_list],
            "table": [s3.s3fs_table, s3.s3fs_ranges],
            "blob": [s3.s3fs_read],
        },
        write_small=s3.s3fs_upload,
        write_large=s3.s3fs_upload,
        deletes=[s3.s3fs_delete],
    ),
    "pyarrow": Client(
        package="pyarrow",
        reads={
            "small": [tables.pyarrow_read, tables.pyarrow_list],
            "table": [tables.pyarrow_table, tables.pyarrow_column],
            "blob": [tables.pyarrow_read],
        },
        write_small=tables.pyarrow_upload,
        write_large=tables.pyarrow_upload,
        deletes=[tables.pyarrow_delete],
    ),
    "polars": Client(
        package="polars",
        reads={"rows": [tables.polars_table], "table": [tables.polars_table, tables.polars_glob]},
        write_small=tables.polars_write,
        write_large=tables.polars_write,
    ),
    "duckdb": Client(
        package="duckdb",
        reads={
            "rows": [tables.duckdb_table, tables.duckdb_list],
            "table": [tables.duckdb_table, tables.duckdb_glob],
            "blob": [tables.duckdb_read],
        },
        write_small=tables.duckdb_write,
        write_large=tables.duckdb_write,
    ),
    "datafusion": Client(
        package="datafusion",
        reads={
            "rows": [tables.datafusion_table],
            "table": [tables.datafusion_table, tables.datafusion_glob],
        },
        write_small=tables.datafusion_write,
        write_large=tables.datafusion_write,
    ),
    "obstore": Client(
        package="obstore",
        reads={
            "small": [s3.obstore_get, s3.obstore_condition, s3.obstore_list],
            "blob": [s3.obstore_get, s3.obstore_ranges],
        },
        write_small=s3.obstore_put,
        write_large=s3.obstore_put,
        deletes=[s3.obstore_delete],
        create=s3.obstore_create,
    ),
    "deltalake": Client(
        package="deltalake",
        reads={"rows": [tables.delta_table, tables.delta_list], "table": [tables.delta_table]},
        write_small=tables.delta_write,
        write_large=tables.delta_write,
        is_delta=True,
    ),
    "mountpoint": Client(
        package="s3torchconnectorclient",
        reads={
            "small": [s3.mountpoint_get, s3.mountpoint_list],
            "blob": [s3.mountpoint_get],
        },
        write_small=s3.mountpoint_put,
        write_large=s3.mountpoint_put,
        deletes=[s3.mountpoint_delete],
    ),
    "minio": Client(
        package="minio",
        reads={
            "small": [s3.minio_get, s3.minio_list],
            "blob": [s3.minio_get, s3.minio_range, s3.minio_download],
        },
        write_small=s3.minio_put,
        write_large=s3.minio_put,
        deletes=[s3.minio_delete],
    ),
    "s3cmd": Client(
        package="s3cmd",
        reads={"small": [s3.s3cmd_get, s3.s3cmd_list], "blob": [s3.s3cmd_get]},
        write_small=s3.s3cmd_put,
        write_large=s3.s3cmd_put,
        deletes=[s3.s3cmd_delete],
    ),
}
