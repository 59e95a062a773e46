"""``tidelog groups --members``: who has a group, as the process that holds the directory knows it.

Kafka: ``kafka-consumer-groups --describe --members``.
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.terminal import print_line, print_message, table
from tidelog.codec.shown_rows import as_json
from tidelog.datadir.lock_file import has_writer
from tidelog.embedded.door_client import DoorClient, check_answer
from tidelog.env.paths import absolute_path
from tidelog.env.unix_sockets import is_listened_in
from tidelog.errors import InvalidArgument, NonEmptyGroup
from tidelog.explain.groups import ShownMember
from tidelog.explain.printable_text import printable
from tidelog.readonly.group_positions import assigned_partitions

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

_COLUMNS: Final = ("group", "state", "member", "client", "host", "partitions")
_PROTOCOLS: Final = ("consumer", "")
"""Whose assignments are read; readers in Python have none."""
_UNKNOWN: Final = "Dead"


def print_members(args: Namespace) -> int:
    """Print a line for each member, and one for each group that has none."""
    rows: dict[ShownMember, None] = {}
    is_held = False
    for one in args.directories:
        path = absolute_path(one)
        if has_writer(path):
            is_held = True
            # One process that holds several directories knows all their groups at each.
            rows |= dict.fromkeys(_asked(path, args.groups))
        else:
            print_message("groups", f"no process holds {path}, so no group there has members")
    missing = sorted({one.group for one in rows if one.state == _UNKNOWN})
    if missing:
        raise InvalidArgument(f"there is no group {', '.join(missing)}")
    if args.json:
        for row in rows:
            print_line(json.dumps(as_json(row)))
    elif rows:
        print(table([_COLUMNS, *map(_line, rows)], names=len(_COLUMNS)), end="")
    elif is_held:
        print_message("groups", "no group has members or positions")
    return 0


def check_no_members(args: Namespace, groups: list[str]) -> None:
    """Raise NonEmptyGroup if one of some groups has members, as far as a process can be asked."""
    for path in map(absolute_path, args.directories):
        if is_listened_in(path):
            for one in _asked(path, groups):
                if one.member_id is not None:
                    raise NonEmptyGroup(one.group)


def _asked(path: str, names: list[str]) -> Iterator[ShownMember]:
    with closing(DoorClient(path)) as door:
        every = names or [one["groupId"] for one in door.ask("ListGroups", 2)["groups"]]
        found = door.ask("DescribeGroups", 5, groups=every)["groups"]
    for group in found:
        check_answer(group)
        for member in group["members"] or [None]:
            yield _shown(group, member)


def _shown(group: dict[str, Any], member: dict[str, Any] | None) -> ShownMember:
    place = group["groupId"], group["groupState"]
    if member is None:
        return ShownMember(*place, None, None, None, None)
    instance = member["groupInstanceId"]
    is_read = group["protocolType"] in _PROTOCOLS
    keys = assigned_partitions(member["memberAssignment"]) if is_read else ()
    return ShownMember(
        *(*place, member["memberId"], instance, member["clientId"], member["clientHost"]),
        partitions=tuple((key.topic, key.partition) for key in keys),
    )


def _line(one: ShownMember) -> tuple[str, ...]:
    member = (one.member_id, one.client_id, one.client_host)
    return (
        printable(one.group),
        one.state,
        *("-" if text is None else printable(text) for text in member),
        " ".join(f"{topic}-{number}" for topic, number in one.partitions) or "-",
    )
