"""What ``cat`` reports that it has left in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.cli.cat.unread_records import report_unread
from tidelog.cli.partition_choice import choose_partitions
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.readonly.missing.damaged_range import ignore_damage

if TYPE_CHECKING:
    Cli = Any


def test_what_is_appended_meanwhile_was_not_left(topic: Cli) -> None:
    """A writer beside ``cat --skip-damage`` makes no loss of what it appends."""
    topic.append("a")
    chosen = choose_partitions(SYSTEM_FILES, [str(topic.data)], ["t"])
    (place,) = chosen.places
    with chosen.open(place, ignore_damage) as log:
        topic.append("b", "c")

        assert not report_unread(chosen, place, log, 0, log.high_watermark)
