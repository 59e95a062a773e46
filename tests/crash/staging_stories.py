"""Transactions of every kind on a fake machine, and what each may leave after a crash."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeVar, Unpack

import pytest
from tests.crash.power_cuts import outcomes
from tests.machinery.directory_home import DataHome, record

from tidelog.codec.checkpoint_file import LEADER_EPOCH_FILE
from tidelog.config.log_config import LogConfig
from tidelog.datadir.effective_config import NO_SETTINGS
from tidelog.env.scheduler import InlineScheduler
from tidelog.errors import CommitPending, KafkaStorageError
from tidelog.explain.verify.findings import Severity
from tidelog.explain.verify.verify_partition import verify_partition
from tidelog.log.log import Log
from tidelog.records.builder import build_batch
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.commit import Transaction as Staged
from tidelog.staging.directory import CommitPoint
from tidelog.staging.finished import read_finished
from tidelog.staging.journal_names import list_journals
from tidelog.staging.staged_folder import LocalFolder
from tidelog.testing import PowerCut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tidelog.embedded.logs import Logs
    from tidelog.embedded.transaction import Transaction
    from tidelog.records.builder import BatchFields

TXN = "the transaction"
BEFORE = {"t-0": [b"before"], "t-1": [], "u-0": [b"old", b"older"]}
"""What lies in the logs before the transaction, flushed or not."""


def settings(segment_bytes: int) -> LogConfig:
    """Return settings of small segments, whose eighth is the size from which files are adopted."""
    return LogConfig(
        internal_segment_bytes=segment_bytes,
        segment_index_bytes=1200,
        index_interval_bytes=0,
        retention_ms=-1,
    )


APPENDS, MIXES, ADOPTS = settings(4_000), settings(2_000), settings(400)


class Case(NamedTuple):
    """What a transaction writes: records by partition directory.

    ``early`` and ``late`` are what others append to t-0 before and after it, unflushed; ``beside``
    what they append to u-0 meanwhile. Any prefix of these may be lost.
    """

    write: Callable[[Story, Logs], None]
    wanted: dict[str, list[bytes]]
    settings: LogConfig = APPENDS
    config: Mapping[str, str] = NO_SETTINGS
    before: dict[str, list[bytes]] = BEFORE
    others: dict[str, list[bytes]] = {}  # noqa: RUF012 - never changed


# What the cases write


def records(fill: Callable[[Transaction], None]) -> Callable[[Story, Logs], None]:
    """Write a transaction of records."""

    def write(_: Story, logs: Logs) -> None:
        with logs.transaction(TXN) as txn:
            fill(txn)

    return write


def small(txn: Transaction) -> None:
    """Write two records in one batch."""
    txn.append("t", b"one", partition=0)
    txn.append("t", b"two", partition=0)


def long(txn: Transaction) -> None:
    """Write several batches."""
    for value in LONG:
        txn.append("t", value, partition=0)


def partitions(txn: Transaction) -> None:
    """Write to three partitions of two topics."""
    txn.append("t", b"x", partition=0)
    txn.append("t", b"y", partition=1)
    txn.append("u", b"z", key=b"k")


def new_topic(txn: Transaction) -> None:
    """Write to a topic that the commit creates, and to another one."""
    if not txn.is_repeat:
        txn.create_topic("new", 2, {"retention.ms": "-1"})
    txn.append("new", b"first", partition=1)
    txn.append("t", b"last", partition=0)


Task = tuple[tuple[str, int, bytes], ...]
"""What one task writes: topic, partition and batch, in order."""


def tasks(*all_of_them: Task, keeps_offsets: bool = False) -> Callable[[Story, Logs], None]:
    """Commit the staged files of several tasks, whose buffers hold one batch."""

    def write(story: Story, logs: Logs) -> None:
        segment_bytes = story.case.settings.segment_size_bytes
        runs, topics = [], set()
        for batches in all_of_them:
            bundle = BundleWriter(
                LocalFolder(story.home.fs, story.home.path),
                TXN,
                rng=logs.manager.machine.rng,
                buffer_bytes=1,
                keeps_offsets=keeps_offsets,
            )
            for topic, partition, batch in batches:
                bundle.append(topic, partition, batch, segment_bytes=segment_bytes)
                topics.add(topic)
            runs += bundle.finish()
        ids = {topic: logs.topic(topic).topic_id for topic in topics}
        logs.manager.staged_commits.commit(story.home.path, Staged(TXN, True, runs, (), ids))

    return write


def batch(value: bytes, **fields: Unpack[BatchFields]) -> bytes:
    """Return a batch of one record."""
    return build_batch([record(value)], **fields)


def beside_others(story: Story, logs: Logs) -> None:
    """Write the transaction while other threads append, as far as they can."""
    commits = logs.manager.staged_commits
    noted = commits.on_point

    def append(point: CommitPoint) -> None:
        noted(point)
        for value, when in ((b"beside", CommitPoint.CHECKED), (b"besides", CommitPoint.PLACED)):
            if point is when:
                logs.partition("u", 0).append_records([record(value)])

    if not story.is_repeating:
        logs.partition("t", 0).append_records([record(b"early")])
        commits.on_point = append
    with logs.transaction(TXN) as txn:
        small(txn)
    if not story.is_repeating:
        logs.partition("t", 0).append_records([record(b"late")])


LONG = [b"%d" % number * 150 for number in range(7)]
MANY = [b"%03d" % number * 60 for number in range(14)]
FULL = {**BEFORE, "t-0": [b"before" * 20] * 19}
COPIED: Task = (
    ("t", 0, batch(b"a" * 60, base_offset=3, leader_epoch=0)),
    ("t", 0, batch(b"b" * 60, base_offset=6, leader_epoch=1)),
    ("t", 0, batch(b"c" * 60, base_offset=9, leader_epoch=1)),
    (
        "t",
        0,
        batch(
            b"d" * 60,
            base_offset=12,
            leader_epoch=2,
            producer_id=5,
            producer_epoch=0,
            base_sequence=0,
        ),
    ),
)
COPIED_VALUES = [value * 60 for value in (b"a", b"b", b"c", b"d")]
THREE = {"t-0": [b"x"], "t-1": [b"y"], "u-0": [b"z"]}
TWO_TASKS: tuple[Task, ...] = (
    (("t", 1, batch(b"a")), ("t", 0, batch(b"b")), ("u", 0, batch(b"c" * 120))),
    (("t", 0, batch(b"d" * 120)), ("t", 1, batch(b"e")), ("t", 0, batch(b"f"))),
)
IN_TWO_TASKS = {"t-0": [b"b", b"d" * 120, b"f"], "t-1": [b"a", b"e"], "u-0": [b"c" * 120]}
STAMPED = {"message.timestamp.type": "LogAppendTime"}

CASES = {
    "append": Case(records(small), {"t-0": [b"one", b"two"]}),
    "append_rolls": Case(
        records(long), {"t-0": LONG}, config={"max.message.bytes": "250"}, before=FULL
    ),
    "append_partitions": Case(records(partitions), THREE),
    "append_time": Case(records(small), {"t-0": [b"one", b"two"]}, ADOPTS, STAMPED),
    "append_new_topic": Case(records(new_topic), {"new-1": [b"first"], "t-0": [b"last"]}),
    "append_copy": Case(tasks(COPIED, keeps_offsets=True), {"t-0": COPIED_VALUES}),
    "append_beside_others": Case(
        beside_others,
        {"t-0": [b"one", b"two"]},
        others={"t-0": [b"early", b"late"], "u-0": [b"beside", b"besides"]},
    ),
    "adopt": Case(records(small), {"t-0": [b"one", b"two"]}, ADOPTS),
    "adopt_many": Case(records(long), {"t-0": LONG}, ADOPTS),
    "adopt_partitions": Case(records(partitions), THREE, ADOPTS),
    "adopt_new_topic": Case(records(new_topic), {"new-1": [b"first"], "t-0": [b"last"]}, ADOPTS),
    "adopt_copy": Case(tasks(COPIED, keeps_offsets=True), {"t-0": COPIED_VALUES}, ADOPTS),
    "adopt_beside_others": Case(
        beside_others,
        {"t-0": [b"one", b"two"]},
        ADOPTS,
        others={"t-0": [b"early", b"late"], "u-0": [b"beside", b"besides"]},
    ),
    "mixed": Case(tasks(tuple(("t", 0, batch(one)) for one in MANY)), {"t-0": MANY}, MIXES),
    "expiring": Case(records(partitions), THREE, config={"retention.ms": "1"}),
    "expiring_adopted": Case(records(partitions), THREE, ADOPTS, {"retention.ms": "1"}),
    "bundles": Case(tasks(*TWO_TASKS), IN_TWO_TASKS, MIXES),
    "bundles_adopted": Case(tasks(*TWO_TASKS), IN_TWO_TASKS, ADOPTS),
}


@dataclass
class Story:
    """A machine with topics, and how far a commit came on it."""

    case: Case
    home: DataHome
    points: list[CommitPoint] = field(default_factory=list)
    is_repeating: bool = False

    def open(self) -> Logs:
        """Open the directory as a short-lived writer."""
        logs = self.home.open(defaults=self.case.settings)
        logs.manager.staged_commits.on_point = self.points.append
        return logs

    def commit(self) -> None:
        """Commit the transaction, as a process that does nothing else."""
        with self.open() as logs:
            self.case.write(self, logs)

    def reopen(self) -> None:
        """Open the directory and close it, which finishes the journal."""
        with self.open():
            pass

    def values(self) -> dict[str, list[bytes | None]]:
        """Return what readers see, by partition directory."""
        names = [name for name in self.home.files() if name.rpartition("-")[2].isdigit()]
        return {name: self.home.values(name) for name in names}


@cache
def _prepared(name: str) -> Story:
    """Return a machine with two topics, closed in order."""
    story = Story(CASES[name], DataHome())
    story.home.clock.advance(1_000_000)
    with story.open() as logs:
        logs.create_topic("t", 2, story.case.config)
        logs.create_topic("u")
        for directory, values in story.case.before.items():
            topic, _, number = directory.rpartition("-")
            for value in values:
                logs.partition(topic, int(number)).append_records([record(value)])
    return story


def prepared(name: str, seed: int = 0) -> Story:
    """Return a machine with two topics, closed in order."""
    return Story(CASES[name], _prepared(name).home.copied(seed))


@cache
def _committed(name: str) -> Story:
    story = prepared(name)

    def cut(point: CommitPoint) -> None:
        story.points.append(point)
        if point is CommitPoint.COMMITTED:
            raise PowerCut(point.value)

    logs = story.open()
    logs.manager.staged_commits.on_point = cut
    with suppress(PowerCut):
        story.case.write(story, logs)
    story.home.fs.power_cut("all")
    return story


def committed(name: str, seed: int = 0) -> Story:
    """Return a machine whose power failed right after the commit point."""
    story = _committed(name)
    return Story(story.case, story.home.copied(seed), list(story.points), is_repeating=True)


def kafka_appends(story: Story, value: bytes) -> None:
    """Append to t-0 as a broker does, which knows nothing of journals."""
    for name in list_journals(story.home.fs, story.home.path):
        story.home.fs.rename(f"{story.home.path}/{name}", f"{story.home.path}/{name}.hidden")
    with story.open() as logs:
        logs.partition("t", 0).append_records([record(value)])
    for name in story.home.files():
        if name.endswith(".hidden"):
            path = f"{story.home.path}/{name}"
            story.home.fs.rename(path, path.removesuffix(".hidden"))
    story.home.fs.sync_directory(story.home.path)


@cache
def _overtaken(name: str) -> Story:
    story = committed(name)
    kafka_appends(story, b"other")
    return story


def overtaken(name: str, seed: int = 0) -> Story:
    """Return a machine on which a broker appended to t-0 right after the commit point."""
    story = _overtaken(name)
    before = {**story.case.before, "t-0": [*story.case.before["t-0"], b"other"]}
    case = story.case._replace(before=before)
    return Story(case, story.home.copied(seed), list(story.points))


# A transaction that cannot be applied while other things happen

FULL_DISK = OSError(errno.ENOSPC, "no space left")


def while_pending(story: Story) -> None:
    """Repeat the batch, delete old segments and then a topic, while a journal is pending."""
    story.home.fs.fail("pwrite", "u-0/00000000000000000000.log", FULL_DISK, 2)
    with story.open() as logs:
        with pytest.raises(CommitPending):
            story.case.write(story, logs)
        story.home.clock.advance(10_000)
        logs.retain()
        with pytest.raises(CommitPending):
            logs.append("t", b"late", partition=0)
        logs.delete_topic("u")
        logs.manager.staged_commits.finish_all()
        assert logs.manager.staged_commits.pending == {}


def check_pending(story: Story) -> None:
    """What is left of the transaction is whole; what lay before it may have expired."""
    load_all(story)
    found = story.values()
    for name in ("t-0", "t-1"):
        before, wanted = story.case.before[name], story.case.wanted[name]
        assert found[name] in ([*before, *wanted], wanted)
    assert found.get("u-0") in (None, [*story.case.before["u-0"], *story.case.wanted["u-0"]])
    assert list_journals(story.home.fs, story.home.path) == []


# Two data directories

OTHER = "/other"


@dataclass
class TwoDirectories(Story):
    """A machine with two data directories, and a transaction for each."""

    def open(self) -> Logs:
        """Open both directories as a short-lived writer."""
        logs = self.home.open(defaults=self.case.settings, paths=(self.home.path, OTHER))
        logs.manager.staged_commits.on_point = self.points.append
        return logs

    def commit(self) -> None:
        """Commit a transaction in each directory."""
        with self.open() as logs:
            for topic in ("t", "w"):
                path = logs.partition(topic, 0).log.directory.rpartition("/")[0]
                with logs.transaction(TXN, path) as txn:
                    txn.append(topic, topic.encode() * 60, partition=0)
                    txn.append(topic, topic.encode(), partition=1)

    def seen(self) -> list[list[bytes | None]]:
        """Return the records of t-0, t-1, w-0 and w-1."""
        with self.open() as logs:
            return [
                [found.value for found in logs.read(topic, number)]
                for topic in ("t", "w")
                for number in range(2)
            ]


@cache
def _with_two(name: str) -> TwoDirectories:
    story = TwoDirectories(CASES[name], DataHome())
    with story.open() as logs:
        for topic in ("t", "w"):
            logs.create_topic(topic, 2)
            logs.partition(topic, 0).append_records([record(b"before")])
        directories = {logs.partition(topic, 0).log.directory for topic in ("t", "w")}
    assert {path.rpartition("/")[0] for path in directories} == {story.home.path, OTHER}
    return story


def with_two(name: str, seed: int = 0) -> TwoDirectories:
    """Return a machine with a topic in each of two data directories."""
    return TwoDirectories(CASES[name], _with_two(name).home.copied(seed))


def check_two(story: TwoDirectories) -> None:
    """Each transaction is whole or absent, and both can be repeated."""
    first = [[b"before", b"t" * 60], [b"t"]]
    second = [[b"before", b"w" * 60], [b"w"]]
    none: list[list[bytes]] = [[b"before"], []]
    assert story.seen() in ([*none, *none], [*first, *none], [*first, *second])
    story.commit()
    assert story.seen() == [*first, *second]
    for path in (story.home.path, OTHER):
        assert list_journals(story.home.fs, path) == []


# Crashes and full disks

AnyStory = TypeVar("AnyStory", bound=Story)


def crashed(
    make: Callable[[int], AnyStory], act: Callable[[AnyStory], None], seeds: int, step: int = 1
) -> Iterator[AnyStory]:
    """Yield each state that a crash during ``act``, or right after it, may leave."""
    story = make(0)
    before = len(story.home.fs.operations)
    act(story)
    count = len(story.home.fs.operations) - before
    for operations in range(0, count + 1, step):
        story = make(operations % (seeds + 1))
        story.home.fs.crash_after(operations)
        with suppress(PowerCut):
            act(story)
        for outcome in outcomes(seeds):
            home = story.home.copied(outcome.seed)
            home.fs.power_cut(outcome.kept)
            yield replace(story, home=home, points=list(story.points))


CHANGES = {
    "open",
    "pwrite",
    "write",
    "truncate",
    "rename",
    "make_directory",
    "sync",
    "sync_directory",
}


def without_space(
    make: Callable[[int], Story], act: Callable[[Story], None], step: int = 1
) -> Iterator[Story]:
    """Yield the machine after each operation in turn has failed because the disk was full."""
    story = make(0)
    traced = story.home.fs.trace()
    act(story)
    chosen = [(number, one.name) for number, one in enumerate(traced) if one.name in CHANGES]
    for number, name in chosen[::step]:
        for is_short in (False, True) if name in {"pwrite", "write"} else (False,):
            story = make(0)
            story.home.fs.fail_at(number, FULL_DISK, is_short=is_short)
            with suppress(KafkaStorageError, OSError):
                act(story)
            story.home.fs.kill()
            story.home.fs.power_cut("all")
            yield story


# What must be true of every state


def contents(home: DataHome) -> str:
    """Digest all files, so that a state is looked at once."""
    found = sha256()
    waiting = [home.path, OTHER]
    while waiting:
        path = waiting.pop()
        if not home.fs.exists(path):
            continue
        if home.fs.stat(path).is_directory:
            waiting += sorted(f"{path}/{name}" for name in home.fs.list(path))
            found.update(f"{path};".encode())
        else:
            found.update(f"{path}:".encode() + home.fs.read(path) + b";")
    return found.hexdigest()


def check_values(story: Story, *, is_there: bool) -> None:
    """Each partition holds what it held before, and the transaction whole, or nothing of it."""
    case = story.case
    wanted = {name: list(values) for name, values in case.before.items()}
    for name, values in case.wanted.items() if is_there else ():
        wanted[name] = [*wanted.get(name, []), *values]
    if is_there and any(name.startswith("new-") for name in case.wanted):
        wanted.setdefault("new-0", [])
    found = story.values()
    for name, values in case.others.items():
        others = [value for value in found[name] if value in values]
        assert others == [value for value in values if value in others]
        assert len(others) == len(values) or others == values[: len(others)] or is_there
        assert b"early" in others or b"early" not in values or not is_there or story.is_repeating
        found[name] = [value for value in found[name] if value not in values]
    assert found == wanted


@dataclass
class Seen:
    """States of the disk that were looked at, by digests of all files."""

    left: set[tuple[str, bool]] = field(default_factory=set)
    """By crashes, with whether the commit point was reached."""
    finished: set[str] = field(default_factory=set)
    """After the directory was opened: many states that crashes leave end as the same."""
    files: set[str] = field(default_factory=set)
    """Whose indexes, snapshots and epochs were recovered."""


def check(story: Story, seen: Seen) -> None:
    """Open the directory: the transaction is there whole, or can be repeated, with one result."""
    was_committed = CommitPoint.COMMITTED in story.points
    load_all(story)
    home = story.home
    is_there = TXN in {one.txn for one in read_finished(home.fs, home.path).values()}
    assert is_there or not was_committed
    check_values(story, is_there=is_there)
    assert list_journals(home.fs, home.path) == []
    check_files(story, seen)
    state = contents(home)
    if state in seen.finished:
        return
    seen.finished.add(state)
    story.is_repeating = True
    story.commit()
    load_all(story)
    check_values(story, is_there=True)
    assert list_journals(home.fs, home.path) == []
    check_files(story, seen)
    # A power cut may undo the deletion of a staged file alone; a sweep deletes it again.
    home.clock.advance(8 * 24 * 3_600_000)
    load_all(story)
    assert [name for name in home.files() if name.endswith(".staged")] == []


def load_all(story: Story) -> None:
    """Open the directory and every log in it."""
    with story.open() as logs:
        for topic in logs.topics():
            list(logs.partitions(topic))


def check_files(story: Story, seen: Seen) -> None:
    """Indexes, snapshots, epochs and checksums are right, and append times are all the same."""
    state = contents(story.home)
    if state in seen.files:
        return
    seen.files.add(state)
    for name in story.values():
        directory = f"{story.home.path}/{name}"
        findings = verify_partition(
            story.home.fs,
            directory,
            clock=story.home.clock,
            is_compacted=story.case.wanted.get("t-0") is COPIED_VALUES,
        ).findings
        assert [one for one in findings if one.severity is Severity.DAMAGE] == []
        check_recovery(story, name)
    if story.case.config is STAMPED:
        with story.home.read_only("t-0") as log:
            times = {found.timestamp for found in log.records() if found.value in {b"one", b"two"}}
        assert len(times) <= 1


def check_recovery(story: Story, name: str) -> None:
    """A recovery of all segments finds the snapshots and epochs that are there, and the entries.

    An index may lack entries: the distance to the next one is counted again by each process.
    """
    home = story.home.copied(0)
    before = files_of(home, name)
    for file in before:
        if not file.endswith((".log", ".metadata")):
            home.fs.delete(f"{home.path}/{name}/{file}")
    log = Log.open(
        f"{home.path}/{name}",
        fs=home.fs,
        clock=home.clock,
        scheduler=InlineScheduler(),
        rng=Random(0),
        config=story.case.settings,
        clean_shutdown=False,
    )
    log.close()
    if LEADER_EPOCH_FILE in before:
        before[LEADER_EPOCH_FILE] = with_records(before[LEADER_EPOCH_FILE], log.log_end_offset)
    after = files_of(home, name)
    for file, data in before.items():
        if file.endswith("index"):
            size = 12 if file.endswith(".timeindex") else 8
            assert entries(data, size) <= entries(after[file], size) or file.endswith(".timeindex")
            assert entries(data[-size:], size) <= entries(after[file], size)
        elif file.endswith((".snapshot", ".log", LEADER_EPOCH_FILE)):
            assert file not in after or after[file] == data, file


def with_records(epochs: bytes, end: int) -> bytes:
    """Return the file of leader epochs without one that begins at the end, as after a loss."""
    lines = epochs.splitlines()
    kept = [line for line in lines[2:] if int(line.split()[1]) < end]
    count = b"%d" % len(kept)
    return b"".join(line + b"\n" for line in [*lines[:1], count, *kept]) if lines else epochs


def entries(data: bytes, size: int) -> set[bytes]:
    """Return the entries of an index."""
    return {data[start : start + size] for start in range(0, len(data), size)}


def files_of(home: DataHome, name: str) -> dict[str, bytes]:
    """Return the files of a partition."""
    return {file: home.fs.read(f"{home.path}/{name}/{file}") for file in home.files(name)}


def enumerate_states(
    stories: Iterator[AnyStory], check_state: Callable[[AnyStory], None] | None = None
) -> tuple[int, int]:
    """Check each different state; return how many there were, and how many crashes."""
    seen = Seen()
    crashes = 0
    for story in stories:
        crashes += 1
        state = contents(story.home), CommitPoint.COMMITTED in story.points
        if state not in seen.left:
            seen.left.add(state)
            if check_state is None:
                check(story, seen)
            else:
                check_state(story)
    return len(seen.left), crashes
