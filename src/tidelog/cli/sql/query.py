"""A query over topics and system tables, which DuckDB carries out.

DuckDB sees the topics and tables that a query names, and nothing else: no file, no network, none of
its settings.
"""

from __future__ import annotations

import re
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.cli.extras import needs_extra
from tidelog.cli.terminal import print_message
from tidelog.errors import InvalidArgument

with needs_extra("sql"):
    import duckdb

    from tidelog.arrow.read_topic import stream_of
    from tidelog.arrow.rows_table import ChosenColumn, Rescanned
    from tidelog.arrow.topic_dataset import TopicDataset, noting
    from tidelog.arrow.topic_read import TopicRead

from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.paths import new_temporary_path
from tidelog.explain.tables.system_table import open_tables
from tidelog.explain.tables.system_tables import SYSTEM_TABLES
from tidelog.readonly.absent_partitions import BY_FLAG
from tidelog.records.isolation import ReadUpTo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType

    import pyarrow as pa

    from tidelog.errors import TidelogError
    from tidelog.explain.tables.system_table import SystemTable
    from tidelog.readonly.missing.damaged_range import DamagedRange
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.segment.filenames import TopicPartition

SCHEMA: Final = "tidelog"
"""The schema of the system tables; topics are in the default one."""
_BATCH_ROWS: Final = 1 << 16
_MOST_NAMES: Final = 10
_BARE_OFFSET: Final = re.compile(r'(?<![\w"])offset(?![\w"])', re.IGNORECASE)
_NOT_JSON: Final = (
    "WHERE NOT json_valid(decode(value)) finds such records, WHERE json_valid(decode(value)) leaves"
    " them out, and TRY(...) around an expression makes it null there"
)
_CAST_BYTES: Final = "key and value are bytes: decode(value) is their text, a cast is not"
_BYTES_AS_JSON: Final = re.compile(
    r'(?<!\w)(?:json_\w+\s*\(\s*(?:\w+\.)?"?(key|value)"?\s*[,)]|"?(key|value)"?\s*->)',
    re.IGNORECASE,
)
_RENAMED: Final = re.compile(r'\bAS\s+"?(key|value)(?!\w)', re.IGNORECASE)
_ANSWER: Final = "SELECT"
"""The kind of statement that gives rows; SHOW, DESCRIBE and VALUES are of it as well."""


class Visible(NamedTuple):
    """Which records a query sees; the fields are those of ``tidelog.arrow.read``."""

    isolation: str
    read_up_to: str
    allow_partial: bool
    on_damage: Callable[[DamagedRange | str], None] | None = None


class Answer(NamedTuple):
    """The rows that a query gives; ``batches`` raises what ``answered`` does."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@contextmanager
def answered(directory: ReadOnlyDirectory, query: str, visible: Visible) -> Iterator[Answer]:
    """Yield the rows that a query gives, as a stream.

    Raises:
        InvalidArgument: it is not one statement that only reads, or DuckDB refuses it; the text
            says why.
        TidelogError: what a read of a topic or of a system table raises.
    """
    with duckdb.connect(":memory:") as connection:
        tables = _Tables(directory, visible)
        tables.register(connection, query)
        connection.execute("SET TimeZone = 'UTC'")
        # DuckDB makes it for what a sort or a join cannot hold in memory, and deletes it; its own
        # choice would be below the directory that the command is started in.
        connection.execute("SET temp_directory = ?", [new_temporary_path("tidelog-sql-")])
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        with tables.typed_errors(query):
            _check_reads(connection.extract_statements(query))
            reader = connection.sql(query).to_arrow_reader(_BATCH_ROWS)
        yield Answer(reader.schema, tables.batches(reader, query))


@contextmanager
def _noting_signals(note: Callable[[BaseException], object]) -> Iterator[None]:
    """Pass to ``note`` what a signal raises in the body: DuckDB makes an error of its own of it."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def on_signal(number: int, frame: FrameType | None) -> None:
        handler = handlers[signal.Signals(number)]
        try:
            if callable(handler):
                handler(number, frame)
        except BaseException as error:
            note(error)
            raise

    replaced = {number: one for number, one in handlers.items() if callable(one)}
    try:
        for number in replaced:
            signal.signal(number, on_signal)
    except ValueError:  # only the main thread can handle signals
        replaced.clear()
    try:
        yield
    finally:
        for number, one in replaced.items():
            signal.signal(number, one)


def _named(query: str, names: Iterable[str]) -> list[str]:
    """Return the tables that a query may mean: it has their names as words somewhere."""
    text = query.casefold()
    # Of thousands of names, a pattern is made only of those that are there at all.
    there = [name for name in names if name.casefold() in text]
    return [one for one in there if re.search(rf"(?<!\w){re.escape(one.casefold())}(?!\w)", text)]


def _bytes_as_json(query: str) -> str | None:
    """Return the column of bytes that a query seems to take for JSON: DuckDB gives NULL then.

    DuckDB alone could say for sure, and does not; so it is a hint and no error.
    """
    renamed = {name.casefold() for name in _RENAMED.findall(query)}
    columns = ((one[1] or one[2]).casefold() for one in _BYTES_AS_JSON.finditer(query))
    return next((name for name in columns if name not in renamed), None)


def _check_reads(statements: Sequence[Any]) -> None:
    if len(statements) != 1:
        raise InvalidArgument(f"{len(statements)} statements were given: give one")
    kind = statements[0].type.name
    if kind != _ANSWER:
        raise InvalidArgument(f"{kind} is not possible: give one SELECT")


class _Tables:
    """The topics and system tables of a directory, by the names that queries give them."""

    def __init__(self, directory: ReadOnlyDirectory, visible: Visible) -> None:
        self._directory = directory
        self._visible = visible
        self._topics = directory.topic_names
        self._errors: list[BaseException] = []
        self._reported: set[str] = set()

    def register(self, connection: duckdb.DuckDBPyConnection, query: str) -> None:
        """Let a query use the topics and tables whose names occur in its text.

        A directory may have thousands of topics, and each costs a look at its columns.
        """
        topics = _named(query, self._topics)
        if topics and (column := _bytes_as_json(query)):
            self._report(f"{column} is bytes, in which JSON finds nothing: use decode({column})")
        tables = _named(query, SYSTEM_TABLES)
        # Also for system tables: they would leave out what lies elsewhere without a word.
        self._directory.check_present(dict.fromkeys(self._topics if tables else topics))
        folded: dict[str, str] = {}
        for name in topics:
            other = folded.setdefault(name.casefold(), name)
            if other != name:
                raise InvalidArgument(
                    f"topics {other} and {name} have the same name in SQL, which ignores case"
                )
            connection.register(name, self._topic(name))
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
        for name in tables:
            hidden = f"{SCHEMA}.{name} of this directory"
            connection.register(hidden, self._table(SYSTEM_TABLES[name]))
            view = f'CREATE VIEW {SCHEMA}.{name} AS FROM "{hidden}"'
            connection.execute(view)

    def _topic(self, name: str) -> TopicDataset:
        visible = self._visible
        read = TopicRead.of(
            self._directory.paths,
            name,
            isolation=visible.isolation,
            read_up_to=None
            if visible.read_up_to == ReadUpTo.HIGH_WATERMARK
            else visible.read_up_to,
            allow_partial=visible.allow_partial,
            on_damage=visible.on_damage,
            skipping="--skip-damage",
            on_unread=lambda unread: self._report(f"{unread}: use --up-to logEnd"),
        )
        return TopicDataset(read, stream_of(read), note=self._errors.append)

    def _report(self, text: str) -> None:
        """Print a line on stderr, once: a query may look at a topic again and again."""
        if text not in self._reported:
            self._reported.add(text)
            print_message("sql", text)

    def _table(self, table: SystemTable) -> Rescanned:
        columns = [
            ChosenColumn(column.name, column.type, number, column.is_nullable)
            for number, column in enumerate(table.columns)
        ]
        return Rescanned(columns, lambda: self._rows(table))

    def _rows(self, table: SystemTable) -> Iterator[tuple[Any, ...]]:
        accept = None if self._visible.allow_partial else BY_FLAG
        paths = self._directory.paths
        with noting(self._errors.append):
            source = open_tables(self._directory.fs, *paths, clock=SYSTEM_CLOCK, accept=accept)
            yield from table.rows(source, on_damage=self._on_damage)

    @property
    def _on_damage(self) -> Callable[[TopicPartition, TidelogError], None] | None:
        """The callback for damage that hides rows of a system table."""
        skip = self._visible.on_damage
        return None if skip is None else lambda key, error: skip(f"{key}: {error}")

    @contextmanager
    def typed_errors(self, query: str) -> Iterator[None]:
        """Raise, for an error of DuckDB, what a read of ours raised before it, or what it means."""
        try:
            with _noting_signals(self._errors.append):
                yield
        except (duckdb.Error, OSError, RuntimeError, ValueError) as error:
            if self._errors:  # DuckDB keeps only its text
                raise self._errors[0] from error
            raise InvalidArgument(self._explained(query, error)) from error

    def batches(self, reader: pa.RecordBatchReader, query: str) -> Iterator[pa.RecordBatch]:
        """Yield what a stream has; of DuckDB's errors it raises only what Arrow makes of them."""
        while True:
            with self.typed_errors(query):
                batch = next(reader, None)
            if batch is None:
                return
            yield batch

    def _explained(self, query: str, error: Exception) -> str:
        """Return one line on what is wrong with a query."""
        text = " ".join(str(error).partition("\n\nLINE")[0].split())
        for name in self._topics:
            if not name.isidentifier() and name in query and f'"{name}"' not in query:
                return f'{text.rstrip(".!")}; write the topic "{name}" in double quotes'
        if isinstance(error, duckdb.ParserException) and _BARE_OFFSET.search(query):
            return f'{text}; offset is a word of SQL: write the column as "offset"'
        if "Malformed JSON" in text:
            is_cast = r"\x22" in text  # how DuckDB casts a quotation mark in bytes
            return f"{text}; {_CAST_BYTES if is_cast else _NOT_JSON}"
        if isinstance(error, duckdb.CatalogException) and "Table with name" in text:
            more = ", ..." if len(self._topics) > _MOST_NAMES else ""
            names = ", ".join(self._topics[:_MOST_NAMES]) + more
            text = text.partition(" Did you mean")[0].removesuffix("!")
            meant = _named(text, SYSTEM_TABLES)
            if meant and f"{SCHEMA}." not in text:
                return f"{text}; did you mean {SCHEMA}.{meant[0]}?"
            return f"{text}; topics: {names or 'none'}; system tables: {SCHEMA}.topics, ..."
        return text
