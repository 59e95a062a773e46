"""``tidelog cat``: print a topic's records as JSON lines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from tidelog.cli.follow import follow
from tidelog.cli.parser import READ_COMMITTED
from tidelog.cli.partition_choice import find_places
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument
from tidelog.readonly.read_only_log import ReadUpTo, open_read_only
from tidelog.records.json.json_lines import JsonLines
from tidelog.records.json.json_record import Encoding

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from tidelog.cli.partition_choice import Place
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.record_columns import RecordColumns


def run(args: Namespace) -> int:
    """Print the records in offset order, one partition after the other."""
    topics = [] if args.topic is None else [args.topic]
    places = find_places(SYSTEM_FILES, args.directory, topics, args.partition)
    if args.follow and args.limit is not None:
        raise InvalidArgument("--follow has no end, and --limit sets one")
    if args.topic is None and len({place.topic for place in places}) > 1:
        raise InvalidArgument(f"{args.directory} holds several topics; name one")
    if args.follow:
        for _ in follow(places, lambda place, log, start: _print(place, log, args, start)):
            sys.stdout.flush()
    for place in places:
        with open_read_only(place.path, fs=SYSTEM_FILES) as log:
            _print(place, log, args)
    return 0


def _print(place: Place, log: ReadOnlyLog, args: Namespace, next_offset: int | None = None) -> int:
    """Print records from ``next_offset`` (None: where the user said) on; return where to go on."""
    end = log.end_offset(ReadUpTo(args.up_to))
    if not args.follow:
        _tell_what_is_left_out(log, end, args.start_offset)
    if args.isolation == READ_COMMITTED:
        end = log.last_stable_offset(ReadUpTo(args.up_to))
    first = args.start_offset or 0 if next_offset is None else next_offset
    lines = JsonLines(place.topic, place.partition, Encoding(args.encoding))
    sys.stdout.flush()
    for columns in _chosen(log, first, end, args):
        for piece in lines.pieces(columns):
            sys.stdout.buffer.write(piece)
    return max(first, end)


def _chosen(log: ReadOnlyLog, first: int, end: int, args: Namespace) -> Iterator[RecordColumns]:
    """Yield the records that the user wants, at most so many as they want."""
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


def _tell_what_is_left_out(log: ReadOnlyLog, end: int, start: int | None) -> None:
    """Say on stderr why there may be fewer records than the user expects."""
    name = f"{log.topic}-{log.partition}"
    above = log.log_end_offset - end
    if above:
        _tell(
            f"{name} holds {above} offsets above its high watermark {end};"
            " --up-to logEnd shows them"
        )
    if start is None:
        return
    if start > log.log_end_offset:
        _tell(f"{name} ends at {log.log_end_offset}: there is nothing from {start} on")
    elif start < log.log_start_offset:
        _tell(f"{name} begins at {log.log_start_offset}: offsets from {start} on were deleted")


def _tell(text: str) -> None:
    sys.stdout.flush()
    print(f"tidelog cat: {text}", file=sys.stderr)
