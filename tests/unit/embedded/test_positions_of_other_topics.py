"""Groups whose committed positions are in a topic that has another id by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.embedded.test_group_reader import filled, values

import tidelog
from tidelog.errors import OffsetOutOfRange

if TYPE_CHECKING:
    from pathlib import Path

EVENT = "position-of-another-topic"


@pytest.fixture
def again(tmp_path: Path) -> tidelog.Logs:
    """Return logs with a topic that was created again after group g had read it."""
    logs = tidelog.open(tmp_path)
    filled(logs, "a", "b")
    with logs.reader("t", group="g") as reader:
        assert values(reader) == ["a", "b"]
        reader.commit()
    logs.delete_topic("t")
    filled(logs, "new0", "new1", "new2")
    return logs


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings about such positions."""
    lines = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    return [line for line in lines if line.startswith(EVENT)]


@pytest.mark.parametrize(("start", "found"), [("earliest", 3), ("latest", 0)])
def test_a_position_that_is_passed_over_is_logged_once(
    again: tidelog.Logs, caplog: pytest.LogCaptureFixture, start: str, found: int
) -> None:
    """With what to do about it; partitions without a position are silent."""
    with again, again.reader("t", group="g", start=start) as reader:
        assert len(values(reader)) == found
        reader.rewind()
        reader.commit()
        reader.rewind()
        again.reader("t", group="fresh").close()

    (line,) = told(caplog)
    assert line.startswith(f"{EVENT} log=t-0 group=g offset=2 reason=")
    assert "tidelog groups reset" in line
    assert "--keep-ids" in line


def test_without_a_start_such_a_position_is_an_error(
    again: tidelog.Logs, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is read or committed in its partition until a seek; the offset need not lie beyond.

    A group without a position begins at the earliest record, as in the other partition here.
    """
    with again, again.reader("t", group="g", start="none") as reader:
        for _ in range(2):
            with pytest.raises(OffsetOutOfRange, match=r"t-0: offset 2 .* another topic.* reset"):
                values(reader)
            reader.commit()
            assert ("t", 0) not in reader.committed
            reader.rewind()
        reader.seek("t", 0, 1)
        assert values(reader) == ["new1", "new2"]
        reader.commit()
        assert reader.committed["t", 0] == 3  # type: ignore[index]  # as a TopicPartition
        with again.reader("t", group="fresh", start="none") as fresh:
            assert len(values(fresh)) == 3
    assert told(caplog) == []
