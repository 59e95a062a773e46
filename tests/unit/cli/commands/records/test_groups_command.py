"""``tidelog groups``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tidelog

if TYPE_CHECKING:
    Cli = Any


def commit(cli: Cli, group: str, topic: str, count: int) -> None:
    """Read some records of a topic for a group, and commit its position."""
    with tidelog.open(cli.data) as logs, logs.reader(topic, group=group) as reader:
        records = reader.read()
        for _ in range(count):
            next(records)
        reader.commit()


def test_positions_are_shown_with_the_lag(topic: Cli) -> None:
    """By group and partition; or only of the groups that are named."""
    topic.append("a", "b", "c")
    topic.on("create", "u")
    topic.append("x", topic="u")
    commit(topic, "g", "t", 1)
    commit(topic, "h", "u", 1)

    rows = topic.on("groups", "--json").rows
    lines = topic.on("groups", "g").out.splitlines()

    assert [(row["group"], row["topic"], row["offset"], row["lag"]) for row in rows] == [
        ("g", "t", 1, 2),
        ("h", "u", 1, 0),
    ]
    assert lines[0].split()[:3] == ["group", "partition", "offset"]
    assert lines[1].split()[:5] == ["g", "t-0", "1", "3", "2"]
    assert len(lines) == 2


def test_a_topic_that_was_deleted_has_no_lag(topic: Cli) -> None:
    """Also if there is another one of its name now: the position was not committed for it."""
    topic.append("a")
    commit(topic, "g", "t", 1)
    topic.on("delete", "t")

    gone = topic.on("groups", "--json").rows
    topic.on("create", "t")
    again = topic.on("groups", "--json").rows

    assert [(row["highWatermark"], row["lag"]) for row in (*gone, *again)] == [(None, None)] * 2


def test_a_group_without_positions_is_wrong_usage(topic: Cli) -> None:
    """Named in the error; without a name, nothing is printed."""
    assert topic.on("groups") == (0, "", "")

    outcome = topic.on("groups", "nobody")

    assert outcome[:2] == (2, "")
    assert "has no positions of group nobody" in outcome.err
