"""Orders of steps that one seed in a thousand has, each chosen an operation at a time."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from tests.machinery.model.staged_state import KAFKA, SERVICE
from tests.model.processes import Processes
from tests.model.test_code_traces import SCENARIOS
from tests.model.traces import DATA_DIR, TIMEOUT_MS, Run

from tidelog.codec.checkpoint_file import TEMPORARY_SUFFIX
from tidelog.staging.finished import FINISHED_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.processes import Process

SEED: Final = 1
"""Kafka appends something."""


class EveryTurn(Random):
    """Has each process lose its turn before each operation."""

    def random(self) -> float:
        """Return the smallest number."""
        return 0.0


def chosen(name: str) -> Run:
    """Return a run in which nothing happens by itself before ``Run.run``."""
    run = Run(SCENARIOS[name], SEED, kills=0, cuts=0)
    run.processes = Processes(EveryTurn(), run.clock)
    return run


def go(run: Run, process: Process, until: Callable[[], bool]) -> None:
    """Let a process do one operation after the other; time passes while it sleeps."""
    while not process.is_over and not until():
        run.clock.advance(max(0, process.wakes_ms - run.clock.now_ms()))
        run.processes.resume(process)


def names(run: Run) -> set[str]:
    """Return the names of the files, as the model has them."""
    return {name for name, _ in run.seen().names}


def finished(run: Run) -> set[str]:
    """Return the transactions that are known as finished."""
    return {one.txn for one in dict(run.seen().names).get("finished", ())}


def waiting(run: Run, number: int) -> Process:
    """Return an attempt that has left its manifest and sleeps, while another holds the lock."""
    waiter = run.start(number)
    go(run, waiter, lambda: waiter.wakes_ms > run.clock.now_ms())
    assert f"ready.{number}" in names(run)
    return waiter


def look(run: Run, waiter: Process) -> None:
    """Let a waiter look at its manifest, and stop before it tries the lock."""
    for _ in range(4):
        run.processes.resume(waiter)


def test_a_waiter_finds_under_the_lock_that_its_manifest_has_expired() -> None:
    """It has looked before that, and reports the expiry, durably, without a commit."""
    run = chosen("two transactions")
    holder = run.start(1)
    go(run, holder, lambda: run.seen().holder == 1)
    waiter = waiting(run, 0)
    run.clock.advance(TIMEOUT_MS)
    look(run, waiter)

    go(run, holder, lambda: False)
    go(run, waiter, lambda: run.seen().holder == 0)

    assert (run.seen().holder, "withdrawn.0" in names(run)) == (0, True)
    run.run()
    assert run.outcomes == {0: "reported withdrawn", 1: "reported committed"}
    assert [[txn for txn, _ in log.batches] for log in run.seen().logs] == [["B"], ["B"]]
    assert names(run) == {"finished", "watermarks"}


def test_a_waiter_that_gets_the_lock_after_its_deadline_commits() -> None:
    """Its manifest still waits, and nobody else may claim it."""
    run = chosen("two transactions")
    holder = run.start(1)
    go(run, holder, lambda: run.seen().holder == 1)
    waiter = waiting(run, 0)
    go(run, holder, lambda: False)
    run.clock.advance(TIMEOUT_MS)

    go(run, waiter, lambda: run.seen().holder == 0)

    assert (run.seen().holder, "ready.0" in names(run)) == (0, True)
    run.run()
    assert run.outcomes == {0: "reported committed", 1: "reported committed"}


def test_an_entry_stays_that_its_waiter_has_seen_while_the_table_is_written() -> None:
    """The service has looked before that for what waits, and the next commit drops the entry."""
    run = chosen("unnamed")
    service = run.processes.start(SERVICE, run.service)
    go(run, service, lambda: run.seen().holder == SERVICE)
    waiters = {name: waiting(run, number) for number, name in enumerate("AB")}
    table = f"{DATA_DIR}/{FINISHED_FILE}{TEMPORARY_SUFFIX}"
    go(run, service, lambda: len(finished(run)) == 1 and run.fs.exists(table))
    (first,) = finished(run)

    go(run, waiters[first], lambda: False)
    go(run, service, lambda: len(finished(run)) > 1)

    assert finished(run) == {"A", "B"}
    run.run()
    assert (run.outcomes[0], run.outcomes[1]) == ("reported committed", "reported committed")


def test_requests_that_are_found_together_are_claimed_before_one_is_carried_out() -> None:
    """One sync makes all claims durable."""
    run = chosen("requests")
    service = run.processes.start(SERVICE, run.service)
    go(run, service, lambda: run.seen().holder == SERVICE)
    waiting(run, 0)
    waiting(run, 1)

    go(run, service, lambda: {"claimed.0", "claimed.1"} <= names(run))

    assert {"claimed.0", "claimed.1"} <= names(run)
    assert run.seen().done == frozenset()
    run.run()
    assert run.outcomes == {0: "reported committed", 1: "reported committed"}


def test_what_a_service_shows_of_a_killed_kafka_may_be_lost() -> None:
    """It is taken back, durably, before a transaction writes there: else a part would be seen."""
    run = chosen("beside Kafka")
    kafka = run.processes.start(KAFKA, run.kafka)
    go(run, kafka, lambda: kafka.wakes_ms > run.clock.now_ms())
    run.kill(kafka)
    service = run.processes.start(SERVICE, run.service)
    go(run, service, lambda: sum(dict(run.seen().durable)["watermarks"]) > 0)
    run.cut("none")
    assert not any(log.batches for log in run.seen().logs)
    waiter = run.start(0)

    go(run, waiter, lambda: any(log.batches for log in run.seen().logs))

    assert dict(run.seen().durable)["watermarks"] == (0, 0)
    run.run()
    assert run.outcomes == {0: "reported committed"}


def test_what_a_killed_kafka_has_not_flushed_is_durable_before_a_commit_counts_on_it() -> None:
    """Nor has it written its high watermark: readers see its batches before those after them."""
    run = chosen("beside Kafka")
    kafka = run.processes.start(KAFKA, run.kafka)
    go(run, kafka, lambda: kafka.wakes_ms > run.clock.now_ms())
    assert not all(log.is_durable for log in run.seen().logs)
    run.kill(kafka)
    waiter = run.start(0)

    go(run, waiter, lambda: "journal.A" in names(run))

    assert "journal.A" in names(run)
    assert all(log.is_durable for log in run.seen().logs)
    run.run()
    assert run.outcomes == {0: "reported committed"}
