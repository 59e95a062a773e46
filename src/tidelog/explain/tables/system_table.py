"""What a system table is: a name, declared columns, and a function that yields its rows.

The command ``tidelog table`` prints the rows, and the Spark data source returns them with the
option ``table``. Kafka has no such tables; its tools print parts of them as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args, get_origin

from tidelog.codec.shown_rows import Stored, as_json, fields_of, shape_of
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import LogConfig
from tidelog.datadir.effective_config import NO_SETTINGS
from tidelog.errors import TidelogError
from tidelog.exit_codes import is_damage
from tidelog.explain.plans.directory_retention import DirectoryRetention
from tidelog.explain.plans.plan_terms import PlanTerms
from tidelog.explain.transactional_ids import TransactionalIds
from tidelog.explain.verify.verify_files import CheckpointLines
from tidelog.readonly.absent_partitions import BY_ARGUMENT
from tidelog.readonly.read_again import MAY_PASS, read_again, was_deleted
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.readonly.read_only_topic import ReadOnlyTopic
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import ReadOnlyLog

_DISK_PERCENT: Final = "tidelog.retention.disk.percent"

Row = tuple[Any, ...]
"""One value for each column of a table, in their order."""

if TYPE_CHECKING:
    Keys = Collection[TopicPartition] | None
    """The partitions that rows are asked about; None: all, and the directory itself."""


class ColumnType(StrEnum):
    """The type of a column, by Spark's name for it."""

    TEXT = "string"
    INT = "int"
    LONG = "bigint"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TIME = "timestamp"
    """Rows hold milliseconds since 1970-01-01 UTC, or None."""
    COUNTS = "map<string,bigint>"
    TEXTS = "map<string,string>"


class Column(NamedTuple):
    """One column; ``text`` says what its values are, with unit and end."""

    name: str
    type: ColumnType
    text: str
    is_nullable: bool = False

    @property
    def is_identifier(self) -> bool:
        """Whether its numbers are names, which people compare and copy: shown digit by digit."""
        names = {"crc", "epoch", "magic", "partition"}
        return self.name in names or self.name.endswith(("Epoch", "Id"))


_TYPES: Final[dict[Any, ColumnType]] = {
    Stored.INT32: ColumnType.INT,
    Stored.TIME: ColumnType.TIME,
    str: ColumnType.TEXT,
    int: ColumnType.LONG,
    float: ColumnType.DOUBLE,
    bool: ColumnType.BOOLEAN,
}


@cache
def columns_of(row: type, *names: str, nullable: tuple[str, ...] = ()) -> tuple[Column, ...]:
    """Return a column for each plain value that a row has, or for those of ``names``, in order.

    ``nullable`` are the names of those that only the table has without a value.
    """
    columns = {}
    for name, shape in ((field.name, field.shape) for field in fields_of(row)):
        if fields_of(shape.type) or (names and name not in names):
            continue
        kind = _TYPES.get(shape.stored or shape.type, ColumnType.TEXT)
        if get_origin(shape.type) is dict:
            counts = shape_of(get_args(shape.type)[1]).type is int
            kind = ColumnType.COUNTS if counts else ColumnType.TEXTS
        text, is_nullable = shape.text.removesuffix("."), shape.is_nullable or name in nullable
        if kind is ColumnType.TIME:
            is_nullable |= shape.range.least != 0
            text = text.replace("; -1:", "; null:")
        columns[name] = Column(name, kind, f"{text[0].lower()}{text[1:]}", is_nullable)
    return tuple(columns[name] for name in names or columns)


def cells_of(row: Any, columns: Collection[Column] = ()) -> list[Any]:  # noqa: ANN401 - any row
    """Return the values of a row for its ``columns``, all by default; a time of -1 is None."""
    values, cells = as_json(row), []
    for column in columns or columns_of(type(row)):  # type: ignore[arg-type]  # as in as_json
        value = values[column.name]
        is_none = column.type is ColumnType.TIME and value is not None and value < 0
        cells.append(None if is_none else value)
    return cells


TOPIC, PARTITION = PLACE = columns_of(TopicPartition)


class TableSource(PlanTerms):
    """The data directories that tables are made of, as of one moment; arguments as ``PlanTerms``.

    ``overrides`` may have ``tidelog.retention.disk.percent``, too, for the plan of a service that
    has it. Raises InvalidConfig for a setting.
    """

    def __init__(
        self,
        directory: ReadOnlyDirectory,
        *,
        clock: Clock,
        overrides: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        settings = dict(overrides)
        percent = settings.pop(_DISK_PERCENT, "0")
        LogConfig().with_overrides(settings)
        super().__init__(directory, clock=clock, overrides=settings)
        self.ids: Final = TransactionalIds(directory)
        self.checkpoint_lines: Final = CheckpointLines(directory.fs)
        self._disk_percent: Final[int] = BrokerConfig.parse(
            {"log.dirs": directory.paths[0], _DISK_PERCENT: percent}
        ).tidelog_retention_disk_percent
        self._retention = cache(lambda part: DirectoryRetention(self, part, self._disk_percent))

    @property
    def fs(self) -> FileSystem:
        """The file system, to be read only."""
        return self.directory.fs

    def open(self, key: TopicPartition) -> ReadOnlyLog:
        """Open the log of a partition; UnknownTopicOrPartition if it is not there."""
        return self.directory.open(*key)

    def topic(self, name: str) -> ReadOnlyTopic:
        """Return a topic; one of unknown settings for a directory that waits for deletion."""
        return self.directory.known_topic(name) or ReadOnlyTopic.found(name, None, ())

    def retention(self, key: TopicPartition) -> DirectoryRetention:
        """What retention would delete of each log in the data directory of a partition."""
        return self._retention(self.directory.part_of(*key))


def open_tables(
    fs: FileSystem,
    *paths: str,
    clock: Clock,
    overrides: Mapping[str, str] = NO_SETTINGS,
    server_properties: Mapping[str, str] | None = None,
    accept: str | None = BY_ARGUMENT,
) -> TableSource:
    """Open data directories for tables; other arguments as of ``TableSource``.

    Args:
        fs: the file system.
        paths: one or several data directories.
        clock: see there.
        overrides: see there.
        server_properties: those of the broker that wrote the directory, if they are known.
        accept: as of ``open_directory_read_only``.

    Raises InvalidArgument if there is no such directory, InvalidConfig for a setting.
    """
    directory = open_directory_read_only(
        *paths, fs=fs, server_properties=server_properties, accept=accept
    )
    return TableSource(directory, clock=clock, overrides=overrides)


@dataclass(frozen=True, slots=True)
class SystemTable:
    """A table, with the functions that make its rows; at least one of them is set.

    ``text`` says what one row is. ``of_partition`` makes the rows about one partition, and
    ``of_directory`` those that the directory's own files give. ``is_streamed``: a partition may
    have too many rows to hold.
    """

    name: str
    text: str
    columns: tuple[Column, ...]
    of_partition: Callable[[TableSource, TopicPartition], Iterable[Row]] | None = None
    of_directory: (
        Callable[[TableSource, Collection[TopicPartition] | None], Iterable[Row]] | None
    ) = None
    is_streamed: bool = False

    def rows(
        self,
        source: TableSource,
        keys: Keys = None,
        on_damage: Callable[[TopicPartition, TidelogError], None] | None = None,
    ) -> Iterator[Row]:
        """Yield the rows about the partitions ``keys``, None: about the whole directory.

        A partition that is deleted while it is read has no rows. Where damage hides rows of
        one, ``on_damage`` is called, and the next partition follows. Raises CorruptMessage and
        InvalidRecord without it, and for the directory; KafkaStorageError.
        """
        if self.of_directory is not None:
            yield from self.of_directory(source, keys)
        if self.of_partition is not None:
            for key in source.directory.partitions if keys is None else sorted(keys):
                try:
                    yield from self.partition_rows(source, key)
                except TidelogError as error:
                    if on_damage is None or not is_damage(error):
                        raise
                    on_damage(key, error)

    def partition_rows(self, source: TableSource, key: TopicPartition) -> Iterator[Row]:
        """Yield the rows of ``of_partition``; errors as ``rows``."""
        of_partition = self.of_partition
        if of_partition is None:
            return

        def begun() -> tuple[list[Row], Iterator[Row]]:
            rows = iter(of_partition(source, key))
            return list(islice(rows, 1 if self.is_streamed else None)), rows

        path: str | None = source.directory.partition_path(*key)
        while path is not None:
            has_begun = False
            try:
                first, rest = read_again(source.fs, path, begun)
                has_begun = True
                yield from first
                yield from rest
            except MAY_PASS as error:
                if not was_deleted(source.fs, path, error):
                    raise
                moved = source.directory.path_of_moved(*key, path)
                if has_begun and moved is not None:
                    raise  # rows that were yielded would be yielded again
                path = moved
            else:
                return
