"""``tidelog cat``: print a topic's records as JSON lines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tidelog.cli.arguments import not_negative, time_ms
from tidelog.cli.options import (
    READ_COMMITTED,
    TIME_FORMAT,
    add_directory,
    add_encoding,
    add_optional_topic,
    add_partition,
    add_visibility,
    new_parser,
)
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from tidelog.cli.options import Commands
    from tidelog.cli.partition_choice import Place
    from tidelog.readonly.damaged_range import DamagedRange, OnDamage
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.record_columns import RecordColumns


def add_parser(commands: Commands) -> None:
    """Add ``tidelog cat`` to the command line."""
    text = "print a topic's records as JSON lines"
    parser = new_parser(commands, "cat", text, run, epilog=TIME_FORMAT)
    add_optional_topic(parser)
    add_directory(parser, may_be_partition=True)
    add_partition(parser)
    parser.add_argument(
        "--from", type=not_negative, metavar="OFFSET", dest="start_offset", help="first offset"
    )
    parser.add_argument(
        "--to", type=not_negative, metavar="OFFSET", dest="end_offset", help="end offset, exclusive"
    )
    parser.add_argument(
        "--since",
        type=time_ms,
        metavar="TIME",
        help="only records with this timestamp or a later one",
    )
    parser.add_argument(
        "--until", type=time_ms, metavar="TIME", help="only records with an earlier timestamp"
    )
    add_visibility(parser)
    parser.add_argument(
        "-n", "--limit", type=not_negative, metavar="N", help="at most N records of each partition"
    )
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="keep printing records as they are appended, until Ctrl-C",
    )
    parser.add_argument(
        "--skip-damage",
        action="store_true",
        help="continue after damage, and print what is skipped to standard error; exit with 1 if"
        " anything is skipped",
    )
    add_encoding(parser)


def run(args: Namespace) -> int:
    """Print the records in offset order, one partition after the other.

    Partitions that the catalogue lists and whose directories are missing are named on stderr;
    returns 1 then, if a segment is missing, or if ``--skip-damage`` has skipped something.
    """
    from tidelog.cli.partition_choice import choose_partitions
    from tidelog.env.system_files import SYSTEM_FILES

    topics = [] if args.topic is None else [args.topic]
    chosen = choose_partitions(SYSTEM_FILES, args.directory, topics, args.partition)
    places = chosen.places
    if args.follow and args.limit is not None:
        raise InvalidArgument("--follow has no end, and --limit sets one")
    if args.follow and args.skip_damage:
        raise InvalidArgument("--follow does not skip damage: leave out --skip-damage")
    if args.topic is None and len({place.topic for place in places}) > 1:
        raise InvalidArgument(f"{args.directory} holds several topics; name one")
    has_loss = chosen.report_missing(args.command)
    if args.follow and places:
        from tidelog.cli.follow import follow

        for _ in follow(places, lambda place, log, start: _print(place, log, args, start)):
            sys.stdout.flush()
    skipped: list[DamagedRange] = []
    for place in places:
        with chosen.open(place, _reporting(skipped) if args.skip_damage else None) as log:
            _print(place, log, args)
            holes = chosen.directory.unexplained_holes(log, log.holes)
            has_loss |= chosen.report_holes(args.command, place, holes)
    return int(has_loss or bool(skipped))


def _reporting(skipped: list[DamagedRange]) -> OnDamage:
    """Return what prints each damaged range on stderr, and adds it to ``skipped``."""
    from tidelog.cli.terminal import print_message

    def report(found: DamagedRange) -> None:
        skipped.append(found)
        sys.stdout.buffer.flush()
        print_message("cat", f"skipped {found}")

    return report


def _print(place: Place, log: ReadOnlyLog, args: Namespace, next_offset: int | None = None) -> int:
    """Print records from ``next_offset`` (None: ``--from``); return where to continue."""
    from tidelog.readonly.read_only_log import ReadUpTo
    from tidelog.records.json.json_lines import JsonLines
    from tidelog.records.json.json_record import Encoding

    end = log.end_offset(ReadUpTo(args.up_to))
    if not args.follow:
        _explain_omissions(log, end, args.start_offset)
    if args.isolation == READ_COMMITTED:
        end = log.last_stable_offset(ReadUpTo(args.up_to))
    first = args.start_offset or 0 if next_offset is None else next_offset
    if next_offset is not None and next_offset < log.log_start_offset:
        _report_deleted(log, next_offset)
    lines = JsonLines(place.topic, place.partition, Encoding(args.encoding))
    sys.stdout.flush()
    for columns in _chosen(log, first, end, args):
        for piece in lines.pieces(columns):
            sys.stdout.buffer.write(piece)
    return max(first, end)


def _report_deleted(log: ReadOnlyLog, next_offset: int) -> None:
    """Print on stderr that records were deleted before ``--follow`` came to them."""
    from tidelog.cli.terminal import print_message

    offsets = f"offsets {next_offset} to {log.log_start_offset - 1}"
    print_message(
        "cat", f"{log.topic}-{log.partition}: {offsets} were deleted before they were printed"
    )


def _chosen(log: ReadOnlyLog, first: int, end: int, args: Namespace) -> Iterator[RecordColumns]:
    """Yield the records that the options select, at most ``--limit`` of them."""
    import numpy as np

    start = max(first, log.log_start_offset)
    stop = end if args.end_offset is None else min(args.end_offset, end)
    committed = args.isolation == READ_COMMITTED
    left = args.limit
    if left == 0:
        return
    for found in log.columns(start, stop, since_ms=args.since, committed=committed):
        early = found if args.until is None else found.select(found.timestamp < args.until)
        yield early if left is None else early.select(np.arange(len(early))[:left])
        if left is not None:
            left -= len(early)
            if left <= 0:
                return


def _explain_omissions(log: ReadOnlyLog, end: int, start: int | None) -> None:
    """Print to standard error why there may be fewer records than expected."""
    from tidelog.cli.terminal import print_message

    name = f"{log.topic}-{log.partition}"
    above = log.log_end_offset - end
    if above:
        print_message(
            "cat",
            f"{name} has {above} offsets above its high watermark {end};"
            " use --up-to logEnd to print them",
        )
    if start is None:
        return
    if start > log.log_end_offset:
        print_message("cat", f"{name} ends at {log.log_end_offset}, before offset {start}")
    elif start < log.log_start_offset:
        first = log.log_start_offset
        print_message("cat", f"{name} begins at {first}; earlier offsets were deleted")
