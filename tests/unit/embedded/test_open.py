"""The public doors: ``tidelog.open`` and ``tidelog.open_read_only``, on the real disk."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.config.broker_config import BrokerConfig
from tidelog.embedded.doors import open_briefly, start_logs
from tidelog.errors import InvalidArgument, InvalidConfig, InvalidTopic, UnknownTopicOrPartition

if TYPE_CHECKING:
    from collections.abc import Callable
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


def test_a_start_that_fails_early_leaves_nothing_locked(tmp_path: Path) -> None:
    """Nor marked as clean, for no log was loaded."""
    with tidelog.open(tmp_path) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")

    def fail(_manager: object) -> None:
        raise ZeroDivisionError

    (tmp_path / ".kafka_cleanshutdown").unlink()
    with pytest.raises(ZeroDivisionError):
        start_logs(BrokerConfig(log_dirs=(str(tmp_path),)), on_locked=fail)

    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with tidelog.open(tmp_path) as logs:
        assert [record.value for record in logs.read("t")] == [b"a"]


@pytest.mark.parametrize("opening", [tidelog.open, open_briefly])
def test_a_directory_is_free_after_an_interrupt_at_the_end_of_its_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opening: Callable[[Path], tidelog.Logs]
) -> None:
    """At once, though nobody has the object yet that could be closed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    gc.disable()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(tidelog.Logs, "__init__", interrupt)
            with pytest.raises(KeyboardInterrupt):
                opening(tmp_path)
        opening(tmp_path).close()
    finally:
        gc.enable()


@pytest.mark.parametrize("path", ["", b"data"])
def test_what_is_no_path_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Nothing is written to the current directory."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument, match="is not a path"):
        tidelog.open(path)

    assert list(tmp_path.iterdir()) == []


def test_only_for_settings_the_error_says_where_they_go(tmp_path: Path) -> None:
    """Open logs, which a user may give where a path is wanted, are none."""
    with tidelog.open(tmp_path) as logs:
        for given, is_hinted in (({"retention.ms": 5}, True), (logs, False)):
            with pytest.raises(InvalidArgument, match="is not a path") as caught:
                tidelog.open_directory_read_only(given)  # type: ignore[arg-type]  # the mistake
            assert ("settings are given by name" in str(caught.value)) is is_hinted


def test_a_file_is_no_data_directory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The error says what it is; no directory is offline, and nothing is logged."""
    file = tmp_path / "program.py"
    file.write_bytes(b"")

    for opening in (tidelog.open, open_briefly):
        with pytest.raises(InvalidArgument, match=r"program\.py is a file, not a directory"):
            opening(str(file))

    assert not caplog.records


def test_below_a_file_no_data_directory_is_made_or_found(tmp_path: Path) -> None:
    """It is the user's mistake, and not a disk that failed."""
    file = tmp_path / "program.py"
    file.write_bytes(b"")
    below = str(file / "data")

    for opening in (tidelog.open, open_briefly):
        with pytest.raises(InvalidArgument, match=r"program\.py is a file, not a directory"):
            opening(below)
    with pytest.raises(InvalidArgument, match="is not a data directory: it is missing"):
        tidelog.open_directory_read_only(below).topics()


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
    (tmp_path / "any").mkdir()
    with pytest.raises(InvalidTopic, match="does not have the form"):
        tidelog.open_read_only(tmp_path / "any")
    tidelog.open(tmp_path / "data").close()
    with pytest.raises(InvalidTopic, match="a data directory: use open_directory_read_only"):
        tidelog.open_read_only(tmp_path / "data")
    with pytest.raises(UnknownTopicOrPartition):
        tidelog.open_read_only(tmp_path / "data" / "t-0")


def test_the_settings_of_the_broker_can_be_given(tmp_path: Path) -> None:
    """Those of topics it wrote, whose own defaults they are; not of topics made here."""
    data, file = tmp_path / "data", tmp_path / "server.properties"
    (data / "t-0").mkdir(parents=True)
    (data / "t-0" / f"{0:020d}.log").touch()
    file.write_text("log.retention.hours=1\nlog.cleanup.policy=delete\n")

    with tidelog.open(data, server_properties=file) as logs:
        logs.create_topic("new")
        kept = [logs.config_of(name).retention_ms for name in ("t", "new")]
    with pytest.raises(FileNotFoundError):
        tidelog.open(data, server_properties=tmp_path / "none")

    assert kept == [3_600_000, -1]


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_no_setting_of_an_internal_topic_is_reported_as_unknown(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker compacts it, so that its retention does not matter."""
    (tmp_path / f"{name}-0").mkdir()
    (tmp_path / f"{name}-0" / f"{0:020d}.log").touch()

    with tidelog.open(tmp_path) as logs:
        assert logs.topic(name).unknown_settings == ()
        assert logs.config_of(name).is_compacted

    assert "unknown" not in caplog.text


def test_the_state_of_share_groups_is_kept_whatever_its_age(tmp_path: Path) -> None:
    """A broker creates its topic with these settings; nothing is deleted by others."""
    (tmp_path / "__share_group_state-0").mkdir()
    (tmp_path / "__share_group_state-0" / f"{0:020d}.log").touch()

    with tidelog.open(tmp_path, retention_ms=5, retention_bytes=5) as logs:
        config = logs.config_of("__share_group_state")

    assert (config.is_deleted, config.is_compacted) == (True, False)
    assert (config.retention_ms, config.retention_bytes) == (-1, -1)


def test_directories_that_get_no_new_logs_are_among_those_opened(tmp_path: Path) -> None:
    """The setting names paths of this call."""
    first, second = tmp_path / "a,,b", tmp_path / "c"
    with tidelog.open(first, second, cordoned_log_dirs=[str(second)]) as logs:
        logs.create_topic("t", 2)

    assert sorted(one.name for one in first.glob("t-*")) == ["t-0", "t-1"]


def test_a_comma_is_part_of_a_path(tmp_path: Path) -> None:
    """It separates directories in ``log.dirs`` only, where each argument here is one."""
    with tidelog.open(tmp_path / "a,b", tmp_path / "c") as logs:
        logs.create_topic("t", 2, is_spread=True)

    assert sorted(os.listdir(tmp_path)) == ["a,b", "c"]
    assert len(list(tmp_path.glob("*/t-*"))) == 2
