"""``tidelog txns abort``."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from tests.machinery.archives import give_up_locally
from tests.unit.cli.commands.records.test_txns_command import begin, store

import tidelog
from tidelog.readonly.transactional_id import State

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Cli

ABORT = ("txns", "abort", "t-0", "--producer-id", "9")
UNDO = ("txns", "abort", "t-0", "--undo")


@pytest.fixture
def hanging(topic: Cli) -> Cli:
    """Topic t: a plain record, one of the open transaction of producer 9, and a plain one."""
    begin(topic, 9)
    topic.append("behind")
    return topic


def test_without_execute_only_the_plan_is_printed(hanging: Cli) -> None:
    """Which marker at which offset, and what readers of committed records see from then on."""
    before = hanging.log_file().read_bytes()
    outcome = hanging.on(*ABORT)

    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        (
            "t-0: would append an abort marker of 78 bytes at offset 3, producer 9, epoch 3,"
            " coordinator epoch 0"
        ),
        (
            "  the transaction: 1 record from offset 1 on, which readers of committed records never"
            " see"
        ),
        "  the last stable offset goes from 1 to 4",
        "nothing was written; --execute writes the marker",
    ]
    assert hanging.log_file().read_bytes() == before


def test_the_plan_is_what_is_done(hanging: Cli) -> None:
    """The same numbers, and the listing shows the transaction as aborted."""
    [plan] = hanging.on(*ABORT, "--json").rows
    [done] = hanging.on(*ABORT, "--execute", "--json").rows
    [after] = hanging.on("txns", "--json").rows

    assert {**plan, "executed": True} == done
    assert (plan["executed"], plan["records"]) == (False, 1)
    assert after["open"] == []
    assert after["aborted"] == [
        {"producerId": 9, "firstOffset": 1, "markerOffset": 3, "transactionalId": None}
    ]
    assert after["lastStableOffset"] == plan["lastStableOffsetAfter"] == 4
    assert hanging.values("--isolation", "read_committed") == ["plain", "behind"]


def test_a_transaction_of_a_coordinator_is_left_to_it(hanging: Cli) -> None:
    """Neither planned nor aborted, with or without a service; one that has ended does not count."""
    store(hanging, 9, "pay", State.ONGOING)
    before = hanging.log_file().read_bytes()
    alone = [hanging.on(*ABORT), hanging.on(*ABORT, "--execute")]
    with tidelog.open(hanging.data):
        beside = [hanging.on(*ABORT), hanging.on(*ABORT, "--execute")]

    for outcome in (*alone, *beside):
        assert outcome.code == 2
        assert "transactional id 'pay'" in outcome.err
        end = "start tidelog serve: it aborts it at once, as its time is over (2023-11-14 22:14:20"
        assert end in outcome.err
        # The process that has the directory is asked whether it is a broker.
        assert "No broker runs here" in outcome.err
        assert "If the process that has the directory" not in outcome.err
    assert hanging.log_file().read_bytes() == before
    store(hanging, 9, "pay", State.COMPLETE_ABORT)
    assert hanging.on(*ABORT, "--execute").code == 0


def test_nothing_is_aborted_without_a_log_of_the_coordinator(hanging: Cli) -> None:
    """Nobody knows what was decided; the log is not begun again until a service starts."""
    store(hanging, 9, "pay", State.ONGOING)
    before = hanging.log_file().read_bytes()
    shutil.rmtree(hanging.data / "__transaction_state-0")

    for words in (ABORT, (*ABORT, "--execute")):
        outcome = hanging.on(*words)
        assert (outcome.code, outcome.out) == (3, "")
        assert "__transaction_state-0 are missing" in outcome.err
    assert hanging.log_file().read_bytes() == before
    assert not (hanging.data / "__transaction_state-0").exists()
    with tidelog.open(hanging.data):
        assert hanging.on(*ABORT, "--execute").code == 0


def test_an_abort_needs_a_producer(hanging: Cli) -> None:
    """Without one, ``abort`` would be taken for a topic."""
    outcome = hanging.on("txns", "abort", "t-0")

    assert outcome.code == 2
    assert "txns abort needs --producer-id N, as the list shows it, or --undo" in outcome.err


def test_an_abort_is_undone(hanging: Cli) -> None:
    """First as a plan; then the log is as it was, byte for byte."""
    before = hanging.log_file().read_bytes()
    hanging.on(*ABORT, "--execute")
    aborted = hanging.log_file().read_bytes()
    planned = hanging.on(*UNDO)
    unchanged = hanging.log_file().read_bytes()
    done = hanging.on(*UNDO, "--execute")

    assert (planned.code, done.code, done.err) == (0, 0, "")
    assert "would truncate the abort marker at offset 3" in planned.out
    assert "truncated the abort marker at offset 3" in done.out
    assert aborted == unchanged != before
    assert hanging.log_file().read_bytes() == before
    [row] = hanging.on("txns", "--json").rows
    assert [txn["producerId"] for txn in row["open"]] == [9]


def test_an_abort_with_records_behind_it_cannot_be_undone(hanging: Cli) -> None:
    """Neither planned nor done; exit code 3."""
    hanging.on(*ABORT, "--execute")
    hanging.append("more")

    for words in (UNDO, (*UNDO, "--execute")):
        outcome = hanging.on(*words)
        assert outcome.code == 3
        assert "records from 4 on" in outcome.err
    assert hanging.values()[-1] == "more"


def test_an_abort_that_only_the_archive_has_cannot_be_undone(hanging: Cli) -> None:
    """Nor does the plan promise it."""
    hanging.on(*ABORT, "--execute")
    with tidelog.open(hanging.data) as logs:
        settings = {"remote.storage.enable": "true", "local.retention.ms": "0"}
        logs.alter_topic("t", settings)
        logs.roll("t")
    give_up_locally(hanging.data, (hanging.data.parent / "lake").as_uri())

    for words in (UNDO, (*UNDO, "--execute")):
        refused = hanging.on(*words)
        assert (refused.code, refused.out) == (3, "")
        assert "t-0 starts at 4 on the disk, after the marker at 3" in refused.err


def test_a_service_aborts_and_takes_it_back(hanging: Cli) -> None:
    """It holds the lock, and serves readers meanwhile."""
    with tidelog.open(hanging.data) as logs:
        done = hanging.on(*ABORT, "--execute")
        stable = logs.partition("t", 0).log.last_stable_offset
        undone = hanging.on(*UNDO, "--execute")
        after = logs.partition("t", 0).log.last_stable_offset

    assert (done.code, undone.code) == (0, 0)
    assert (stable, after) == (4, 1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("txns", "abort", "t-0", "--producer-id", "8"), "producers that have one: 9"),
        (("txns", "abort", "t-0", "t-1", "--producer-id", "9"), "one TOPIC-PARTITION"),
        (("txns", "abort", "--producer-id", "9"), "one TOPIC-PARTITION"),
        (("txns", "abort", "t", "--producer-id", "9"), "one TOPIC-PARTITION"),
        (("txns", "abort", "x-0", "--producer-id", "9"), "no topic x"),
        (("txns", "abort", "t-0", "--producer-id", "9", "--open"), "--open is for the list"),
        (("txns", "t", "--producer-id", "9"), "belong to txns abort"),
        (("txns", "abort", "--execute"), "belong to txns abort"),
    ],
)
def test_a_wrong_command_line_writes_nothing(
    hanging: Cli, words: tuple[str, ...], text: str
) -> None:
    """Exit code 2, and what is wrong."""
    before = hanging.log_file().read_bytes()
    outcome = hanging.on(*words)

    assert outcome.code == 2
    assert text in outcome.err
    assert hanging.log_file().read_bytes() == before


def test_nothing_to_undo_is_reported(hanging: Cli) -> None:
    """Markers of a coordinator are not taken back."""
    outcome = hanging.on(*UNDO)

    assert outcome.code == 3
    assert "no abort of a transaction in t-0 is known" in outcome.err
