"""A mirror that tasks read and stage: whatever the parts, it has the batches of its source."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis.strategies import data, integers, lists, sampled_from
from tests.machinery.batches_of_logs import batches_of
from tests.machinery.scale import examples

import tidelog
from tidelog.embedded.doors import open_source
from tidelog.embedded.spread_mirror import mirror_spread
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import CorruptMessage, DirectoryNotShared, InconsistentTopicId
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.staging.staged_file import list_staged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import DataObject

    from tidelog import MirroredPartition
    from tidelog.embedded.spread_mirror import CopiedParts, MirrorJob
    from tidelog.readonly.log_range import LogRange

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
CASES = ("codecs", "compaction/before", "epochs", "logappendtime", "transactions")


class Part(NamedTuple):
    """Offsets ``[start_offset, end_offset)`` of a partition."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int


@dataclass
class HereAsTasks:
    """Workers in this process; ``cut`` says where ranges are cut, ``before`` runs before tasks."""

    cut: Callable[[int, int], Sequence[int]] = lambda _start, _end: ()
    before: Callable[[MirrorJob], object] = lambda _: None
    order: int = 1
    """Steps from one task to the next that is run."""
    attempts: int = 1
    tasks: list[Part] = field(default_factory=list)

    def divide(self, ranges: Sequence[LogRange]) -> list[list[Part]]:
        """Make a task of each part."""
        for log, start, end, _ in ranges:
            cuts = sorted({start, *self.cut(start, end), end})
            self.tasks += [Part(log.topic, log.partition, *each) for each in pairwise(cuts)]
        return [[task] for task in self.tasks]

    def run(self, job: MirrorJob) -> list[CopiedParts]:
        """Run the tasks, backwards if ``order`` is -1; the last attempt of each counts."""
        self.before(job)
        numbers = range(len(job.tasks))[:: self.order]
        done: dict[int, CopiedParts] = {}
        for _ in range(self.attempts):
            done |= {number: job.run(number) for number in numbers}
        return [done[number] for number in sorted(done)]


def spread(
    source: Path, target: Path, workers: HereAsTasks, *topics: str, is_plan: bool = False
) -> list[MirroredPartition]:
    """Mirror by tasks."""
    return mirror_spread(open_source(source), str(target), topics, workers, is_plan=is_plan)


def batches(path: Path) -> dict[str, list[bytes]]:
    """Return the batches of each partition, byte for byte."""
    logs = open_directory_read_only(str(path), fs=SYSTEM_FILES).logs()
    return {f"{log.topic}-{log.partition}": batches_of(log) for log in logs}


@settings(max_examples=examples(12), deadline=None)
@given(drawn=data(), case=sampled_from(CASES), order=sampled_from([1, -1]))
def test_whatever_the_parts_the_batches_are_those_of_the_source(
    drawn: DataObject,
    case: str,
    order: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Cuts may lie inside batches and in gaps; a batch across one is copied once."""
    folder = tmp_path_factory.mktemp("mirror")

    def cut(start: int, end: int) -> Sequence[int]:
        return drawn.draw(lists(integers(start, end), max_size=5))

    done = spread(GOLDEN / case, folder / "copy", HereAsTasks(cut, order=order))

    alone = tidelog.mirror(GOLDEN / case, folder / "alone")
    assert done == alone
    assert any(one.batches for one in done)
    assert batches(folder / "copy") == batches(folder / "alone")
    assert list_staged(SYSTEM_FILES, str(folder / "copy")) == []
    shutil.rmtree(folder)


def test_a_task_that_ran_twice_counts_once(tmp_path: Path) -> None:
    """What its other attempt staged is deleted."""
    done = spread(GOLDEN / "epochs", tmp_path / "copy", HereAsTasks(attempts=2))

    assert done == tidelog.mirror(GOLDEN / "epochs", tmp_path / "alone")
    assert batches(tmp_path / "copy") == batches(tmp_path / "alone")
    assert list_staged(SYSTEM_FILES, str(tmp_path / "copy")) == []


def test_a_plan_counts_and_writes_nothing(tmp_path: Path) -> None:
    """It does not make the target."""
    target = tmp_path / "copy"

    plan = spread(GOLDEN / "transactions", target, HereAsTasks(), is_plan=True)

    assert not target.exists()
    assert plan == spread(GOLDEN / "transactions", target, HereAsTasks())


def test_only_what_is_new_is_divided(tmp_path: Path) -> None:
    """A second run has no tasks; new records make one, of their partition."""
    source, target = tmp_path / "data", tmp_path / "copy"
    with tidelog.open(source) as logs:
        logs.create_topic("t", 2)
        logs.append("t", b"a", partition=0)
        logs.append("t", b"b", partition=1)
    spread(source, target, HereAsTasks())
    idle, busy = HereAsTasks(), HereAsTasks()
    assert [one.batches for one in spread(source, target, idle)] == [0, 0]
    with tidelog.open(source) as logs:
        logs.append("t", b"c", partition=1)

    spread(source, target, busy)

    assert (idle.tasks, busy.tasks) == ([], [Part("t", 1, 1, 2)])
    assert batches(target) == batches(source)


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """A damaged batch in one of the parts: no batch of another is in the mirror."""
    source, target = tmp_path / "data", tmp_path / "copy"
    with tidelog.open(source) as logs:
        logs.create_topic("t", 2)
        for number in (0, 1):
            for value in (b"first", b"second", b"third"):
                logs.append("t", value, partition=number)
    log = source / "t-1" / f"{0:020d}.log"
    stored = bytearray(log.read_bytes())
    stored[stored.index(b"second")] ^= 1
    log.write_bytes(stored)

    with pytest.raises(CorruptMessage):
        spread(source, target, HereAsTasks(lambda _start, _end: (1, 2)))

    assert list_staged(SYSTEM_FILES, str(target)) == []
    assert batches(target) == {}


def test_tasks_refuse_other_directories_than_the_drivers(tmp_path: Path) -> None:
    """The target is known by a file of this run, the topics of the source by their ids."""
    source, target = tmp_path / "data", tmp_path / "copy"
    with tidelog.open(source) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")

    def hide(job: MirrorJob) -> None:
        assert job.marker is not None
        (target / job.marker).unlink()

    def create_again(_: MirrorJob) -> None:
        with tidelog.open(source) as logs:
            logs.delete_topic("t")
            logs.create_topic("t")
            logs.append("t", b"b")

    with pytest.raises(DirectoryNotShared, match="is not the data directory that the driver sees"):
        spread(source, target, HereAsTasks(before=hide))
    with pytest.raises(InconsistentTopicId, match="created again, or this process sees another"):
        spread(source, target, HereAsTasks(before=create_again))
    assert list_staged(SYSTEM_FILES, str(target)) == []
    assert batches(target) == {}


def test_a_log_start_behind_a_cut_inside_a_batch_leaves_no_hole(tmp_path: Path) -> None:
    """The batch belongs to the task on the left of the cut, whose offsets are all deleted."""
    source, target = tmp_path / "data", tmp_path / "copy"
    with tidelog.open(source) as logs:
        logs.create_topic("t")
        logs.append_all("t", [b"%d" % number for number in range(10)])

    def delete(_: MirrorJob) -> None:
        with tidelog.open(source) as logs:
            logs.delete_records("t", 0, 6)

    (done,) = spread(source, target, HereAsTasks(lambda _start, _end: (4,), before=delete))

    assert (done.start_offset, done.end_offset, done.batches) == (0, 10, 1)


def test_what_retention_deletes_before_a_task_reads_it_is_left_out(tmp_path: Path) -> None:
    """The mirror then begins after it, as if it had been deleted before the run."""
    source, target = tmp_path / "data", tmp_path / "copy"
    with tidelog.open(source) as logs:
        logs.create_topic("t", config={"internal.segment.bytes": "100", "retention.ms": "-1"})
        for number in range(6):
            logs.append_all("t", [b"%d" % number])

    def delete(_: MirrorJob) -> None:
        with tidelog.open(source) as logs:
            logs.delete_records("t", 0, 4)

    (done,) = spread(source, target, HereAsTasks(lambda _start, _end: (2, 5), before=delete))

    assert (done.start_offset, done.end_offset, done.batches) == (4, 6, 2)
    spread(source, target, HereAsTasks())
    assert batches(target) == batches(source)
