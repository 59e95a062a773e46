"""``tidelog sql``: query topics and system tables."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import DIRECTORIES, OUTPUT, VISIBILITY, Command, argument
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.readonly.missing.damaged_range import DamagedRange

_TABLES: Final = """\
QUERY: one SELECT of DuckDB's SQL, or - to read it from standard input. A topic is a table
with the columns key, value, topic, partition, "offset", timestamp, "timestampType" and
headers; a name with dots or dashes needs double quotes, as "offset" does, which is a word
of SQL. Keys and values are bytes: decode(value) is a text, decode(value)->>'$.a' a member
of a JSON object. A value that is not JSON ends the query: WHERE NOT json_valid(decode(value))
finds such records, and TRY(decode(value)->>'$.a') is null for them. The system tables of
"tidelog table" are there as tidelog.partitions,
tidelog.segments and so on. A query reaches no file, no network and no other directory.

FORMAT: text aligns columns; json prints a line a row; csv begins with a line of names;
arrow is an Arrow IPC stream and parquet a Parquet file. Times are in UTC. Bytes that are
not UTF-8 are printed as \\xff in text and csv; in JSON they are in base64, and the line
says of which columns.

It needs the extra tidelog[sql]."""

COMMAND: Final = Command(
    "sql",
    "query topics and system tables, with DuckDB",
    (
        *DIRECTORIES,
        argument("query", metavar="QUERY"),
        *VISIBILITY,
        argument(
            "--skip-damage",
            action="store_true",
            help="continue after damage, and print to standard error what is skipped; exit with 1"
            " if there is any",
        ),
        argument(
            "--format",
            choices=("text", "json", "csv", "arrow", "parquet"),
            default="text",
            help="how rows are printed (default text)",
        ),
        *OUTPUT,
    ),
    epilog=_TABLES,
)


def run(args: Namespace) -> int:
    """Print the rows that the query gives; return 1 if ``--skip-damage`` has skipped something."""
    from tidelog.cli.cat.record_forms import check_terminal
    from tidelog.cli.cat.unread_records import report_skipped
    from tidelog.cli.output_file import opened_output
    from tidelog.cli.sql.answer_forms import open_form
    from tidelog.cli.sql.query import Visible, answered
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.readonly.absent_partitions import BY_FLAG
    from tidelog.readonly.read_only_directory import open_directory_read_only

    check_terminal(args.format, args.output)
    query = _query(args)
    accept = None if args.allow_partial else BY_FLAG
    directory = open_directory_read_only(
        *args.directories, fs=SYSTEM_FILES, accept=accept, asks_holder=True
    )
    skipped: set[DamagedRange | str] = set()
    on_damage = partial(report_skipped, args.command, skipped) if args.skip_damage else None
    visible = Visible(args.isolation, args.up_to, args.allow_partial, on_damage)
    with answered(directory, query, visible) as answer:
        form = open_form(args.format, answer.schema)
        with opened_output(args, form) as write:
            for batch in answer.batches:
                write(form.rows(batch))
    return int(bool(skipped))


def _query(args: Namespace) -> str:
    """Return the query; raise InvalidArgument if it is not UTF-8."""
    text: str = args.query
    given = sys.stdin.buffer.read() if text == "-" else text.encode(errors="surrogateescape")
    try:
        return given.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"the query is not UTF-8: {error.reason} at byte {error.start}"
        ) from None
