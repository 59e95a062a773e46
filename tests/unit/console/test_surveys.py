"""What the console knows of partitions and groups: it reads what has changed, in small steps."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.machinery.directory_home import DataHome

from tidelog.console.group_survey import GroupSurvey
from tidelog.console.partition_survey import PartitionSurvey
from tidelog.console.watch import Watch
from tidelog.env.scheduler import InlineScheduler
from tidelog.errors import InvalidArgument
from tidelog.explain.listed_partition import list_partition
from tidelog.log.topic_id import pack_partition_metadata
from tidelog.readonly.group_positions import OFFSETS_TOPIC, Position, position_records
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.segment.filenames import TopicPartition
from tidelog.testing.manual_time import ManualClock

if TYPE_CHECKING:
    from tidelog.console.partition_survey import Surveyed

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class SlowClock(ManualClock):
    """A clock on which each look takes a millisecond."""

    def monotonic_ns(self) -> int:
        """Return the time, a millisecond later than the last one."""
        self.advance(1)
        return super().monotonic_ns()


@pytest.fixture
def home() -> DataHome:
    """A directory with three partitions, one of them empty."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t", 2)
        logs.create_topic("u", 1)
        logs.append("t", b"a", partition=0, timestamp=5)
        logs.append("u", b"b", partition=0, timestamp=7)
    return home


def survey_of(home: DataHome) -> PartitionSurvey:
    return PartitionSurvey(home.fs, [home.path], home.clock)


def append(home: DataHome, count: int = 1) -> None:
    with home.open() as logs:
        for _ in range(count):
            logs.append("t", b"more", partition=0)


def known(survey: PartitionSurvey) -> dict[TopicPartition, Surveyed]:
    return {one.key: one for one in survey.partitions}


def test_the_numbers_are_those_of_list(home: DataHome) -> None:
    """Of every partition; the oldest record is that of the first batch."""
    survey = survey_of(home)

    survey.run()

    directory = open_directory_read_only(home.path, fs=home.fs)
    for key, one in known(survey).items():
        with directory.open(*key) as log:
            assert one.listed == list_partition(log)
    assert {key: one.oldest_ms for key, one in known(survey).items()} == {T0: 5, T1: -1, U0: 7}
    assert survey.total == 3


def test_what_has_not_changed_is_not_read_again(home: DataHome) -> None:
    """A second pass keeps what it knows, and reads the one that was appended to."""
    survey = survey_of(home)
    survey.run()
    before = known(survey)
    home.clock.advance(5000)
    append(home)

    survey.run()

    after = known(survey)
    assert [after[key].listed is before[key].listed for key in (T0, U0)] == [False, True]
    assert after[T0].size_bytes > before[T0].size_bytes


def test_growth_is_offsets_per_second_of_about_a_minute(home: DataHome) -> None:
    """It is unknown at first, and forgets what is long ago."""
    survey = survey_of(home)
    survey.run()
    first = known(survey)[T0].growth
    append(home, 10)
    home.clock.advance(5000)
    survey.run()
    after_a_while = known(survey)[T0].growth
    for _ in range(30):
        home.clock.advance(5000)
        survey.run()

    assert first is None
    assert after_a_while == 2
    assert known(survey)[T0].growth == 0


def test_a_partition_of_another_topic_of_the_name_is_a_problem(home: DataHome) -> None:
    """A disk that was away has kept it; it is shown, and its records are not the topic's."""
    away = "/away"
    for number in (1, 2):
        home.fs.make_directory(f"{away}/t-{number}")
        home.fs.write(f"{away}/t-{number}/{0:020}.log", b"")
        metadata = pack_partition_metadata(UUID(int=1))
        home.fs.write(f"{away}/t-{number}/partition.metadata", metadata)
    survey = PartitionSurvey(home.fs, [home.path, away], home.clock)

    survey.run()

    problems = {str(key): one.problem for key, one in known(survey).items()}
    assert [*problems] == ["t-0", "t-1", "t-2", "u-0"]
    assert (problems["t-0"], problems["u-0"]) == (None, None)
    assert "another topic named t" in str(problems["t-1"])
    assert "another topic named t" in str(problems["t-2"])
    assert [one.listed is None for one in survey.partitions] == [False, False, True, False]
    for number in (1, 2):
        home.fs.delete(f"{away}/t-{number}/{0:020}.log")
        home.fs.delete(f"{away}/t-{number}/partition.metadata")
        home.fs.delete_directory(f"{away}/t-{number}")
    survey.run()
    assert {str(key): one.problem for key, one in known(survey).items()} == {
        "t-0": None,
        "t-1": None,
        "u-0": None,
    }


def test_topics_that_come_and_go_are_noticed(home: DataHome) -> None:
    """The next pass knows."""
    survey = survey_of(home)
    survey.run()
    with home.open() as logs:
        logs.create_topic("v", 1)
        logs.delete_topic("u")

    survey.run()

    assert list(known(survey)) == [T0, T1, TopicPartition("v", 0)]


def test_a_pass_is_done_in_steps(home: DataHome) -> None:
    """A page in between shows what is known by then."""
    clock = SlowClock()
    survey = PartitionSurvey(home.fs, [home.path], clock)
    survey.begin(survey.open())

    counts = []
    while survey.is_running:
        survey.work(1)
        counts.append((len(survey.partitions), survey.is_whole))

    assert counts == [(0, False), (1, False), (2, False), (3, False), (3, True)]


def test_damage_is_known(home: DataHome) -> None:
    """What list says of it; a partition that cannot be read at all has a reason, too."""
    home.write(f"t-0/{0:020}.log", b"\0" * 100)
    home.write("replication-offset-checkpoint", "0\n1\nt 0 1\n")
    survey = survey_of(home)

    survey.run()

    one = known(survey)[T0]
    assert one.listed is not None
    assert one.problem is not None
    assert one.problem == one.listed.damage
    home.write("replication-offset-checkpoint", "no checkpoint")
    survey.run()
    assert known(survey)[T0].listed is None
    assert "replication-offset-checkpoint" in str(known(survey)[T0].problem)


def test_groups_have_their_largest_lag_in_a_partition(home: DataHome) -> None:
    """By the same function as the command; a group at the end has none."""
    append(home, 4)
    with home.open() as logs:
        for group, count in (("slow", 1), ("fast", 5)):
            with logs.reader("t", group=group, partitions=[0]) as reader:
                for _ in zip(range(count), reader.read(), strict=False):
                    continue
                reader.commit()
    groups = GroupSurvey(home.fs, [home.path], home.clock)

    groups.run()

    assert groups.failure is None
    assert {one.group: one.lag for one in groups.positions} == {"slow": 4, "fast": 0}
    assert groups.lags == {T0: 4}


def test_a_position_beyond_the_end_is_seen_unless_another_group_is_behind(home: DataHome) -> None:
    """Its lag is negative, and not the largest one."""
    set_positions(home, "far", {T0: 9, T1: 9})
    set_positions(home, "slow", {T0: 0})
    groups = GroupSurvey(home.fs, [home.path], home.clock)

    groups.run()

    assert groups.failure is None
    assert groups.lags == {T0: 1, T1: -9}


def set_positions(home: DataHome, group: str, offsets: dict[TopicPartition, int]) -> None:
    """Set positions of a group, wherever they are."""
    found = {key: Position(offset, -1, "", 1000, None) for key, offset in offsets.items()}
    with home.open() as logs:
        logs.create_topic(OFFSETS_TOPIC, exist_ok=True)
        home_of_it = logs.partition(OFFSETS_TOPIC, 0)
        home_of_it.append_records(position_records(group, found))


def watch_of(home: DataHome) -> tuple[Watch, PartitionSurvey, InlineScheduler]:
    survey, scheduler = survey_of(home), InlineScheduler()
    groups = GroupSurvey(home.fs, [home.path], home.clock)
    return Watch(survey, groups, home.clock, scheduler), survey, scheduler


def test_a_page_sees_what_is_new_after_a_pause(home: DataHome) -> None:
    """Many pages in a row look once."""
    watch, survey, _ = watch_of(home)
    watch.freshen()
    append(home)
    watch.freshen()
    at_once = known(survey)[T0].listed
    home.clock.advance(3000)
    watch.freshen()
    later = known(survey)[T0].listed

    assert at_once is not None
    assert later is not None
    assert (at_once.log_end_offset, later.log_end_offset) == (1, 2)


def test_nothing_is_looked_at_while_no_page_is_asked_for(home: DataHome) -> None:
    """No task waits once a pass has ended."""
    watch, _, scheduler = watch_of(home)

    watch.freshen()

    assert scheduler.run_pending() == 0


def test_what_takes_long_continues_behind_the_page(home: DataHome) -> None:
    """A page waits for its part only; the rest is done by tasks."""
    clock = SlowClock()
    with home.open() as logs:
        logs.create_topic("many", 400)
    survey, scheduler = PartitionSurvey(home.fs, [home.path], clock), InlineScheduler()
    watch = Watch(survey, GroupSurvey(home.fs, [home.path], clock), clock, scheduler)

    watch.freshen()
    first = len(survey.partitions)
    scheduler.run_pending()
    whole = survey.is_whole
    clock.advance(60_000)
    watch.freshen()
    ran = scheduler.run_pending()

    assert 0 < first < 403
    assert (whole, survey.is_whole, len(survey.partitions)) == (True, True, 403)
    assert ran > 1


def test_what_is_no_directory_is_refused_at_once(home: DataHome) -> None:
    """By the first look; once it has worked, a directory that is gone is a failure on the page."""
    survey = PartitionSurvey(home.fs, ["/nothing"], home.clock)
    groups = GroupSurvey(home.fs, ["/nothing"], home.clock)

    with pytest.raises(InvalidArgument, match="not a data directory"):
        Watch(survey, groups, home.clock, InlineScheduler()).freshen()
