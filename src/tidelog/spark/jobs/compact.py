"""Compacts logs on Spark: a few large binary values between tasks, never a row for each record.

Each segment is a task that hashes keys, each bucket of keys one that merges them, each group of
segments one that rewrites it. The driver holds the directory's lock, and swaps in what was written.
"""

from __future__ import annotations

import logging
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.codec.given_values import check_flags
from tidelog.config.sources import from_mapping
from tidelog.embedded.spread_compaction import (
    Failed,
    NumberedEvents,
    SpreadTerms,
    compact_spread,
    hash_task,
    merge_task,
    plan_spread,
    rewrite_task,
)
from tidelog.errors import CleaningAborted, InvalidArgument
from tidelog.readonly.absent_partitions import BY_ARGUMENT
from tidelog.spark.jobs.job_progress import job_group
from tidelog.spark.options.option_values import absolute_paths
from tidelog.spark.worker_task import worker_task

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from pyspark import RDD, Broadcast, SparkContext
    from pyspark.sql import SparkSession

    from tidelog.config.sources import SettingValue
    from tidelog.embedded.spread_compaction import (
        CompactedLog,
        CompactionProgress,
        FileEvents,
        RewrittenGroup,
    )
    from tidelog.env.paths import Paths

    Plan = Any
    Progress = Callable[[CompactionProgress], None]

DEFAULT_MIN_BYTES: Final = 4 << 30
"""Logs of fewer bytes are cleaned by the driver alone: on one machine that is faster."""
KEY_BYTES: Final = 41
"""Memory of a task for each key of its bucket."""
BUCKET_BYTES: Final = 1 << 30
"""The most memory that the keys of one bucket are to take."""

_log = logging.getLogger(__name__)


def compact(
    spark: SparkSession,
    path: Paths,
    topics: Sequence[str] = (),
    *,
    now_ms: int | None = None,
    settings: Mapping[str, SettingValue] | None = None,
    min_bytes: int = DEFAULT_MIN_BYTES,
    buckets: int | None = None,
    exact_keys: bool = False,
    allow_partial: bool = False,
    dry_run: bool = False,
    on_progress: Progress = lambda _: None,
) -> list[CompactedLog]:
    """Compact logs, ignoring ``min.cleanable.dirty.ratio``; return what was done to each.

    The files are those that ``tidelog compact`` leaves where one pass of it covers all dirty
    records. A log that is not compacted, or has nothing to clean, is left alone.

    Args:
        spark: a session of Spark Classic; its workers must see and write the directory.
        path: the data directory, or a list of several that belong together; they are locked until
            this returns.
        topics: only these; all, if none is named.
        now_ms: the time of day in ms, fixed for the whole job; None: now.
        settings: topic settings that take precedence over a topic's own.
        min_bytes: a log with fewer bytes to read is cleaned by the driver alone.
        buckets: into how many parts the keys are divided; None: as their number requires.
        exact_keys: compare keys themselves, not only their 128-bit hashes, in tasks of Spark for
            logs of any size.
        allow_partial: compact what is there of topics that are, in part, in other directories.
        dry_run: only count what would be done; nothing is locked or written.
        on_progress: called with a ``CompactionProgress``, on any thread.

    Raises:
        DirectoryLocked: another process writes there.
        InvalidArgument: this is a session of Spark Connect, or the path is not a data directory.
        UnknownTopicOrPartition: there is no such topic.
        PartitionsElsewhere: partitions of topics that are named are in other data directories.
        CleaningAborted: a task failed, or a log was changed while it was being cleaned; a log whose
            swap had not begun is as it was.
        CorruptMessage, InvalidRecord: a batch is damaged.
        KafkaStorageError: the disk failed.
    """
    check_flags(exact_keys=exact_keys, allow_partial=allow_partial, dry_run=dry_run)
    with closing(
        compact_each(
            spark,
            absolute_paths(path),
            topics,
            terms=SpreadTerms(now_ms, from_mapping(settings or {}), min_bytes, exact_keys),
            buckets=buckets,
            accept=None if allow_partial else BY_ARGUMENT,
            dry_run=dry_run,
            on_progress=on_progress,
        )
    ) as done:
        return list(done)


def compact_each(
    spark: SparkSession,
    paths: Sequence[str],
    topics: Sequence[str],
    *,
    terms: SpreadTerms,
    buckets: int | None = None,
    accept: str | None = BY_ARGUMENT,
    dry_run: bool = False,
    on_progress: Progress = lambda _: None,
) -> Generator[CompactedLog, None, None]:
    """Yield what was done to each log as soon as it is; as ``compact``.

    The directories are locked until the generator ends or is closed. ``accept``: as of
    ``open_directory_read_only``.
    """
    if buckets is not None and buckets < 1:
        raise InvalidArgument(f"{buckets} buckets: at least 1 is needed")
    workers = SparkWorkers(_context_of(spark), buckets)
    act = plan_spread if dry_run else compact_spread
    yield from act(paths, topics, workers, terms, on_progress, accept=accept)


def _context_of(spark: SparkSession) -> SparkContext:
    """Return the context of a session; InvalidArgument if it has none."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise InvalidArgument(
            "compact needs a session of Spark Classic, such as tidelog.spark.session() returns;"
            " a client of Spark Connect cannot run it"
        )
    return spark.sparkContext


class SparkWorkers:
    """The ``Workers`` of a cleaning: the tasks of a Spark context.

    Tasks return errors of ours as values, so Spark tries again only what another attempt may do.
    """

    def __init__(self, context: SparkContext, buckets: int | None = None) -> None:
        self._context: Final = context
        self._buckets: Final = buckets
        self._by_group: RDD[Any] | None = None
        self._held: list[Broadcast[Any]] = []
        self._on_share: Callable[[float], None] = lambda _: None

    def watch(self, on_share: Callable[[float], None]) -> None:
        """From now on, call ``on_share`` with the share that is done, from 0 to 1."""
        self._on_share = on_share

    def buckets_for(self, offsets: int, key_bytes: int) -> int:
        """Return into how many buckets to divide the keys of ``offsets`` records."""
        needed = -(-(offsets * KEY_BYTES + key_bytes) // BUCKET_BYTES)
        return self._buckets or max(needed, self._context.defaultParallelism)

    def find_superseded(self, plan: Plan) -> Sequence[FileEvents]:
        """Hash all files and merge all buckets; what is superseded stays in Spark's shuffle."""
        shared = self._shared(plan)
        files = len(plan.files)
        hashed: Any = self._context.parallelize(range(files), files).flatMap(partial(_hash, shared))
        merged = hashed.partitionBy(plan.buckets, _itself).mapPartitions(partial(_merge, shared))
        self._by_group = merged.partitionBy(len(plan.groups), _itself)
        try:
            with self._running(plan):
                found = _checked(self._by_group.values().filter(_is_for_driver).collect())
        except BaseException:
            self._release()
            raise
        events = {one.number: one.found for one in found}
        return [events[number] for number in range(files)]

    def rewrite(self, plan: Plan, transactions: Sequence[Any]) -> Sequence[RewrittenGroup]:
        """Rewrite all groups; only the attempt that Spark counts is returned of each."""
        assert self._by_group is not None
        task = partial(_rewrite, self._shared(plan), self._shared(list(transactions)))
        try:
            with self._running(plan):
                done = _checked(self._by_group.mapPartitionsWithIndex(task).collect())
        finally:
            self._release()
        return sorted(done, key=lambda one: int(one.group))

    def _release(self) -> None:
        """Free what a cleaning holds in Spark."""
        self._by_group = None
        for shared in self._held:
            shared.unpersist()
        self._held = []

    def _shared(self, value: Any) -> Broadcast[Any]:  # noqa: ANN401 - anything that is sent
        shared = self._context.broadcast(value)
        self._held.append(shared)
        return shared

    @contextmanager
    def _running(self, plan: Plan) -> Iterator[None]:
        """Show how far the jobs of the body are; end them on an error, which becomes ours."""
        tasks = len(plan.files) + plan.buckets + 2 * len(plan.groups)
        try:
            with job_group(
                self._context,
                plan.job,
                lambda ended, _: self._on_share(min(ended / tasks, 1.0)),
                f"tidelog compact {plan.directory}",
            ):
                yield
        except Exception as error:
            if not type(error).__module__.startswith("py4j"):
                raise
            raise CleaningAborted(
                f"a task of the compaction of {plan.directory} failed, so nothing was changed:"
                f" {_reason(error)}"
            ) from error
        except BaseException:
            self._context.cancelJobGroup(plan.job)
            raise


def _checked(values: Iterable[Any]) -> list[Any]:
    """Return the values; raise the error of the first one that failed."""
    found = list(values)
    for value in found:
        if isinstance(value, Failed):
            raise value.error
    return found


def _reason(error: Exception) -> str:
    """Return the last line of a task's traceback, or the first of Spark's own message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own = [line for line in lines if "Error" in line and not line.startswith(("at ", "File "))]
    return (own or lines or [type(error).__name__])[0]


def _itself(number: int) -> int:
    return number


def _is_for_driver(value: object) -> bool:
    return isinstance(value, (NumberedEvents, Failed))


def _hash(shared: Broadcast[Plan], number: int) -> Iterator[tuple[int, object]]:
    with worker_task():
        yield from hash_task(shared.value, number)


def _merge(
    shared: Broadcast[Plan], items: Iterable[tuple[int, object]]
) -> Iterator[tuple[int, object]]:
    with worker_task():
        yield from merge_task(shared.value, (value for _, value in items))


def _rewrite(
    shared: Broadcast[Plan],
    transactions: Broadcast[list[Any]],
    group: int,
    items: Iterable[tuple[int, object]],
) -> Iterator[RewrittenGroup | Failed]:
    values = (value for _, value in items)
    with worker_task():
        yield rewrite_task(shared.value, group, values, transactions.value[group])
