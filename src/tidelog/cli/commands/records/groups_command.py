"""``tidelog groups``: where consumer groups are in their partitions, and how far behind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import either, time_ms, whole
from tidelog.cli.options import (
    DIRECTORIES,
    JSON,
    LOG_END,
    UP_TO,
    Command,
    argument,
    partition_option,
    time_option,
)
from tidelog.cli.terminal import print_counts, print_message, table
from tidelog.codec.shown_rows import as_json
from tidelog.errors import InvalidArgument
from tidelog.explain.printable_text import format_time, printable

if TYPE_CHECKING:
    from argparse import Namespace

    from tidelog.explain.groups import GroupPosition
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory

COMMAND: Final = Command(
    "groups",
    "show the committed positions of consumer groups and their lag; reset or delete them",
    (
        *DIRECTORIES,
        argument(
            "groups",
            metavar="GROUP",
            nargs="*",
            help="only these groups (default: all); after the word reset or delete: see below",
        ),
        time_option(
            "--to",
            "reset: set the positions to here: earliest, latest, current (moves only what is beyond"
            " the end of its log, or below its start, there), or the first offset of a TIME",
            metavar="WHERE",
            read=either(time_ms, "earliest", "latest", "current"),
        ),
        argument(
            "--to-offset",
            type=whole(),
            metavar="OFFSET",
            help="reset: set the positions to this offset",
        ),
        partition_option("reset: only this partition of each topic (default: all)"),
        argument(
            "--members",
            action="store_true",
            help="show who has the groups, and which partitions, as the process that holds the"
            " directory knows it",
        ),
        argument(
            "--execute",
            action="store_true",
            help="reset, delete: do it, instead of printing what would be done",
        ),
        UP_TO,
        JSON,
    ),
    epilog="High watermarks, also that up to which positions are read, are read from checkpoints.\n"
    "A tidelog process that writes the logs renews these when they are read, Kafka every 5 s.\n"
    "With --up-to logEnd the log end takes their place, for positions and for the lag.\n"
    "groups reset GROUP [TOPIC...] --to WHERE: print the positions that a group would\n"
    "get in the partitions where it has some, or in all of these topics; --execute sets them.\n"
    "After a log was restored or lost its end: groups reset GROUP --to current.\n"
    "groups delete GROUP...: print the positions that these groups have; --execute deletes\n"
    "them and the groups. A group that has members, or a reader, is neither set nor deleted.",
)


def run(args: Namespace) -> int:
    """Print a line for each position; return 2 for a group that has none, nor partitions.

    With ``reset`` or ``delete`` as the first of several words, plan or carry that out.
    """
    word, *names = args.groups or [""]
    is_reset = args.to is not None or args.to_offset is not None
    if args.to is not None and args.to_offset is not None:
        raise InvalidArgument("--to and --to-offset both say where: give one of them")
    chooses = is_reset or args.partition is not None
    changes = word == "delete" or (word == "reset" and is_reset)
    if names and changes and not args.members:
        from tidelog.cli.commands.records import groups_change

        if args.up_to == LOG_END:
            raise InvalidArgument("--up-to is for the list of positions")
        if args.allow_partial:
            raise InvalidArgument(f"groups {word} takes whole topics: leave --allow-partial out")
        if word == "reset":
            return groups_change.reset(args, names)
        if chooses:
            raise InvalidArgument("groups delete deletes all positions: leave out --to and -p")
        return groups_change.delete(args, names)
    if chooses or args.execute:
        raise InvalidArgument(
            "--to, --to-offset, -p and --execute belong to groups reset and delete"
        )
    if args.members:
        if args.allow_partial or args.up_to == LOG_END:
            raise InvalidArgument("--allow-partial and --up-to are for positions: leave them out")
        from tidelog.cli.commands.records.groups_members import print_members

        return print_members(args)
    return _list(args)


def _list(args: Namespace) -> int:
    from tidelog.env.system_files import SYSTEM_FILES
    from tidelog.explain.groups import group_positions
    from tidelog.readonly.absent_partitions import BY_FLAG
    from tidelog.readonly.read_only_directory import open_directory_read_only
    from tidelog.records.isolation import ReadUpTo

    accept = None if args.allow_partial else BY_FLAG
    directory = open_directory_read_only(
        *args.directories, fs=SYSTEM_FILES, accept=accept, asks_holder=True
    )
    found = group_positions(directory, args.groups or None, up_to=ReadUpTo(args.up_to))
    missing = sorted(set(args.groups) - {one.group for one in found})
    if args.groups[1:] and args.groups[0] == "reset" and "reset" in missing:
        raise InvalidArgument("groups reset needs --to WHERE or --to-offset OFFSET")
    if missing:
        text = f"{directory.name} has no positions of group {', '.join(missing)}"
        raise InvalidArgument(text + _recent(directory))
    if args.json:
        for one in found:
            print(json.dumps(as_json(one)))
        print_counts(args, groups=len({one.group for one in found}), positions=len(found))
    elif found:
        print(table([_columns(args.up_to), *map(_row, found)], names=2), end="")
        _report_beyond(found)
        _report_others(found)
    else:
        text = f"no group has committed a position in {directory.name}"
        print_message("groups", text + _recent(directory))
    return 0


def _report_beyond(found: list[GroupPosition]) -> None:
    count = sum(one.lag is not None and one.lag < 0 for one in found)
    if count:
        what = "position is" if count == 1 else "positions are"
        logs = "its log, which was" if count == 1 else "their logs, which were"
        has = "has" if count == 1 else "have"
        print_message(
            "groups",
            f"{count} {what} beyond the end of {logs} restored or {has} lost records: see tidelog"
            " groups reset GROUP --to current",
        )


def _report_others(found: list[GroupPosition]) -> None:
    count = sum(one.is_of_another_topic for one in found)
    if count:
        what = "position is of another topic of its name, which was deleted, or restored"
        if count > 1:
            what = "positions are of other topics of their names, which were deleted, or restored"
        counts = "does not count" if count == 1 else "do not count"
        print_message(
            "groups",
            f"{count} {what} without --keep-ids, and {counts}: tidelog groups reset GROUP"
            " --to current keeps each after a restore, --to earliest begins a new topic",
        )


def _recent(directory: ReadOnlyDirectory) -> str:
    """Return, while a process writes the directory, when what it commits is seen in the files."""
    from tidelog.datadir.lock_file import has_writer
    from tidelog.env.unix_sockets import is_listened_in

    # One that listens was asked to write them down; Kafka cannot be asked.
    if not any(has_writer(path) and not is_listened_in(path) for path in directory.paths):
        return ""
    return "; the process that writes it shows new positions after some seconds: try again"


def _columns(up_to: str) -> tuple[str, ...]:
    end = "log end" if up_to == LOG_END else "high watermark"
    return ("group", "partition", "offset", end, "lag", "committed")


def _row(one: GroupPosition) -> tuple[str, ...]:
    high_watermark = "unknown" if one.high_watermark is None else f"{one.high_watermark:,}"
    if one.is_of_another_topic:
        high_watermark = "another topic"
    who = printable(one.group), printable(str(one.key))
    if one.offset is None:  # as Kafka's tool shows it
        return (*who, "-", high_watermark, "-", "-")
    lag = "unknown" if one.lag is None else f"{one.lag:,}"
    return (*who, f"{one.offset:,}", high_watermark, lag, format_time(one.commit_time_ms))
