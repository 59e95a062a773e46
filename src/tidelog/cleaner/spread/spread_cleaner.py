"""Cleans one log by many processes: plans the work, and swaps in what they have written.

The caller holds the log all the time. What was planned is checked once more before the first swap,
and from there on this is the local cleaner's protocol. Kafka: ``Cleaner.clean``.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from tidelog.cleaner.cleaner import CleaningResult, ends_of, groups_of, is_worth_kernels
from tidelog.cleaner.keys.offset_map import random_hash_key
from tidelog.cleaner.rewriting.batch_retention import LastOfProducer
from tidelog.cleaner.rewriting.cleaned_transactions import CleanedTransactions
from tidelog.cleaner.rewriting.delete_horizon import legacy_horizon_of
from tidelog.cleaner.rewriting.swap import split_overflowed, swap_in
from tidelog.cleaner.source_log import AbortedSearch
from tidelog.cleaner.spread.entries import KeyCollision
from tidelog.cleaner.spread.plan import FileGroup, SourceFile, SpreadPlan
from tidelog.cleaner.spread.stages import replay
from tidelog.cleaner.stats import CleanerStats
from tidelog.errors import CleaningAborted, SegmentOffsetOverflow
from tidelog.segment.filenames import DELETED_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from tidelog.cleaner.cleanable_range import OffsetsToClean
    from tidelog.cleaner.source_log import SourceLog, SourceSegment
    from tidelog.cleaner.spread.stages import RewrittenGroup, TransactionEvent
    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log
    from tidelog.segment.segment import LogSegment

MAX_COLLISIONS: Final = 3
"""How many hash keys are tried; that keys collide under each of them is a fault of ours."""

_log = logging.getLogger(__name__)


class FileEvents(NamedTuple):
    """What the transactions of one file do; and how much of its keys was read."""

    events: tuple[TransactionEvent, ...]
    records: int
    size_bytes: int


class Workers(Protocol):
    """The processes that share the work of one cleaning; errors are those of ``stages``."""

    def find_superseded(self, plan: SpreadPlan) -> Sequence[FileEvents]:
        """Hash all files and merge all buckets; keep which offsets are superseded."""

    def rewrite(
        self, plan: SpreadPlan, transactions: Sequence[CleanedTransactions]
    ) -> Sequence[RewrittenGroup]:
        """Rewrite all groups, by what was kept; return one attempt of each, in order.

        ``transactions`` is their state before each group.
        """

    def buckets_for(self, offsets: int, key_bytes: int) -> int:
        """Return into how many buckets to divide the keys of ``offsets`` records.

        ``key_bytes`` go along with their entries, 0 unless keys are compared themselves.
        """

    def watch(self, on_share: Callable[[float], None]) -> None:
        """From now on, call ``on_share`` with the share that is done, from 0 to 1."""


class SpreadCleaner:
    """Cleans one log at a time.

    Args:
        workers: do the work.
        clock: measures how long a cleaning takes.
        fs: the file system of the logs.
        rng: makes the random keys of hashes and the names of files.
        is_exact: whether keys are compared themselves, not only by their hashes.
    """

    def __init__(
        self, workers: Workers, *, clock: Clock, fs: FileSystem, rng: Random, is_exact: bool = False
    ) -> None:
        self._workers: Final = workers
        self._clock: Final = clock
        self._fs: Final = fs
        self._rng: Final = rng
        self._is_exact: Final = is_exact

    def clean(
        self,
        log: Log,
        to_clean: OffsetsToClean,
        now_ms: int,
        config: LogConfig | None = None,
        *,
        check_planned: Callable[[], None] = lambda: None,
        on_swapped: Callable[[int], None] = lambda _: None,
    ) -> CleaningResult:
        """Compact ``log`` up to the end of ``to_clean``, in one round however many keys there are.

        ``check_planned`` raises CleaningAborted if the log must not be changed any more; it is
        called before the first group is swapped in. Arguments and errors as ``Cleaner.clean``. An
        error before that leaves the log as it was.
        """
        config, log_start = config or log.config, log.log_start_offset
        with log.watch("cleaning"):
            groups = _file_groups(log, to_clean, config)
            plan = self._plan_of(log, to_clean, now_ms, config, groups=groups)
        segments = [each for each in log.segments if each.base_offset < plan.files[-1].end_offset]
        started_ns = self._clock.monotonic_ns()
        try:
            rewritten = self._run(plan)
            log.flush()  # as in Cleaner.clean
            check_planned()
            with log.watch("cleaning"):
                self._check_unchanged(log, plan, segments, log_start)
            self._swap_in(log, plan, segments, rewritten, on_swapped)
        except SegmentOffsetOverflow as error:
            start, end = self._group_at(plan, error.base_offset)
            split_overflowed(log, segments[start:end], error)
            raise
        finally:
            self._delete_leftovers(plan)
        return self._result(plan, rewritten, started_ns)

    def plan(self, log: SourceLog, to_clean: OffsetsToClean, now_ms: int) -> CleaningResult:
        """Do what ``clean`` does, but write nothing; ``log`` may be a snapshot of one."""
        started_ns = self._clock.monotonic_ns()
        plan = self._plan_of(log, to_clean, now_ms, log.config)
        return self._result(plan, self._run(plan), started_ns)

    def _plan_of(
        self,
        log: SourceLog,
        to_clean: OffsetsToClean,
        now_ms: int,
        config: LogConfig,
        *,
        groups: tuple[FileGroup, ...] | None = None,
    ) -> SpreadPlan:
        """Return the plan of one cleaning of ``log``; without ``groups`` it writes nothing."""
        end = to_clean.first_uncleanable_offset
        segments = [segment for segment in log.segments if segment.base_offset < end]
        files = tuple(_source_files(log, segments))
        return SpreadPlan(
            directory=log.directory,
            config=config,
            files=files,
            groups=_one_each(files) if groups is None else groups,
            to_clean=to_clean,
            now_ms=now_ms,
            legacy_horizon_ms=legacy_horizon_of(log, to_clean.first_dirty_offset, config),
            producers={
                producer_id: LastOfProducer(entry.last_data_offset, entry.producer_epoch)
                for producer_id, entry in log.active_producers().items()
            },
            buckets=self._workers.buckets_for(
                end - files[0].base_offset,
                sum(file.size_bytes for file in files) if self._is_exact else 0,
            ),
            hash_key=random_hash_key(self._rng),
            is_exact=self._is_exact,
            with_kernels=is_worth_kernels(log, end),
            writes=groups is not None,
            job=f"{self._rng.getrandbits(64):016x}",
        )

    def _run(self, plan: SpreadPlan) -> Sequence[RewrittenGroup]:
        """Have the work done; return the groups as they were rewritten."""
        for _ in range(MAX_COLLISIONS):
            try:
                found = self._workers.find_superseded(plan)
            except KeyCollision as error:
                _log.warning("key-collision directory=%s reason=%s", plan.directory, error)
                plan = replace(plan, hash_key=random_hash_key(self._rng))
                continue
            return self._workers.rewrite(plan, _states_before(plan, found))
        raise CleaningAborted(f"keys of {plan.directory} collide under every hash key")

    def _check_unchanged(
        self, log: Log, plan: SpreadPlan, segments: Sequence[LogSegment], log_start: int
    ) -> None:
        """Raise CleaningAborted unless the log is as it was planned."""
        now = [each for each in log.segments if each.base_offset < plan.files[-1].end_offset]
        reason = "" if now == list(segments) else "its segments changed"
        if log.log_start_offset != log_start:
            reason = f"its log start offset was {log_start} and is {log.log_start_offset}"
        for file in plan.files if not reason else ():
            try:
                found = self._fs.stat(file.path)
            except FileNotFoundError:
                reason = f"{file.path} is gone"
                break
            if (found.size_bytes, found.mtime_ms) != (file.size_bytes, file.modified_ms):
                reason = f"{file.path} changed"
                break
        if reason:
            raise CleaningAborted(
                f"{log.directory} was changed while it was being cleaned: {reason};"
                " nothing was swapped in"
            )

    def _swap_in(
        self,
        log: Log,
        plan: SpreadPlan,
        segments: Sequence[LogSegment],
        rewritten: Sequence[RewrittenGroup],
        on_swapped: Callable[[int], None],
    ) -> None:
        """Replace each group by what was written of it, in order."""
        groups = [segments[start:end] for start, end in plan.groups]
        ends = ends_of(groups, plan.to_clean.first_uncleanable_offset)
        for group, end, one in zip(groups, ends, rewritten, strict=True):
            cleaned = log.swap.adopt_segment(group[0].base_offset, one.suffix)
            if cleaned.size_bytes != one.size_bytes:
                log.swap.delete_cleaned_segment(cleaned)
                raise CleaningAborted(
                    f"{cleaned.path} has {cleaned.size_bytes} bytes instead of {one.size_bytes}:"
                    " the workers do not see the directory that this process sees"
                )
            swap_in(log, cleaned, group, end, on_swapped)

    def _delete_leftovers(self, plan: SpreadPlan) -> None:
        """Delete what attempts of this cleaning have written for nothing, as far as possible.

        Opening the log deletes the rest.
        """
        try:
            for name in self._fs.list(plan.directory):
                if name.endswith(DELETED_SUFFIX) and f".{plan.job}" in name:
                    self._fs.delete(f"{plan.directory}/{name}")
        except OSError as error:
            _log.warning("leftovers-not-deleted directory=%s reason=%s", plan.directory, error)

    def _group_at(self, plan: SpreadPlan, base_offset: int) -> FileGroup:
        """Return the group that begins at an offset."""
        bases = [plan.files[group.start].base_offset for group in plan.groups]
        return plan.groups[bases.index(base_offset)]

    def _result(
        self, plan: SpreadPlan, rewritten: Sequence[RewrittenGroup], started_ns: int
    ) -> CleaningResult:
        stats = CleanerStats()
        for one in rewritten:
            stats.add(one.stats)
        stats.copy_ns = self._clock.monotonic_ns() - started_ns
        return CleaningResult(plan.to_clean.first_uncleanable_offset, stats)


def _states_before(plan: SpreadPlan, found: Sequence[FileEvents]) -> list[CleanedTransactions]:
    """Return the state of the transactions before each group."""
    transactions, states = CleanedTransactions(), []
    for start, end in plan.groups:
        states.append(transactions.copy())
        for number in range(start, end):
            transactions.add_aborted(plan.files[number].aborted)
            replay(transactions, found[number].events)
    return states


def _source_files(log: SourceLog, segments: Sequence[SourceSegment]) -> list[SourceFile]:
    """Return the segments as workers are given them."""
    everything = list(log.segments)
    search, found = AbortedSearch(everything), []
    for number, segment in enumerate(segments):
        start, is_last = segment.base_offset, number + 1 == len(everything)
        end = segment.read_next_offset() if is_last else everything[number + 1].base_offset
        aborted = tuple(search.between(start, end))
        found.append(
            SourceFile(segment.path, start, end, segment.size_bytes, segment.modified_ms, aborted)
        )
    return found


def _file_groups(log: Log, to_clean: OffsetsToClean, config: LogConfig) -> tuple[FileGroup, ...]:
    end = to_clean.first_uncleanable_offset
    found, start = [], 0
    for group in groups_of(log, end, to_clean, config):
        found.append(FileGroup(start, start + len(group)))
        start += len(group)
    return tuple(found)


def _one_each(files: Sequence[SourceFile]) -> tuple[FileGroup, ...]:
    """Return a group for each file: without a target, and with the producers of one moment."""
    return tuple(FileGroup(number, number + 1) for number in range(len(files)))
