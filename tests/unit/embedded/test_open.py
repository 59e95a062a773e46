"""The public doors: ``tidelog.open`` and ``tidelog.open_read_only``, on the real disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.errors import InvalidConfig, InvalidTopic, UnknownTopicOrPartition

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = [(5, b"k", b"v", [("h", b"x"), ("n", None)]), (6, None, None, [])]


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    """Through the public door, with paths of any kind."""
    with tidelog.open(tmp_path / "new" / "data") as directory:
        directory.create_topic("t")
        directory.partition("t", 0).append_records(RECORDS)
    with tidelog.open_read_only(str(tmp_path / "new" / "data" / "t-0")) as log:
        found = [(r.timestamp, r.key, r.value, list(r.headers)) for r in log.records()]

    assert found == RECORDS


def test_a_relative_path_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the process goes elsewhere in between."""
    monkeypatch.chdir(tmp_path)
    with tidelog.open("data") as directory:
        monkeypatch.chdir("/")
        directory.create_topic("t")

    assert (tmp_path / "data" / "t-0").is_dir()


def test_settings_are_checked_first(tmp_path: Path) -> None:
    """A bad name or value makes no directory."""
    with pytest.raises(InvalidConfig):
        tidelog.open(tmp_path / "data", config={"retention.years": "1"})

    assert not (tmp_path / "data").exists()


def test_defaults_and_overrides_are_told_apart(tmp_path: Path) -> None:
    """The topic's own settings stand between them."""
    with tidelog.open(tmp_path) as directory:
        directory.create_topic("t", 1, {"retention.ms": "2", "segment.ms": "2"})
    given = {"retention.ms": "1", "segment.ms": "1", "flush.ms": "1"}
    with tidelog.open(tmp_path, config=given, overrides={"segment.ms": "3"}) as directory:
        config = directory.config_of("t")

    assert (config.retention_ms, config.segment_ms, config.flush_ms) == (2, 3, 1)


def test_only_a_partitions_directory_can_be_read(tmp_path: Path) -> None:
    """Its name must say which; that there is none is a typed error."""
    (tmp_path / "data").mkdir()
    with pytest.raises(InvalidTopic):
        tidelog.open_read_only(tmp_path / "data")
    with pytest.raises(UnknownTopicOrPartition):
        tidelog.open_read_only(tmp_path / "data" / "t-0")
