"""``tidelog staged``, and ``append --txn``."""

from __future__ import annotations

import errno
import os
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.staging import leave, stage

from tidelog.cli.commands.upkeep import run_command
from tidelog.embedded.doors import open_briefly
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import CommitUnfinished
from tidelog.mailbox.letter import State
from tidelog.staging.directory import CommitPoint
from tidelog.staging.manifest_names import new_stem
from tidelog.staging.ready import ReadyFiles, ReadyManifest
from tidelog.staging.staged_file import list_staged, new_attempt, staged_name

if TYPE_CHECKING:
    from pathlib import Path

    Cli = Any


def values(cli: Cli) -> list[str]:
    """Return the values that ``cat`` prints."""
    return [row["value"] for row in cli.on("cat", "t").rows]


def leave_pending(directory: Path, at: CommitPoint = CommitPoint.COMMITTED) -> None:
    """Fill the disk in the middle of a commit, right after the commit point by default."""

    def fill(point: CommitPoint) -> None:
        if point is at:
            raise OSError(errno.ENOSPC, "no space left")

    with open_briefly(directory) as logs:
        logs.manager.staged_commits.on_point = fill
        with pytest.raises(CommitUnfinished), logs.transaction("left") as txn:
            txn.append("t", b"a")


@pytest.mark.parametrize("txn", ["", " ", "\udcff", "x" * 256], ids=ascii)
def test_a_bad_id_is_a_mistake_of_usage(topic: Cli, txn: str) -> None:
    """Empty, too long, or bytes that are not UTF-8: nothing is appended, and no trace is shown."""
    refused = topic.on("append", "t", "--txn", txn, stdin=b"a\n")

    assert refused.code == 2
    assert "is not a transaction id" in refused.err
    assert values(topic) == []


def test_an_id_is_forgotten(topic: Cli) -> None:
    """After its topic was created again, so that the same input can be appended with it."""
    append = ("append", "t", "--txn", "x")
    topic.on(*append, stdin=b"a\n")
    topic.on("delete", "t")
    topic.on("create", "t")

    refused = topic.on(*append, stdin=b"a\n")
    assert refused.code == 2
    assert "tidelog staged forget x" in refused.err
    assert topic.on("staged", "forget", "x").out == "x: forgotten; a repeat of it is written\n"
    assert topic.on(*append, stdin=b"a\n").code == 0
    assert values(topic) == ["a"]
    assert topic.on("staged", "forget", "y").code == 2
    assert topic.on("staged", "forget").code == 2


def test_a_transaction_that_waits_for_the_directory_is_listed(topic: Cli) -> None:
    """With its records; a manifest that cannot be read is left out."""
    with open_briefly(topic.data) as logs:
        ids = {"t": logs.topic("t").topic_id}
    some = {("t", 0): [b"a", b"b"]}
    waiting = stage(SYSTEM_FILES, str(topic.data), "x", some, rng=Random(1), topic_ids=ids)
    files = ReadyFiles(SYSTEM_FILES, str(topic.data), new_stem("x", Random(2)))
    leave(files, ReadyManifest(waiting, 4_000_000_000_000))
    (topic.data / f"{new_stem('y', Random(3))}.ready").write_bytes(b"{")

    listed = topic.on("staged", "list", "--json").rows

    assert [(row["txn"], row["state"], row["records"]) for row in listed] == [
        ("x", "waiting", {"t": 2})
    ]
    assert listed[0]["deadlineMs"] == 4_000_000_000_000
    assert topic.on("staged", "list").out.startswith("waiting  x  t: 2  until 2096-")


def leave_claimed(cli: Cli, deadline_ms: int) -> ReadyFiles:
    """Commit an unnamed transaction for a process that never looks."""
    with open_briefly(cli.data) as logs:
        ids = {"t": logs.topic("t").topic_id}
        some = {("t", 0): [b"a"]}
        one = stage(
            *(SYSTEM_FILES, str(cli.data), "x", some),
            rng=Random(1),
            topic_ids=ids,
            is_named=False,
        )
        files = ReadyFiles(SYSTEM_FILES, str(cli.data), new_stem("x", Random(2)))
        leave(files, ReadyManifest(one, deadline_ms))
        files.change(State.WAITING, State.CLAIMED)
        logs.manager.staged_commits.commit(str(cli.data), one)
    return files


def test_a_transaction_that_is_in_the_log_is_not_listed_as_waiting(topic: Cli) -> None:
    """Its process may still look for the outcome: it is kept, also from drop."""
    files = leave_claimed(topic, 4_000_000_000_000)

    assert topic.on("staged", "commit").code == 0
    [row] = topic.on("staged", "list", "--json").rows
    assert (row["state"], row["records"], row["files"]) == ("applied", {"t": 1}, [])
    assert "x  t: 1  in the logs; the process that waited until" in topic.on("staged", "list").out
    dropped = topic.on("staged", "drop", "x")
    assert dropped.code != 0
    assert "x' is in the logs, and a process may still wait" in dropped.err
    assert files.is_in(State.CLAIMED)


def test_an_answer_that_is_long_overdue_is_deleted(topic: Cli) -> None:
    """By the command that finishes what is staged."""
    files = leave_claimed(topic, 1)

    assert topic.on("staged", "commit").code == 0
    assert topic.on("staged", "list").out == ""
    assert not files.is_in(State.CLAIMED)
    assert values(topic) == ["a"]


def test_a_transaction_that_waits_is_dropped(topic: Cli) -> None:
    """Its process sees it withdrawn, and the staged file is deleted."""
    with open_briefly(topic.data) as logs:
        ids = {"t": logs.topic("t").topic_id}
    some = {("t", 0): [b"a"]}
    one = stage(SYSTEM_FILES, str(topic.data), "x", some, rng=Random(1), topic_ids=ids)
    files = ReadyFiles(SYSTEM_FILES, str(topic.data), new_stem("x", Random(2)))
    leave(files, ReadyManifest(one, 4_000_000_000_000))

    assert topic.on("staged", "drop", "x").code == 0
    assert files.is_in(State.WITHDRAWN)
    assert topic.on("staged", "list").out == ""
    assert topic.on("staged", "drop", "x").code == 2
    assert values(topic) == []


def test_files_of_a_killed_writer_have_a_size_and_an_age(topic: Cli) -> None:
    """A row for each attempt; nothing in it is known but the files."""
    for number, seed in enumerate((1, 2), start=1):
        name = staged_name("x", Random(seed))
        (topic.data / name).write_bytes(b"r" * 1000 * number)
        os.utime(topic.data / name, (1_700_000_000 + number,) * 2)

    rows = topic.on("staged", "list", "--json").rows
    text = topic.on("staged", "list").out.splitlines()

    assert sorted((row["txn"], row["sizeBytes"], row["lastWrittenMs"]) for row in rows) == [
        (None, 1000, 1_700_000_001_000),
        (None, 2000, 1_700_000_002_000),
    ]
    shown = "staged  (no journal)  1.0 kB, last written 2023-11-14 22:13:21 UTC; a service deletes"
    assert len(text) == 2
    assert any(line.startswith(shown) for line in text)


def test_what_a_killed_writer_has_staged_is_dropped_by_the_name_of_a_file(topic: Cli) -> None:
    """All of its attempt, but nothing that a transaction names, or another attempt has staged."""
    attempt = new_attempt(Random(1))
    ours = [staged_name("x", Random(seed), attempt) for seed in (1, 2)]
    others = staged_name("x", Random(3))
    leave_pending(topic.data)
    [pending] = [row["files"][0] for row in topic.on("staged", "list", "--json").rows]
    for name in (*ours, others):
        (topic.data / name).write_bytes(b"r")

    refused = topic.on("staged", "drop", "tidelog.no.staged")
    dropped = topic.on("staged", "drop", topic.data / ours[0])
    left = set(list_staged(SYSTEM_FILES, str(topic.data)))

    assert (refused.code, dropped.code) == (2, 0)
    assert dropped.out.endswith(": deleted, with the rest of its attempt\n")
    assert (left & {*ours, others}, values(topic)) == ({others}, ["a"])
    assert pending not in left  # it was applied
    assert topic.on("staged", "drop", pending).code == 2


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


@pytest.mark.parametrize(
    "words",
    [
        *(["drop"], ["list", "x"], ["drop", "unknown"], ["drop", "\udcff"]),
        *(["forget"], ["forget", "unknown"], ["forget", "\udcff"]),
    ],
    ids=ascii,
)
def test_a_transaction_that_is_not_there_cannot_be_dropped(topic: Cli, words: list[str]) -> None:
    """The id is needed to drop, and only then."""
    assert topic.on("staged", *words).code == 2


@pytest.mark.parametrize("command", ["describe", "verify"])
def test_what_is_not_applied_yet_is_reported(topic: Cli, command: str) -> None:
    """On standard error: Kafka would show a part of it."""
    assert "not applied yet" not in topic.on(command).err
    leave_pending(topic.data)
    outcome = topic.on(command)

    assert outcome.code == 0
    assert "1 transaction is committed and not applied yet; list them with" in outcome.err


def test_what_cannot_be_decided_is_left_to_the_user(topic: Cli) -> None:
    """The error says what to look at, and which command gives up the rest."""
    leave_pending(topic.data)
    (journal,) = topic.data.glob("tidelog.*.intent")
    journal.write_text(journal.read_text().replace('"baseOffset": 0', '"baseOffset": 5'))
    outcome = topic.on("staged", "commit")

    assert outcome.code == 3
    assert "t-0 ends at 0, below offset 5, where transaction 'left' was to be" in outcome.err
    assert "Read them with tidelog cat, then give up the rest with: tidelog staged drop left" in (
        outcome.err
    )
    assert topic.on("staged", "drop", "left").code == 0
    assert topic.on("staged", "commit").code == 0


def test_a_service_that_stops_reports_what_is_not_applied_yet(
    topic: Cli, caplog: pytest.LogCaptureFixture
) -> None:
    """The next program that opens the directory may be Kafka."""
    leave_pending(topic.data)
    (journal,) = topic.data.glob("tidelog.*.intent")
    journal.write_text(journal.read_text().replace('"baseOffset": 0', '"baseOffset": 5'))
    with open_briefly(topic.data) as logs:
        run_command._warn_of_pending(logs)

    lines = [found.getMessage() for found in caplog.records]
    assert any("transaction-left" in line and "txn=left" in line for line in lines)
