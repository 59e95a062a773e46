"""Whatever happens to a log and its archive, together they hold what no rule has deleted."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

import pytest
from tests.machinery.archives import files_with
from tests.machinery.lost_segment import but_for_losses
from tests.machinery.manager_home import ManagerHome
from tests.machinery.object_model import ObjectModel
from tests.machinery.samples import sampled
from tests.machinery.scale import scaled
from tests.machinery.transactions import append_transaction

from tidelog.archive import open_archives
from tidelog.archive.archive_files import ArchiveFiles
from tidelog.archive.claim_file import read_claim
from tidelog.embedded.logs import Logs
from tidelog.errors import CorruptArchive
from tidelog.manager.manager_part import OpenStores
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.isolation import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tests.conftest import Enumerated

    from tidelog.archive.archived_partitions import ArchivedPartition
    from tidelog.embedded.topic_reads import ConsumedRecord
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.records.record import Record
    from tidelog.service.log_service import LogService

T = TypeVar("T")

URI: Final = "s3://lake/logs"
LOCAL_MS: Final = 5_000
TOTAL_MS: Final = 60_000
DIRECTORIES: Final = ("/data", "/more")
STEPS: Final = 60
LINES: Final = "log-start-offset-checkpoint"


@dataclass
class Expected:
    """What the log holds: (time, value) by offset, None for a marker, and which were aborted."""

    records: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    deleted_to: int = 0
    """Records below it were deleted on request."""


class History:
    """One topic of one partition, its service, and an archive that fails at times."""

    def __init__(self, seed: int, store: ObjectModel) -> None:
        self.rng = Random(seed)
        self.store = store
        self.home = ManagerHome(*DIRECTORIES, seed=seed)
        self.expected = Expected()
        self.count = 0
        self.manager = self.open()
        self.create()

    def open(self) -> LogService:
        return self.home.open(tidelog_archive_uri=URI)

    def create(self) -> None:
        settings = {
            "remote.storage.enable": "true",
            "local.retention.ms": str(LOCAL_MS),
            "retention.ms": str(TOTAL_MS),
        }
        self.manager.create_topic("t", config=settings)
        self.expected = Expected()

    # What happens

    def step(self) -> str:
        """Do something; return what."""
        act = self.rng.choice(self.acts())
        act()
        return act.__name__

    def acts(self) -> list[Callable[[], None]]:
        """Return what may be done; what stands there several times is done more often."""
        acts = [self.append] * 6 + [self.transact] * 2 + [self.archive] * 5 + [self.retain] * 4
        acts += [self.delete, self.restart, self.kill, self.cut_power, self.move, self.create_again]
        return acts

    def append(self) -> None:
        log = self.manager.partition("t", 0).log
        for _ in range(self.rng.randrange(1, 12)):
            self.count += 1
            now_ms, value = self.home.clock.now_ms(), b"%d" % self.count + b"x" * 200
            self.expected.records[log.log_end_offset] = now_ms, value
            self.manager.partition("t", 0).append_records([(now_ms, None, value, ())])

    def transact(self) -> None:
        partition = self.manager.partition("t", 0)
        first, is_commit = partition.log.log_end_offset, self.rng.random() < 0.5
        values = [b"%d txn" % (self.count + at) for at in range(4)]
        self.count += 4
        now_ms = self.home.clock.now_ms()
        append_transaction(
            partition, *values, is_commit=is_commit, producer_id=self.count, now_ms=now_ms
        )
        partition.log.flush()  # a power cut takes no marker alone
        for at, value in enumerate(values, first):
            self.expected.records[at] = now_ms, value
            if not is_commit:
                self.expected.aborted.add(at)

    def archive(self) -> None:
        self.store.chance = self.rng.choice([0, 0, 0.2])
        assert self.manager.tasks.archiving is not None
        self.manager.tasks.archiving.run()
        self.store.chance = 0
        self.store.tick()

    def retain(self) -> None:
        self.home.clock.advance(self.rng.choice([0, 1_000, LOCAL_MS, TOTAL_MS // 3]))
        self.manager.tasks.cleanup_logs()

    def delete(self) -> None:
        log = self.manager.partition("t", 0).log
        before = self.rng.randint(log.log_start_offset, log.high_watermark)
        Logs(self.manager).delete_records("t", 0, before)
        self.manager._checkpointing.checkpoint_log_start_offsets()
        self.expected.deleted_to = max(self.expected.deleted_to, before)

    def restart(self) -> None:
        self.manager.close()
        if self.rng.random() < 0.3:  # a line says no more than where the disk begins
            for path in DIRECTORIES:
                if LINES in self.home.files(path) and not self.home.lines(LINES, path):
                    self.home.fs.delete(f"{path}/{LINES}")
        self.manager = self.open()

    def kill(self) -> None:
        flushed = self.manager.partition("t", 0).log.log_end_offset
        self.home.restart()
        self.lose(flushed)

    def cut_power(self) -> None:
        flushed = self.manager.partition("t", 0).log.recovery_point
        self.home.power_cut()
        self.lose(flushed)

    def lose(self, flushed: int) -> None:
        """Open what an end without notice has left; what was not flushed, and deletions, may go."""
        self.manager = self.open()
        self.home.clock.advance(0)  # the lines of the checkpoints follow
        log = self.manager.partition("t", 0).log
        there = {record.offset for record in log.records(isolation=Isolation.LOG_END)}
        kept = self.expected.records
        self.expected.records = {at: one for at, one in kept.items() if at < flushed or at in there}
        self.expected.aborted &= self.expected.records.keys()
        self.expected.deleted_to = min(self.expected.deleted_to, log.log_start_offset)

    def move(self) -> None:
        self.manager.move_partition("t", 0, self.rng.choice(DIRECTORIES))
        for _ in range(50):
            self.home.clock.advance(10)
            if not self.manager.moves():
                return
        raise AssertionError("the move did not end")

    def create_again(self) -> None:
        if self.rng.random() < 0.3:
            self.manager.delete_topic("t")
            self.create()

    def finish(self) -> None:
        """Whatever has happened, nothing is in the way of archiving."""
        self.store.settle()
        assert self.manager.tasks.archiving is not None
        for _ in range(2):  # what a late claim has fenced continues in the second one
            self.manager.tasks.archiving.run()
        failed = [one for one in self.manager.metrics() if one.name == "FailedLogsCount"]
        assert [one.value for one in failed] == [0]
        self.check()
        self.manager.close()

    # What must hold

    def check(self) -> None:
        """Compare what the owner, its disk, somebody beside it and the archive alone hold."""
        open_archives._archives[URI]._states.clear()
        log = self.manager.partition("t", 0).log
        wanted, end = self.expected, log.log_end_offset
        with self.look() as whole:
            start = whole.log_start_offset
            assert start == log.log_start_offset >= wanted.deleted_to
            for is_committed in (False, True):
                records = self.records(is_committed=is_committed)
                found = self.listed(whole, start, end, is_committed)
                assert found == between(records, start, end)
                level = Isolation.READ_COMMITTED if is_committed else Isolation.READ_UNCOMMITTED
                owned = Logs(self.manager).read("t", 0, isolation=level)
                assert by_offset(but_for_losses(owned)) == found
                local = log.local_log_start_offset
                assert by_offset(log.records(isolation=level)) == between(records, local, end)
        lost = [at for at in wanted.records if wanted.deleted_to <= at < start]
        young_ms = self.home.clock.now_ms() - TOTAL_MS
        assert not [at for at in lost if wanted.records[at][0] >= young_ms]
        self.check_archive(start, end)

    def records(self, *, is_committed: bool) -> dict[int, bytes]:
        """Return what there was ever to read, by offset."""
        left_out = self.expected.aborted if is_committed else set()
        return {at: one[1] for at, one in self.expected.records.items() if at not in left_out}

    def listed(
        self, log: ReadOnlyLog, start: int, end: int, is_committed: bool
    ) -> dict[int, bytes | None]:
        """Return what a log has in ``[start, end)``; any part of that has the same."""
        whole = by_offset(log.records(start, end, committed=is_committed))
        first, last = sorted((self.rng.randint(start, end), self.rng.randint(start, end)))
        part = by_offset(log.records(first, last, committed=is_committed))
        assert part == between(whole, first, last)
        return whole

    def look(self) -> ReadOnlyLog:
        return open_directory_read_only(*DIRECTORIES, fs=self.home.fs).open("t", 0)

    def archived(self) -> ArchivedPartition | None:
        """Return the partition in the archive alone; None if it is not there, or not yet."""
        try:
            found = open_archives._archives[URI].of_topics({"t"}).get("t-0")
        except CorruptArchive:
            # A deleted topic's archive has not ended yet, since the store failed.
            assert [claim for claim in self.claims() if read_claim(self.home.fs, claim).is_deleted]
            return None
        is_this = found is not None and found.topic_id == self.manager.topic("t").topic_id
        return found if is_this else None

    def claims(self) -> list[str]:
        """Return the paths of the claim files."""
        names = [(path, name) for path in DIRECTORIES for name in self.home.files(path)]
        return [f"{path}/{name}" for path, name in names if name.endswith(".archive")]

    def check_archive(self, start: int, end: int) -> None:
        found = self.archived()
        if found is None:
            return
        state = found.state
        assert state.end <= end
        assert state.start <= start
        opened = [first for _, first in state.entries[-1].opened] if state.entries else []
        fs = ArchiveFiles(open_archives._archives[URI], URI)
        with open_directory_read_only(URI, fs=fs).open("t", 0) as log:
            first = max(log.log_start_offset, start)
            # A transaction whose marker is not archived is not decided there.
            assert log.visible_end(committed=True) == min([state.end, *opened])
            for is_committed in (False, True):
                # Below the log start if the beginning of an undecided transaction was deleted.
                last = max(first, log.visible_end(committed=is_committed))
                alone = self.listed(log, first, last, is_committed)
                assert alone == between(self.records(is_committed=is_committed), first, last)


def by_offset(records: Iterable[Record | ConsumedRecord]) -> dict[int, bytes | None]:
    return {record.offset: record.value for record in records}


def between(records: Mapping[int, T], first: int, last: int) -> dict[int, T]:
    return {at: value for at, value in records.items() if first <= at < last}


def run_histories(
    seeds: range,
    monkeypatch: pytest.MonkeyPatch,
    enumerated: Enumerated,
    kind: type[History] = History,
) -> None:
    segments = steps = 0
    for seed in seeds:
        store = ObjectModel(Random(seed))
        store.name = URI
        files_with(store, URI)
        monkeypatch.setattr(OpenStores, "opened", lambda _self, _uri, one=store: one)
        history = kind(seed, store)
        for _ in range(STEPS):
            done = history.step()
            print(seed, done)  # noqa: T201 - to find it again
            history.check()
            steps += 1
        segments += sum("/s/" in name for name in store.objects)
        history.finish()
    enumerated("steps", steps, at_least=len(seeds) * STEPS)
    enumerated("archived segments", segments, at_least=len(seeds))


@pytest.mark.parametrize("block", sampled(range(2), 1))
def test_nothing_is_lost_but_what_was_deleted(
    block: int, monkeypatch: pytest.MonkeyPatch, enumerated: Enumerated
) -> None:
    """Histories of appends, copies, both retentions, deletions, moves, kills and power cuts."""
    run_histories(range(block * 100, block * 100 + scaled(2)), monkeypatch, enumerated)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10, 18))
def test_nothing_is_lost_in_many_histories(
    block: int, monkeypatch: pytest.MonkeyPatch, enumerated: Enumerated
) -> None:
    """As above, of other seeds."""
    run_histories(range(block * 100, block * 100 + scaled(10)), monkeypatch, enumerated)
