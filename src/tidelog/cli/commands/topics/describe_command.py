"""``tidelog describe``: show topics, their segments, sizes and offsets."""

from __future__ import annotations

import json
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import JSON, LOGS, SERVER_PROPERTIES, Command, argument
from tidelog.cli.serving.service_directories import offline_directories, report_offline
from tidelog.cli.terminal import print_message, screen_width, table
from tidelog.codec.shown_rows import as_json, list_as_json
from tidelog.errors import InvalidArgument
from tidelog.explain.printable_text import begun_by, counted, format_bytes, format_time, printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Sequence

    from tidelog.cli.partition_choice import Place
    from tidelog.datadir.log_dir_description import LogDirDescription
    from tidelog.explain.describe import LogFacts, SegmentFacts

_CONTENTS_COLUMNS = (
    *("base offset", "end offset", ".log", "batches", "records", "first time", "last time"),
    "batches by codec",
)
_COLUMNS = ("base offset", "end offset", ".log", ".index", ".timeindex", ".txnindex")


COMMAND: Final = Command(
    "describe",
    "show topics: segments, sizes, offsets, a picture",
    (
        *LOGS,
        argument(
            "--log-dirs",
            action="store_true",
            help="show the size of each log and the free space on the disk instead",
        ),
        argument(
            "--segments",
            action="store_true",
            help="show times, batches, records and codecs of each segment; reads all batch headers",
        ),
        SERVER_PROPERTIES,
        JSON,
    ),
)


def run(args: Namespace) -> int:
    """Print each topic's settings, and a picture and a table of segments for every chosen log.

    Returns 1 on damage, or if a segment, or a partition of the catalogue, is missing.
    """
    if args.log_dirs:
        if args.segments:
            raise InvalidArgument("--log-dirs shows no segments: leave --segments out")
        return _print_directories(args)
    from tidelog.cli.partition_choice import chosen_by
    from tidelog.explain.describe import describe_in
    from tidelog.explain.pictures.log_picture import picture_of_facts
    from tidelog.explain.pictures.text_picture import TextStyle, draw_text
    from tidelog.explain.transactional_ids import TransactionalIds

    style = TextStyle(screen_width())
    chosen = chosen_by(args)
    ids = TransactionalIds(chosen.directory)
    topics: list[str] = []

    facts_of = partial(describe_in, chosen.directory, ids=ids, with_contents=args.segments)

    def show(place: Place, facts: LogFacts) -> bool:
        if args.json:
            print(json.dumps(as_json(facts)))
            return facts.has_loss
        print("\n" if topics else "", end="")
        if place.topic not in topics:
            topics.append(place.topic)
            count = sum(other.topic == place.topic for other in chosen.places)
            print(_title(facts, count), end="\n\n")
        print(draw_text(picture_of_facts(facts), style) + _held_by(facts), end="")
        print(_contents_table(facts) if args.segments else _table(facts), end="")
        return facts.has_loss

    code = chosen.show_each(args, chosen.look_into(args.command, facts_of), show)
    chosen.report_pending(args.command)
    report_offline(args.command, offline_directories(chosen.directory.paths))
    chosen.report_missing(args.command)
    return code


def _print_directories(args: Namespace) -> int:
    """Print the data directories and their logs; return 1 if one cannot be read.

    Directories that their service has taken offline are printed on stderr.
    """
    from tidelog.cli.partition_choice import Named, chosen_by
    from tidelog.explain.describe_directory import describe_directory

    chosen = chosen_by(args, only_named=True)
    offline = offline_directories(chosen.directory.paths)
    report_offline(args.command, offline)
    has_failed = False
    for part in chosen.directory.parts:
        keys = chosen.directory.partitions_in(part)
        found = describe_directory(part, keys, Named(args.topics, args.partition).has)
        has_failed |= found.error is not None
        if args.json:
            print(json.dumps({**as_json(found), "offlineDirectories": list_as_json(offline)}))
        else:
            _print_directory(args.command, found)
    return int(has_failed)


def _print_directory(command: str, found: LogDirDescription) -> None:
    if found.error is not None:
        print_message(command, found.error)
        return
    usable, total = format_bytes(found.usable_bytes or 0), format_bytes(found.total_bytes or 0)
    logs = counted(len(found.replicas), "log")
    size = format_bytes(found.size_bytes)
    print(f"{printable(found.path)}: {logs}, {size}; {usable} of {total} usable")
    for replica in found.replicas:
        lag = "of unknown lag" if replica.offset_lag is None else f"{replica.offset_lag:,} behind"
        future = f", future log, {lag}" if replica.is_future else ""
        name = f"{replica.topic}-{replica.partition}"
        print(f"  {printable(name)}: {format_bytes(replica.size_bytes)}{future}")


def _title(facts: LogFacts, partitions: int) -> str:
    """Return what all partitions of a topic share."""
    from tidelog.datadir.known_setting import ConfigSource

    known = [printable(f"{key}={value}") for key, value in sorted(facts.config.items())]
    inherited = _inherited_lines(facts)
    if not known:
        is_broker = any(
            one.source != ConfigSource.BIRTH for one in facts.inherited_settings.values()
        )
        known = ["settings of its broker" if is_broker else "no settings of its own"]
    title = (
        f"{printable(facts.topic)}: {counted(partitions, 'partition')},"
        f" id {facts.topic_id or 'unknown'}; {', '.join(known)}"
    )
    lines = [title, *inherited]
    if facts.unknown_settings:
        unknown = ", ".join(facts.unknown_settings)
        lines.append(f"  {unknown} unknown, so nothing is deleted by them")
    return "\n".join(lines)


def _inherited_lines(facts: LogFacts) -> list[str]:
    """Return a line for each place from which the topic has settings that are not its own."""
    from tidelog.explain.setting_sources import inherited_settings

    return [
        f"  {place}: {', '.join(printable(f'{one.name}={one.value}') for one in found)}"
        for place, found in groupby(inherited_settings(facts), key=attrgetter("place"))
    ]


def _held_by(facts: LogFacts) -> str:
    """Return a line about what holds the last stable offset below the high watermark, if known."""
    held_by = facts.last_stable_offset_held_by
    if held_by is None:
        return ""
    stable = facts.last_stable_offset
    return f"  last stable offset {stable:,}, held by {begun_by(*held_by)}\n"


def _table(facts: LogFacts) -> str:
    """Return a table of segments, with the sizes of their files."""
    rows = [_COLUMNS]
    rows += [
        (
            f"{segment.base_offset:,}",
            f"{segment.end_offset:,}",
            format_bytes(segment.log_bytes),
            format_bytes(segment.index_bytes),
            format_bytes(segment.time_index_bytes),
            format_bytes(segment.txn_index_bytes),
        )
        for segment in facts.segments
    ]
    return _placed(facts.segments, rows)


def _contents_table(facts: LogFacts) -> str:
    """Return a table of segments that were read, with what they hold."""
    read = [(one, one.contents) for one in facts.segments if one.contents is not None]
    rows: list[tuple[str, ...]] = [_CONTENTS_COLUMNS]
    rows += [
        (
            f"{segment.base_offset:,}",
            f"{segment.end_offset:,}",
            format_bytes(segment.log_bytes),
            f"{one.batches:,}" + ("" if one.is_whole else " +damage"),
            f"{one.records:,}",
            *(format_time(ms) if ms >= 0 else "" for ms in (one.min_timestamp, one.max_timestamp)),
            ", ".join(f"{name} {count:,}" for name, count in one.codecs.items()),
        )
        for segment, one in read
    ]
    return _placed([segment for segment, _ in read], rows)


def _placed(segments: Iterable[SegmentFacts], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table of segments, marking those that only the archive has."""
    on_disk = [True, *(segment.is_on_disk for segment in segments)]
    marked = zip(table(rows).splitlines(), on_disk, strict=True)
    return "".join(f"{line}{'' if here else '  in the archive only'}\n" for line, here in marked)
