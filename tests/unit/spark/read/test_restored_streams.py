"""A stream over a directory that was restored: it reads each new record once, or says why not."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.archives import files_with
from tests.machinery.object_model import ObjectModel

import tidelog
from tidelog.archive.open_archives import archive_at
from tidelog.arrow import read_table
from tidelog.env.machine import Machine
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import DataLoss
from tidelog.manager.archiving import ArchiveTerms, archive_log
from tidelog.manager.lifecycle.deletion_queue import remove_directory
from tidelog.manager.restore import RestoredTopic, restore
from tidelog.manager.restore_lost import LostPartitions, restore_lost
from tidelog.segment.filenames import TopicPartition
from tidelog.spark.options.source_options import ReadOptions
from tidelog.spark.read.stream_plan import StreamPlan
from tidelog.testing.manual_time import ManualClock, ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tidelog.spark.read.read_plan import Task
    from tidelog.spark.read.stream_offsets import Json

URI = "s3://lake/streams"
SETTINGS = {"retention.ms": "-1", "internal.segment.bytes": "800"}
T0 = TopicPartition("t", 0)


class Restored:
    """A topic that is archived, appended to and read further; the archive takes its place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = ObjectModel(Random(3))
        files_with(self.store, URI)
        self.rng = Random(5)
        with tidelog.open(path) as logs:
            logs.create_topic("t", config=SETTINGS)
        self.append("old", 60)
        self.archive()
        self.append("lost", 20)

    def append(self, text: str, count: int) -> None:
        """Append records, in a batch each."""
        with tidelog.open(self.path) as logs:
            for number in range(count):
                logs.append("t", f"{text} {number}".ljust(60).encode(), partition=0)

    def archive(self) -> None:
        """Copy what is closed to the archive."""
        with tidelog.open(self.path) as logs:
            archive_log(logs.manager, T0, self.store, ArchiveTerms())

    def restore(self, *, without: int = 0) -> int:
        """Put the archive, ``without`` some segments, in the directory's place; return its end."""
        remove_directory(SYSTEM_FILES, str(self.path))
        (one,) = archive_at(URI).all().values()
        for _ in range(without):
            one.state.end = one.state.entries.pop().base_offset
        topic = RestoredTopic("t", one.topic_id, SETTINGS, {}, {0: one})
        scheduler = ManualScheduler(ManualClock())
        how: dict[str, Any] = {"fs": SYSTEM_FILES, "rng": self.rng, "scheduler": scheduler}
        (done,) = restore(self.store, [topic], str(self.path), **how)
        return done.log_end_offset

    def put_back(self) -> int:
        """Restore the log to its directory, which has lost it; return its end."""
        remove_directory(SYSTEM_FILES, str(self.path / "t-0"))
        clock = ManualClock()
        machine = Machine(SYSTEM_FILES, clock, ManualScheduler(clock), self.rng, clock.advance)
        wanted = LostPartitions(["t"], 0)
        (done,) = restore_lost(archive_at(URI), str(self.path), wanted, machine)
        return done.log_end_offset

    def options(self, **options: str) -> ReadOptions:
        """Return the options of a stream from the start."""
        found = {"path": str(self.path), "subscribe": "t", "startingOffsets": "earliest"}
        return ReadOptions.parse_stream(found | options)

    def plan(self, **options: str) -> StreamPlan:
        """Return the plan of a stream that is started now."""
        return StreamPlan(SYSTEM_FILES, self.options(**options), clock=ManualClock(), cores=2)

    def values(self, tasks: Sequence[Task]) -> list[str]:
        """Return what a batch reads."""
        logs = tidelog.open_directory_read_only(self.path)
        found = {one.offset: (one.value or b"").decode().strip() for one in logs.read("t", 0)}
        parts = [part for task in tasks for part in task]
        return [found[at] for part in parts for at in range(part.start_offset, part.end_offset)]


@pytest.fixture
def topic(tmp_path: Path) -> Restored:
    return Restored(tmp_path / "data")


def all_read(topic: Restored) -> Json:
    """Return where a stream is that has read all there is."""
    plan = topic.plan()
    start = plan.initial()
    end = plan.latest(start)
    assert len(topic.values(plan.tasks(start, end))) == end["t"]["0"]
    return end


def named(text: str, numbers: range) -> list[str]:
    return [f"{text} {number}" for number in numbers]


@pytest.mark.parametrize("more", [30, 60])
def test_records_that_take_the_place_of_lost_ones_are_never_skipped(
    topic: Restored, more: int
) -> None:
    """Below the stream's offset and beyond: an error, then each of them once."""
    read = all_read(topic)
    end = topic.restore()
    topic.append("new", more)

    others = "them" if end + more >= 80 else f"those below {end + more}"
    cause = rf"no offsets \[{end}, 80\): the log was restored, .*, and others have {others} now;"
    with pytest.raises(DataLoss, match=cause):
        topic.plan().latest(read)
    plan = topic.plan(failOnDataLoss="false")
    following = plan.latest(read)
    assert topic.values(plan.tasks(read, following)) == named("new", range(more))
    topic.append("more", 2)
    strict = topic.plan()
    last = strict.latest(following)
    assert topic.values(strict.tasks(following, last)) == named("more", range(2))


def test_a_lost_log_is_read_as_soon_as_it_is_back(topic: Restored) -> None:
    """By Arrow and by streams, before a process opens the directory for writing."""
    read = all_read(topic)
    end = topic.put_back()

    assert read_table(topic.path, "t")["offset"].to_pylist() == [*range(end)]
    cause = rf"t-0 has no offsets \[{end}, 80\): the log was restored, .*, and ends at {end} now;"
    with pytest.raises(DataLoss, match=cause):
        topic.plan().latest(read)
    plan = topic.plan(failOnDataLoss="false")
    noted = plan.latest(read)
    assert noted["t"] == {"0": end}
    assert plan.tasks(read, noted) == []
    topic.append("new", 40)
    strict = topic.plan()
    assert topic.values(strict.tasks(noted, strict.latest(noted))) == named("new", range(40))


def test_as_many_new_records_as_were_lost_are_read_too(topic: Restored) -> None:
    """The log ends where the stream is, and nothing in it is what the stream read."""
    read = all_read(topic)
    topic.append("new", 80 - topic.restore())

    with pytest.raises(DataLoss, match="others have them now"):
        topic.plan().latest(read)
    plan = topic.plan(failOnDataLoss="false")
    end = plan.latest(read)
    assert end["t"] == read["t"]
    assert topic.values(plan.tasks(read, end))[0] == "new 0"
    assert plan.latest(end) is end


def test_a_stream_that_read_no_lost_record_continues(topic: Restored) -> None:
    """At the restored end, below it, and where it noted that end by an empty batch."""
    read = all_read(topic)
    end = topic.restore()
    plan = topic.plan(failOnDataLoss="false")
    noted = plan.latest(read)
    assert noted["t"] == {"0": end}
    assert plan.tasks(read, noted) == []
    topic.append("new", 40)

    for start in (noted, noted | {"t": {"0": end - 3}}):
        strict = topic.plan()
        last = strict.latest(start)
        found = topic.values(strict.tasks(start, last))
        assert found[-40:] == named("new", range(40))
        assert len(found) == end + 40 - start["t"]["0"]


def test_what_a_mirror_appends_in_the_place_of_its_source_is_read(
    topic: Restored, tmp_path: Path
) -> None:
    """The stream has read what came after the mirror's last run."""
    mirror = tmp_path / "mirror"
    tidelog.mirror(topic.path, mirror)
    topic.append("not mirrored", 20)
    read = all_read(topic)
    topic.path = mirror
    topic.append("new", 30)

    with pytest.raises(DataLoss, match=r"no offsets \[80, 100\): .* others have them now"):
        topic.plan().latest(read)
    plan = topic.plan(failOnDataLoss="false")
    assert topic.values(plan.tasks(read, plan.latest(read))) == named("new", range(30))


def test_a_log_that_is_restored_twice_is_another_one_each_time(topic: Restored) -> None:
    """To the same end, and to one before: all records after the lower end are new."""
    topic.restore()
    topic.append("between", 40)
    read = all_read(topic)
    for without in (0, 1):
        end = topic.restore(without=without)
        topic.append("new", 60)
        plan = topic.plan(failOnDataLoss="false")
        following = plan.latest(read)
        found = topic.values(plan.tasks(read, following))
        assert found[-60:] == named("new", range(60))
        assert len(found) == following["t"]["0"] - end


def test_a_batch_that_is_repeated_does_not_read_others(topic: Restored) -> None:
    """Planned before the restore, it has none of the new records; the next one has all."""
    plan = topic.plan()
    start = plan.initial()
    middle = plan.latest(start)
    topic.append("lost, too", 5)
    end = plan.latest(middle)
    topic.restore()
    topic.append("new", 60)

    with pytest.raises(DataLoss, match="others have them now"):
        topic.plan().tasks(middle, end)
    plan = topic.plan(failOnDataLoss="false")
    assert plan.tasks(middle, end) == []
    last = plan.latest(end)
    assert topic.values(plan.tasks(end, last)) == named("new", range(60))


def test_releases_that_do_not_know_where_a_batch_begins_see_it_in_its_tasks(
    topic: Restored,
) -> None:
    """As Spark 4.0 and 4.1, whose end of the first batch is recorded before."""
    read = all_read(topic)
    topic.restore()
    topic.append("new", 60)

    strict = topic.plan()
    end = strict.latest(None)
    with pytest.raises(DataLoss, match="others have them now"):
        strict.tasks(read, end)
    plan = topic.plan(failOnDataLoss="false")
    assert topic.values(plan.tasks(read, end)) == named("new", range(60))


def test_a_checkpoint_without_epochs_is_as_good_as_before(topic: Restored) -> None:
    """What an earlier version wrote is continued, and has epochs after the next batch."""
    read = {name: each for name, each in all_read(topic).items() if "#epoch" not in name}
    topic.append("more", 2)

    plan = topic.plan()
    end = plan.latest(read)

    assert topic.values(plan.tasks(read, end)) == named("more", range(2))
    assert end["t#epoch-0"] == {"0": 0}


def test_a_log_whose_end_was_lost_is_another_one_from_there(topic: Restored) -> None:
    """A power cut may take what readers have seen; the next opening begins an epoch."""
    read = all_read(topic)
    newest = max((topic.path / "t-0").glob("*.log"))
    for path in newest.parent.glob(f"{newest.stem}.*"):
        path.unlink()
    end = int(newest.stem)
    topic.append("new", 60)

    with pytest.raises(DataLoss, match=rf"no offsets \[{end}, 80\)"):
        topic.plan().latest(read)
    plan = topic.plan(failOnDataLoss="false")
    following = plan.latest(read)
    assert topic.values(plan.tasks(read, following)) == named("new", range(60))


def test_a_log_that_was_lost_and_began_again_is_another_one(topic: Restored) -> None:
    """Its directory is gone, and it is not an archive that has it."""
    read = all_read(topic)
    remove_directory(SYSTEM_FILES, str(topic.path / "t-0"))
    topic.append("new", 90)

    with pytest.raises(DataLoss, match=r"no offsets \[0, 80\)"):
        topic.plan().latest(read)
    plan = topic.plan(failOnDataLoss="false")
    following = plan.latest(read)
    assert topic.values(plan.tasks(read, following)) == named("new", range(90))


def test_the_epoch_outlives_openings_without_an_append(topic: Restored) -> None:
    """Kafka's rules would drop it, since it has no record yet; no controller gives another one."""
    topic.restore()
    path = topic.path / "t-0" / "leader-epoch-checkpoint"
    begun = path.read_text()
    for _ in range(2):
        with tidelog.open(topic.path) as logs:
            epoch = logs.manager.partition("t", 0).leader_epoch
    assert path.read_text() == begun
    topic.append("new", 1)
    (*_, last) = tidelog.open_directory_read_only(topic.path).read("t", 0)
    assert last.leader_epoch == epoch >= 1 << 12
