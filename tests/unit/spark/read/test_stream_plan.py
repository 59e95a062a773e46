"""What a stream reads, asked as Spark asks: from batch to batch, and again after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidelog.errors import DataLoss, InvalidArgument, UnknownTopicOrPartition
from tidelog.records.record_columns import decode_groups
from tidelog.spark.options.source_options import ReadOptions
from tidelog.spark.read.live_batches import RangeReader
from tidelog.spark.read.stream_plan import StreamPlan
from tidelog.testing.directory_home import DataHome, record
from tidelog.testing.manual_time import ManualClock

if TYPE_CHECKING:
    from tidelog.spark.read.stream_offsets import Json

EARLIEST = {"startingOffsets": "earliest"}


class Topics:
    """A data directory to which a test appends between batches."""

    def __init__(self, **partitions: int) -> None:
        self.home = DataHome()
        self.clock = ManualClock()
        for topic, count in partitions.items():
            self.create(topic, count)

    def create(self, topic: str, count: int = 1) -> None:
        with self.home.open() as directory:
            directory.create_topic(topic, count)

    def delete(self, topic: str) -> None:
        with self.home.open() as directory:
            directory.delete_topic(topic)

    def append(self, topic: str, count: int, partition: int = 0) -> None:
        with self.home.open() as directory:
            for _ in range(count):
                directory.partition(topic, partition).append_records([record(b"v")])

    def start_at(self, topic: str, offset: int) -> None:
        with self.home.open() as directory:
            directory.partition(topic, 0).log.maybe_increment_log_start_offset(offset)

    def plan(self, cores: int = 2, **options: str) -> StreamPlan:
        given = {"path": self.home.path, "subscribePattern": "."} | options
        if any(name in options for name in ("subscribe", "assign")):
            del given["subscribePattern"]
        parsed = ReadOptions.parse_stream(given)
        return StreamPlan(self.home.fs, parsed, clock=self.clock, cores=cores)

    def read(
        self, plan: StreamPlan, start: Json, end: Json, **options: str
    ) -> list[tuple[str, int]]:
        """Return topic and offset of each record of a batch."""
        given = {"path": self.home.path, "subscribePattern": "."} | options
        reader = RangeReader(self.home.fs, ReadOptions.parse_stream(given))
        return [
            (part.topic, offset)
            for task in plan.tasks(start, end)
            for part in task
            for piece in reader.pieces(part)
            for group in decode_groups(piece.data, piece.batches_in_data)
            for offset in group.offset.tolist()
            if part.start_offset <= offset < part.end_offset
        ]


def offsets(value: Json) -> dict[str, Any]:
    """Leave out what is not offsets."""
    return {name: of for name, of in value.items() if "#" not in name}


def test_a_stream_begins_at_the_latest_offset() -> None:
    """Without an option a new query reads what comes after its start; earliest reads all."""
    topics = Topics(a=2)
    topics.append("a", 3)

    assert offsets(topics.plan().initial()) == {"a": {"0": 3, "1": 0}}
    assert offsets(topics.plan(**EARLIEST).initial()) == {"a": {"0": 0, "1": 0}}


def test_a_stream_may_begin_at_given_offsets_for_every_partition() -> None:
    """Offsets by partition hold for the first batch and must name each partition."""
    topics = Topics(a=2)
    topics.append("a", 3)

    plan = topics.plan(startingOffsets='{"a":{"0":2,"1":-2}}')

    assert offsets(plan.initial()) == {"a": {"0": 2, "1": 0}}
    with pytest.raises(InvalidArgument, match="must name each partition"):
        topics.plan(startingOffsets='{"a":{"0":2}}').initial()


def test_batches_take_what_came_since() -> None:
    """Each batch begins where the one before it ended and ends at what is there."""
    topics = Topics(a=1)
    topics.append("a", 2)
    plan = topics.plan(**EARLIEST)

    start = plan.initial()
    first = plan.latest(start)
    topics.append("a", 3)
    second = plan.latest(first)

    assert topics.read(plan, start, first) == [("a", 0), ("a", 1)]
    assert topics.read(plan, first, second) == [("a", 2), ("a", 3), ("a", 4)]


def test_nothing_new_gives_the_same_offset_back() -> None:
    """Spark compares offsets as text, so an end equal to the start is the very same value."""
    topics = Topics(a=1)
    topics.append("a", 2)
    plan = topics.plan(**EARLIEST)

    end = plan.latest(plan.initial())

    assert plan.latest(end) is end
    assert plan.tasks(end, end) == []


def test_a_batch_repeated_after_a_restart_has_the_same_rows() -> None:
    """A new process asked for an old batch plans the same rows, though more came since."""
    topics = Topics(a=1)
    topics.append("a", 2)
    plan = topics.plan(**EARLIEST)
    first = plan.latest(plan.initial())
    topics.append("a", 3)
    second = plan.latest(first)
    rows = topics.read(plan, first, second)
    topics.append("a", 4)

    again = topics.read(topics.plan(**EARLIEST), first, second)

    assert again == rows == [("a", 2), ("a", 3), ("a", 4)]


def test_the_first_batch_repeated_begins_where_it_began() -> None:
    """Spark asks for the initial offset anew then, which by then may lie behind the batch's end."""
    topics = Topics(a=1)
    topics.append("a", 2)
    plan = topics.plan()
    start = plan.initial()
    topics.append("a", 3)
    end = plan.latest(start)
    rows = topics.read(plan, start, end)
    topics.append("a", 4)

    restarted = topics.plan()
    again = topics.read(restarted, restarted.initial(), end)

    assert again == rows == [("a", 2), ("a", 3), ("a", 4)]


def test_new_partitions_and_topics_are_read_from_their_start() -> None:
    """What appears while a query runs is picked up whole."""
    topics = Topics(a=1)
    topics.append("a", 2)
    plan = topics.plan()
    start = plan.initial()
    topics.create("b", 2)
    topics.append("b", 3, partition=1)

    end = plan.latest(start)

    assert offsets(end) == {"a": {"0": 2}, "b": {"0": 0, "1": 3}}
    assert topics.read(plan, start, end) == [("b", 0), ("b", 1), ("b", 2)]


def test_a_new_partition_that_has_lost_records_already_is_a_loss() -> None:
    """What a partition had before it was seen first counts."""
    topics = Topics(a=1)
    plan = topics.plan()
    start = plan.initial()
    topics.create("b")
    topics.append("b", 4)
    topics.start_at("b", 3)
    end = plan.latest(start)

    with pytest.raises(DataLoss, match=r"b-0 has no offsets \[0, 3\): delete-records"):
        plan.tasks(start, end)


def test_a_topic_deleted_and_made_again_is_noticed_by_its_id() -> None:
    """Also when the new one is longer, and over a restart: an error, or a warning and all of it."""
    topics = Topics(a=1)
    topics.append("a", 2)
    before = topics.plan(**EARLIEST)
    first = before.latest(before.initial())
    topics.delete("a")
    topics.create("a")
    topics.append("a", 5)

    for plan in (before, topics.plan()):
        second = plan.latest(first)
        with pytest.raises(DataLoss, match="a-0 has no offsets from 2 on: the topic was deleted"):
            plan.tasks(first, second)
    lenient = topics.plan(failOnDataLoss="false")
    second = lenient.latest(first)

    assert topics.read(lenient, first, second) == [("a", offset) for offset in range(5)]
    assert lenient.latest(second) is second


def test_a_batch_of_a_topic_that_is_no_more_is_a_loss() -> None:
    """A batch to be repeated whose topic was made again since has lost its records."""
    topics = Topics(a=1, b=1)
    topics.append("a", 4)
    plan = topics.plan(**EARLIEST)
    start = plan.initial()
    end = plan.latest(start)
    topics.delete("a")
    topics.create("a")
    topics.append("a", 9)

    with pytest.raises(DataLoss, match=r"a-0 has no offsets \[0, 4\): the topic was deleted"):
        topics.plan(**EARLIEST).tasks(start, end)
    assert topics.plan(failOnDataLoss="false").tasks(start, end) == []


def test_a_partition_that_is_gone_is_a_loss() -> None:
    """A topic deleted behind a stream is told; the stream may go on without it."""
    topics = Topics(a=1, b=1)
    topics.append("a", 2)
    topics.append("b", 2)
    plan = topics.plan(failOnDataLoss="false", **EARLIEST)
    first = plan.latest(plan.initial())
    topics.delete("b")
    topics.append("a", 1)
    second = plan.latest(first)

    assert topics.read(plan, first, second) == [("a", 2)]
    with pytest.raises(DataLoss, match="b-0 has no offsets from 2 on: its directory is gone"):
        topics.plan().tasks(first, second)


def test_a_stream_whose_topics_are_all_gone_fails() -> None:
    """A topic that was named must be there."""
    topics = Topics(a=1)
    plan = topics.plan(subscribe="a")
    start = plan.initial()
    topics.delete("a")

    with pytest.raises(UnknownTopicOrPartition, match="no topic a"):
        plan.latest(start)


def test_records_deleted_before_they_were_read_are_a_loss() -> None:
    """A stream that retention overtakes fails, or goes on at the log start."""
    topics = Topics(a=1)
    topics.append("a", 6)
    plan = topics.plan(**EARLIEST)
    start = plan.initial()
    end = plan.latest(start)
    topics.start_at("a", 4)

    with pytest.raises(DataLoss, match=r"a-0 has no offsets \[0, 4\)"):
        topics.plan(**EARLIEST).tasks(start, end)
    lenient = topics.plan(failOnDataLoss="false")
    assert topics.read(lenient, start, end, failOnDataLoss="false") == [("a", 4), ("a", 5)]


def test_the_latest_offset_never_goes_back_over_what_is_there() -> None:
    """A high watermark checkpoint older than what was read means nothing new, no loss."""
    topics = Topics(a=1)
    topics.append("a", 6)
    plan = topics.plan(**EARLIEST)
    end = plan.latest(plan.initial())
    topics.home.write("replication-offset-checkpoint", "0\n1\na 0 4\n")

    assert plan.latest(end) is end
    assert topics.plan().latest(end) is end


def test_a_log_that_was_cut_short_is_a_loss() -> None:
    """An end that lies below the start is told, and where accepted, the stream goes on there."""
    topics = Topics(a=1)
    topics.append("a", 2)
    plan = topics.plan(failOnDataLoss="false")
    ahead = {"a": {"0": 5}}

    end = plan.latest(ahead)

    assert offsets(end) == {"a": {"0": 2}}
    assert plan.tasks(ahead, end) == []
    with pytest.raises(DataLoss, match=r"a-0 has no offsets \[2, 5\): the offset of the log went"):
        topics.plan().tasks(ahead, end)


def test_batches_keep_to_the_limit_unless_all_is_asked_for() -> None:
    """``maxOffsetsPerTrigger`` cuts batches; a trigger that wants all takes all."""
    topics = Topics(a=1)
    topics.append("a", 10)
    plan = topics.plan(maxOffsetsPerTrigger="4", **EARLIEST)

    first = plan.latest(plan.initial())
    second = plan.latest(first)
    whole = plan.latest(first, is_limited=False)

    ends = [offsets(end)["a"]["0"] for end in (first, second, whole)]
    assert ends == [4, 8, 10]


def test_a_bounded_query_ends_at_what_was_there() -> None:
    """With AvailableNow, in batches by the limit, all is read that was there at first; no more."""
    topics = Topics(a=1)
    topics.append("a", 5)
    plan = topics.plan(maxOffsetsPerTrigger="2", minOffsetsPerTrigger="2", **EARLIEST)
    plan.bound()

    ends = [plan.initial()]
    while (end := plan.latest(ends[-1])) is not ends[-1]:
        topics.append("a", 1)
        ends.append(end)

    assert [offsets(end)["a"]["0"] for end in ends] == [0, 2, 4, 5]


def test_a_batch_waits_for_the_least_number_of_offsets() -> None:
    """``minOffsetsPerTrigger`` puts a batch off until enough is there or the delay is over."""
    topics = Topics(a=1)
    plan = topics.plan(minOffsetsPerTrigger="5", maxTriggerDelay="10s", **EARLIEST)
    start = plan.initial()
    topics.append("a", 1)
    first = plan.latest(start)
    topics.append("a", 1)

    too_few = plan.latest(first)
    topics.clock.advance(10_000)
    late = plan.latest(first)

    assert too_few is first
    assert offsets(late) == {"a": {"0": 2}}


def test_progress_tells_the_end_of_what_is_there() -> None:
    """What is reported is the latest offset, beyond what the limit lets a batch take."""
    topics = Topics(a=1)
    topics.append("a", 10)
    plan = topics.plan(maxOffsetsPerTrigger="4", **EARLIEST)

    before = plan.report()
    plan.latest(plan.initial())

    assert before is None
    assert plan.report() == {"a": {"0": 10}}


def test_small_ranges_share_tasks() -> None:
    """Many partitions with little to read make few tasks."""
    topics = Topics(a=20)
    for partition in range(20):
        topics.append("a", 1, partition)
    plan = topics.plan(**EARLIEST)

    tasks = plan.tasks(plan.initial(), plan.latest(plan.initial()))

    assert len(tasks) == 1
    assert sum(len(task) for task in tasks) == 20
