"""The entry point of the Spark data source ``tidelog``: its schema, readers and writer.

Spark imports this module in every session to register the format, so it loads neither Arrow nor
kernels; readers and writer are imported when used. Spark: ``KafkaSourceProvider``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

from tidelog.errors import InvalidArgument
from tidelog.spark.options.source_options import (
    ReadOptions,
    WriteOptions,
    is_catalog_table,
    wants_headers,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from tidelog.spark.read.batch_reader import LogReader
    from tidelog.spark.read.stream_reader import LogStreamReader
    from tidelog.spark.write.batch_writer import LogWriter

COLUMNS_DDL: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "timestamp timestamp, timestampType int"
)
"""The columns of Spark's own Kafka source."""

HEADERS_DDL: Final = "headers array<struct<key: string, value: binary>>"


class LogSource(DataSource):
    """Reads and writes the topics of a data directory, which is the option ``path``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "tidelog"

    def schema(self) -> str | StructType:
        """Return the default columns of a read; ``headers`` only if ``includeHeaders`` is true."""
        has_headers = wants_headers(self.options)
        if is_catalog_table(self.options):
            from tidelog.spark.catalog_table import columns_with_options

            return columns_with_options(self.options, has_headers=has_headers)
        return f"{COLUMNS_DDL}, {HEADERS_DDL}" if has_headers else COLUMNS_DDL

    def reader(self, schema: StructType) -> LogReader:
        """Return a batch reader of the columns in ``schema``, which the user may have chosen."""
        from tidelog.spark.read.batch_reader import LogReader

        return LogReader(ReadOptions.parse(self._options(schema)), schema)

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802 - Spark's name
        """Return a stream reader of the columns in ``schema``."""
        from tidelog.spark.read.stream_reader import LogStreamReader

        return LogStreamReader(ReadOptions.parse_stream(self._options(schema)), schema)

    def writer(self, schema: StructType, overwrite: bool) -> LogWriter:  # noqa: FBT001 - Spark's signature
        """Return a batch writer of rows with ``schema``.

        Raises:
            InvalidArgument: the mode is overwrite, or a column is missing, unknown or mistyped.
        """
        from tidelog.spark.write.batch_writer import LogWriter

        if overwrite:
            raise InvalidArgument("a log can only be appended to; use mode('append')")
        return LogWriter(WriteOptions.parse(self.options), schema)

    def _options(self, schema: StructType) -> Mapping[str, str]:
        """Return the options of a read; those of a catalog table come from its schema."""
        from tidelog.spark.catalog_table import options_in

        return options_in(schema) | dict(self.options)
