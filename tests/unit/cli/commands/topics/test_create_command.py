"""``tidelog create``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    Cli = Any


def test_a_topic_is_created_with_its_directory(cli: Cli) -> None:
    """Its name, number of partitions and id are printed."""
    import tidelog
    from tidelog.codec.uuid_text import format_uuid

    outcome = cli.on("create", "flights", "-p", 3, "-o", "retention.ms=-1", "-o", "segment.ms=5")

    with tidelog.open(cli.data) as directory:
        made = directory.topic("flights")
    assert (0, f"flights: 3 partitions, id {format_uuid(made.topic_id)}\n") == outcome[:2]
    assert made.config == {"retention.ms": "-1", "segment.ms": "5"}


def test_a_data_directory_that_is_made_is_named(cli: Cli) -> None:
    """Its name may be mistyped; one that is there is not mentioned."""
    new = cli.data.parent / "dtaa"

    first = cli("create", "a", "-d", new)
    second = cli("create", "b", "-d", new)

    assert first.err == f"tidelog create: created data directory {new}\n"
    assert (first.code, second.code, second.err) == (0, 0, "")


@pytest.mark.parametrize(
    "words",
    [["a/b"], ["t", "-p", "10001"], ["t", "-o", "retention.ms=x"], ["t", "-o", "no.such=1"]],
)
def test_a_topic_that_is_refused_leaves_no_directory(cli: Cli, words: list[str]) -> None:
    """The one that is to be made with it, and those above that."""
    new = cli.data.parent / "above" / "new"

    assert cli("create", *words, "-d", new).code == 2
    assert not new.parent.exists()


def test_one_partition_is_one(cli: Cli) -> None:
    """The noun is in the singular."""
    assert cli.on("create", "t").out.startswith("t: 1 partition, id ")


def test_each_log_created_is_logged_with_its_settings(cli: Cli) -> None:
    """In Kafka's words, with ``-v``."""
    outcome = cli.on("create", "t", "-p", 2, "-v", "-o", "retention.ms=-1")

    for partition in (0, 1):
        path = cli.data / f"t-{partition}"
        line = f"Created log for partition t-{partition} in {path} with properties"
        assert f"{line} {{'retention.ms': '-1'}}" in outcome.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["t"], "exists"),
        (["a b"], "letters, digits"),
        (["t.t", "-p", "10001"], "more than 10,000 are not made at once"),
        (["t", "-p", str(10**12)], "more than 10,000 are not made at once"),
        (["u", "-o", "retention.ms=soon"], "retention.ms"),
        (["u", "-o", "retention.years=1", "-o", "x=1"], "retention.years"),
    ],
)
def test_a_refused_topic_is_wrong_usage(topic: Cli, words: list[str], why: str) -> None:
    """The error has the reason; it names all bad settings."""
    outcome = topic.on("create", *words)

    assert outcome[:2] == (2, "")
    assert why in outcome.err


def test_a_topic_cannot_be_created_in_a_partition_directory(topic: Cli) -> None:
    """Nothing is written to it."""
    before = sorted(path.name for path in (topic.data / "t-0").iterdir())

    outcome = topic("create", "u", "-d", topic.data / "t-0")

    assert outcome.code == 2
    assert "name the data directory above it" in outcome.err
    assert before == sorted(path.name for path in (topic.data / "t-0").iterdir())


def test_names_that_only_differ_in_dots_are_refused(cli: Cli) -> None:
    """As in Kafka: their metrics would have the same name."""
    cli.on("create", "a.b")

    outcome = cli.on("create", "a_b")

    assert outcome[:2] == (2, "")
    assert "topic a_b collides with a.b" in outcome.err


def test_a_topic_like_another_has_its_partitions_and_settings(cli: Cli) -> None:
    """Also the birth values that another process gave it; what the command line names counts."""
    import tidelog

    with tidelog.open(cli.data, retention_ms=5) as logs:
        logs.create_topic("visits", 3, {"segment.ms": "7", "segment.bytes": 1 << 20})
    whole = cli.on("create", "kept", "--like", "visits")
    other = cli.on("create", "other", "--like", "visits", "-p", 2, "-o", "segment.ms=8")

    with tidelog.open(cli.data) as logs:
        topics = logs.topics()
    assert (whole.code, other.code) == (0, 0)
    assert topics["kept"].config == topics["visits"].config
    assert topics["kept"].birth == topics["visits"].birth
    assert (topics["kept"].birth or {})["retention.ms"] == "5"
    assert [len(topics[name].partitions) for name in ("kept", "other")] == [3, 2]
    assert topics["other"].config == {"segment.ms": "8", "segment.bytes": "1048576"}


def test_a_topic_like_one_with_an_archive_has_none(cli: Cli) -> None:
    """Two topics would write to one place; what is left out is said."""
    made = cli.on("create", "t", "-o", "remote.storage.enable=true", "-o", "segment.ms=5")
    outcome = cli.on("create", "u", "--like", "t")

    assert (made.code, outcome.code) == (0, 0)
    assert outcome.err == "tidelog create: u: left out remote.storage.enable\n"


def test_a_topic_like_one_that_is_not_there_is_not_created(cli: Cli) -> None:
    """Nor is a data directory."""
    no_directory = cli.on("create", "u", "--like", "t")
    cli.on("create", "v")
    no_topic = cli.on("create", "u", "--like", "t")

    assert (no_directory.code, no_topic.code) == (2, 2)
    assert "is not a data directory" in no_directory.err
    assert "no topic t" in no_topic.err
