"""``tidelog table``: print a system table: segments, batches, producers, plans and more."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import (
    LOGS,
    NOW,
    SERVER_PROPERTIES,
    SETTINGS,
    Command,
    argument,
    json_option,
)
from tidelog.cli.terminal import print_counts, print_message
from tidelog.cli.terminal import table as aligned
from tidelog.errors import CorruptMessage, InvalidArgument, InvalidRecord
from tidelog.explain.printable_text import format_time, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from tidelog.errors import TidelogError
    from tidelog.explain.tables.system_table import Column, Row, SystemTable
    from tidelog.segment.filenames import TopicPartition

TABLES: Final = (
    "topics",
    "partitions",
    "segments",
    "batches",
    "producers",
    "transactions",
    "gaps",
    "epochs",
    "checkpoints",
    "groups",
    "keys",
    "findings",
    "plan_retention",
    "plan_compaction",
)
"""The names of the system tables, here too so that ``--help`` loads none of them."""

_PAGE_ROWS: Final = 1000
"""Rows whose columns are aligned with one another."""


COMMAND: Final = Command(
    "table",
    "print a system table, one row per line",
    (
        argument("table", metavar="TABLE", choices=TABLES, help=", ".join(TABLES)),
        *LOGS,
        NOW,
        SETTINGS,
        SERVER_PROPERTIES,
        json_option("print each row as JSON; times are in ms since 1970-01-01"),
    ),
)


def run(args: Namespace) -> int:
    """Print the rows about the chosen partitions; return 1 if damage hides some."""
    from tidelog.cli.operations import clock_of
    from tidelog.cli.partition_choice import chosen_by
    from tidelog.explain.tables.system_table import TableSource
    from tidelog.explain.tables.system_tables import system_table

    chosen = chosen_by(args)
    source = TableSource(chosen.directory, clock=clock_of(args), overrides=dict(args.options))
    table = system_table(args.table)
    keys = [place.key for place in chosen.places]
    is_whole = set(keys) == set(source.directory.partitions)
    has_loss = chosen.report_missing(args.command)

    def report(key: TopicPartition, error: TidelogError) -> None:
        nonlocal has_loss
        has_loss = True
        print_message(args.command, f"{key}: {error}")

    rows = table.rows(source, None if is_whole else keys, report)
    try:
        _print(args, table, rows)
    except (CorruptMessage, InvalidArgument, InvalidRecord) as error:
        print_message(args.command, str(error))
        has_loss = True
    return int(has_loss)


def _print(args: Namespace, table: SystemTable, rows: Iterator[Row]) -> None:
    if args.json:
        names = [column.name for column in table.columns]
        count = 0
        for row in rows:
            print(json.dumps(dict(zip(names, row, strict=True))))
            count += 1
        print_counts(args, rows=count)
        return
    title = tuple(column.name for column in table.columns)
    is_first = True
    for page in iter(lambda: list(islice(rows, _PAGE_ROWS)), []):
        lines = [tuple(map(_cell, table.columns, row)) for row in page]
        print(aligned([title, *lines], names=_leading_texts(table)), end="")
        is_first = False
    if is_first:
        print(aligned([title], names=_leading_texts(table)), end="")


def _leading_texts(table: SystemTable) -> int:
    """Return how many columns at the front are aligned to the left: up to the last text."""
    from tidelog.explain.tables.system_table import ColumnType

    texts = (number for number, one in enumerate(table.columns) if one.type is ColumnType.TEXT)
    return next(texts, 0) + 1


def _cell(column: Column, value: Any) -> str:  # noqa: ANN401 - any of the types of columns
    from tidelog.explain.tables.system_table import ColumnType

    if value is None:
        return "-"
    if column.type is ColumnType.TIME:
        return format_time(value)
    if column.type in {ColumnType.INT, ColumnType.LONG} and not column.is_identifier:
        return f"{value:,}"
    if column.type is ColumnType.DOUBLE:
        return f"{value:.3f}"
    if column.type is ColumnType.BOOLEAN:
        return "yes" if value else "no"
    if isinstance(value, dict):
        return printable(",".join(f"{key}={one}" for key, one in value.items())) or "-"
    return printable(str(value))
