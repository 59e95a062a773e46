"""A mirror whose batches are read and staged by tasks on any machines that see both directories.

One process locks the target, plans and commits, by the code of ``tidelog mirror``; each task reads
parts of partitions, and stages their batches in files of its own.
"""

from __future__ import annotations

import os
import random
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tidelog.embedded.doors import mirror_topics
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.overlay_files import OverlayFiles
from tidelog.env.renamed_files import delete_if_there
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.manager.mirror_ranges import (
    CopiedBatches,
    MirrorRange,
    StagedRanges,
    copy_batches,
    opened,
)
from tidelog.readonly.log_range import LogRange
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.marker import MarkerVisits, make_marker
from tidelog.staging.staged_file import attempt_of
from tidelog.staging.staged_folder import LocalFolder

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tidelog.manager.mirror import MirroredPartition
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.staging.staged_run import StagedRun

    PartOfLog = tuple[str, int, int, int]


class MirrorWorkers(Protocol):
    """What divides the work of a mirror among tasks, and runs them."""

    def divide(self, ranges: Sequence[LogRange]) -> Sequence[Sequence[PartOfLog]]:
        """Return for each task the parts that it reads; together they are ``ranges``.

        A part is a topic, the number of a partition, and where it starts and ends, exclusive.
        """

    def run(self, job: MirrorJob) -> Sequence[CopiedParts]:
        """Run all tasks; return their results, of one attempt each."""


class MirrorPart(NamedTuple):
    """The batches of a range with base offsets in ``[start_offset, end_offset)``."""

    whole: MirrorRange
    start_offset: int
    end_offset: int


class CopiedParts(NamedTuple):
    """What a task staged: its runs, and what each of its parts has, in their order."""

    runs: tuple[StagedRun, ...]
    copied: tuple[tuple[MirrorPart, CopiedBatches], ...]


def mirror_spread(
    source: ReadOnlyDirectory,
    target: str,
    topics: Collection[str],
    workers: MirrorWorkers,
    *,
    is_plan: bool = False,
) -> list[MirroredPartition]:
    """Copy what is new of topics; arguments and errors as ``mirror_topics``, and of ``workers``.

    A plan locks and writes nothing; its tasks count batches.
    """

    def stage(txn: str, ranges: Sequence[MirrorRange]) -> StagedRanges:
        tasks = _tasks(source, ranges, workers)
        if is_plan:
            return _staged(ranges, workers.run(MirrorJob(source.paths, target, txn, tasks)))
        marker = make_marker(SYSTEM_FILES, target, txn, random.SystemRandom())
        try:
            return _staged(ranges, workers.run(MirrorJob(source.paths, target, txn, tasks, marker)))
        finally:
            with suppress(OSError):  # the commit has deleted it, or the next run does
                delete_if_there(SYSTEM_FILES, os.path.join(target, marker))

    fs = OverlayFiles(SYSTEM_FILES) if is_plan else SYSTEM_FILES
    return mirror_topics(source, target, topics, fs=fs, is_plan=is_plan, stage=stage)


@dataclass(frozen=True)
class MirrorJob:
    """What the tasks need to know; ``marker``: a file that they look for, None: only count."""

    source: tuple[str, ...]
    target: str
    txn: str
    tasks: tuple[tuple[MirrorPart, ...], ...]
    marker: str | None = None

    def run(self, number: int) -> CopiedParts:
        """Read and stage the batches of a task; errors as ``copy_batches``.

        Raises:
            DirectoryNotShared: this process does not see the target, or the job has ended.
            InconsistentTopicId: a topic is not the one that was planned.
        """
        directory = open_directory_read_only(*self.source, fs=SYSTEM_FILES)
        if self.marker is None:
            return CopiedParts((), self._copied(directory, number))
        visits = MarkerVisits(SYSTEM_FILES, self.target, self.marker, SYSTEM_CLOCK)
        rng = random.SystemRandom()
        writer = BundleWriter(
            LocalFolder(SYSTEM_FILES, self.target),
            self.txn,
            rng=rng,
            keeps_offsets=True,
            attempt=attempt_of(self.marker),
        )
        try:
            copied = self._copied(directory, number, writer, visits)
            runs = tuple(writer.finish())
            visits.visit()  # after the last file, which nobody would delete if the job has failed
            return CopiedParts(runs, copied)
        except BaseException:
            writer.abandon()
            raise

    def _copied(
        self,
        directory: ReadOnlyDirectory,
        number: int,
        writer: BundleWriter | None = None,
        visits: MarkerVisits | None = None,
    ) -> tuple[tuple[MirrorPart, CopiedBatches], ...]:
        copied = []
        for part in self.tasks[number]:
            if visits is not None:
                visits.visit_if_due()
            copied.append((part, _copy(directory, part, writer)))
        return tuple(copied)


def _copy(
    directory: ReadOnlyDirectory, part: MirrorPart, writer: BundleWriter | None
) -> CopiedBatches:
    with opened(directory, part.whole) as log:
        return copy_batches(log, part.whole, writer, (part.start_offset, part.end_offset))


def _tasks(
    source: ReadOnlyDirectory, ranges: Sequence[MirrorRange], workers: MirrorWorkers
) -> tuple[tuple[MirrorPart, ...], ...]:
    to_read = []
    for each in ranges:
        with opened(source, each) as log:
            to_read.append(LogRange(log, each.start_offset, each.end_offset))
    by_key = {(each.topic, each.partition): each for each in ranges}
    return tuple(
        tuple(MirrorPart(by_key[topic, number], start, end) for topic, number, start, end in task)
        for task in workers.divide(to_read)
    )


def _staged(ranges: Sequence[MirrorRange], tasks: Sequence[CopiedParts]) -> StagedRanges:
    """Put together what the tasks staged, in order of partitions and offsets."""
    runs = chain.from_iterable(task.runs for task in tasks)
    in_order = sorted(runs, key=lambda run: (run.topic, run.partition, run.first_offset))
    copied = {each: CopiedBatches() for each in ranges}
    parts = chain.from_iterable(task.copied for task in tasks)
    for part, batches in sorted(parts, key=lambda one: one[0].start_offset):
        copied[part.whole].add(batches)
    return StagedRanges(in_order, [copied[each] for each in ranges])
