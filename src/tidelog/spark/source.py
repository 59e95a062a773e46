"""The entry point of the Spark data source ``tidelog``: its schema, readers and writer.

Spark imports this module in every session to register the format, so it loads neither Arrow nor
kernels; readers and writer are imported when used. Spark: ``KafkaSourceProvider``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource

from tidelog.errors import InvalidArgument, TidelogError
from tidelog.spark.options.source_options import (
    ONLY_OF_READS,
    ONLY_OF_WRITES,
    TABLE,
    ReadOptions,
    SinkOptions,
    check_load,
    is_catalog_table,
    is_table_read,
    without,
)
from tidelog.spark.plain_errors import plain_errors
from tidelog.spark.releases import check_limits, has_limits, spark_release
from tidelog.spark.source_columns import record_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType

    from tidelog.spark.read.batch_reader import LogReader
    from tidelog.spark.read.table_reader import TableReader
    from tidelog.spark.write.batch_writer import LogWriter
    from tidelog.spark.write.stream_writer import LogStreamWriter

PATHS: Final = ("path", "paths")

NO_OPTIONS: Final = (
    "no data directory is named. Spark's catalog keeps no options of a table that was created with"
    " columns, or AS SELECT: create it without them, as in CREATE TABLE t USING tidelog OPTIONS"
    " (subscribe 'topic', topic 'topic') LOCATION '/path/to/data', then INSERT INTO t; or give the"
    " query its options, as in SELECT * FROM t WITH (path = '/path/to/data', subscribe = 'topic')"
)

NO_PATH_OF_STREAM: Final = (
    "no data directory is named, as in .option('topic', 'topic').start('/path/to/data'); toTable is"
    " not supported, since Spark passes nothing about the table"
)


class LogSource(DataSource):
    """Reads and writes the topics of a data directory, which is the option ``path``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "tidelog"

    @plain_errors()
    def schema(self) -> StructType:
        """Return the default columns of a read; ``headers`` only if ``includeHeaders`` is true.

        With the option ``table``, the columns of that system table. Spark asks for them at
        ``load()`` and CREATE TABLE, unless columns are named there.

        Raises:
            InvalidArgument: options are valid neither for a batch read nor for a stream, or, of a
                table in the catalog, not for a write.
        """
        if is_table_read(self.options):
            return self._table_columns()
        has_headers = check_load(self.options)
        if is_catalog_table(self.options):
            from tidelog.spark.catalog_table import columns_with_options

            return columns_with_options(self.options, has_headers=has_headers)
        return record_columns(has_headers=has_headers)

    @plain_errors()
    def reader(self, schema: StructType) -> LogReader | TableReader:
        """Return a batch reader of the columns in ``schema``, which the user may have chosen."""
        options = self._options(schema)
        if is_table_read(options):
            from tidelog.spark.options.table_options import TableOptions
            from tidelog.spark.read.table_reader import TableReader

            return TableReader(TableOptions.parse(options), schema)
        from tidelog.spark.read.batch_reader import LogReader

        return LogReader(ReadOptions.parse(options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a stream reader of the columns in ``schema``.

        An error is raised by its methods: Spark 4.3 shows an UnboundLocalError instead of what is
        raised here.
        """
        from tidelog.spark.read.stream_reader import RefusedStreamReader, UnlimitedStreamReader

        try:
            options = self._options(schema)
            if is_table_read(options):
                raise InvalidArgument("a system table cannot be read as a stream")
            parsed, release = ReadOptions.parse_stream(options), spark_release()
            check_limits(parsed.limits.names(), release)
            if not has_limits(release):
                return UnlimitedStreamReader(parsed, schema)
            from tidelog.spark.read.limited_stream_reader import LimitedStreamReader

            return LimitedStreamReader(parsed, schema)
        except TidelogError as error:
            return RefusedStreamReader(error)

    _is_for_commit = False

    @plain_errors()
    def writer(self, schema: StructType, overwrite: bool) -> LogWriter:  # noqa: FBT001 - Spark's signature
        """Return a batch writer of rows with ``schema``.

        Raises:
            InvalidArgument: the mode is overwrite, or a column is missing, unknown or mistyped.
        """
        from tidelog.spark.write.batch_writer import LogWriter

        if overwrite:
            raise InvalidArgument("a log can only be appended to; use mode('append')")
        options = self.options if self._has_path() else self._inserted_options(schema)
        return LogWriter(SinkOptions.parse(options), schema)

    @plain_errors()
    def streamWriter(self, schema: StructType, overwrite: bool) -> LogStreamWriter:  # noqa: ARG002, FBT001, N802 - Spark's signature
        """Return a writer of one micro-batch; ``overwrite``, of output mode complete, appends.

        Spark's Kafka sink does so, too. Raises InvalidArgument for a column or an option.
        """
        from tidelog.spark.write.stream_writer import LogStreamWriter

        if not self._has_path():
            raise InvalidArgument(NO_PATH_OF_STREAM)
        options = SinkOptions.parse(self.options, is_stream=True)
        return LogStreamWriter(options, self.options, None if self._is_for_commit else schema)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take the state of a copy: Spark plans with a new source, and commits with a copy."""
        self.__dict__.update(state)
        self._is_for_commit = True

    def _table_columns(self) -> StructType:
        from tidelog.spark.catalog_table import keep_options
        from tidelog.spark.options.table_options import TableOptions
        from tidelog.spark.read.table_reader import table_columns

        in_catalog = is_catalog_table(self.options)
        if not in_catalog:
            TableOptions.parse(self.options)
        name = next(value for name, value in self.options.items() if name.lower() == TABLE)
        columns = table_columns(name)
        return keep_options(columns, self.options) if in_catalog else columns

    def _options(self, schema: StructType) -> Mapping[str, str]:
        """Return the options of a read; those of a catalog table come from its schema.

        With a path, as in ``load(path)``, the columns are no more than columns: ``.schema()`` may
        have those of a table.

        Raises InvalidArgument if there are none, as of a table whose columns were declared.
        """
        from tidelog.spark.catalog_table import options_in

        stored = {} if self._has_path() else without(options_in(schema), ONLY_OF_WRITES)
        options = stored | dict(self.options)
        if not options:
            raise InvalidArgument(NO_OPTIONS)
        return options

    def _has_path(self) -> bool:
        return any(name in self.options for name in PATHS)

    def _inserted_options(self, schema: StructType) -> Mapping[str, str]:
        """Return the options of INSERT INTO a table, which come from its schema.

        Raises InvalidArgument if there is no such table. CREATE TABLE ... AS SELECT is refused,
        too: Spark passes nothing about the new table, and what a query over another table says is
        about that one.
        """
        from tidelog.spark.catalog_table import target_of

        stored = target_of(schema)
        if self.options or not stored:
            raise InvalidArgument(NO_OPTIONS)
        return without(stored, ONLY_OF_READS)
