"""A link gives the directory of a partition a second name; nobody opens the log under both."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.cli.main import main
from tidelog.datadir.catalogue import read_catalogue
from tidelog.datadir.partition_directories import PartitionLinks, live_partitions, survey
from tidelog.env.system_files import SYSTEM_FILES, SystemFiles
from tidelog.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KEPT = {"retention.ms": "-1"}
HEX = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with the topic t of one partition and three records."""
    path = tmp_path / "data"
    with tidelog.open(path) as logs:
        logs.create_topic("t", config=KEPT)
        append(logs, "t", b"a", b"b", b"c")
    return path


def append(logs: tidelog.Logs, topic: str, *values: bytes) -> None:
    """Append records without keys to partition 0."""
    logs.partition(topic, 0).append_records([(5, None, value, []) for value in values])


def state(directory: Path) -> Mapping[str, bytes]:
    """Return the records of a partition directory, and the id of its topic."""
    names = sorted(path for path in directory.iterdir() if path.suffix in {".log", ".metadata"})
    return {path.name: path.read_bytes() for path in names}


def rename_in_catalogue(data: Path, old: str, new: str) -> None:
    """Add a second topic to the catalogue, as the first, under another name."""
    catalogue = data / "tidelog.topics.json"
    content = json.loads(catalogue.read_text())
    entry = next(one for one in content["topics"] if one["name"] == old)
    content["topics"].append({**entry, "name": new, "id": "AAAAAAAAAAAAAAAAAAAABQ"})
    catalogue.write_text(json.dumps(content))


def test_a_link_that_may_lead_into_a_data_directory_is_left_alone(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether another process may write there is unknown while the disk gives errors."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "u-0").symlink_to(data / "t-0")

    def exists(_: SystemFiles, path: str) -> bool:
        raise OSError(errno.EIO, "the disk failed", path)

    monkeypatch.setattr(SystemFiles, "exists", exists)
    links = PartitionLinks(SYSTEM_FILES, [str(tmp_path / "mine")], is_writer=True)

    assert "of a partition" in (links.why_foreign(str(tmp_path / "mine" / "u-0")) or "")


def beside(data: Path) -> None:
    """Link to a partition of the same data directory."""
    (data / "u-0").symlink_to(data / "t-0")


def through_another_spelling(data: Path) -> None:
    """Link by a path that goes through a link to the data directory."""
    (data.parent / "alias").symlink_to(data)
    (data / "u-0").symlink_to(Path("..") / "alias" / "t-0")


def link_to_deleted(data: Path) -> None:
    """Link to a directory that waits for its deletion."""
    with tidelog.open(data) as logs:
        logs.create_topic("gone")
    (data / "gone-0").rename(data / f"gone-0.{HEX}-delete")
    (data / "u-0").symlink_to(data / f"gone-0.{HEX}-delete")


def in_a_directory_of_others(data: Path) -> None:
    """Link to a partition in a data directory that another process may write to."""
    with tidelog.open(data.parent / "theirs") as logs:
        logs.create_topic("theirs")
    (data / "u-0").symlink_to(data.parent / "theirs" / "theirs-0")


@pytest.mark.parametrize("link", [beside, through_another_spelling, link_to_deleted])
def test_a_link_to_a_partition_is_foreign(data: Path, link: Callable[[Path], None]) -> None:
    """It is named with what it leads to, by writers and readers alike, and is not adopted."""
    link(data)

    surveyed = survey(SYSTEM_FILES, str(data))

    assert "u-0" in surveyed.foreign
    assert surveyed.foreign["u-0"].startswith("it is a link to the directory ")
    assert "u" not in {key.topic for key in surveyed.live}
    assert "u" not in {key.topic for key in live_partitions(SYSTEM_FILES, str(data))}


def test_nothing_is_written_in_a_data_directory_of_others(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link to a log there can be read; its writer is the process that has the lock."""
    in_a_directory_of_others(data)
    before = state(data.parent / "theirs" / "theirs-0")

    assert main(["offsets", "u", "-d", str(data)]) == 0
    assert main(["append", "u", "-d", str(data), str(line(data))]) != 0

    assert '"topic": "u"' in capsys.readouterr().out
    assert state(data.parent / "theirs" / "theirs-0") == before


def test_two_links_to_one_directory_are_both_foreign(data: Path, tmp_path: Path) -> None:
    """Which of them is meant cannot be known; in two data directories as in one."""
    outside = tmp_path / "outside"
    (data / "t-0").rename(outside)
    (data / "u-0").symlink_to(outside)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "w-0").symlink_to(outside)
    links = PartitionLinks(SYSTEM_FILES, [str(data), str(tmp_path / "more")])

    alone = survey(SYSTEM_FILES, str(data))
    together = survey(SYSTEM_FILES, str(data), links=links)

    assert [*alone.live] == [("u", 0)]
    assert together.foreign == {
        "u-0": f"it is a link to {outside}, as is {tmp_path / 'more' / 'w-0'}"
    }


def test_a_link_to_a_directory_outside_is_a_partition(data: Path, tmp_path: Path) -> None:
    """A partition may lie on another disk, as long as it has one name."""
    outside = tmp_path / "outside"
    (data / "t-0").rename(outside)
    (data / "t-0").symlink_to(outside)

    with tidelog.open(data) as logs:
        append(logs, "t", b"d")

        assert logs.partition("t", 0).log.log_end_offset == 4


@pytest.mark.parametrize("is_listed", [False, True], ids=["found", "in the catalogue"])
@pytest.mark.parametrize("act", ["append", "retain", "compact", "recover", "delete"])
def test_nothing_is_done_to_a_log_through_a_link(
    data: Path, capsys: pytest.CaptureFixture[str], act: str, *, is_listed: bool
) -> None:
    """Also where an earlier release adopted the link; the other partitions work."""
    beside(data)
    if is_listed:
        rename_in_catalogue(data, "t", "u")
    before = state(data / "t-0")
    settings = ["-o", "retention.bytes=0"] if act in {"retain", "compact"} else []

    code = main([act, "u", *settings, "-d", str(data)])

    if (act, is_listed) == ("delete", True):
        assert (code, (data / "u-0").is_symlink()) == (0, False)
    else:
        assert code != 0
        assert (data / "u-0").is_symlink()
    assert state(data / "t-0") == before
    assert main(["append", "t", "--partition", "0", "-d", str(data), str(line(data))]) == 0
    capsys.readouterr()


def line(data: Path) -> Path:
    """Return a file of one line."""
    path = data.parent / "line"
    path.write_text("x\n")
    return path


@pytest.mark.parametrize("is_listed", [False, True], ids=["found", "in the catalogue"])
def test_a_service_leaves_a_link_alone(data: Path, *, is_listed: bool) -> None:
    """It serves all other partitions, and stays clean."""
    beside(data)
    if is_listed:
        rename_in_catalogue(data, "t", "u")
    before = state(data / "t-0")

    with tidelog.open(data) as logs:
        with pytest.raises(tidelog.TidelogError):
            append(logs, "u", b"x")
        with pytest.raises(tidelog.TidelogError):
            logs.create_topic("u")

    assert state(data / "t-0") == before
    assert (data / ".kafka_cleanshutdown").exists()


def test_no_topic_is_created_where_a_link_is(data: Path) -> None:
    """Its partition would be another's log."""
    beside(data)
    before = state(data / "t-0")

    match = "u-0 is left alone: it is a link"
    with tidelog.open(data) as logs, pytest.raises(KafkaStorageError, match=match):
        logs.create_topic("u")

    assert "u" not in read_catalogue(SYSTEM_FILES, str(data)).topics
    assert state(data / "t-0") == before


def test_a_copy_that_is_a_link_is_not_opened(data: Path) -> None:
    """A move that an earlier process began continues only in a directory of its own."""
    (data / f"t-0.{HEX}-future").symlink_to(data / "t-0")
    before = state(data / "t-0")

    with tidelog.open(data) as logs:
        assert logs.partition("t", 0).log.log_end_offset == 3

    assert state(data / "t-0") == before
    assert (data / ".kafka_cleanshutdown").exists()
