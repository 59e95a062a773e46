"""Streams of a log, by Spark's Kafka source and by ``tidelog``: all at once, and a row at a time.

``spark_read`` runs it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from typing import TYPE_CHECKING, Any

from spark_side import in_rounds, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka import KafkaProducer
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader
    from spark_side import Judge, Side

TICKS = "ticks"
"""The topic of one partition into which single records go."""

SIDES = ("tidelog", "kafka, tuned")
STREAM_GOAL, LATENCY_GOAL = 2.0, 0.4
FILES = "fs.AbstractFileSystem.file.impl"
"""Hadoop's setting for what writes a checkpoint to a local disk; our session changes it."""

USUAL = "org.apache.hadoop.fs.local.LocalFs"
USUAL_NAME = ", .crc files"
"""With checkpoints as any other session writes them."""

ENGINE = ("engine alone", "memory, one row")
"""Sources that have a row whenever they are asked."""

EVERY_S = 0.8
BATCHES = 14
SETTLE = 6
"""First micro-batches that do not count."""


def source(side: Side, name: str, topic: str, **options: str) -> DataFrame:
    """Return the stream of a topic by the source of that name."""
    reader: DataStreamReader = side.spark.readStream.format(name).option("subscribe", topic)
    reader = reader.options(**options)
    if name == "kafka":
        return reader.option("kafka.bootstrap.servers", side.broker.server).load()
    return reader.load(str(side.broker.directory))


def from_memory(side: Side, rows: int) -> DataFrame:
    """Return the stream that has so many rows more whenever it is asked."""
    return side.spark.readStream.format("memory_rows").options(rows=rows).load()


def started(frame: DataFrame, folder: str, **trigger: Any) -> StreamingQuery:  # noqa: ANN401 - Spark's
    """Start a query into the ``noop`` sink."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
    return writer.trigger(**trigger).start()


def available_now(side: Side, topic: str, rounds: int, judge: Judge) -> None:
    """Compare streams that take all that is there and end."""
    rows = side.ours(topic).count()

    def drain(frame: DataFrame) -> None:
        with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as folder:
            query = started(frame, folder, availableNow=True)
            query.awaitTermination()
            found = sum(progress["numInputRows"] for progress in query.recentProgress)
        if rows != found:
            raise SystemExit(f"{found} rows, not {rows}")

    def of_log(name: str) -> DataFrame:
        return source(side, name, topic, startingOffsets="earliest")

    works: dict[str, Callable[[], None]] = {
        "kafka": lambda: drain(of_log("kafka")),
        "tidelog": lambda: drain(of_log("tidelog")),
        "tidelog, Spark's Python": lambda: drain(of_log("tidelog_plain")),
        "memory": lambda: drain(from_memory(side, rows)),
    }
    taken = in_rounds(side, works, rounds)
    print(f"Stream of {rows:,} rows, AvailableNow, {rounds} rounds:")
    judge.at_least(STREAM_GOAL, "stream, Kafka source", taken["tidelog"], taken["kafka"])
    tell(taken, rows)


def frames_of(side: Side) -> dict[str, Callable[[], DataFrame]]:
    """Return the streams whose micro-batches are compared."""
    tuned = {"kafka.fetch.max.wait.ms": "10"}

    def ours() -> DataFrame:
        return source(side, "tidelog", TICKS, readUpTo="logEnd")

    def theirs() -> DataFrame:
        return source(side, "kafka", TICKS, **tuned)

    rate = side.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1)
    return {  # the engine first: it has most to compile
        "engine alone": rate.load,
        "memory, one row": lambda: from_memory(side, 1),
        f"memory, one row{USUAL_NAME}": lambda: from_memory(side, 1),
        "kafka, tuned": theirs,
        "tidelog": ours,
        f"kafka, tuned{USUAL_NAME}": theirs,
        f"tidelog{USUAL_NAME}": ours,
        "kafka, defaults": lambda: source(side, "kafka", TICKS),
    }


def latency(side: Side, rounds: int, judge: Judge) -> None:
    """Compare the smallest micro-batches: one record about every second, trigger 0."""
    from kafka import KafkaProducer as Producer

    producer = Producer(bootstrap_servers=side.broker.server, acks=1, linger_ms=0)
    frames = frames_of(side)
    found: dict[str, list[dict[str, int]]] = {name: [] for name in frames}
    idle: dict[str, float] = {}
    for _ in range(max(rounds - 1, 1)):
        for name, frame in frames.items():
            if name.endswith(USUAL_NAME):
                side.spark.conf.set(FILES, USUAL)
            durations, idle[name] = ticks(side, frame(), producer, name.startswith(ENGINE))
            side.spark.conf.unset(FILES)
            found[name] += durations
    producer.close()
    triggers = {name: [each["triggerExecution"] for each in found[name]] for name in frames}
    print(f"Smallest micro-batch into noop, a record each {EVERY_S} s, median of ms:")
    for more in ("", USUAL_NAME):
        us, them = (statistics.median(triggers[f"{each}{more}"]) for each in SIDES)
        judge.at_most(LATENCY_GOAL, f"micro-batch, Kafka source tuned{more}", us, them)
    for name, times in triggers.items():
        parts = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
        medians = (statistics.median(each.get(part, 0) for each in found[name]) for part in parts)
        told = ", ".join(f"{part} {ms:.0f}" for part, ms in zip(parts, medians, strict=True))
        late = sorted(times)[int(len(times) * 0.9)]
        middle = statistics.median(times)
        print(f"    {name:27} p50 {middle:4.0f}, p90 {late:4.0f} of {len(times)} ({told})")
    for name, cores in idle.items():
        if not name.startswith(ENGINE):
            print(f"    {name:27} {cores:.2f} cores while no record comes, broker included")


def ticks(
    side: Side,
    frame: DataFrame,
    producer: KafkaProducer,
    is_engine: bool,  # noqa: FBT001 - what the source is
) -> tuple[list[dict[str, int]], float]:
    """Return the durations of micro-batches with a row, and the cores taken while none comes."""
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as folder:
        query = started(frame, folder, processingTime="0 seconds")
        wanted = BATCHES + SETTLE
        while not query.recentProgress:
            producer.send(TICKS, b"x" * 100)
            time.sleep(EVERY_S)
        for _ in range(0 if is_engine else wanted):
            producer.send(TICKS, b"x" * 100)
            producer.flush()
            time.sleep(EVERY_S)
        while is_engine and len(query.recentProgress) < wanted:
            time.sleep(EVERY_S)
        before, begun = sum(side.cpu()), time.perf_counter()
        time.sleep(0.1 if is_engine else 3)
        cores = (sum(side.cpu()) - before) / (time.perf_counter() - begun)
        progress = [each for each in query.recentProgress if each["numInputRows"] > 0]
        query.stop()
    return [each["durationMs"] for each in progress[SETTLE:wanted]], cores
