"""``tidelog dump``: print files of a log, one line per entry."""

from __future__ import annotations

import os
from errno import EISDIR
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.options import ENCODING, Command, argument, range_options
from tidelog.cli.terminal import json_line, print_lines, print_message, printable_json
from tidelog.errors import InvalidArgument, TidelogError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from tidelog.explain.dump_log import Text
    from tidelog.explain.internal_records import InternalTopic

_DECODED: Final = {
    "offsets": "__consumer_offsets",
    "transactions": "__transaction_state",
    "share-groups": "__share_group_state",
    "metadata": "__cluster_metadata",
}
"""The topics whose records can be decoded, by the words of ``--decode``."""


COMMAND: Final = Command(
    "dump",
    "print files of a log as JSON lines",
    (
        argument(
            "files",
            metavar="FILE",
            nargs="+",
            help="a .log, .index, .timeindex, .txnindex, .snapshot or checkpoint file,"
            " meta.properties, partition.metadata or tidelog.topics.json",
        ),
        argument("--records", action="store_true", help="also print the records of a .log"),
        argument(
            "--decode",
            choices=(*_DECODED, "none"),
            help="print the records of a .log as what Kafka writes into this internal topic"
            " (default: by the name of the file's directory)",
        ),
        *range_options(
            "omit batches of a .log that end below this offset",
            "stop before this offset; a batch is printed whole if any of its offsets is in range",
        ),
        ENCODING,
    ),
)


def run(args: Namespace) -> int:
    """Print the files' entries as JSON lines; return 1 if one of them is damaged.

    Of several files, each line names its own. A file that is damaged ends with its error, and the
    next is printed.
    """
    is_damaged = False
    for path in args.files:
        named = {"file": path} if len(args.files) > 1 else {}
        damaged: list[object] = []
        try:
            print_lines(_lines(_rows_of(path, args), named, damaged))
        except InvalidArgument:
            raise
        except TidelogError as error:
            if len(args.files) == 1:
                raise
            print_message(args.command, str(error))
            is_damaged = True
        is_damaged |= bool(damaged)
    return int(is_damaged)


def _lines(
    rows: Iterator[dict[str, Any] | Text], named: dict[str, str], damaged: list[object]
) -> Iterator[Text]:
    """Yield each row as JSON, after what ``named`` has; add rows with damage to a list."""
    begin = json_line(named)[:-1] + ", " if named else "{"
    for row in rows:
        if isinstance(row, str):
            yield printable_json(begin + row[1:])
        elif isinstance(row, dict):
            yield json_line(named | row)
            if "error" in row or row.get("valid") is False:
                damaged.append(row)
        else:
            yield map(printable_json, chain([begin + next(row)[1:]], row))


def _rows_of(path: str, args: Namespace) -> Iterator[dict[str, Any] | Text]:
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.dump import dump_file, is_records_file
    from tidelog.explain.dump_log import dump_log
    from tidelog.readonly.read_files import reading
    from tidelog.records.json.json_record import Encoding

    files = reading(SYSTEM_FILES)
    if files.stat(path).is_directory:
        raise IsADirectoryError(EISDIR, "is a directory; give one of its files", path)
    if is_records_file(path):
        return dump_log(
            files,
            path,
            records=args.records,
            start_offset=args.start_offset or 0,
            end_offset=args.end_offset,
            encoding=Encoding(args.encoding),
            topic=_internal_topic(path, args.decode),
            as_text=True,
        )
    if args.records or args.start_offset is not None or args.end_offset is not None:
        raise InvalidArgument(
            f"{path} has no records; --records, --from and --to are for .log files"
        )
    return dump_file(files, path)


def _internal_topic(path: str, word: str | None) -> InternalTopic | None:
    """Return the internal topic whose records a file has, by ``--decode`` or by its directory."""
    from tidelog.explain.internal_records import InternalTopic

    if word is not None:
        return None if word == "none" else InternalTopic(_DECODED[word])
    directory = os.path.basename(os.path.dirname(os.path.abspath(path)))
    topic, _, number = directory.rpartition("-")
    return InternalTopic(topic) if topic in _DECODED.values() and number.isdigit() else None
