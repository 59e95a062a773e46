"""Writes a topic's records to a new topic with another number of partitions, each record once.

Nothing is shuffled. The tasks are ranges of offsets, in order of partitions and offsets, and what
they staged is committed in that order, the records out of place first. So each partition of the new
topic has its records in the order of their source partitions, then of their offsets, and the
records of a key stay in order, also if partitions were added to the source.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from tidelog.arrow.writing.staged_commit import commit_write, ended, staged_write
from tidelog.arrow.writing.write_plan import make_plan
from tidelog.codec.given_values import check_flags
from tidelog.config.sources import from_mapping
from tidelog.env.paths import absolute_path
from tidelog.errors import InvalidArgument
from tidelog.records.isolation import Isolation
from tidelog.spark.jobs.job_progress import watch_tasks
from tidelog.spark.jobs.repartition_plan import (
    KEYLESS,
    RepartitionPlan,
    RepartitionRequest,
    offsets_json,
    plan_repartition,
)
from tidelog.spark.jobs.repartitioned import Repartitioned
from tidelog.spark.options.option_values import absolute_paths, local_path
from tidelog.spark.options.source_options import DEFAULT_SPLIT_BYTES, SinkOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from tidelog.config.sources import SettingValue
    from tidelog.env.paths import Paths
    from tidelog.staging.finished import CommittedTransaction

_log = logging.getLogger(__name__)


def repartition(
    spark: SparkSession,
    path: Paths,
    topic: str,
    *,
    to: str,
    partitions: int,
    to_path: str | None = None,
    txn_id: str | None = None,
    isolation: str = Isolation.READ_COMMITTED,
    keyless: str = KEYLESS[0],
    config: Mapping[str, SettingValue] | None = None,
    options: Mapping[str, str] | None = None,
    max_split_bytes: int = DEFAULT_SPLIT_BYTES,
    dry_run: bool = False,
    on_progress: Callable[[int, int], object] | None = None,
) -> Repartitioned:
    """Write the records of ``topic`` to the topic ``to``, which has ``partitions`` partitions.

    Keys, values, headers and timestamps are kept. The murmur2 hash of its key decides the partition
    of a record, as with Kafka's producers. The records of a key stay in order, also if partitions
    were added to the source: first come those whose hash would now choose another partition there,
    as they are older, then the others, both in the order of their source partitions, then of their
    offsets. ``unordered`` of the result counts those for which this may be wrong, as after several
    additions; a warning is logged. What is read ends where readers may read when the job begins.
    All records are written in one transaction, so a job that failed is run again as it was: a
    repeat writes nothing if the first run committed, also if the source has grown since.

    Args:
        spark: the session; its workers must see both directories.
        path: the data directory, or a list of several that belong together.
        topic: the topic to read; it is not changed.
        to: the topic to write; it is created if it does not exist, with the settings of ``topic``.
            If it gets fewer partitions, each has a greater ``retention.bytes``.
        partitions: number of partitions of the new topic.
        to_path: the data directory to write to; the same by default, the first of several.
        txn_id: the transaction's id; by default made of the topics and ``partitions``. The ids of
            committed transactions are known for seven days.
        isolation: ``read_committed``, which leaves out aborted and open transactions, or
            ``read_uncommitted``.
        keyless: where records without a key go. ``spread``: to one partition until that has got a
            batch, then to the next; those in one partition stay in order. ``source``: to the
            partition with the number of the source's, modulo ``partitions``; all of a source
            partition stay in order.
        config: settings of the new topic that replace the source's.
        options: more options of the sink, such as ``compression``.
        max_split_bytes: maximum number of bytes of a log that one task reads, at least 65536.
        dry_run: count what would be written, and write nothing.
        on_progress: called by another thread with the number of tasks that have ended, and of all.

    Raises:
        InvalidArgument: the new topic exists with another number of partitions or with records, is
            the source itself.
        PartitionsElsewhere: partitions of the source are in other data directories.
        UnknownTopicOrPartition: there is no such topic.
        DataLoss: records of the source are missing.

    What the tasks and the commit raise comes as an error of Spark's.
    """
    check_flags(dry_run=dry_run)
    paths = absolute_paths(path)
    request = RepartitionRequest(
        paths=paths,
        topic=topic,
        to=to,
        partitions=partitions,
        to_path=absolute_path(local_path(to_path or paths[0])),
        txn_id=txn_id,
        isolation=Isolation.of(isolation),
        keyless=keyless,
        max_split_bytes=max_split_bytes,
    )
    plan = plan_repartition(request, from_mapping(config or {}))
    outcome = _outcome(request, plan)
    if plan.committed is not None:
        return _repeated(outcome, plan.committed)
    description = f"tidelog repartition {topic} in {', '.join(paths)} to {to}"
    with watch_tasks(spark, on_progress, description):
        if dry_run:
            done = _count(spark, plan, outcome)
        else:
            done = _write(spark, request, plan, options or {}, outcome)
    if done.unordered:
        _log.warning("key-order-unknown topic=%s to=%s records=%d", topic, to, done.unordered)
    return done


def _outcome(request: RepartitionRequest, plan: RepartitionPlan) -> Repartitioned:
    """Return what is known before a record is read or written."""
    return Repartitioned(
        topic=request.topic,
        to=request.to,
        from_partitions=len(plan.ends),
        partitions=request.partitions,
        records=0,
        keyless=None,
        size_bytes=plan.size_bytes,
        txn_id=plan.txn_id,
        next_offsets=offsets_json(request.topic, plan.ends),
        retention_bytes=plan.retention_bytes,
    )


def _repeated(outcome: Repartitioned, committed: CommittedTransaction) -> Repartitioned:
    """Return what an earlier run wrote; how far it read is not in the transaction."""
    records = committed.records[outcome.to]
    return replace(outcome, records=records, next_offsets=None, was_done=True)


def _count(spark: SparkSession, plan: RepartitionPlan, outcome: Repartitioned) -> Repartitioned:
    """Count the records in tasks, and write nothing."""
    from tidelog.spark.jobs.job_tasks import run_tasks
    from tidelog.spark.jobs.key_places import all_of
    from tidelog.spark.jobs.repartition_tasks import CountJob

    parts = run_tasks(spark, CountJob(plan.read, plan.tasks, len(plan.ends)))
    return replace(
        outcome,
        records=sum(part.records for part in parts),
        keyless=sum(part.keyless for part in parts),
        unordered=all_of(part.out_of_place for part in parts).unordered(len(plan.ends)),
        is_dry_run=True,
    )


def _write(
    spark: SparkSession,
    request: RepartitionRequest,
    plan: RepartitionPlan,
    options: Mapping[str, str],
    outcome: Repartitioned,
) -> Repartitioned:
    """Stage the records in tasks, and commit them as one transaction."""
    from tidelog.spark.jobs.job_tasks import run_tasks
    from tidelog.spark.jobs.key_places import all_of
    from tidelog.spark.jobs.repartition_tasks import COLUMNS, RepartitionJob
    from tidelog.spark.write.frame_columns import frame_columns

    write, txn_id = _write_options(request, plan, options), plan.txn_id
    staging = make_plan(write, frame_columns(COLUMNS, has_topic=True), txn_id)
    job = RepartitionJob(
        *(plan.read, write, staging, plan.tasks, txn_id, len(plan.ends), request.partitions),
        keeps_source=request.keyless == "source",
    )
    with ended(write, staging, txn_id):
        parts = run_tasks(spark, job)
        in_order = [part.older for part in parts] + [part.newer for part in parts]
        staged = staged_write(write, staging, txn_id, in_order)
        committed = commit_write(replace(staged, birth=plan.birth))
    if committed.is_repeat:
        return _repeated(outcome, committed)
    return replace(
        outcome,
        records=committed.records[request.to],
        unordered=all_of(part.out_of_place for part in parts).unordered(len(plan.ends)),
    )


def _write_options(
    request: RepartitionRequest, plan: RepartitionPlan, options: Mapping[str, str]
) -> SinkOptions:
    """Return the options of the sink; InvalidArgument for one that is not the user's to set."""
    fixed = {
        "path": request.to_path,
        "topic": request.to,
        "numPartitions": str(request.partitions),
        "txnId": plan.txn_id,
        **{f"config.{name}": value for name, value in plan.config.items()},
    }
    same = {name.lower() for name in fixed} & {name.lower() for name in options}
    if same:
        raise InvalidArgument(f"the option {min(same)} is set by the repartition itself")
    return SinkOptions.parse({**options, **fixed})
