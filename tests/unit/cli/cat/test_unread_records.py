"""What ``cat`` reports that it has left in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.cli.cat import unread_records
from tidelog.cli.cat.unread_records import report_unread
from tidelog.cli.partition_choice import choose_partitions
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.readonly.missing.damaged_range import ignore_damage

if TYPE_CHECKING:
    import pytest

    Cli = Any


def test_what_is_appended_meanwhile_was_not_left(topic: Cli) -> None:
    """A writer beside ``cat --skip-damage`` makes no loss of what it appends."""
    topic.append("a")
    chosen = choose_partitions(SYSTEM_FILES, [str(topic.data)], ["t"])
    (place,) = chosen.places
    chosen.open(place).close()
    topic.append("b")
    with chosen.open(place, ignore_damage) as log:
        topic.append("c")

        assert (log.high_watermark, log.log_end_offset) == (1, 2)
        assert not report_unread(chosen, place, log, 0, log.high_watermark)


def test_what_a_writer_is_about_to_show_was_not_left(
    topic: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer raises the high watermark after an append; after a crash it stays too low."""
    topic.append("a", "b")
    (topic.data / "replication-offset-checkpoint").write_text("0\n1\nt 0 1\n")
    chosen = choose_partitions(SYSTEM_FILES, [str(topic.data)], ["t"])
    (place,) = chosen.places
    with chosen.open(place, ignore_damage) as log:
        assert report_unread(chosen, place, log, 0, 1)
        monkeypatch.setattr(unread_records, "has_writer", lambda _: True)
        assert not report_unread(chosen, place, log, 0, 1)
