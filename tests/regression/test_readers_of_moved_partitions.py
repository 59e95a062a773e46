"""A reader that is given both directories of a move finds the partition after it, and reads on."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tidelog.cli.cat.follow import follow
from tidelog.cli.partition_choice import choose_partitions
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import DataLoss, KafkaStorageError, PartitionsElsewhere
from tidelog.explain.tables.system_table import open_tables
from tidelog.explain.tables.system_tables import system_table
from tidelog.records.decoding.record_columns import decode_groups

pytest.importorskip("pyspark")

from tidelog.spark.options.source_options import ReadOptions
from tidelog.spark.read.live_batches import RangeReader
from tidelog.spark.read.stream_plan import StreamPlan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.cli.partition_choice import Place
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.spark.read.read_plan import OffsetRange


class Disks:
    """Two data directories; topic t has two partitions in the first, each with three records."""

    def __init__(self, folder: Path) -> None:
        self.paths = str(folder / "a"), str(folder / "b")
        with tidelog.open(*self.paths) as logs:
            small = {"internal.segment.bytes": "3000"}
            logs.manager.create_topic("t", 2, small, path=self.paths[0])
        for number in (0, 1):
            self.append(number, b"a", b"b", b"c")

    def append(self, number: int, *values: bytes) -> None:
        with tidelog.open(*self.paths) as logs:
            for value in values:
                record: Any = (-1, None, value, [])
                logs.partition("t", number).append_records([record])

    def move(self, number: int = 0) -> None:
        with tidelog.open(*self.paths) as logs:
            logs.move_partition("t", number, self.paths[1])


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    return Disks(tmp_path)


def test_a_program_that_follows_a_topic_reads_on(disks: Disks) -> None:
    """Each record once, from where it was; one who reads only one directory gets an error."""
    logs = tidelog.open_directory_read_only(*disks.paths)
    follower = logs.topic_follower("t")
    alone = tidelog.open_directory_read_only(disks.paths[0]).topic_follower("t")
    before = [(one.partition, one.offset) for one in follower.records()]
    assert len(before) == len(list(alone.records())) == 6
    disks.move()
    disks.append(0, b"d")

    after = [(one.partition, one.value) for one in follower.records()]

    assert after == [(0, b"d")]
    with pytest.raises(KafkaStorageError, match="was deleted while it was followed"):
        list(alone.records())
    with pytest.raises(PartitionsElsewhere, match=f"t-0 is in {disks.paths[1]}"):
        tidelog.open_directory_read_only(disks.paths[0]).topic_follower("t")


def test_cat_follows_on(disks: Disks) -> None:
    """What comes after the move is printed, and nothing again."""
    chosen = choose_partitions(SYSTEM_FILES, disks.paths, ["t"], 0)
    printed: list[list[bytes | None]] = []
    rounds: list[int] = []

    def show(_: Place, log: ReadOnlyLog, start: int | None) -> int:
        printed.append([record.value for record in log.records(start or 0)])
        return log.log_end_offset

    def wait(_: int) -> None:
        rounds.append(1)
        if len(rounds) == 1:
            disks.move()
            disks.append(0, b"d")

    list(islice(follow(chosen.places, show, moved=chosen.moved, wait_ms=wait), 4))

    assert printed == [[b"a", b"b", b"c"], [b"d"]]


def test_a_command_answers_about_the_partition_where_it_is_now(
    disks: Disks, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was listed in one directory, and is in the other once its turn comes."""
    chosen = choose_partitions(SYSTEM_FILES, disks.paths, ["t"])
    disks.move()

    def end_of(place: Place) -> tuple[str, int]:
        with chosen.open(place) as log:
            return log.directory, log.log_end_offset

    answers = [answer for _, answer in chosen.look("list", end_of)]

    assert answers == [(f"{disks.paths[1]}/t-0", 3), (f"{disks.paths[0]}/t-1", 3)]
    assert capsys.readouterr().err == ""


def test_a_system_table_has_its_rows(disks: Disks) -> None:
    """So has a table whose directories were listed before the move."""
    source = open_tables(SYSTEM_FILES, *disks.paths, clock=SYSTEM_CLOCK)
    keys = source.directory.partitions
    disks.move()

    rows = list(system_table("partitions").rows(source, keys))

    assert [row[:3] for row in rows] == [
        ("t", 0, f"{disks.paths[1]}/t-0"),
        ("t", 1, f"{disks.paths[0]}/t-1"),
    ]


def stream_options(*paths: str, **others: str) -> ReadOptions:
    chosen = {"subscribe": "t", "startingOffsets": "earliest", "paths": json.dumps(paths)}
    return ReadOptions.parse_stream(chosen | others)


def plan_of(*paths: str, **others: str) -> StreamPlan:
    options = stream_options(*paths, **others)
    return StreamPlan(SYSTEM_FILES, options, clock=SYSTEM_CLOCK, cores=2)


def read(tasks: Iterable[Iterable[OffsetRange]], reader: RangeReader) -> list[tuple[int, int]]:
    """Return partition and offset of each record of some tasks, in order."""
    return sorted(
        (part.partition, offset)
        for task in tasks
        for part in task
        for piece in reader.read(part)
        for group in decode_groups(piece.data, piece.batches_in_data)
        for offset in group.offset.tolist()
        if part.start_offset <= offset < part.end_offset
    )


def test_a_stream_reads_on(disks: Disks) -> None:
    """Its batches end to end have each record once, whenever the move comes."""
    plan, alone = plan_of(*disks.paths), plan_of(disks.paths[0])
    start = plan.initial()
    middle = plan.latest(start)
    assert alone.latest(alone.initial())
    reader = RangeReader(SYSTEM_FILES, stream_options(*disks.paths))
    tasks = plan.tasks(start, middle)
    of_other = [[part for task in tasks for part in task if part.partition == 1]]
    assert read(of_other, reader) == [(1, 0), (1, 1), (1, 2)]  # it has listed the directories
    disks.move()
    expected = [(number, offset) for number in (0, 1) for offset in range(3)]
    assert read(tasks, reader) == expected
    assert read(plan.tasks(start, middle), reader) == expected
    disks.append(0, b"d")
    end = plan.latest(middle)

    assert read(plan.tasks(middle, end), reader) == [(0, 3)]
    with pytest.raises(PartitionsElsewhere, match=f"t-0 is in {disks.paths[1]}"):
        alone.latest(middle)
    with pytest.raises(DataLoss, match="the topic was deleted, or the partition moved"):
        read(tasks, RangeReader(SYSTEM_FILES, stream_options(disks.paths[0])))


def test_a_stream_looks_for_lost_segments_where_the_log_is_now(disks: Disks) -> None:
    """A plan opened the log in the first directory, and its files are in the other."""
    disks.append(0, *[b"x" * 1000] * 30)
    plan = plan_of(*disks.paths)
    start = plan.initial()
    end = plan.latest(start)
    disks.move()
    logs = sorted(Path(disks.paths[1], "t-0").glob("*.log"))
    logs[len(logs) // 2].unlink()

    with pytest.raises(DataLoss, match="no segment holds them"):
        plan.tasks(start, end)
