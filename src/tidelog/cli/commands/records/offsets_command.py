"""``tidelog offsets``: print a partition's offsets, its offset at a time, or count its records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.arguments import either, time_ms
from tidelog.cli.options import (
    OPTIONAL_TOPIC,
    PARTITION,
    PLACES,
    READ_COMMITTED,
    VISIBILITY,
    Command,
    argument,
    json_option,
    range_options,
    time_option,
)
from tidelog.cli.terminal import print_message
from tidelog.codec.shown_rows import as_json
from tidelog.errors import CorruptMessage, InvalidArgument

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.cli.partition_choice import Place
    from tidelog.readonly.missing.holes import Hole
    from tidelog.readonly.read_only_log import ReadOnlyLog

_TARGETS: Final = ("earliest", "latest", "max-timestamp")

COMMAND: Final = Command(
    "offsets",
    "print the offsets of each partition, or its offset at a time, as JSON lines",
    (
        *PLACES,
        OPTIONAL_TOPIC,
        PARTITION,
        time_option(
            "--at",
            "print one offset: earliest, latest, max-timestamp, or that of a TIME",
            metavar="WHEN",
            read=either(time_ms, *_TARGETS),
        ),
        argument(
            "--count",
            action="store_true",
            help="count records, aborted records, markers and gaps between two offsets",
        ),
        *range_options(
            "count from here, such as a consumer's position (default: the log start)",
            "count to here, exclusive (default: where reading ends)",
        ),
        *VISIBILITY,
        json_option("accepted for consistency: output is always JSON"),
    ),
)


def run(args: Namespace) -> int:
    """Print a JSON line a partition; return 1 if one is damaged, incomplete, or missing.

    Partitions that the catalogue lists and whose directories are missing are named on stderr.
    """
    from tidelog.cli.partition_choice import chosen_by
    from tidelog.records.isolation import ReadUpTo

    _check(args)
    topics = [] if args.topic is None else [args.topic]
    chosen = chosen_by(args, topics, may_be_empty=False)
    has_loss = chosen.report_missing(args.command)

    def answer_of(
        place: Place,
    ) -> tuple[dict[str, Any], CorruptMessage | None, tuple[Hole, ...]]:
        with chosen.open(place) as log:
            answer = (
                as_json(log.offsets(ReadUpTo(args.up_to)))
                if args.at is None
                else _offset_at(log, args)
            )
            damage = log.damage
            if args.count:
                try:
                    answer["count"] = _count(log, args)
                except CorruptMessage as error:
                    answer["count"], damage = None, error
            return answer, damage, chosen.directory.unexplained_holes(log)

    for place, (answer, damage, holes) in chosen.look_past_damage(args.command, answer_of):
        print(json.dumps({"topic": place.topic, "partition": place.partition, **answer}))
        has_loss |= chosen.report_holes(args.command, place, holes)
        if damage is not None:
            has_loss = True
            print_message(args.command, str(damage))
    return chosen.exit_code(has_loss=has_loss)


def _check(args: Namespace) -> None:
    if args.at is not None and args.count:
        raise InvalidArgument("--at prints one offset: use it without --count")
    if not args.count and (args.start_offset, args.end_offset) != (None, None):
        raise InvalidArgument("--from and --to say what to count: use them with --count")
    if args.isolation == READ_COMMITTED and args.at is None and not args.count:
        raise InvalidArgument("--isolation says where --at and --count end: use it with these")


def _end_for(log: ReadOnlyLog, args: Namespace) -> int:
    """Return where reading ends, by ``--up-to`` and ``--isolation``."""
    from tidelog.records.isolation import ReadUpTo

    up_to = ReadUpTo(args.up_to)
    is_committed = args.isolation == READ_COMMITTED
    return log.last_stable_offset(up_to) if is_committed else log.end_offset(up_to)


def _count(log: ReadOnlyLog, args: Namespace) -> dict[str, int]:
    start = log.log_start_offset if args.start_offset is None else args.start_offset
    end = _end_for(log, args) if args.end_offset is None else args.end_offset
    found = log.count_records(start, end)
    if found.gaps and found.gaps == end - start:
        from tidelog.cli.cat.empty_ranges import report_gaps

        report_gaps(args.command, log, start, end)
    return {"startOffset": start, "endOffset": end, **as_json(found)}


def _offset_at(log: ReadOnlyLog, args: Namespace) -> dict[str, Any]:
    from tidelog.explain.offset_at import OffsetAt
    from tidelog.log.reading.offset_lookup import OffsetTarget

    targets = {
        "earliest": OffsetTarget.EARLIEST,
        "latest": OffsetTarget.LATEST,
        "max-timestamp": OffsetTarget.MAX_TIMESTAMP,
    }
    found = log.offset_at(targets.get(args.at, args.at), _end_for(log, args))
    if found is None:
        return as_json(OffsetAt())
    timestamp = None if found.timestamp < 0 else found.timestamp
    return as_json(OffsetAt(found.offset, timestamp, found.leader_epoch))
