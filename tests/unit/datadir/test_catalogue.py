"""The topics of a data directory."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

import pytest
from tests.machinery.directory_home import DataHome

from tidelog.datadir.catalogue import Catalogue, Topic, read_catalogue, write_catalogue
from tidelog.errors import InvalidTopic, KafkaStorageError, TopicAlreadyExists
from tidelog.testing import PowerCut

HERE, THERE = UUID(int=1 << 80), UUID(int=2 << 80)
FILE = "tidelog.topics.json"
T = Topic("t", UUID(int=5 << 90), {0: HERE, 1: THERE}, {"retention.ms": "-1"})
GOOD = {"version": 1, "topics": [T.as_json()]}


def home_with(content: object) -> DataHome:
    """Return a data directory with this catalogue."""
    home = DataHome()
    home.write(FILE, content if isinstance(content, str) else json.dumps(content))
    return home


def test_what_is_written_reads_back() -> None:
    """Names, ids, the directory of each partition and settings survive."""
    home = home_with("")
    expected = Catalogue({"t": T, "u": Topic("u", UUID(int=9 << 90), {0: HERE})})

    write_catalogue(home.fs, home.path, expected)

    assert expected == read_catalogue(home.fs, home.path)


def test_no_file_is_no_topics() -> None:
    """A directory that Kafka wrote has no catalogue."""
    home = DataHome()
    home.write("other", "")

    assert Catalogue() == read_catalogue(home.fs, home.path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        {"version": 1},
        {"version": 1, "topics": [{"name": "t"}]},
        {"version": 1, "topics": [T.as_json() | {"id": "short"}]},
        {"version": 1, "topics": [T.as_json() | {"partitions": [0]}]},
        {"version": 1, "topics": [T.as_json() | {"revision": float("inf")}]},
        {"version": 1, "topics": [T.as_json() | {"partitions": {"x": "y"}}]},
        {"version": 1, "topics": [T.as_json(), T.as_json()]},
        {"version": 3, "topics": [T.as_json() | {"birth": ["retention.ms"]}]},
    ],
)
def test_nothing_is_guessed_from_half_a_catalogue(content: object) -> None:
    """An unreadable file is an error, not an empty catalogue."""
    home = home_with(content)

    with pytest.raises(KafkaStorageError, match=FILE):
        read_catalogue(home.fs, home.path)


def test_a_later_version_is_named_whatever_its_form() -> None:
    """A catalogue of a newer tidelog is refused with its version."""
    home = home_with({"version": 4, "topics": "elsewhere"})

    with pytest.raises(KafkaStorageError, match="version 4"):
        read_catalogue(home.fs, home.path)


def test_a_catalogue_is_written_in_the_oldest_form_that_says_all_of_it() -> None:
    """So that an older release reads it, unless it would then forget birth values."""
    born = replace(T, birth={"retention.ms": "-1"})
    adopted = replace(T, is_adopted=True)
    home = home_with("")
    versions = []
    for topic in (T, adopted, born):
        write_catalogue(home.fs, home.path, Catalogue({"t": topic}))
        versions.append(json.loads(home.text(FILE))["version"])
        assert Catalogue({"t": topic}) == read_catalogue(home.fs, home.path)

    assert versions == [1, 2, 3]


def test_a_name_is_taken_once() -> None:
    """A topic that exists is not made again."""
    with pytest.raises(TopicAlreadyExists):
        Catalogue({"t": T}).with_topics([Topic("t", UUID(int=7 << 90), {0: HERE})])


@pytest.mark.parametrize(("known", "new"), [("a.b", "a_b"), ("a_b.c", "a.b_c")])
def test_names_whose_metrics_collide_are_refused(known: str, new: str) -> None:
    """Dots and underscores are the same to a metric; the other topic is named."""
    catalogue = Catalogue({known: Topic(known, UUID(int=5 << 90), {0: HERE})})

    with pytest.raises(InvalidTopic, match=f"collides with {known}"):
        catalogue.with_topics([Topic(new, UUID(int=7 << 90), {0: HERE})])
    other = Topic("a-b", UUID(int=7 << 90), {0: HERE})
    assert catalogue.with_topics([other]).topics.keys() == {known, "a-b"}
    with pytest.raises(InvalidTopic, match=r"topic x_y collides with x\.y"):
        catalogue.with_topics([replace(other, name=name) for name in ("x.y", "x_y")])


def test_what_is_listed_goes_before_what_is_found() -> None:
    """Adoption adds topics and partitions, and changes nothing that the catalogue says."""
    found = Topic("t", UUID(int=3 << 90), {1: HERE, 2: HERE})
    new = Topic("u", UUID(int=4 << 90), {0: HERE})

    topics = Catalogue({"t": T}).adopting([found, new]).topics

    assert new == topics["u"]
    assert (T.topic_id, T.config) == (topics["t"].topic_id, topics["t"].config)
    assert topics["t"].partitions == {0: HERE, 1: THERE, 2: HERE}


@pytest.mark.parametrize("seed", range(10))
def test_a_power_cut_leaves_the_old_or_the_new_catalogue(seed: int) -> None:
    """Whenever the power fails while a catalogue is written, one of the two is there, whole."""
    after = Catalogue({"t": T, "u": Topic("u", UUID(int=9 << 90), {0: HERE})})
    before = Catalogue({"t": T})
    for operations in range(5):
        home = DataHome(seed)
        home.write(FILE, json.dumps(GOOD))
        home.fs.crash_after(operations)
        with suppress(PowerCut):
            write_catalogue(home.fs, home.path, after)
        home.fs.power_cut()

        assert read_catalogue(home.fs, home.path) in (before, after)


def test_a_catalogue_that_is_read_again_is_parsed_once() -> None:
    """One of a thousand topics takes tens of ms, which each look beside its writer would pay."""
    home = home_with("")
    write_catalogue(home.fs, home.path, Catalogue({"t": T}))
    found = read_catalogue(home.fs, home.path)

    assert read_catalogue(home.fs, home.path) is found


def test_a_catalogue_that_is_replaced_by_one_of_its_size_is_read_anew() -> None:
    """Within one tick of the clock only its bytes show it: size, time and number may be equal."""
    home = home_with("")
    for size in ("1", "2", "1"):
        changed = Catalogue({"t": replace(T, config={"segment.bytes": size})})
        write_catalogue(home.fs, home.path, changed)

        assert read_catalogue(home.fs, home.path) == changed
