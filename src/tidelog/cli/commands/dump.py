"""``tidelog dump``: print any one file of a log, one line per entry."""

from __future__ import annotations

from errno import EISDIR
from typing import TYPE_CHECKING

from tidelog.cli.arguments import not_negative
from tidelog.cli.options import add_encoding, new_parser
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.options import Commands


def add_parser(commands: Commands) -> None:
    """Add ``tidelog dump`` to the command line."""
    parser = new_parser(commands, "dump", "print any one file of a log as JSON lines", run)
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a .log, .index, .timeindex, .txnindex, .snapshot or checkpoint file, meta.properties,"
        " partition.metadata or tidelog.topics.json",
    )
    parser.add_argument("--records", action="store_true", help="also print the records of a .log")
    parser.add_argument(
        "--from",
        type=not_negative,
        metavar="OFFSET",
        dest="start_offset",
        help="omit batches of a .log that end below this offset",
    )
    parser.add_argument(
        "--to",
        type=not_negative,
        metavar="OFFSET",
        dest="end_offset",
        help="stop before this offset; a batch is printed whole if any of its offsets is in range",
    )
    add_encoding(parser)


def run(args: Namespace) -> int:
    """Print the file's entries as JSON lines; return 1 if one of them is damaged."""
    from tidelog.cli.terminal import json_line
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.dump import dump_file, is_records_file
    from tidelog.explain.dump_log import dump_log
    from tidelog.records.json.json_record import Encoding

    if SYSTEM_FILES.stat(args.file).is_directory:
        raise IsADirectoryError(EISDIR, "is a directory; give one of its files", args.file)
    if is_records_file(args.file):
        rows = dump_log(
            SYSTEM_FILES,
            args.file,
            records=args.records,
            start_offset=args.start_offset or 0,
            end_offset=args.end_offset,
            encoding=Encoding(args.encoding),
        )
    elif args.records or args.start_offset is not None or args.end_offset is not None:
        raise InvalidArgument(
            f"{args.file} has no records; --records, --from and --to are for .log files"
        )
    else:
        rows = dump_file(SYSTEM_FILES, args.file)
    is_damaged = False
    for row in rows:
        print(json_line(row))
        is_damaged |= "error" in row or row.get("valid") is False
    return int(is_damaged)
