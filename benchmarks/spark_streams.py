"""Streams of a log through Spark's Kafka source and ``tidelog``: all at once, and row by row.

``spark_read`` runs it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from typing import TYPE_CHECKING, Any

from spark_side import in_rounds, print_rates

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka import KafkaProducer
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader
    from spark_side import SparkBesideKafka, WallGoals

TICKS = "ticks"
"""The topic, with one partition, to which single records are sent."""

SIDES = ("tidelog", "kafka, tuned")
STREAM_GOAL, LATENCY_GOAL = 2.0, 0.4
FILES = "fs.AbstractFileSystem.file.impl"
"""Hadoop's class that writes checkpoints to a local disk; our session changes the setting."""

DEFAULT_FILES = "org.apache.hadoop.fs.local.LocalFs"
DEFAULT_SUFFIX = ", .crc files"
"""Suffix of runs with Hadoop's default class, as in any other session."""

ENGINE = ("engine alone", "memory, one row")
"""Sources that always have a new row."""

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
"""Spark's setting for the class that writes checkpoints; without it Spark uses FileContext."""

BY_FILE_SYSTEM = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
RAW_FILES = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",  # or the session's first instance is used again
}
CHECKPOINTS: dict[str, dict[str, str]] = {
    "FileContext, RawLocalFs": {},
    "FileContext, LocalFs": {FILES: DEFAULT_FILES},
    "FileSystem, RawLocalFileSystem": {MANAGER: BY_FILE_SYSTEM, **RAW_FILES},
    "FileSystem, LocalFileSystem": {MANAGER: BY_FILE_SYSTEM},
}
"""How a checkpoint can be written to a local disk; the first is how our session does."""

EVERY_S = 0.8
BATCHES = 15
SETTLE = 6
"""The number of first micro-batches that are not counted."""


def source(pair: SparkBesideKafka, name: str, topic: str, **options: str) -> DataFrame:
    """Return a stream of a topic through the source called ``name``."""
    reader: DataStreamReader = pair.spark.readStream.format(name).option("subscribe", topic)
    reader = reader.options(**options)
    if name == "kafka":
        return reader.option("kafka.bootstrap.servers", pair.broker.server).load()
    return reader.load(str(pair.broker.directory))


def from_memory(pair: SparkBesideKafka, rows: int) -> DataFrame:
    """Return a stream with ``rows`` rows in each micro-batch, from memory."""
    return pair.spark.readStream.format("memory_rows").options(rows=rows).load()


def started(frame: DataFrame, folder: str, **trigger: Any) -> StreamingQuery:  # noqa: ANN401 - Spark's
    """Start a query into the ``noop`` sink."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
    return writer.trigger(**trigger).start()


def available_now(pair: SparkBesideKafka, topic: str, rounds: int, goals: WallGoals) -> None:
    """Compare streams that read all available records and end."""
    rows = pair.ours(topic).count()

    def drain(frame: DataFrame) -> None:
        with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as folder:
            query = started(frame, folder, availableNow=True)
            query.awaitTermination()
            count = sum(progress["numInputRows"] for progress in query.recentProgress)
        if rows != count:
            raise SystemExit(f"{count} rows, not {rows}")

    def of_log(name: str) -> DataFrame:
        return source(pair, name, topic, startingOffsets="earliest")

    queries: dict[str, Callable[[], None]] = {
        "kafka": lambda: drain(of_log("kafka")),
        "tidelog": lambda: drain(of_log("tidelog")),
        "tidelog, Spark's Python": lambda: drain(of_log("tidelog_plain")),
        "memory": lambda: drain(from_memory(pair, rows)),
    }
    times = in_rounds(pair, queries, rounds)
    print(f"Stream of {rows:,} rows, AvailableNow, {rounds} rounds:")
    goals.at_least(STREAM_GOAL, "stream, Kafka source", times["tidelog"], times["kafka"])
    print_rates(times, rows)


def frames_of(pair: SparkBesideKafka) -> dict[str, Callable[[], DataFrame]]:
    """Return the streams whose micro-batches are compared, by name."""
    tuned = {"kafka.fetch.max.wait.ms": "10"}

    def ours() -> DataFrame:
        return source(pair, "tidelog", TICKS, readUpTo="logEnd")

    def theirs() -> DataFrame:
        return source(pair, "kafka", TICKS, **tuned)

    rate = pair.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1)
    return {  # the engine first: it compiles most
        "engine alone": rate.load,
        "memory, one row": lambda: from_memory(pair, 1),
        f"memory, one row{DEFAULT_SUFFIX}": lambda: from_memory(pair, 1),
        "kafka, tuned": theirs,
        "tidelog": ours,
        f"kafka, tuned{DEFAULT_SUFFIX}": theirs,
        f"tidelog{DEFAULT_SUFFIX}": ours,
        "kafka, defaults": lambda: source(pair, "kafka", TICKS),
    }


def latency(pair: SparkBesideKafka, rounds: int, goals: WallGoals) -> None:
    """Compare the smallest micro-batches: one record about every second, trigger 0."""
    from kafka import KafkaProducer as Producer

    producer = Producer(bootstrap_servers=pair.broker.server, acks=1, linger_ms=0)
    frames = frames_of(pair)
    found: dict[str, list[dict[str, int]]] = {name: [] for name in frames}
    idle: dict[str, float] = {}
    for _ in range(max(rounds - 1, 1)):
        for name, frame in frames.items():
            if name.endswith(DEFAULT_SUFFIX):
                pair.spark.conf.set(FILES, DEFAULT_FILES)
            durations, idle[name] = ticks(pair, frame(), producer, name.startswith(ENGINE))
            pair.spark.conf.unset(FILES)
            found[name] += durations
    producer.close()
    triggers = {name: [each["triggerExecution"] for each in found[name]] for name in frames}
    print(f"Smallest micro-batch into noop, a record each {EVERY_S} s, median of ms:")
    for more in ("", DEFAULT_SUFFIX):
        us, them = (statistics.median(triggers[f"{each}{more}"]) for each in SIDES)
        goals.at_most(LATENCY_GOAL, f"micro-batch, Kafka source tuned{more}", us, them)
    for name, times in triggers.items():
        parts = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
        medians = (statistics.median(each.get(part, 0) for each in found[name]) for part in parts)
        details = ", ".join(f"{part} {ms:.0f}" for part, ms in zip(parts, medians, strict=True))
        p90 = sorted(times)[int(len(times) * 0.9)]
        p50 = statistics.median(times)
        print(f"    {name:27} p50 {p50:4.0f}, p90 {p90:4.0f} of {len(times)} ({details})")
    for name, cores in idle.items():
        if not name.startswith(ENGINE):
            print(f"    {name:27} {cores:.2f} cores while no record arrives, broker included")


def checkpoints(pair: SparkBesideKafka, rounds: int) -> None:
    """Compare what a checkpoint's two files cost in a micro-batch, by the class that writes them.

    One source after the other for each class; the first one's first stream is not counted.
    """
    from kafka import KafkaProducer as Producer

    producer = Producer(bootstrap_servers=pair.broker.server, acks=1, linger_ms=0)
    frames = frames_of(pair)
    sources = ("tidelog", "kafka, tuned", "kafka, defaults")
    found: dict[tuple[str, str], list[dict[str, int]]] = {}
    ticks(pair, frames["tidelog"](), producer, is_engine=False)
    for _ in range(max(rounds - 1, 1)):
        for way, settings in CHECKPOINTS.items():
            for name in sources:
                for key, value in settings.items():
                    pair.spark.conf.set(key, value)
                durations, _ = ticks(pair, frames[name](), producer, is_engine=False)
                for key in settings:
                    pair.spark.conf.unset(key)
                found.setdefault((way, name), []).extend(durations)
    producer.close()
    print(f"A checkpoint's files, a record each {EVERY_S} s, median of ms:")
    parts = ("triggerExecution", "addBatch", "walCommit", "commitOffsets")
    for (way, name), times in found.items():
        medians = (statistics.median(each.get(part, 0) for each in times) for part in parts)
        details = ", ".join(f"{part} {ms:.0f}" for part, ms in zip(parts, medians, strict=True))
        print(f"    {way:31} {name:16} {details}; {len(times)} batches", flush=True)


def ticks(
    pair: SparkBesideKafka,
    frame: DataFrame,
    producer: KafkaProducer,
    is_engine: bool,  # noqa: FBT001 - a property of the source
) -> tuple[list[dict[str, int]], float]:
    """Return the durations of micro-batches with a row, and the cores used while none arrives."""
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
        before, begun = sum(pair.cpu()), time.perf_counter()
        time.sleep(0.1 if is_engine else 3)
        cores = (sum(pair.cpu()) - before) / (time.perf_counter() - begun)
        progress = [each for each in query.recentProgress if each["numInputRows"] > 0]
        query.stop()
    return [each["durationMs"] for each in progress[SETTLE:wanted]], cores
