"""``tidelog alter``: settings of a topic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Cli


def test_settings_are_changed_and_unset(cli: Cli) -> None:
    """The output lists the settings that the topic overrides."""
    cli.on("create", "t", "-o", "segment.ms=5")
    first = cli.on("alter", "t", "-o", "retention.ms=7")
    second = cli.on("alter", "t", "--unset", "segment.ms")

    assert first.out == "t: retention.ms=7, segment.ms=5\n"
    assert second.out == "t: retention.ms=7\n"
    [topic] = json.loads((cli.data / "tidelog.topics.json").read_text())["topics"]
    assert (topic["config"], topic["revision"]) == ({"retention.ms": "7"}, 2)


def test_the_unknown_settings_of_other_topics_are_warned_of(cli: Cli) -> None:
    """Of a directory that Kafka wrote; what is set is not, and the answer names the rest."""
    given = ["-o", "cleanup.policy=delete"]
    for topic in ("t", "u"):
        cli.on("create", topic)
        (cli.data / "tidelog.topics.json").unlink()
        found = cli.on("alter", "t", *given)
        (cli.data / "tidelog.topics.json").unlink()

        out = "t: cleanup.policy=delete; unknown: retention.ms, retention.bytes\n"
        assert (found.code, found.out) == (0, out)
        assert found.err.startswith("tidelog alter: u: not in tidelog") == (topic == "u")
        assert bool(found.err) == (topic == "u")
    assert cli.on("alter", "t", "--partitions", 2).err.startswith("tidelog alter: t, u: not in")


def test_nothing_to_change_is_wrong_usage(cli: Cli) -> None:
    """So are unknown settings, and unsetting one that is not set."""
    cli.on("create", "t")

    assert cli.on("alter", "t").code == 2
    assert cli.on("alter", "t", "-o", "retention.years=1").code == 2
    assert cli.on("alter", "t", "--unset", "segment.ms").code == 2


def test_partitions_are_added(cli: Cli) -> None:
    """Empty ones, until there are that many; there cannot be fewer than before."""
    cli.on("create", "t")
    cli.append("a")

    more = cli.on("alter", "t", "--partitions", 3)
    fewer = cli.on("alter", "t", "--partitions", 2)

    assert more == (0, "t: 3 partitions\n", "")
    assert [row["partition"] for row in cli.on("list", "--json").rows] == [0, 1, 2]
    assert fewer[:2] == (2, "")
    assert "3" in fewer.err


def test_no_partition_is_added_where_settings_are_refused(cli: Cli) -> None:
    """They are checked and changed first."""
    cli.on("create", "t")

    assert cli.on("alter", "t", "--partitions", 3, "-o", "retention.ms=never").code == 2
    assert len(cli.on("list", "--json").rows) == 1


def test_a_birth_value_is_dropped(cli: Cli) -> None:
    """Once: after that there is none; the topic's own settings stay as they are."""
    cli.on("create", "t", "-o", "retention.ms=7")

    first = cli.on("alter", "t", "--follow", "retention.ms")
    again = cli.on("alter", "t", "--follow", "retention.ms")

    assert first == (0, "t: retention.ms=7\n", "")
    assert (again.code, again.out) == (2, "")
    assert "retention.ms: topic t has no birth value of it" in again.err
    mistyped = cli.on("alter", "t", "--follow", "retention.byte")
    assert mistyped.code == 2
    assert "retention.byte: unknown, did you mean retention.bytes?" in mistyped.err
    [topic] = json.loads((cli.data / "tidelog.topics.json").read_text())["topics"]
    assert "retention.ms" not in topic["birth"]
    assert topic["birth"]["cleanup.policy"] == "delete"
