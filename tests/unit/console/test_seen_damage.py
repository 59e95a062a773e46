"""Damage that a page has seen: lists say it, too, until the files of the log have changed."""

from __future__ import annotations

import pytest
from tests.machinery.console_visitor import Visitor
from tests.machinery.directory_home import DataHome

from tidelog.segment.filenames import TopicPartition
from tidelog.testing import damage_batch

T0 = TopicPartition("t", 0)
PAGES = (
    *("", "/records?from=0", "/records/2", "/batches", "/check"),
    "/transactions",
)


@pytest.fixture
def home() -> DataHome:
    """A log with damage in its middle, and a sound one."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t", 2, {"segment.bytes": 1 << 20})
        for partition in (0, 0, 0, 0, 1):
            logs.append("t", b"a" * 600_000, partition=partition)
    damage_batch(home.path, "t", 2, files=home.fs)
    return home


def visitor_of(home: DataHome) -> Visitor:
    return Visitor(home.path, fs=home.fs, clock=home.clock)


@pytest.mark.parametrize("page", PAGES[:-1])
def test_lists_say_what_a_page_has_seen(home: DataHome, page: str) -> None:
    """Before, that the end is sound; a page about another log changes nothing."""
    visitor = visitor_of(home)
    for address in ("/topics", "/partitions", "/topics/t"):
        assert "damaged</span>" not in visitor.get(address).text
    assert visitor.get("/partitions").text.count("end is sound") == 2
    assert "ends are sound" in visitor.get("/topics").text
    visitor.get("/topics/t/1/check")

    visitor.get(f"/topics/t/0{page}")

    assert "1 damaged</span>" in visitor.get("/topics").text
    for address in ("/partitions", "/topics/t"):
        text = visitor.get(address).text
        assert (text.count(">damaged</span>"), text.count("end is sound")) == (1, 1), address
    for other in PAGES:
        assert ">damaged</span>" in visitor.get(f"/topics/t/0{other}").text, other


def test_damage_is_known_while_the_log_grows(home: DataHome) -> None:
    """Records that come after it do not mend it; files that were mended do."""
    visitor = visitor_of(home)
    visitor.get("/topics/t/0/check")
    with home.open() as logs:
        logs.append("t", b"b" * 600_000, partition=0)
    visitor.room.desk.survey.run()
    assert "CRC" in str(visitor.room.desk.survey.problem_of(T0))

    home.clock.advance(5000)
    damage_batch(home.path, "t", 2, files=home.fs)  # the same bit again
    visitor.room.desk.survey.run()

    assert visitor.room.desk.survey.problem_of(T0) is None
    visitor.get("/topics/t/0/check")
    assert "damaged</span>" not in visitor.get("/topics").text


def test_damage_of_a_topic_that_is_deleted_is_forgotten(home: DataHome) -> None:
    """Another one of the name is another log."""
    visitor = visitor_of(home)
    visitor.get("/topics/t/0/check")
    with home.open() as logs:
        logs.delete_topic("t")
        logs.create_topic("t", 2)

    visitor.room.desk.survey.run()

    assert visitor.room.desk.survey.problem_of(T0) is None
