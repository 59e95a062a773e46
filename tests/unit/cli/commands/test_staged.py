"""``tidelog staged``, and ``append --txn``."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.embedded.doors import open_briefly
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.staging.directory import CommitPoint
from tidelog.staging.manifest_names import new_stem
from tidelog.staging.ready import ReadyFiles, ReadyManifest
from tidelog.testing import PowerCut
from tidelog.testing.staging import stage

if TYPE_CHECKING:
    from pathlib import Path

    Cli = Any


def values(cli: Cli) -> list[str]:
    """Return the values that ``cat`` prints."""
    return [row["value"] for row in cli.on("cat", "t").rows]


def leave_pending(directory: Path) -> None:
    """End a process right after the commit point."""

    def end(point: CommitPoint) -> None:
        if point is CommitPoint.COMMITTED:
            raise PowerCut

    with open_briefly(directory) as logs:
        logs.manager.staged_commits.on_point = end
        with suppress(PowerCut), logs.transaction("left") as txn:
            txn.append("t", b"a")


def test_a_transaction_that_waits_for_the_directory_is_listed(topic: Cli) -> None:
    """With its records; a manifest that cannot be read is left out."""
    with open_briefly(topic.data) as logs:
        ids = {"t": logs.topic("t").topic_id}
    some = {("t", 0): [b"a", b"b"]}
    waiting = stage(SYSTEM_FILES, str(topic.data), "x", some, rng=Random(1), topic_ids=ids)
    files = ReadyFiles(SYSTEM_FILES, str(topic.data), new_stem("x", Random(2)))
    files.write(ReadyManifest(waiting, 2**60))
    (topic.data / f"{new_stem('y', Random(3))}.ready").write_bytes(b"{")

    listed = topic.on("staged", "list", "--json").rows

    assert [(row["txn"], row["state"], row["records"]) for row in listed] == [
        ("x", "waiting", {"t": 2})
    ]
    assert topic.on("staged", "list").out == "waiting  x  t: 2\n"


def test_an_input_with_an_id_is_appended_once(topic: Cli) -> None:
    """The second time nothing is appended, and the command says what was."""
    first = topic.on("append", "t", "--txn", "x", stdin=b"a\nb\n")
    second = topic.on("append", "t", "--txn", "x", stdin=b"a\nb\n")

    assert first.out == "2 records appended to t as x, each line as text\n"
    assert second.out.startswith("nothing appended: x was committed at ")
    assert second.out.endswith(" with 2 records\n")
    assert values(topic) == ["a", "b"]


def test_an_input_with_an_id_is_appended_whole_or_not_at_all(topic: Cli) -> None:
    """A bad line drops those before it, too."""
    lines = b'{"value": "a"}\n{"value": 1}\n'
    outcome = topic.on("append", "t", "--txn", "x", "--format", "json", stdin=lines)

    assert outcome.code == 2
    assert values(topic) == []
    assert topic.on("staged", "list").out == ""


def test_what_is_committed_and_not_applied_is_listed(topic: Cli) -> None:
    """Before Kafka opens a directory the list must be empty."""
    leave_pending(topic.data)
    outcome = topic.on("staged", "list", "--json")

    assert [(row["txn"], row["state"], row["records"]) for row in outcome.rows] == [
        ("left", "committed", {"t": 1})
    ]
    assert topic.on("staged", "list").out == "committed  left  t: 1\n"


def test_what_is_committed_is_applied(topic: Cli) -> None:
    """As by every command that opens the directory for writing."""
    leave_pending(topic.data)
    outcome = topic.on("staged", "commit")

    assert (outcome.code, outcome.out) == (0, "left: applied\n")
    assert values(topic) == ["a"]
    assert topic.on("staged", "list").out == ""


@pytest.mark.parametrize("words", [["drop"], ["list", "x"], ["drop", "unknown"]])
def test_a_transaction_that_is_not_there_cannot_be_dropped(topic: Cli, words: list[str]) -> None:
    """The id is needed to drop, and only then."""
    assert topic.on("staged", *words).code == 2
