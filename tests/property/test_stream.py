"""Streams as run by Spark's engine, with restarts at any moment, over logs that change."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.machinery.directory_home import DataHome, record
from tests.machinery.scale import examples

from tidelog.records.decoding.record_columns import decode_groups
from tidelog.segment.filenames import TopicPartition
from tidelog.spark.options.source_options import ReadOptions
from tidelog.spark.read.live_batches import RangeReader
from tidelog.spark.read.stream_offsets import StreamOffset
from tidelog.spark.read.stream_plan import StreamPlan

if TYPE_CHECKING:
    from tidelog.spark.read.stream_offsets import Json

METADATA = "partition.metadata"
DELAY_MS = 10_000

Rows = dict[TopicPartition, list[str]]


class Logs:
    """Topics that change, and a list of everything appended to each partition."""

    def __init__(self) -> None:
        self.home = DataHome()
        self.appended: Rows = {}
        self.makings: dict[str, int] = {}

    def create(self, topic: str) -> None:
        self.makings[topic] = self.makings.get(topic, 0) + 1
        with self.home.open() as directory:
            directory.create_topic(topic, 1)
        self.appended[TopicPartition(topic, 0)] = []

    def create_again(self, topic: str) -> None:
        if topic in self.makings:
            with self.home.open() as directory:
                directory.delete_topic(topic)
            self.appended = {
                place: of for place, of in self.appended.items() if place.topic != topic
            }
        self.create(topic)

    def grow(self, topic: str) -> None:
        """Add a partition, as a broker does."""
        if topic not in self.makings:
            self.create(topic)
            return
        number = sum(place.topic == topic for place in self.appended)
        place = TopicPartition(topic, number)
        self.home.write(f"{topic}-{number}/{METADATA}", self.home.text(f"{topic}-0/{METADATA}"))
        self.appended[place] = []
        self.append(topic, number, 2)

    def append(self, topic: str, number: int, count: int) -> None:
        place = TopicPartition(topic, number)
        if place not in self.appended:
            return
        had = self.appended[place]
        made = self.makings[topic]
        values = [f"{topic} {made} {number} {len(had) + at}" for at in range(count)]
        with self.home.open() as directory:
            partition = directory.partition(topic, number)
            partition.append_records([record(value.encode()) for value in values])
        had += values

    def forget_below(self, offsets: dict[TopicPartition, int]) -> None:
        """Delete records that were read."""
        with self.home.open() as directory:
            for place, offset in offsets.items():
                if place in self.appended:
                    log = directory.partition(*place).log
                    log.maybe_increment_log_start_offset(min(offset, log.log_end_offset))


@dataclass
class Engine:
    """Spark's micro-batch engine: what it keeps in its checkpoint, and what it calls when.

    ``ends`` is the log of offsets, as text; ``committed`` counts finished batches. The sink keeps a
    batch's rows under its number, so a batch that comes again must be the same. The source's
    ``commit`` is not simulated, since nothing depends on it.
    """

    logs: Logs
    options: dict[str, str]
    is_strict: bool = True
    ends: list[str] = field(default_factory=list)
    committed: int = 0
    sink: dict[int, Rows] = field(default_factory=dict)
    last_batch_ms: int | None = None

    def __post_init__(self) -> None:
        self.restart()

    def restart(self, *, is_bounded: bool = False) -> None:
        """Restart from the checkpoint; repeat the batch that was planned but not finished."""
        options = {"path": self.logs.home.path, "subscribePattern": "."} | self.options
        self.parsed = ReadOptions.parse_stream(options)
        fs, clock = self.logs.home.fs, self.logs.home.clock
        self.plan = StreamPlan(fs, self.parsed, clock=clock, cores=2)
        self.last_batch_ms = None
        self.is_bounded = is_bounded
        if is_bounded:
            self.plan.bound()
        assert self.plan.initial() == self.plan.initial()
        if not self.ends:
            self.begun = json.dumps(self.plan.initial())
        if self.committed < len(self.ends):
            self.finish()

    @property
    def start(self) -> str:
        """The start of the next batch; the initial offset is computed again after each start."""
        at = self.committed - 1
        return self.ends[at] if at >= 0 else json.dumps(self.plan.initial())

    def trigger(self, *, until: str = "end") -> bool:
        """Plan and run a batch; ``until`` is the step after which the engine dies."""
        start = json.loads(self.start)
        limits = self.parsed.limits
        is_limited = (limits.max_offsets, limits.max_bytes, limits.min_offsets) != (None,) * 3
        end = self.plan.latest(start, is_limited=is_limited)
        if json.dumps(end) == json.dumps(start):
            return False
        self._check_limits(start, end)
        self.ends.append(json.dumps(end))
        if until == "planned":
            return True
        self.run_batch()
        if until == "end":
            self.committed += 1
        return True

    def finish(self) -> None:
        """Repeat the unfinished batch from its original start."""
        self.run_batch()
        self.committed += 1

    def run_batch(self) -> None:
        """Read the batch and pass its rows to the sink, which recognizes repeated ones."""
        number = self.committed
        rows = self._read(json.loads(self.start), json.loads(self.ends[number]))
        if number in self.sink and self.is_strict:
            assert rows == self.sink[number]
        self.sink.setdefault(number, rows)

    def _read(self, start: Json, end: Json) -> Rows:
        reader = RangeReader(self.logs.home.fs, self.parsed)
        rows: Rows = defaultdict(list)
        for task in self.plan.tasks(start, end):
            for part in task:
                place = TopicPartition(part.topic, part.partition)
                for piece in reader.read(part):
                    for group in decode_groups(piece.data, piece.batches_in_data):
                        rows[place] += [
                            str(found.value or b"", "utf-8")
                            for found in group.records()
                            if part.start_offset <= found.offset < part.end_offset
                        ]
        return dict(rows)

    def _check_limits(self, start: Json, end: Json) -> None:
        begins, ends = StreamOffset.from_json(start).offsets, StreamOffset.from_json(end).offsets
        steps = {place: of - begins.get(place, 0) for place, of in ends.items()}
        limits = self.parsed.limits
        if limits.max_offsets is not None and self.is_strict:
            assert sum(steps.values()) <= limits.max_offsets + len(steps)
        now_ms = self.logs.home.clock.now_ms()
        if limits.min_offsets is not None and self.last_batch_ms is not None and self.is_strict:
            available = StreamOffset.from_json(self.plan.report() or {}).offsets
            there = sum(of - begins.get(place, 0) for place, of in available.items())
            assert there >= limits.min_offsets or now_ms - self.last_batch_ms >= DELAY_MS
        self.last_batch_ms = None if self.is_bounded else now_ms

    def read_to_the_end(self) -> None:
        """Run a query that ends by itself: all available records, in batches up to the limit."""
        self.restart(is_bounded=True)
        while self.trigger():
            pass

    @property
    def output(self) -> Rows:
        """The content of the sink for each partition, in the order of batches."""
        output: Rows = defaultdict(list)
        for number in sorted(self.sink):
            for place, rows in self.sink[number].items():
                output[place] += rows
        return dict(output)


LIMITS = st.sampled_from(
    [
        {},
        {"maxOffsetsPerTrigger": "3"},
        {"maxBytesPerTrigger": "150"},
        {"minOffsetsPerTrigger": "4", "maxTriggerDelay": f"{DELAY_MS}ms"},
        {
            "minOffsetsPerTrigger": "3",
            "maxOffsetsPerTrigger": "5",
            "maxTriggerDelay": f"{DELAY_MS}ms",
        },
        {"maxOffsetsPerTrigger": "4", "maxBytesPerTrigger": "300"},
    ]
)
TOPICS = st.sampled_from(["a", "b"])
STEPS = st.one_of(
    st.tuples(st.just("append"), TOPICS, st.integers(0, 2), st.integers(1, 6)),
    st.tuples(st.just("batch"), st.sampled_from(["planned", "ran", *["end"] * 4])),
    st.tuples(st.just("grow"), TOPICS),
    st.tuples(st.sampled_from(["forget", "restart", "wait"])),
)
SCRIPT = st.lists(STEPS, min_size=3, max_size=25)

pytestmark = pytest.mark.slow


def play(engine: Engine, logs: Logs, step: tuple[Any, ...]) -> None:
    """Apply the step to the logs or to the engine."""
    name, *arguments = step
    if name == "append":
        logs.append(*arguments)
    elif name == "grow":
        logs.grow(*arguments)
    elif name == "again":
        logs.create_again(*arguments)
    elif name == "forget":
        done = engine.committed
        logs.forget_below(
            dict(StreamOffset.from_json(json.loads(engine.start)).offsets) if done else {}
        )
    elif name == "wait":
        logs.home.clock.advance(DELAY_MS)
    elif name == "restart" or (engine.trigger(until=arguments[0]) and arguments[0] != "end"):
        engine.restart()


@settings(max_examples=examples(120), deadline=None)
@given(script=SCRIPT, limits=LIMITS, begins=st.sampled_from(["earliest", "latest"]))
@example(
    script=[("batch", "end"), ("append", "a", 0, 1), ("batch", "end"), ("append", "a", 0, 1)] * 2,
    limits={"minOffsetsPerTrigger": "4", "maxTriggerDelay": f"{DELAY_MS}ms"},
    begins="earliest",
)
def test_every_record_comes_once_in_order_whatever_happens(
    script: list[tuple[Any, ...]], limits: dict[str, str], begins: str
) -> None:
    """Appends, new partitions and topics, retention behind the stream, limits, crashes anywhere."""
    logs = Logs()
    logs.create("a")
    logs.append("a", 0, 2)
    engine = Engine(logs, limits | {"startingOffsets": begins})

    for step in script:
        play(engine, logs, step)
    engine.read_to_the_end()

    started = StreamOffset.from_json(json.loads(engine.begun)).offsets
    expected = {place: had[started.get(place, 0) :] for place, had in logs.appended.items()}
    assert engine.output == {place: rows for place, rows in expected.items() if rows}


@settings(max_examples=examples(120), deadline=None)
@given(
    script=st.lists(STEPS | st.tuples(st.just("again"), TOPICS), min_size=3, max_size=20),
    limits=LIMITS,
)
@example(
    script=[("append", "a", 0, 3), ("batch", "end"), ("again", "a"), ("append", "a", 0, 6)],
    limits={},
)
def test_a_topic_made_again_is_read_from_its_start(
    script: list[tuple[Any, ...]], limits: dict[str, str]
) -> None:
    """If data loss is accepted, the records available at the end came once and in order."""
    logs = Logs()
    logs.create("a")
    lenient = {"startingOffsets": "earliest", "failOnDataLoss": "false"}
    engine = Engine(logs, limits | lenient, is_strict=False)

    for step in script:
        play(engine, logs, step)
    engine.read_to_the_end()

    found: dict[TopicPartition, list[str]] = {}
    for place, rows in engine.output.items():
        assert len(set(rows)) == len(rows)
        latest = f"{place.topic} {logs.makings[place.topic]} "
        found[place] = [row for row in rows if row.startswith(latest)]
    expected = {place: rows for place, rows in logs.appended.items() if rows}
    assert {place: rows for place, rows in found.items() if rows} == expected
