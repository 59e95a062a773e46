"""``-p``: one partition instead of all, by every command that chooses topics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cli = Any

COMMANDS = (
    *("list", "txns", "describe", "describe --log-dirs", "picture", "picture --overview"),
    *("verify", "recover --full", "recover --full --dry-run", "table segments", "table findings"),
    *("retain -o retention.ms=1 --now +1d", "plan retention -o retention.ms=1 --now +1d"),
    *("plan recovery --full", "compact -o cleanup.policy=compact", "cleaner status"),
    *("plan compaction -o cleanup.policy=compact", "cat t --from 0", "offsets t", "offsets --at 0"),
)


@pytest.fixture
def two(cli: Cli) -> Cli:
    """A topic of two partitions with a record in each, and another topic."""
    return cli.made(make_two)


def make_two(cli: Cli) -> None:
    cli.on("create", "t", "-p", "2", "-o", "retention.ms=-1")
    cli.on("create", "u", "-p", "2")
    for number in (0, 1):
        record = f'{{"key": "k", "value": "v{number}", "partition": {number}}}\n'
        assert cli.on("append", "t", "--format", "json", stdin=record).code == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_only_the_partition_is_looked_at_or_changed(two: Cli, command: str) -> None:
    """Where a topic is named and where none is, in what is printed and in what is done."""
    words = command.split()
    topic = [] if "t" in words or words[:2] == ["offsets", "--at"] else ["t"]

    one, all_of_it = (two.on(*words, *topic, "-p", number) for number in ("1", "all"))

    assert one.code == all_of_it.code == 0, one.err
    shown = (one.out + one.err).replace(str(two.data), "")  # which may lie in `pytest-0`
    shown = re.sub(r"(?<![\w-])[\w-]{22}(?![\w-])", "", shown)  # ids, which may hold anything
    assert not any(name in shown for name in ("t-0", '"partition": 0', "v0")), shown


def test_retention_deletes_of_the_partition_only(two: Cli) -> None:
    """And of that number in all topics where none is named."""
    assert two.on("retain", "-o", "retention.ms=1", "--now", "+1d", "-p", "1").code == 0

    assert two.values("-p", "0") == ["v0"]
    assert two.values("-p", "1") == []


def test_a_partition_that_is_not_there_is_a_mistake_of_usage(two: Cli) -> None:
    """Also where no topic is named."""
    for words in (("verify",), ("list", "t"), ("retain", "t"), ("recover", "t"), ("picture", "t")):
        outcome = two.on(*words, "-p", "7")

        assert outcome.code == 2, outcome
        is_named = "t" in words
        assert ("has no partition 7; it has 0, 1" if is_named else "partition 7 in") in outcome.err


def test_a_plan_by_disk_space_is_of_all_partitions(two: Cli) -> None:
    """What one partition may keep depends on all others."""
    outcome = two.on("plan", "retention", "--disk-percent", "50", "-p", "1")

    assert outcome.code == 2
    assert "whole data directory" in outcome.err


def test_an_abort_names_its_partition_once(two: Cli) -> None:
    """``txns abort`` takes TOPIC-PARTITION."""
    outcome = two.on("txns", "abort", "t-1", "--producer-id", "1", "-p", "1")

    assert (outcome.code, "leave -p out" in outcome.err) == (2, True)
