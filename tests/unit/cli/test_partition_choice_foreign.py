"""Entries of a data directory that are not tidelog's: links, odd names, forged files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    Cli = Any

HEX = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory elsewhere, with a file that must not be touched."""
    made = tmp_path / "outside"
    made.mkdir()
    (made / "precious").write_text("kept")
    return made


def test_a_link_that_waits_for_deletion_is_deleted_as_a_link(topic: Cli, outside: Path) -> None:
    """Its target keeps all files."""
    link = topic.data / f"x-0.{HEX}-delete"
    link.symlink_to(outside)

    topic.on("append", "t", "-o", "file.delete.delay.ms=0", stdin="a\n")

    assert (outside / "precious").read_text() == "kept"
    assert not link.is_symlink()


def test_deleting_a_topic_whose_directory_is_a_link_deletes_the_link(
    topic: Cli, tmp_path: Path
) -> None:
    """The partition works through the link; its files stay when the topic is deleted."""
    moved = tmp_path / "elsewhere"
    (topic.data / "t-0").rename(moved)
    (topic.data / "t-0").symlink_to(moved)
    topic.append("a", "b")
    before = sorted(file.name for file in moved.iterdir())

    assert topic.values() == ["a", "b"]
    assert topic.on("delete", "t").code == 0

    assert sorted(file.name for file in moved.iterdir()) == before
    assert [entry.name for entry in topic.data.iterdir() if entry.is_symlink()] == []


def test_a_directory_inside_one_that_waits_for_deletion_is_deleted_too(topic: Cli) -> None:
    """Foreign files in it do not stop later writers."""
    nested = topic.data / f"x-0.{HEX}-delete" / "more" / "deeper"
    nested.mkdir(parents=True)
    (nested / "file").write_text("x")

    outcome = topic.on("alter", "t", "-o", "file.delete.delay.ms=0")
    appended = topic.on("append", "t", "-o", "file.delete.delay.ms=0", stdin="a\n")

    assert (outcome.code, appended.code) == (0, 0)
    assert not nested.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../outside/victim"},
        {"name": "a/b"},
        {"name": ".."},
        {"name": 7},
        {"partitions": {"-1": "AAAAAAAAAAAAAAAAAAAABQ"}},
        {"partitions": {"0/../../x": "AAAAAAAAAAAAAAAAAAAABQ"}},
        {"partitions": {"99999999999": "AAAAAAAAAAAAAAAAAAAABQ"}},
    ],
    ids=str,
)
def test_names_in_the_catalogue_are_checked(
    topic: Cli, outside: Path, change: dict[str, object]
) -> None:
    """A name or number that leads to another path is refused; nothing is created or deleted."""
    catalogue = topic.data / "tidelog.topics.json"
    content = json.loads(catalogue.read_text())
    content["topics"][0].update(change)
    catalogue.write_text(json.dumps(content))

    codes = {
        topic.on("append", "t", stdin="a\n").code,
        topic.on("create", "u").code,
        topic.on("delete", "t").code,
    }

    assert codes == {1}
    assert [entry.name for entry in outside.iterdir()] == ["precious"]


@pytest.mark.parametrize("name", ["old t-0", "my copy-0", "t\n-0", "\u00fc-0"])
def test_a_directory_whose_name_is_no_topics_is_left_alone(topic: Cli, name: str) -> None:
    """It is not adopted, and does not stop writers."""
    (topic.data / name).mkdir()
    (topic.data / name / f"{0:020d}.log").write_bytes(b"")

    appended = topic.on("append", "t", stdin="a\n")
    listed = topic.on("describe", "--json").rows

    assert appended.code == 0
    assert {row["topic"] for row in listed} == {"t"}
    assert (topic.data / name / f"{0:020d}.log").exists()


def test_a_newer_catalogue_is_refused_untouched(topic: Cli) -> None:
    """A later release may store more in it; exit code 3, as nothing is damaged."""
    catalogue = topic.data / "tidelog.topics.json"
    newer = catalogue.read_text().replace('"version": 3', '"version": 99')
    catalogue.write_text(newer)

    outcome = topic.on("append", "t", stdin="a\n")

    assert (outcome.code, "version 99" in outcome.err) == (3, True)
    assert catalogue.read_text() == newer
