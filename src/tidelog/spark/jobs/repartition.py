"""Writes a topic's records to a new topic with another number of partitions, each record once.

Nothing is shuffled. A read's tasks are ranges of offsets, in order of partitions and offsets, and
the sink commits what the tasks staged in that order. So each partition of the new topic has its
records in the order of their source partitions, then of their offsets, and the records of a key
stay in order. Spark's sink chooses partitions by the keys, as Kafka's producers do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tidelog.env.system_files import SYSTEM_FILES
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
from tidelog.spark.options.option_values import local_path
from tidelog.spark.options.source_options import DEFAULT_SPLIT_BYTES
from tidelog.staging.finished import read_finished

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

SINK: Final = "tidelog"
COLUMNS: Final = (
    "key binary, value binary, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repartitioned:
    """What a repartition wrote or, for a dry run, would write.

    ``records`` are those of the source that are visible to the isolation level; ``keyless``: how
    many of them have no key, None: they were not counted, as only a dry run does. ``size_bytes`` is
    about the size of the offsets read in the source's logs. ``next_offsets`` is where a later read
    of the source goes on, in the form of the option ``startingOffsets``. ``was_done``: the same
    transaction was committed before, so nothing was written.
    """

    topic: str
    to: str
    from_partitions: int
    partitions: int
    records: int
    keyless: int | None
    size_bytes: int
    txn_id: str
    next_offsets: str
    is_dry_run: bool = False
    was_done: bool = False


def repartition(
    spark: SparkSession,
    path: str,
    topic: str,
    *,
    to: str,
    partitions: int,
    to_path: str | None = None,
    txn_id: str | None = None,
    isolation: str = Isolation.READ_COMMITTED,
    keyless: str = KEYLESS[0],
    config: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    max_split_bytes: int = DEFAULT_SPLIT_BYTES,
    dry_run: bool = False,
    on_progress: Callable[[int, int], object] | None = None,
) -> Repartitioned:
    """Write the records of ``topic`` to the topic ``to``, which has ``partitions`` partitions.

    Keys, values, headers and timestamps are kept. The murmur2 hash of its key decides the partition
    of a record, as with Kafka's producers. The records of a key stay in order; those of a partition
    of the new topic have the order of their source partitions, then of their offsets. What is read
    ends where readers may read when the job begins. All records are written in one transaction, so
    a job that failed is run again as it was: a repeat writes nothing if the first run committed.

    Args:
        spark: the session; its workers must see both directories.
        path: the data directory.
        topic: the topic to read; it is not changed.
        to: the topic to write; it is created if it does not exist, with the settings of ``topic``.
        partitions: number of partitions of the new topic.
        to_path: the data directory to write to; the same by default.
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
            the source itself, or a partition of the source lies in another directory.
        UnknownTopicOrPartition: there is no such topic.
        DataLoss: records of the source are missing.

    What the tasks and the commit raise comes as an error of Spark's.
    """
    request = RepartitionRequest(
        path=local_path(path),
        topic=topic,
        to=to,
        partitions=partitions,
        to_path=local_path(to_path or path),
        txn_id=txn_id,
        isolation=Isolation.of(isolation),
        keyless=keyless,
        max_split_bytes=max_split_bytes,
    )
    plan = plan_repartition(request, config or {})
    outcome = _outcome(request, plan)
    if plan.committed is not None:
        return replace(outcome, records=plan.committed.records[to], was_done=True)
    with watch_tasks(spark, on_progress):
        if dry_run:
            found = _records(spark, request, plan, "key binary")
            (row,) = found.selectExpr("count(*)", "count(key)").collect()
            return replace(outcome, records=row[0], keyless=row[0] - row[1], is_dry_run=True)
        _write(_records(spark, request, plan, COLUMNS), request, plan, options or {})
    committed = read_finished(SYSTEM_FILES, request.to_path)[plan.txn_id]
    return replace(outcome, records=committed.records[to])


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
    )


def _records(
    spark: SparkSession, request: RepartitionRequest, plan: RepartitionPlan, columns: str
) -> DataFrame:
    """Return the planned records, in order of partitions and offsets."""
    numbers = ", ".join(map(str, sorted(plan.ends)))
    return (
        spark.read.format("tidelog")
        .option("assign", f'{{"{request.topic}": [{numbers}]}}')
        .option("startingOffsets", offsets_json(request.topic, plan.starts))
        .option("endingOffsets", offsets_json(request.topic, plan.ends))
        .option("kafka.isolation.level", request.isolation)
        .option("maxSplitBytes", request.max_split_bytes)
        .schema(f"{columns}, partition int")
        .load(request.path)
    )


def _write(
    records: DataFrame,
    request: RepartitionRequest,
    plan: RepartitionPlan,
    options: Mapping[str, str],
) -> None:
    """Write the records as one transaction; the columns are those of ``COLUMNS``."""
    fixed = {
        "topic": request.to,
        "numPartitions": str(request.partitions),
        "txnId": plan.txn_id,
        **{f"config.{name}": value for name, value in plan.config.items()},
    }
    same = {name.lower() for name in fixed} & {name.lower() for name in options}
    if same:
        raise InvalidArgument(f"the option {min(same)} is set by the repartition itself")
    by_source = f"IF(key IS NULL, partition % {request.partitions}, NULL)"
    number = by_source if request.keyless == "source" else "CAST(NULL AS INT)"
    rows = records.selectExpr("key", "value", "timestamp", "headers", f"{number} AS partition")
    writer = rows.write.format(SINK).mode("append")
    writer.options(**{**options, **fixed}).save(request.to_path)
