"""Topics that Kafka made."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from tests.machinery.directory_home import DataHome

from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.catalogue import Catalogue, Topic
from tidelog.datadir.uncatalogued_topics import adopt

HERE, THERE = UUID(int=1 << 80), UUID(int=2 << 80)
ID = UUID(int=3 << 90)


def adopted(home: DataHome, catalogue: Catalogue | None = None) -> dict[str, Topic]:
    """Return the topics after adoption."""
    found = adopt(home.fs, home.path, catalogue or Catalogue(), directory_id=HERE, rng=Random(1))
    return dict(found.topics)


def add_partition(home: DataHome, name: str, topic_id: UUID | None = None) -> None:
    """Make a partition directory, with an id or without."""
    home.write(f"{name}/{0:020}.log", "")
    if topic_id is not None:
        text = f"version: 0\ntopic_id: {format_uuid(topic_id)}"
        home.write(f"{name}/partition.metadata", text)


def test_directories_become_topics() -> None:
    """A topic has the partitions that lie here, and the id that is written in them."""
    home = DataHome()
    add_partition(home, "t-0", ID)
    add_partition(home, "t-10", ID)

    assert {"t": Topic("t", ID, {0: HERE, 10: HERE}, is_adopted=True)} == adopted(home)


def test_one_partition_with_an_id_is_enough() -> None:
    """A topic has the id that any of its partitions has, so all partitions get the same."""
    home = DataHome()
    for number in (0, 1, 2):
        add_partition(home, f"t-{number}", ID if number == 1 else None)

    assert adopted(home)["t"].topic_id == ID


def test_a_topic_without_an_id_gets_one() -> None:
    """Brokers before 2.8 wrote no ids."""
    home = DataHome()
    add_partition(home, "t-0")

    assert adopted(home)["t"].topic_id.version == 4


def test_a_damaged_id_leaves_out_one_topic_only(caplog: pytest.LogCaptureFixture) -> None:
    """Its partitions would be strays under another id once the file is restored."""
    home = DataHome()
    add_partition(home, "other-0", ID)
    add_partition(home, "t-0", ID)
    home.write("t-0/partition.metadata", "garbage")

    assert list(adopted(home)) == ["other"]
    assert "topic-not-adopted directory=/data topic=t" in caplog.text


def test_the_id_of_another_partition_stands_for_a_damaged_one() -> None:
    """All partitions of a topic have the same."""
    home = DataHome()
    add_partition(home, "t-0", ID)
    home.write("t-0/partition.metadata", "garbage")
    add_partition(home, "t-1", ID)

    assert adopted(home)["t"] == Topic("t", ID, {0: HERE, 1: HERE}, is_adopted=True)


def test_a_partition_listed_elsewhere_is_not_taken_over() -> None:
    """Where the catalogue says that another directory holds a partition, it stays so."""
    home = DataHome()
    add_partition(home, "t-0", ID)
    add_partition(home, "t-1", ID)
    listed = Topic("t", ID, {0: THERE}, {"retention.ms": "1"})

    topic = adopted(home, Catalogue({"t": listed}))["t"]

    assert Topic("t", ID, {0: THERE, 1: HERE}, {"retention.ms": "1"}) == topic


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("my copy-0", "its name is not <topic>-<partition>"),
        ("photos", "its name is not <topic>-<partition>"),
        ("dbus-1", "it does not hold a log"),
    ],
)
def test_a_directory_without_a_log_or_a_legal_name_is_named_and_left_alone(
    name: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A name with a blank would make every checkpoint unreadable."""
    home = DataHome()
    home.fs.make_directory(f"/data/{name}")
    if reason != "it does not hold a log":
        home.write(f"{name}/{0:020}.log", "")

    assert adopted(home) == {}

    [warning] = caplog.records
    assert (warning.args, warning.levelname) == ((f"/data/{name}", reason), "WARNING")


def test_kafkas_own_log_is_no_topic() -> None:
    """The log of Kafka's cluster metadata is left alone."""
    home = DataHome()
    add_partition(home, "__cluster_metadata-0")

    assert adopted(home) == {}


def test_a_partition_of_another_topic_of_that_name_bars_nobody() -> None:
    """An id that does not fit is found when that log is loaded; the directory opens."""
    home = DataHome()
    add_partition(home, "t-0", ID)
    add_partition(home, "t-1", UUID(int=4 << 90))

    assert sorted(adopted(home)["t"].partitions) == [0, 1]


def test_a_partition_of_another_topic_is_not_adopted_by_the_known_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A topic that was deleted and created again while a disk was away gets no partition by it."""
    home = DataHome()
    add_partition(home, "t-0", ID)
    add_partition(home, "t-1", UUID(int=4 << 90))
    add_partition(home, "t-2", ID)

    topic = adopted(home, Catalogue({"t": Topic("t", ID, {0: HERE})}))["t"]

    assert sorted(topic.partitions) == [0, 2]
    assert "log-stray directory=/data/t-1 topic_id=" in caplog.text
