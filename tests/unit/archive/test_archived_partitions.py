"""What a process knows of the partitions of an archive, and what it asks for."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.machinery.object_model import ObjectModel

from tidelog.archive import open_archives
from tidelog.archive.archived_partitions import ArchivedPartitions, holds_archive
from tidelog.archive.chain import Chain
from tidelog.archive.chain_state import ChainState
from tidelog.archive.deltas import Claim, Deleted, Skip
from tidelog.archive.open_archives import OpenArchives
from tidelog.errors import CorruptArchive, InvalidArgument, StoreUnavailable
from tidelog.testing.manual_time import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

ROOT = "s3://lake/logs"
IDS = {name: UUID(int=number) for number, name in enumerate(("a", "b", "c"), 1)}


class Noting(ObjectModel):
    """A store that notes which objects were read."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.asked: list[str] = []

    def get(self, name: str) -> bytes:
        found = super().get(name)
        self.asked.append(name)
        return found

    def asked_of(self, topic: str) -> int:
        return sum(name.startswith(f"{IDS[topic]}/") for name in self.asked)


def grown(store: ObjectModel, topic: str, partition: int, *, versions: int = 1) -> None:
    """Add versions to a partition's chain."""
    chain = Chain(store, IDS[topic], partition, store.rng)
    state = chain.read()
    for _ in range(versions):
        if not state.version:
            chain.commit(state, (Claim("0" * 32, topic, {}),), 1)
        else:
            chain.commit(state, (Skip(state.end, state.end + 10, "why"),), 1)


@pytest.fixture
def store() -> Noting:
    """Topics a, b and c of 3 partitions, whose chains have 5 versions each."""
    store = Noting()
    for topic in IDS:
        for partition in range(3):
            grown(store, topic, partition, versions=5)
    store.asked.clear()
    return store


def test_all_partitions_are_found(store: Noting) -> None:
    """At their newest versions."""
    found = ArchivedPartitions(store, ROOT).all()

    assert sorted(found) == [f"{topic}-{number}" for topic in IDS for number in range(3)]
    assert {one.state.version for one in found.values()} == {5}


def test_only_what_is_wanted_is_read(store: Noting) -> None:
    """Of other topics no more than one version, for the name."""
    archive = ArchivedPartitions(store, ROOT)

    found = archive.find("b-1")
    assert found is not None
    assert (found.topic_id, found.number, found.state.end) == (IDS["b"], 1, 40)
    assert [store.asked_of(topic) for topic in IDS] == [1, 6, 1]
    assert sorted(archive.of_topics({"b", "c"})) == [f"{t}-{n}" for t in "bc" for n in range(3)]
    assert store.asked_of("a") == 1
    assert sorted(archive.of_topics({"b"}, 2)) == ["b-2"]
    assert sorted(archive.of_topics({"b"}, 3)) == [f"b-{n}" for n in range(3)]
    for other in ("b-3", "d-0", "b", "b-01", "../x-0"):
        assert archive.find(other) is None


def test_a_topic_that_is_damaged_stops_no_reads_of_others(
    store: Noting, caplog: pytest.LogCaptureFixture
) -> None:
    """Its name is in another partition of it, or missing; to read it, or all, is an error."""
    store.objects[f"{IDS['a']}/0/m/{1:020}"] = b"damaged"
    archive = ArchivedPartitions(store, ROOT)
    for only in ("b-1", "a-1"):
        assert archive.find(only) is not None
    for partition in range(3):
        store.objects[f"{IDS['c']}/{partition}/m/{1:020}"] = b"damaged"
    archive = ArchivedPartitions(store, ROOT)
    assert not caplog.messages

    for _ in range(2):
        assert sorted(archive.of_topics({"b"})) == ["b-0", "b-1", "b-2"]

    (message,) = caplog.messages
    chain = Chain(store, IDS["a"], 1, store.rng)
    chain.commit(chain.read(), (Deleted(),), 1)
    assert message.startswith(f"archived-topic-unreadable topic={IDS['c']} reason={IDS['c']}/0/m/")
    for asked in (
        lambda: archive.find("c-0"),
        lambda: archive.of_topics({"b", "c"}),
        lambda: archive.of_topics({"d"}),
        lambda: archive.find("a-1"),  # of that name another may be there
        lambda: archive.all()["a-0"].state,
    ):
        with pytest.raises(CorruptArchive):
            asked()


def test_each_damaged_partition_is_among_all(store: Noting) -> None:
    """Under its topic's name, else the topic's id, and as an error once its state is asked for."""
    names = [f"{IDS['a']}/0/m/{3:020}", *(f"{IDS['c']}/{n}/m/{1:020}" for n in range(3))]
    for name in names:
        store.objects[name] = b"damaged"

    found = ArchivedPartitions(store, ROOT).all()

    damaged = sorted(["a-0", *(f"{IDS['c']}-{number}" for number in range(3))])
    assert sorted(name for name, one in found.items() if one.damage) == damaged
    assert sorted(found) == sorted([*damaged, "a-1", "a-2", "b-0", "b-1", "b-2"])
    for name in damaged:
        with pytest.raises(CorruptArchive, match="/m/0"):
            assert found[name].state
    assert found["a-1"].state.end == 40


def test_a_damaged_chain_hides_no_topic_of_its_name(store: Noting) -> None:
    """It may be of one that was deleted."""
    other = Chain(store, UUID(int=9), 0, store.rng)
    other.commit(ChainState(), (Claim("0" * 32, "a", {}),), 1)
    store.objects[f"{UUID(int=9)}/0/m/{2:020}"] = b"damaged"

    found = ArchivedPartitions(store, ROOT).all()

    assert found["a-0"].state.end == 40
    assert found[f"{UUID(int=9)}-0"].damage


def test_one_partition_is_read_alone(store: Noting) -> None:
    """A version that exists is read when that is asked: a chain of five takes six requests."""
    archive, before = ArchivedPartitions(store, ROOT), store.requests

    assert sorted(archive.of_topics({"b"}, 2)) == ["b-2"]

    assert [store.asked_of(topic) for topic in IDS] == [1, 6, 1]
    assert store.requests - before <= 3 + 7


def test_a_later_look_reads_what_is_new(store: Noting) -> None:
    """Versions never change."""
    archive = ArchivedPartitions(store, ROOT)
    before = archive.all()["a-0"]
    store.asked.clear()

    assert archive.all()["a-0"].state is before.state
    assert store.asked == []
    grown(store, "a", 0)
    store.asked.clear()
    assert archive.all()["a-0"].state.end == 50
    assert store.asked == [f"{IDS['a']}/0/m/{6:020}"]
    assert before.state.end == 40


def test_topics_that_are_not_there_are_looked_for_among_all(store: Noting) -> None:
    """So that the error names those that are there."""
    archive = ArchivedPartitions(store, ROOT)

    assert archive.of_topics({"d"}).keys() == archive.all().keys()
    chain = Chain(store, IDS["a"], 0, store.rng)
    chain.commit(chain.read(), (Deleted(),), 1)
    assert "a-0" not in archive.all()
    assert archive.find("a-0") is None


def test_one_name_is_of_one_topic(store: Noting, caplog: pytest.LogCaptureFixture) -> None:
    """Two of one name are not mistaken for each other: each is there under its id, as a whole.

    Such are a topic that was deleted and the one that was created in its place. The name is an
    error wherever it is looked for.
    """
    other = Chain(store, UUID(int=9), 0, store.rng)
    other.commit(ChainState(), (Claim("0" * 32, "a", {}),), 1)
    archive = ArchivedPartitions(store, ROOT)
    said = f"two topics named a: {IDS['a']} and {UUID(int=9)}"

    for look in (lambda: archive.find("a-0"), lambda: archive.of_topics({"a", "b"})):
        with pytest.raises(CorruptArchive, match=rf"{said}\b.* objects below"):
            look()
    assert not caplog.messages
    for found in (archive.all(), archive.of_topics({str(IDS["a"])})):
        mine = [name for name, one in found.items() if one.topic_id == IDS["a"]]
        assert mine == [f"{IDS['a']}-{number}" for number in range(3)]
        assert {found[name].state.end for name in mine} == {40}
        assert found[f"{UUID(int=9)}-0"].state.end == 0
        assert sorted({one.known.topic for one in found.values()} & {"a", "b", "c"}) == ["b", "c"]
    (message,) = caplog.messages
    assert message.startswith("archived-topics-share-name topic=a ")
    assert said in message


def test_a_name_is_taken_by_a_topic_that_is_not_deleted(store: Noting) -> None:
    """For topics that the archive does not have yet; others cost no reads."""
    archive = ArchivedPartitions(store, ROOT)
    for number in range(3):
        chain = Chain(store, IDS["b"], number, store.rng)
        chain.commit(chain.read(), (Deleted(),), 1)
    store.asked.clear()

    assert archive.taken_names(IDS) == {}
    assert store.asked == []
    assert archive.taken_names(IDS | {"a": UUID(int=9)}) == {"a": IDS["a"]}
    assert archive.taken_names({"b": UUID(int=9), "d": UUID(int=10)}) == {}


def test_a_path_leads_to_its_archive(store: Noting) -> None:
    """Whichever of its directories or files is asked for first."""
    open_archives._archives[ROOT] = ArchivedPartitions(store, ROOT)
    empty = ArchivedPartitions(ObjectModel(Random(0)), "")
    for above in ("s3://lake", f"{ROOT}/a-0", f"{ROOT}/a-0/x.log", f"{ROOT}/x", "s3://lake/no"):
        open_archives._archives[above] = empty

    assert OpenArchives().files_at(ROOT).root == ROOT
    narrow = OpenArchives()
    for path in (f"{ROOT}/a-0", f"{ROOT}/a-0/x.log", f"{ROOT}/x"):
        assert OpenArchives().files_at(path).root == ROOT
        assert narrow.files_at(path).root == ROOT
    assert list(narrow.files_at(f"{ROOT}/a-0").partitions()) == ["a-0"]
    assert len(narrow.files_at(f"{ROOT}/b-0").partitions()) == 9
    assert len(OpenArchives(topics={"b"}).files_at(ROOT).partitions()) == 3
    with pytest.raises(FileNotFoundError):
        OpenArchives().files_at("s3://lake/no")


def test_a_directory_is_an_archive_if_it_has_topics(tmp_path: Path) -> None:
    """By their ids, without a store's library."""
    assert not holds_archive((tmp_path / "none").as_uri())
    (tmp_path / "t-0").mkdir()
    (tmp_path / "file").touch()
    assert not holds_archive(tmp_path.as_uri())
    assert not holds_archive((tmp_path / "file").as_uri())
    (tmp_path / str(IDS["a"])).mkdir()
    assert holds_archive(tmp_path.as_uri())
    with pytest.raises(InvalidArgument):
        holds_archive("file:x")


class Away(Noting):
    """A store that takes a while to fail, as long as it is away."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.away_ms = 0

    def get(self, name: str) -> bytes:
        found = super().get(name)
        if self.away_ms:
            self.clock.advance(self.away_ms)
            raise StoreUnavailable(f"{name}: 503")
        return found


@pytest.mark.parametrize(("away_ms", "pause_ms"), [(7_000, 7_000), (60_000, 10_000), (3, 3)])
def test_a_store_that_has_not_answered_is_left_alone_for_as_long(
    away_ms: int, pause_ms: int
) -> None:
    """At most 10 s: the next partition fails at once, and does not wait for all attempts again."""
    store = Away()
    grown(store, "a", 0)
    grown(store, "a", 1)
    archive = ArchivedPartitions(store, ROOT, store.clock)
    first, second = ((IDS["a"], number) for number in range(2))
    archive.now(first)
    store.asked.clear()
    store.away_ms = away_ms
    until_ms = store.clock.now_ms() + away_ms + pause_ms
    with pytest.raises(StoreUnavailable, match="503"):
        archive.now(second)

    for _ in range(2):
        for part in (first, second):
            with pytest.raises(StoreUnavailable, match=f"^{ROOT} .*not asked again"):
                archive.now(part)

    assert len(store.asked) == 1
    store.away_ms = 0
    store.clock.advance(until_ms - store.clock.now_ms())
    assert archive.now(second).state.version == 1
