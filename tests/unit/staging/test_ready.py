"""Manifests of transactions that wait: their files, and what is refused of what they hold."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import pytest
from tests.machinery.manager_home import ManagerHome, values
from tests.machinery.staging import leave, stage

from tidelog.errors import (
    CorruptFile,
    InvalidTopic,
    KafkaStorageError,
    MessageTooLarge,
    TransactionMismatch,
)
from tidelog.mailbox.letter import State
from tidelog.staging.commit import Transaction
from tidelog.staging.finished import FINISHED_FILE, CommittedTransaction, write_finished
from tidelog.staging.group_step import CommittedAt, GroupStep
from tidelog.staging.journal import NewTopic, journal_name
from tidelog.staging.manifest_names import MANIFESTS, new_stem, waiting_hashes
from tidelog.staging.ready import READY_VERSION, ReadyFiles, ReadyManifest
from tidelog.staging.ready_expiry import LEFTOVER_MS, sweep_all
from tidelog.staging.staged_file import transaction_hash
from tidelog.staging.stream_batch import StreamBatch
from tidelog.testing import CrashFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.conftest import Enumerated

    from tidelog.service.log_service import LogService

ID = UUID(int=3)


def disk() -> CrashFileSystem:
    """Return a disk with a data directory."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    fs.sync_directory("/")
    return fs


def transaction(fs: CrashFileSystem, txn: str = "x", **how: Any) -> Transaction:
    """Stage two runs for t-0 and one for a new topic."""
    new = NewTopic("new", UUID(int=4), 2, {"retention.ms": "-1"})
    some = {("t", 0): [b"a", b"b"], ("new", 1): [b"c"]}
    return stage(
        *(fs, "/data", txn, some), rng=Random(1), topic_ids={"t": ID}, new_topics=[new], **how
    )


def files(fs: CrashFileSystem, txn: str = "x") -> ReadyFiles:
    """Return the files of a manifest."""
    return ReadyFiles(fs, "/data", new_stem(txn, Random(2)))


def test_a_manifest_holds_the_whole_transaction() -> None:
    """Also after a power cut; a batch of a stream keeps its query and number."""
    fs = disk()
    plain = transaction(fs, is_named=False)
    stream = StreamBatch("query", 5)
    batch = Transaction(stream.txn, True, (), (), {}, stream, skips_old=True)
    for one in (plain, batch):
        leave(files(fs, one.txn), ReadyManifest(one, 77))
    fs.power_cut("none")

    assert files(fs).manifest(State.WAITING) == ReadyManifest(plain, 77)
    assert files(fs, batch.txn).manifest(State.WAITING) == ReadyManifest(batch, 77)


def test_a_manifest_has_the_oldest_form_that_holds_all_of_it() -> None:
    """The second names partitions that were planned for, the third topics to be created.

    An earlier release refuses a form that it does not know, instead of leaving something out.
    """
    fs = disk()
    new = transaction(fs)
    plain = replace(new, txn="y", runs=(), new_topics=())
    planned = replace(plain, txn="z", partitions={"t": 2})
    for one in (plain, planned, new):
        leave(files(fs, one.txn), ReadyManifest(one, 77))
    versions = [
        json.loads(fs.read(files(fs, one.txn).path(State.WAITING)))["version"]
        for one in (plain, planned, new)
    ]

    assert versions == [1, 2, 3]
    assert files(fs, "y").manifest(State.WAITING).transaction == plain
    assert files(fs, "z").manifest(State.WAITING).transaction == planned


def test_the_rename_that_succeeds_decides() -> None:
    """One of the claim and the withdrawal fails."""
    fs = disk()
    ready = files(fs)
    leave(ready, ReadyManifest(transaction(fs), 77))

    claimed = ready.change(State.WAITING, State.CLAIMED)
    withdrawn = ready.change(State.WAITING, State.WITHDRAWN)

    assert (claimed, withdrawn) == (True, False)
    assert MANIFESTS.find(fs.list("/data")) == {ready.stem: {State.CLAIMED}}
    assert waiting_hashes(fs.list("/data")) == {transaction_hash("x")}


@pytest.mark.parametrize("now_ms", [76, 78])
def test_an_earlier_batch_of_a_stream_was_committed(now_ms: int) -> None:
    """The last one alone is known: a claim of an earlier one neither waits again nor expires."""
    fs = disk()
    earlier, last = StreamBatch("query", 5), StreamBatch("query", 6)
    ready = files(fs, earlier.txn)
    leave(ready, ReadyManifest(Transaction(earlier.txn, True, (), (), {}, earlier), 77))
    ready.change(State.WAITING, State.CLAIMED)
    done = CommittedTransaction(last.txn, 1, {"t": 2}, stream=last)
    write_finished(fs, "/data", {}, done)

    sweep_all(fs, "/data", now_ms)

    assert MANIFESTS.find(fs.list("/data")) == {}


def test_a_refusal_brings_the_error_with_its_values() -> None:
    """Of an error that this release does not know, its text."""
    fs = disk()
    errors = [
        MessageTooLarge("a staged batch", 7, 5, "max.message.bytes"),
        TransactionMismatch("x", ("a",), ("b", "c")),
        InvalidTopic("a/b"),
    ]
    for error in errors:
        files(fs).refuse(error)
        found = files(fs).refusal()
        assert (type(found), found and found.args, str(found)) == (
            type(error),
            error.args,
            str(error),
        )
    for odd in (
        {"version": 1, "error": "NewError", "args": [1], "reason": "because"},
        {"version": 1, "error": "MessageTooLarge", "args": [], "reason": "because"},
        {"version": 1, "error": "annotations", "args": [], "reason": "because"},
        {"version": 1, "error": "InvalidTopic", "args": [["b"]], "reason": "because"},
    ):
        fs.write(files(fs).path(State.ANSWERED), json.dumps(odd).encode())
        found = files(fs).refusal()
        assert (type(found), str(found)) == (KafkaStorageError, "because")
    for content in (b"", b"{", b"[]", b"{}", b'{"reason": 1}', b"[" * 100_000, b"\xff"):
        fs.write(files(fs).path(State.ANSWERED), content)
        assert "refused, for a reason that cannot be read" in str(files(fs).refusal())


def first_run(content: dict[str, Any]) -> dict[str, Any]:
    """Return the first run of a manifest."""
    run: dict[str, Any] = content["transaction"]["runs"][0]
    return run


SPOILED: dict[str, Callable[[dict[str, Any]], object]] = {
    "no version": lambda one: one.pop("version"),
    "version 0": lambda one: one.update(version=0),
    "a version that is text": lambda one: one.update(version="1"),
    "no deadline": lambda one: one.pop("deadlineMs"),
    "a deadline that is text": lambda one: one.update(deadlineMs="7"),
    "no transaction": lambda one: one.pop("transaction"),
    "a list": lambda one: one.update(transaction=[]),
    "an empty id": lambda one: one["transaction"].update(txn=""),
    "another id": lambda one: one["transaction"].update(txn="y", runs=[]),
    "runs of another transaction": lambda one: first_run(one).update(
        name=f"tidelog.{transaction_hash('y')}.{0:032x}.staged"
    ),
    "a run elsewhere": lambda one: first_run(one).update(name="../t-0/00000000000000000000.log"),
    "a run in a log": lambda one: first_run(one).update(name="t-0/00000000000000000000.log"),
    "a topic that leads out": lambda one: first_run(one).update(topic="../t"),
    "a negative partition": lambda one: first_run(one).update(partition=-1),
    "a run of no bytes": lambda one: first_run(one).update(size_bytes=0),
    "runs that overlap": lambda one: one["transaction"]["runs"].append(first_run(one)),
    "a topic without an id": lambda one: one["transaction"].update(topicIds={}),
    "an id that is none": lambda one: one["transaction"]["topicIds"].update(t="!"),
    "a topic created twice": lambda one: one["transaction"]["topics"].append(
        one["transaction"]["topics"][0]
    ),
    "partitions that are a list": lambda one: one["transaction"].update(partitions=[2]),
    "a number of partitions that is text": lambda one: one["transaction"].update(
        partitions={"t": "2"}
    ),
    "no partitions": lambda one: one["transaction"].update(partitions={"t": 0}),
    "a stream without a number": lambda one: one["transaction"].update(stream={"queryId": "q"}),
}


def spoiled(fs: CrashFileSystem, spoil: Callable[[dict[str, Any]], object]) -> bytes:
    """Return the bytes of a manifest that is not as it should be."""
    ready = files(fs)
    leave(ready, ReadyManifest(transaction(fs), 2**60))
    content = json.loads(fs.read(ready.path(State.WAITING)))
    fs.delete(ready.path(State.WAITING))
    spoil(content)
    return json.dumps(content).encode()


@pytest.mark.parametrize("name", SPOILED)
def test_a_manifest_of_another_form_is_a_typed_error(name: str) -> None:
    """Nothing of it is used."""
    fs = disk()
    fs.write(files(fs).path(State.WAITING), spoiled(fs, SPOILED[name]))

    with pytest.raises(CorruptFile, match=r"/data/tidelog\.\w+\.\w+\.ready"):
        files(fs).manifest(State.WAITING)


BYTES: Mapping[str, bytes] = {
    "empty": b"",
    "no JSON": b"{",
    "not UTF-8": b"\xff\xfe\xfd",
    "deep": b"[" * 100_000,
    "a number": b"7",
    "huge": b" " * (65 << 20),
}


def service(home: ManagerHome) -> LogService:
    """Start a service with a topic, and let its tasks run once."""
    manager = home.open()
    manager.create_topic("t", 2)
    home.clock.advance(1)
    return manager


@pytest.mark.parametrize("name", [*SPOILED, *BYTES])
def test_a_service_refuses_a_manifest_of_another_form(name: str) -> None:
    """With a durable answer; nothing is written, and the next ones are committed."""
    home = ManagerHome()
    manager = service(home)
    manager.partition("t", 0).append_records([(-1, None, b"kept", ())])
    content = BYTES.get(name) or (spoiled(home.fs, SPOILED[name]) if name in SPOILED else b"")
    home.fs.write(files(home.fs).path(State.WAITING), content)
    good = stage(
        *(home.fs, "/data", "good", {("t", 0): [b"a"]}),
        rng=Random(9),
        topic_ids={"t": manager.topic("t").topic_id},
    )
    leave(files(home.fs, "good"), ReadyManifest(good, 2**60))

    home.clock.advance(1000)
    home.power_cut()

    manager = home.open()
    assert values(manager, "t", 0) == [b"kept", b"a"]
    assert files(home.fs).is_in(State.ANSWERED)
    assert isinstance(files(home.fs).refusal(), CorruptFile)
    assert manager.topics().keys() == {"t"}


ODD: tuple[object, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**30, 1.5, "", "x", "\x00", "\ud800", "../x"),
    *([], {}, [[]], {"x": 1}),
)


def variants(content: object) -> Iterator[object]:
    """Yield copies of JSON in each of which one value is odd, or one member missing."""
    members = content if isinstance(content, dict) else {}
    items = list(members.items()) or (list(enumerate(content)) if isinstance(content, list) else [])
    for key, value in items:
        for other in (*ODD, *variants(value)):
            copy: Any = dict(members) if members else list(cast("list[object]", content))
            copy[key] = other
            yield copy
        if members:
            yield {name: one for name, one in members.items() if name != key}


def write_odd(home: ManagerHome, topic_id: UUID, step: int) -> int:
    """Write manifests, each of a transaction of its own and with one odd value; return how many."""
    rng = Random(5)
    for number in range(0, 10_000, step):
        txn, name = f"x{number}", f"new{number}"
        whole = stage(
            *(home.fs, "/data", txn, {("t", 0): [b"x"], (name, 1): [b"c"]}),
            rng=rng,
            topic_ids={"t": topic_id},
            new_topics=[NewTopic(name, UUID(int=number + 10), 2, {"retention.ms": "-1"})],
        )
        whole = replace(whole, steps=(GroupStep("g", "t", 0, CommittedAt(1, 2)),))
        path = files(home.fs, txn).path(State.WAITING)
        leave(files(home.fs, txn), ReadyManifest(whole, 2**60))
        odd = next(islice(variants(json.loads(home.fs.read(path))), number, None), None)
        if odd is None:
            home.fs.delete(path)
            return number // step
        home.fs.write(path, json.dumps(odd).encode())
    raise AssertionError


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_no_odd_value_in_a_manifest_stops_the_service(
    step: int, enumerated: Enumerated, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is answered, before the commit point if at all; then the next one is committed."""
    home = ManagerHome()
    manager = service(home)
    count = write_odd(home, manager.topic("t").topic_id, step)
    good = stage(
        *(home.fs, "/data", "good", {("t", 1): [b"b"]}),
        rng=Random(6),
        topic_ids={"t": manager.topic("t").topic_id},
    )
    leave(files(home.fs, "good"), ReadyManifest(good, 2**60))

    home.clock.advance(3000)

    newer = [states for states in MANIFESTS.find(home.files()).values() if State.WAITING in states]
    assert len(newer) <= len([one for one in ODD if type(one) is int and one > 1])
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []
    assert list(manager.staged_commits.pending) == []
    assert manager.live_dirs == ["/data"]
    assert b"b" in values(manager, "t", 1)
    enumerated("odd manifests", count, at_least=50)


def test_a_manifest_of_a_newer_release_is_left_untouched() -> None:
    """This release cannot know what it asks for."""
    home = ManagerHome()
    service(home)
    path = files(home.fs).path(State.WAITING)
    newer = b'{"version": %d, "new": true}' % (READY_VERSION + 1)
    home.fs.write(path, newer)

    home.clock.set_time_of_day(home.clock.now_ms() + 10 * LEFTOVER_MS)
    home.clock.advance(400_000)

    assert home.fs.read(path) == newer


@pytest.mark.parametrize("state", [State.WAITING, State.CLAIMED])
def test_a_table_that_cannot_be_read_decides_about_no_manifest(state: State) -> None:
    """Whether its transaction is finished is not known: it is neither deleted nor refused."""
    home = ManagerHome()
    service(home)
    ready = files(home.fs)
    leave(ready, ReadyManifest(transaction(home.fs), home.clock.now_ms()))
    ready.change(State.WAITING, state)
    home.fs.write(f"/data/{FINISHED_FILE}", b"{")

    home.clock.set_time_of_day(home.clock.now_ms() + 2 * LEFTOVER_MS)
    home.clock.advance(400_000)

    assert MANIFESTS.find(home.files()) == {ready.stem: {state}}


def test_what_is_not_a_file_is_left_untouched() -> None:
    """A directory of that name says nothing about the disk."""
    home = ManagerHome()
    manager = service(home)
    path = files(home.fs).path(State.WAITING)
    home.fs.make_directory(path)

    home.clock.advance(10_000)

    assert home.fs.stat(path).is_directory
    assert manager.live_dirs == ["/data"]


def test_a_refusal_that_a_full_disk_does_not_take_is_written_later() -> None:
    """The manifest waits meanwhile."""
    home = ManagerHome()
    service(home)
    home.fs.write(files(home.fs).path(State.WAITING), b"{")
    home.fs.fail("open", ".refused.tmp", OSError(errno.ENOSPC, "full"))

    home.clock.advance(1000)
    before = MANIFESTS.find(home.files())
    home.clock.advance(1000)

    assert before == {files(home.fs).stem: {State.WAITING}}
    assert MANIFESTS.find(home.files()) == {files(home.fs).stem: {State.ANSWERED}}


def test_answers_to_waiters_that_have_ended_are_deleted_after_an_hour() -> None:
    """By a service, and by a process that writes and ends; half-written files, too."""
    home = ManagerHome()
    manager = service(home)
    suffixes = enumerate(MANIFESTS.suffixes.values(), 1)
    names = [f"{files(home.fs, str(n)).stem}{suffix}" for n, suffix in suffixes]
    dead = [*names[2:], f"{names[0]}.tmp", f"{names[0]}.tmp.tmp", f"{names[3]}.tmp"]
    for name in dead:
        home.fs.write(f"/data/{name}", b"{}")
    home.clock.advance(LEFTOVER_MS - 400_000)
    assert set(dead) <= set(home.files())
    home.clock.advance(800_000)

    assert set(dead) & set(home.files()) == set()
    assert manager.live_dirs == ["/data"]


def test_a_waiter_that_waits_for_hours_sees_that_its_manifest_has_expired() -> None:
    """The file is as old as the wait; it is kept for an hour after the deadline."""
    home = ManagerHome()
    service(home).shutdown()
    ready, deadline_ms = files(home.fs), home.clock.now_ms() + 2 * LEFTOVER_MS
    leave(ready, ReadyManifest(transaction(home.fs), deadline_ms))
    home.clock.set_time_of_day(deadline_ms)
    home.open()

    home.clock.advance(LEFTOVER_MS - 400_000)
    assert ready.is_in(State.WITHDRAWN)
    home.clock.advance(800_000)
    assert not ready.is_in(State.WITHDRAWN)


def test_a_journal_that_was_not_written_to_its_end_is_deleted_after_an_hour() -> None:
    """Its transaction is not committed; files of other names stay, a journal among them."""
    home = ManagerHome()
    service(home)
    journal = journal_name("x")
    others = [journal, f"{journal}.tmp.tmp", f"a.{journal}.tmp", f"{journal}.tmp1", "tidelog.a.tmp"]
    for name in (f"{journal}.tmp", *others):
        home.fs.write(f"/data/{name}", b"")
    home.clock.advance(LEFTOVER_MS - 400_000)
    assert f"{journal}.tmp" in home.files()
    home.clock.advance(800_000)

    assert f"{journal}.tmp" not in home.files()
    assert set(others) <= set(home.files())
