"""A log that is read on as it grows."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.machinery.stored_log import BATCHES, LOG_STARTS, VALUES, WATERMARKS, home_with, name_of

from tidelog.codec.checkpoint_file import replace_file
from tidelog.errors import DataLoss, KafkaStorageError, OffsetOutOfRange
from tidelog.log.topic_id import write_partition_metadata
from tidelog.readonly.log_follower import LogFollower
from tidelog.readonly.read_only_log import ReadOnlyLog
from tidelog.records.isolation import ReadUpTo

if TYPE_CHECKING:
    from tests.machinery.directory_home import DataHome

PATH = "/data/t-0"
EPOCHS = "t-0/leader-epoch-checkpoint"


def values(follower: LogFollower) -> list[bytes | None]:
    """Return the values that have come."""
    return [record.value for columns in follower.columns() for record in columns.records()]


def append(home: DataHome, end: int) -> None:
    """Let the log hold the batches up to ``end``."""
    home.write(name_of(0), b"".join(BATCHES[:end]))


def test_each_record_is_given_once() -> None:
    """As it comes; a log that has not changed is not opened."""
    home = home_with(BATCHES[:2])
    follower = LogFollower(PATH, fs=home.fs)
    first, nothing = values(follower), follower.opened_if_changed()
    append(home, 4)

    assert (first, nothing) == (VALUES[:2], None)
    assert (values(follower), values(follower)) == (VALUES[2:4], [])
    assert follower.next_offset == 4


def test_records_are_given_when_the_high_watermark_reaches_them() -> None:
    """Or as soon as they are there, on request."""
    home = home_with(BATCHES, watermark=2)
    seen = LogFollower(PATH, fs=home.fs)
    first = values(seen)
    home.clock.advance(1000)
    home.write(WATERMARKS, "0\n1\nt 0 5\n")

    assert (first, values(seen)) == (VALUES[:2], VALUES[2:5])
    assert (
        values(LogFollower(PATH, fs=home.fs, up_to=ReadUpTo.LOG_END, next_offset=4)) == VALUES[4:]
    )


def test_a_watermark_that_rises_again_within_a_tick_of_the_clock_is_seen() -> None:
    """File systems note times to some milliseconds: the file has the time that it had before."""
    home = home_with(BATCHES)
    watermarks = f"/data/{WATERMARKS}"
    replace_file(home.fs, watermarks, b"0\n1\nt 0 2\n")
    follower = LogFollower(PATH, fs=home.fs)
    first = values(follower)
    replace_file(home.fs, watermarks, b"0\n1\nt 0 5\n")

    assert (first, values(follower)) == (VALUES[:2], VALUES[2:5])


def test_appends_to_a_preallocated_segment_are_seen() -> None:
    """Its size stays as it is, and the watermark is written some seconds later."""
    home = home_with(BATCHES[:2])
    home.write(name_of(0), b"".join(BATCHES[:2]) + bytes(1000))
    follower = LogFollower(PATH, fs=home.fs, up_to=ReadUpTo.LOG_END)
    first, rest = values(follower), b"".join(BATCHES[2:4])
    home.clock.advance(10)
    with closing(home.fs.open(f"/data/{name_of(0)}", "r+")) as file:
        file.pwrite(rest, sum(map(len, BATCHES[:2])))

    assert (first, values(follower)) == (VALUES[:2], VALUES[2:4])


def test_records_that_are_deleted_before_they_are_read_are_an_error() -> None:
    """The follower continues where it is set to, never by itself."""
    home = home_with(BATCHES[:2])
    follower = LogFollower(PATH, fs=home.fs)
    values(follower)
    append(home, 6)
    home.write(LOG_STARTS, "0\n1\nt 0 4\n")

    with pytest.raises(OffsetOutOfRange, match=r"^t-0: ") as raised:
        values(follower)
    follower.next_offset = raised.value.log_start_offset

    assert values(follower) == VALUES[4:]


def test_records_that_take_the_place_of_those_that_were_read_are_an_error() -> None:
    """As where the log is restored while it is followed; the error says from where on."""
    home = home_with(BATCHES[:4])
    home.write(EPOCHS, "0\n1\n0 0\n")
    follower = LogFollower(PATH, fs=home.fs)
    values(follower)
    append(home, 5)
    home.write(EPOCHS, "0\n2\n0 0\n9 2\n")

    for _ in range(2):
        with pytest.raises(DataLoss, match=r"t-0 has no offsets \[2, 4\): the log") as raised:
            values(follower)
    follower.next_offset = raised.value.start_offset

    assert values(follower) == VALUES[2:5]
    append(home, 6)
    assert values(follower) == VALUES[5:6]


def test_a_follower_may_be_set_beyond_records_of_another_epoch() -> None:
    """Once it has raised the error; what it passes over is up to its user."""
    home = home_with(BATCHES[:4])
    home.write(EPOCHS, "0\n1\n0 0\n")
    follower = LogFollower(PATH, fs=home.fs)
    values(follower)
    append(home, 6)
    home.write(EPOCHS, "0\n2\n0 0\n9 2\n")
    with pytest.raises(DataLoss):
        values(follower)
    follower.next_offset = 5

    assert values(follower) == VALUES[5:6]


def test_what_was_not_read_is_given_by_the_next_call() -> None:
    """Though the log has not changed since the loop over the first one was left."""
    home = home_with(BATCHES)
    follower = LogFollower(PATH, fs=home.fs)
    for _ in follower.columns():
        break

    assert (values(follower), values(follower)) == (VALUES, [])


def test_a_read_that_fails_is_repeated_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such an error may pass, as one of too many open files does."""
    home = home_with(BATCHES)
    follower = LogFollower(PATH, fs=home.fs)

    def fail(*_: object, **__: object) -> None:
        raise KafkaStorageError("passes")

    with monkeypatch.context() as broken:
        broken.setattr(ReadOnlyLog, "columns", fail)
        with pytest.raises(KafkaStorageError, match="passes"):
            values(follower)

    assert values(follower) == VALUES


def test_a_log_that_is_deleted_ends_the_following() -> None:
    """With an error that names it."""
    home = home_with(BATCHES)
    follower = LogFollower(PATH, fs=home.fs)
    values(follower)
    home.fs.rename(PATH, "/data/elsewhere")

    with pytest.raises(KafkaStorageError, match="t-0 was deleted while it was followed"):
        values(follower)


def test_the_data_directory_is_not_listed_for_each_partition() -> None:
    """It may hold thousands, and which of them have an archive is asked one by one."""
    home = home_with(BATCHES)
    write_partition_metadata(home.fs, "/data/t-0/partition.metadata", UUID(int=7))
    operations = home.fs.trace()

    assert values(LogFollower(PATH, fs=home.fs)) == VALUES
    assert {one.path for one in operations if one.name == "list"} == {PATH}
