"""The pages about many partitions: all topics, all partitions, one topic."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.console.paging import paged, sorted_rows, sorting
from tidelog.console.rendering import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.console.asked import Asked
    from tidelog.console.desk import Desk
    from tidelog.console.partition_survey import Surveyed

_COLUMNS: Final = ("size", "name", "growth", "age", "written", "lag", "damage")


class TopicRow(NamedTuple):
    """A topic in a list, put together from its partitions.

    ``known`` are those that were looked at; ``damaged`` counts damage, and partitions that are
    missing.
    """

    name: str
    partitions: int
    known: int
    size_bytes: int
    growth: float | None
    oldest_ms: int | None
    written_ms: int | None
    lag: int | None
    damaged: int


def topics_page(desk: Desk, asked: Asked) -> Answer:
    """Show all topics, the largest first."""
    how = sorting(asked, _COLUMNS, "topics", rising="name")
    found = asked.text("q").lower()
    rows = [row for row in topic_rows(desk) if found in row.name.lower()]
    values: Mapping[str, Callable[[TopicRow], Any]] = {
        "size": lambda row: row.size_bytes,
        "name": lambda row: row.name,
        "growth": lambda row: row.growth,
        "age": lambda row: None if row.oldest_ms is None else -row.oldest_ms,
        "written": lambda row: row.written_ms,
        "lag": lambda row: row.lag,
        "damage": lambda row: row.damaged,
    }
    shown = paged(sorted_rows(rows, how, values), asked, "topics")
    return Answer("topics.html", {**desk.state(), "page": shown, "how": how, "q": asked.text("q")})


def partitions_page(desk: Desk, asked: Asked) -> Answer:
    """Show all partitions, the largest first."""
    found = asked.text("q").lower()
    rows = [one for one in desk.survey.partitions if found in str(one.key).lower()]
    return Answer("partitions.html", _partition_list(desk, asked, rows, "partitions"))


def topic_page(desk: Desk, asked: Asked) -> Answer:
    """Show one topic: its settings and its partitions. Raises UnknownTopicOrPartition."""
    topic = desk.directory.topic(asked.topic)
    rows = [one for one in desk.survey.partitions if one.key.topic == topic.name]
    missing = [one for one in desk.survey.missing if one.topic == topic.name]
    absent = [
        f"partition {one.numbers.start:,}"
        if len(one.numbers) == 1
        else f"partitions {one.numbers.start:,} to {one.numbers.stop - 1:,}"
        for one in desk.directory.absent(topic.name, asks_metadata=False)
    ]
    return Answer(
        "topic.html",
        {
            **_partition_list(desk, asked, rows, "topics", topic.name),
            "topic": topic,
            "missing": missing,
            "absent": absent,
            "settings": desk.settings(topic.name),
            "groups": [one for one in desk.groups.positions if one.topic == topic.name],
            "command": desk.command("describe", topic.name),
        },
    )


def topic_rows(desk: Desk) -> list[TopicRow]:
    """Return a row for each topic, in order of their names."""
    by_topic: dict[str, list[Surveyed]] = defaultdict(list)
    for one in desk.survey.partitions:
        by_topic[one.key.topic].append(one)
    missing = Counter(gone.topic for gone in desk.survey.missing)
    return [
        _topic_row(desk, name, len(topic.partitions), by_topic[name], missing[name])
        for name, topic in desk.directory.topics.items()
    ]


def _topic_row(
    desk: Desk, name: str, partitions: int, found: list[Surveyed], missing: int
) -> TopicRow:
    growths = [one.growth for one in found if one.growth is not None]
    lags = [lag for one in found if (lag := desk.groups.lags.get(one.key)) is not None]
    return TopicRow(
        name,
        partitions,
        len(found),
        sum(one.size_bytes for one in found),
        sum(growths) if growths else None,
        min((one.oldest_ms for one in found if one.oldest_ms >= 0), default=None),
        max((one.written_ms for one in found if one.written_ms >= 0), default=None),
        max(lags, default=None),
        sum(one.problem is not None for one in found) + missing,
    )


def _partition_list(
    desk: Desk, asked: Asked, rows: list[Surveyed], *path: object
) -> dict[str, Any]:
    how = sorting(asked, _COLUMNS, *path, rising="name")
    lags = desk.groups.lags
    values: Mapping[str, Callable[[Surveyed], Any]] = {
        "size": lambda row: row.size_bytes,
        "name": lambda row: row.key,
        "growth": lambda row: row.growth,
        "age": lambda row: -row.oldest_ms if row.oldest_ms >= 0 else None,
        "written": lambda row: row.written_ms if row.written_ms >= 0 else None,
        "lag": lambda row: lags.get(row.key),
        "damage": lambda row: row.problem is not None,
    }
    page = paged(sorted_rows(rows, how, values), asked, *path)
    return {**desk.state(), "page": page, "lags": lags, "how": how, "q": asked.text("q")}
