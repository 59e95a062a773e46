"""``tidelog groups reset`` and ``delete``: set a group's positions, or delete them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidelog.cli.commands.records.groups_members import check_no_members
from tidelog.cli.terminal import print_line, print_message, table
from tidelog.codec.shown_rows import as_json
from tidelog.codec.text import check_group
from tidelog.embedded.group_commits import commit_positions, delete_group, directory_of_group
from tidelog.env.paths import absolute_path
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument, UnknownTopicOrPartition
from tidelog.explain.groups import ChangedPosition, group_positions, undecided_positions
from tidelog.explain.printable_text import format_time, printable
from tidelog.readonly.absent_partitions import BY_NOTHING
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping

    from tidelog.explain.groups import GroupPosition
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.readonly.read_only_log import ReadOnlyLog


def reset(args: Namespace, names: list[str]) -> int:
    """Set the positions of a group, or print what they would be set to."""
    group, *topics = names
    check_group(group)
    directory = _opened(args)
    found = {one.key: one for one in _positions(directory, [group])}
    known = {key: one.offset for key, one in found.items()}
    rows = []
    for key in _keys_to_reset(directory, group, topics, known, args):
        with directory.open(*key) as log:
            before = known.get(key)
            rows.append(ChangedPosition(group, *key, before, _target(log, args, before)))
    for one in rows:
        key = TopicPartition(one.topic, one.partition)
        if args.to == "current" and found[key].is_of_another_topic:
            text = f"the position in {key} is of another topic of its name, and counts in this one"
            print_message("groups", printable(f"{text} then; --to earliest begins this one"))
    if args.execute:
        # One that stays where it is keeps its leader epoch, from which a client sees a loss.
        stays = {
            ChangedPosition(group, *key, one.offset, one.offset)
            for key, one in found.items()
            if args.to == "current" and not one.is_of_another_topic
        }
        offsets = {
            TopicPartition(one.topic, one.partition): one.new_offset
            for one in rows
            if one.new_offset is not None and one not in stays
        }
        if offsets:
            commit_positions(_home(args, group), group, offsets)
    return _print(args, rows)


def _keys_to_reset(
    directory: ReadOnlyDirectory,
    group: str,
    topics: list[str],
    known: Mapping[TopicPartition, int | None],
    args: Namespace,
) -> list[TopicPartition]:
    number: int | None = args.partition
    keys = (
        _partitions_of(directory, topics, number) if topics else _present(directory, known, number)
    )
    found = [
        key
        for key in keys
        if number in {None, key.partition} and (args.to != "current" or key in known)
    ]
    if not found:
        check_no_members(args, [group])
        of = f" in {', '.join(topics)}" if topics else ""
        where = "" if number is None else f" in a partition {number}"
        more = "" if args.to == "current" else ": name the topics to set some in"
        raise InvalidArgument(
            f"{directory.name} has no positions of group {group}{of or where}{more}"
        )
    return found


def _present(
    directory: ReadOnlyDirectory, known: Iterable[TopicPartition], number: int | None
) -> list[TopicPartition]:
    """Return the partitions that are there; a topic may be deleted, or not be restored."""
    wanted = [key for key in known if number in {None, key.partition}]
    there = set(directory.partitions)
    directory.check_present({topic: None for topic, _ in wanted if topic in directory.topic_names})
    for key in wanted:
        if key not in there:
            text = f"{directory.name} has no partition {key}: its position stays as it is"
            print_message("groups", text)
    return [key for key in wanted if key in there]


def delete(args: Namespace, names: list[str]) -> int:
    """Delete groups with all their positions, or print which they are.

    If one is not deleted, those before it are printed, and the error is raised.
    """
    directory = _opened(args)
    known = {(one.group, one.key): one.offset for one in _positions(directory, names)}
    # Also those that open transactions set: else a commit would bring a part of them back.
    found = known.keys() | undecided_positions(directory, names)
    missing = sorted(set(names) - {group for group, _ in found})
    if missing:
        check_no_members(args, missing)
        raise InvalidArgument(f"{directory.name} has no positions of group {', '.join(missing)}")
    rows = [ChangedPosition(one, *key, known.get((one, key)), None) for one, key in sorted(found)]
    if not args.execute:
        return _print(args, rows)
    deleted: list[ChangedPosition] = []
    try:
        for group in dict.fromkeys(names):
            keys = [key for one, key in found if one == group]
            delete_group(_home(args, group), group, keys)
            deleted += [one for one in rows if one.group == group]
    finally:
        if deleted:
            _print(args, deleted)
    return 0


def _opened(args: Namespace) -> ReadOnlyDirectory:
    return open_directory_read_only(*args.directories, fs=SYSTEM_FILES, accept=BY_NOTHING)


def _positions(directory: ReadOnlyDirectory, groups: list[str]) -> list[GroupPosition]:
    return group_positions(directory, groups, only_committed=True)


def _partitions_of(
    directory: ReadOnlyDirectory, topics: list[str], number: int | None
) -> list[TopicPartition]:
    directory.check_present(dict.fromkeys(topics, None if number is None else [number]))
    found = []
    for topic in dict.fromkeys(topics):
        there = sorted(directory.topic(topic).partitions)
        if number is not None and number not in there:
            raise UnknownTopicOrPartition(f"{directory.name} has no partition {topic}-{number}")
        found += [TopicPartition(topic, one) for one in there if number in {None, one}]
    return found


def _target(log: ReadOnlyLog, args: Namespace, before: int | None) -> int:
    start, end = log.log_start_offset, log.log_end_offset
    if args.to == "current" and before is not None:
        return min(max(before, start), end)
    if args.to_offset is not None:
        offset: int = args.to_offset
        if not start <= offset <= end:
            name = f"{log.topic}-{log.partition}"
            raise InvalidArgument(f"{name} has offsets from {start} to {end}, and not {offset}")
        return offset
    if args.to == "earliest":
        return start
    if args.to == "latest":
        return end
    found = log.offset_at(args.to, end)
    if found is not None:
        return found.offset
    time = format_time(args.to)
    text = f"{log.topic}-{log.partition} has no record at or after {time}: its position is the end"
    print_message(args.command, printable(text))
    return end


def _home(args: Namespace, group: str) -> str:
    """Return the data directory that has, or is to have, the positions of a group."""
    return directory_of_group([absolute_path(one) for one in args.directories], group)


def _print(args: Namespace, rows: list[ChangedPosition]) -> int:
    if args.json:
        for one in rows:
            print_line(json.dumps({**as_json(one), "executed": args.execute}))
        return 0
    lines = [("group", "partition", "position", "set to" if args.execute else "would be set to")]
    for one in rows:
        before = "none" if one.offset is None else f"{one.offset:,}"
        after = "deleted" if one.new_offset is None else f"{one.new_offset:,}"
        lines.append(
            (printable(one.group), printable(f"{one.topic}-{one.partition}"), before, after)
        )
    print(table(lines, names=2), end="")
    if not args.execute:
        print_line("nothing was changed; --execute does it")
    return 0
