"""The pages about consumer groups: how far each is behind, and where it is."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from tidelog.console.paging import paged, sorted_rows, sorting
from tidelog.console.rendering import Answer
from tidelog.errors import UnknownTopicOrPartition

if TYPE_CHECKING:
    from tidelog.console.asked import Asked
    from tidelog.console.desk import Desk
    from tidelog.console.history import Sparkline
    from tidelog.explain.groups import GroupPosition

_COLUMNS = ("lag", "name", "partitions", "committed")


class GroupRow(NamedTuple):
    """A group; ``lag`` sums up those that are known, and ``unknown`` counts the others.

    ``beyond`` counts positions beyond the end of their log, whose lags are negative; they are not
    part of the sum, which would hide how far the group is behind in other partitions.
    """

    name: str
    partitions: int
    lag: int
    unknown: int
    beyond: int
    commit_time_ms: int
    line: Sparkline | None = None


def groups_page(desk: Desk, asked: Asked) -> Answer:
    """Show all groups, the one that is furthest behind first."""
    how = sorting(asked, _COLUMNS, "groups", rising="name")
    found = asked.text("q").lower()
    by_name: dict[str, list[GroupPosition]] = defaultdict(list)
    for one in desk.groups.positions:
        by_name[one.group].append(one)
    rows = [_row(name, own) for name, own in by_name.items() if found in name.lower()]
    values = {
        "lag": lambda row: row.lag,
        "name": lambda row: row.name,
        "partitions": lambda row: row.partitions,
        "committed": lambda row: row.commit_time_ms,
    }
    page = paged(sorted_rows(rows, how, values), asked, "groups")
    note, command = desk.history.note, desk.command("groups")
    rows = [row._replace(line=note(("lag", row.name), row.lag)) for row in page.rows]
    shown = {"page": page, "rows": rows, "how": how, "q": asked.text("q"), "command": command}
    return Answer(
        "groups.html", {**desk.state(), **shown, "is_read": desk.groups.took_ms is not None}
    )


def group_page(desk: Desk, asked: Asked) -> Answer:
    """Show the positions of one group, those that are furthest from the high watermark first.

    Raises UnknownTopicOrPartition for a group that has none.
    """
    name = asked.text("name")
    rows = [one for one in desk.groups.positions if one.group == name]
    if not rows:
        raise UnknownTopicOrPartition(f"no group {name} has positions in {desk.directory.name}")
    rows.sort(key=lambda one: (-abs(one.lag or 0), one.key))
    page = paged(rows, asked, "group")
    return Answer(
        "group.html", {"name": name, "page": page, "command": desk.command("groups", name)}
    )


def _row(name: str, own: list[GroupPosition]) -> GroupRow:
    lags = [one.lag for one in own if one.lag is not None]
    last = max(one.commit_time_ms for one in own)
    beyond = [lag for lag in lags if lag < 0]
    return GroupRow(
        name, len(own), sum(lags) - sum(beyond), len(own) - len(lags), len(beyond), last
    )
