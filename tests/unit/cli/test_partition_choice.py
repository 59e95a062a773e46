"""The partitions that a command line selects."""

from __future__ import annotations

import pytest
from tests.machinery.directory_home import DataHome

from tidelog.cli.partition_choice import Place, choose_partitions
from tidelog.errors import (
    InvalidArgument,
    InvalidTopic,
    StoreError,
    StoreUnavailable,
    UnknownTopicOrPartition,
)
from tidelog.readonly import read_again


def home() -> DataHome:
    """Return a data directory with partitions and other entries."""
    made = DataHome()
    for name in ("a-0", "b-10", "b-2", f"a-1.{'0' * 32}-delete", "lost+found"):
        made.fs.make_directory(f"{made.path}/{name}")
    for name in ("a-0", "b-10", "b-2"):
        made.write(f"{name}/{0:020d}.log", "")
    made.fs.make_directory(f"{made.path}/empty-0")
    made.write("meta.properties", "")
    made.write("c-0", "a file")
    return made


def found(*words: object, directory: str = "/data") -> list[str]:
    """Return the names of the partitions selected."""
    topics = [word for word in words if isinstance(word, str)]
    numbers = [word for word in words if isinstance(word, int)]
    chosen = choose_partitions(home().fs, [directory], topics, *numbers, allow_partial=True)
    return [f"{place.topic}-{place.partition}" for place in chosen.places]


def test_all_live_partitions_are_found_in_order() -> None:
    """By topic, then by number; without deleted partitions, files and other directories.

    A directory without a log that no catalogue lists is not a partition, whatever its name.
    """
    assert found() == ["a-0", "b-2", "b-10"]


def test_topics_and_a_partition_choose() -> None:
    """Each topic that is named must exist."""
    assert found("b") == ["b-2", "b-10"]
    assert found("b", 10) == ["b-10"]
    assert found("b", "a") == ["a-0", "b-2", "b-10"]
    assert found(2) == ["b-2"]


@pytest.mark.parametrize("words", [("x",), ("a", "x"), (7,)])
def test_an_unknown_topic_or_partition_is_refused(words: tuple[object, ...]) -> None:
    """The error lists the topics that exist."""
    with pytest.raises(UnknownTopicOrPartition, match="it has a, b"):
        found(*words)


@pytest.mark.parametrize(("words", "there"), [(("a", 5), "0"), (("b", 0), "2, 10")])
def test_of_a_topic_without_a_partition_those_that_it_has_are_named(
    words: tuple[object, ...], there: str
) -> None:
    """Not only the topics: the one that is named is there."""
    with pytest.raises(UnknownTopicOrPartition, match=f"; it has {there}$"):
        found(*words)


def test_a_partition_given_as_a_topic_is_recognised() -> None:
    """By its directory's name, as ``list`` prints it."""
    with pytest.raises(UnknownTopicOrPartition, match=r"; did you mean b -p 10\?"):
        found("b-10")


def test_of_many_topics_those_of_a_similar_name_are_named() -> None:
    """Else some of them, and how many more there are."""
    made = DataHome()
    for number in range(30):
        made.fs.make_directory(f"{made.path}/topic{number}-0")
        made.write(f"topic{number}-0/{0:020d}.log", "")

    def error(name: str) -> str:
        with pytest.raises(UnknownTopicOrPartition) as raised:
            choose_partitions(made.fs, [made.path], [name], allow_partial=True)
        return str(raised.value)

    assert error("topik7").endswith("; did you mean topic7?")
    assert error("x").endswith(", topic25, topic26 and 10 more")


@pytest.mark.parametrize("name", [f"{0:020d}.log", "partition.metadata"])
def test_a_partitions_directory_is_one_place(name: str) -> None:
    """Whether it has records or was only created; its path is made absolute."""
    made = home()
    made.write(f"b-2/{name}", "")

    for path in ("/data/b-2", "/data/b-2/", "/data/../data/b-2"):
        assert choose_partitions(made.fs, [path]).places == [("b", 2, "/data/b-2")]


def test_a_partitions_directory_must_have_its_name() -> None:
    """A copy under another name is refused."""
    made = home()
    made.write(f"copy/{0:020d}.log", "")

    with pytest.raises(InvalidTopic):
        choose_partitions(made.fs, ["/data/copy"])


def test_a_directory_without_partitions_may_be_an_archive() -> None:
    """The error does not say that it is one: what an archive has is not looked for on a disk."""
    made = DataHome()
    made.fs.make_directory(made.path)

    with pytest.raises(UnknownTopicOrPartition, match="; if it is an archive, name file:///data"):
        choose_partitions(made.fs, [made.path], ["t"])


def test_a_missing_directory_is_refused() -> None:
    """So is a file, which is wrong usage and no failure of the disk."""
    with pytest.raises(InvalidArgument, match="/nowhere is not a data directory: it is missing"):
        found(directory="/nowhere")
    with pytest.raises(InvalidArgument, match="/data/c-0 is not a data directory: it is a file"):
        found(directory="/data/c-0")


@pytest.mark.parametrize("name", ["a b-0", "x\n: sound-0", "\x1b[2J-0", ".-0"])
def test_a_partition_directory_has_a_legal_name(name: str) -> None:
    """The error shows it escaped; printed as it is, it could fake a line of the output."""
    made = home()
    made.write(f"{name}/{0:020}.log", "")
    path = f"/data/{name}"

    with pytest.raises(InvalidTopic) as caught:
        choose_partitions(made.fs, [path])
    assert str(caught.value).isprintable()


def test_a_partition_that_is_created_again_as_soon_as_it_is_deleted_was_deleted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is gone as it is opened, and there again when that is looked at once more."""
    gone = iter([True, False])
    monkeypatch.setattr(read_again, "is_gone", lambda *_: next(gone))

    def read(place: Place) -> int:
        if place.partition == 2:
            raise UnknownTopicOrPartition("no partition b-2")
        return place.partition

    chosen = choose_partitions(home().fs, ["/data"], ["b"], allow_partial=True)

    assert [answer for _, answer in chosen.look("cat", read)] == [10]
    assert capsys.readouterr().err == "tidelog cat: b-2 was deleted while it was read\n"


@pytest.mark.parametrize("error", [StoreUnavailable, StoreError])
def test_a_partition_whose_store_gives_no_answer_is_named_and_left_out(
    error: type[StoreError], capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 3, whatever is damaged."""
    asked: list[int] = []

    def read(place: Place) -> int:
        asked.append(place.partition)
        if place.partition == 2:
            raise error("no answer")
        return place.partition

    chosen = choose_partitions(home().fs, ["/data"], ["b"], allow_partial=True)

    assert chosen.exit_code(has_loss=True) == 1
    assert [answer for _, answer in chosen.look_past_damage("list", read)] == [10]
    assert asked == [2, 10]
    assert capsys.readouterr().err == "tidelog list: b-2: no answer\n"
    assert chosen.exit_code(has_loss=True) == 3


@pytest.mark.parametrize(("error", "attempts"), [(StoreUnavailable, 1), (StoreError, 3)])
def test_a_store_that_was_waited_for_is_not_asked_again(
    error: type[StoreError], attempts: int
) -> None:
    """Unlike what a writer may have changed meanwhile."""
    asked: list[int] = []

    def read(place: Place) -> None:
        asked.append(place.partition)
        raise error("no answer")

    chosen = choose_partitions(home().fs, ["/data"], ["b"], allow_partial=True)

    with pytest.raises(error):
        list(chosen.look("cat", read))
    assert asked == [2] * attempts
