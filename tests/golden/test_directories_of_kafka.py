"""Directories as Kafka leaves them in its several roles and releases, under every command."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

import tidelog
from tidelog.cli.main import main
from tidelog.codec.uuid_text import format_uuid
from tidelog.errors import PartitionsElsewhere

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Enumerated

WHOLE = Path(__file__).parent / "data" / "whole-dir"
NOT_OF_THE_DIRECTORY = ("expected", "dump", "case.json")
STRAY = f"whole-part-9.{'a' * 32}-stray"
FUTURE = f"whole-part-8.{'b' * 32}-future"


def combined(_: Path) -> None:
    """Broker and controller are one process: nothing to change."""


def broker_only(directory: Path) -> None:
    """The broker's copy of the metadata lies here, the bootstrap file does not."""
    (directory / "bootstrap.checkpoint").unlink()


def without_metadata(directory: Path) -> None:
    """A second directory of a broker, or one with ``metadata.log.dir`` elsewhere."""
    shutil.rmtree(directory / "__cluster_metadata-0")
    (directory / "bootstrap.checkpoint").unlink()


def with_strays(directory: Path) -> None:
    """A partition of a deleted topic, and a copy of one that was about to move."""
    shutil.copytree(directory / "whole-part-0", directory / STRAY)
    shutil.copytree(directory / "whole-part-1", directory / FUTURE)


def of_zookeeper(directory: Path) -> None:
    """A broker of an older release: no metadata, no directory id, no topic ids."""
    without_metadata(directory)
    text = "#\n#Sat Nov 21 09:37:42 UTC 2020\ncluster.id=dGlkZTAwMDAwMDAwMDAwMQ\nversion=0\n"
    (directory / "meta.properties").write_text(f"{text}broker.id=1\n", "utf-8")
    for path in directory.glob("*/partition.metadata"):
        path.unlink()


KINDS: dict[str, Callable[[Path], None]] = {
    "combined": combined,
    "broker": broker_only,
    "second": without_metadata,
    "strays": with_strays,
    "zookeeper": of_zookeeper,
}
COMMANDS = (
    ("describe",),
    ("offsets",),
    ("verify",),
    ("plan", "retention"),
    ("plan", "compaction"),
    ("plan", "recovery"),
    ("cleaner", "status"),
    ("metrics",),
    ("recover",),
    ("retain",),
    ("compact",),
    ("create", "new"),
)


@pytest.fixture(params=KINDS)
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a directory of each kind, beside one that is nobody's."""
    target = tmp_path / "data"
    shutil.copytree(WHOLE, target, ignore=shutil.ignore_patterns(*NOT_OF_THE_DIRECTORY))
    KINDS[request.param](target)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("x", "utf-8")
    return target


def records_below(directory: Path) -> dict[str, bytes]:
    """Return what no command here may change: logs with records, and all of the controller."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        and (path.suffix == ".log" or "__cluster_metadata" in str(path) or STRAY in str(path))
    }


def test_no_command_deletes_or_fails(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each ends by itself, 2 where settings are needed; all records are there afterwards."""
    before = records_below(directory)
    codes = {}

    for words in COMMANDS:
        codes[" ".join(words)] = main([*words, "-d", str(directory)])
        capsys.readouterr()

    fine = {name: code for name, code in codes.items() if code != 0}
    assert fine.keys() <= {"retain", "metrics"}
    after = records_below(directory)
    assert {name: after.get(name) for name in before if before[name]} == {
        name: data for name, data in before.items() if data
    }
    assert [path.name for path in directory.parent.iterdir() if path != directory] == ["outside"]


def test_a_controllers_directory_has_no_topics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It holds the metadata alone; each command reports that or does nothing, and changes none."""
    target = tmp_path / "data"
    target.mkdir()
    shutil.copytree(WHOLE / "__cluster_metadata-0", target / "__cluster_metadata-0")
    for name in ("meta.properties", "bootstrap.checkpoint"):
        shutil.copy(WHOLE / name, target)
    before = records_below(target)

    codes = {words: main([*words, "-d", str(target)]) for words in COMMANDS if words[0] != "create"}

    assert set(codes.values()) <= {0, 1, 2}
    assert "Traceback" not in capsys.readouterr().err
    assert records_below(target) == before


def spread(folder: Path, count: int) -> list[Path]:
    """Return the directories of a broker with several ``log.dirs``; the metadata is in the first.

    The partitions of a topic follow one another over the directories, as a broker places them.
    """
    paths = [folder / f"disk{number}" for number in range(count)]
    shutil.copytree(WHOLE, paths[0], ignore=shutil.ignore_patterns(*NOT_OF_THE_DIRECTORY))
    meta = (paths[0] / "meta.properties").read_text("utf-8")
    for number, path in enumerate(paths[1:], start=1):
        path.mkdir()
        own = f"directory.id={format_uuid(UUID(int=1000 + number))}\n"
        others = [line for line in meta.splitlines(keepends=True) if "directory.id" not in line]
        (path / "meta.properties").write_text("".join([*others, own]), "utf-8")
        for partition in paths[0].glob(f"whole-part-{number}"):
            partition.rename(path / partition.name)
    return paths


def values_of(topic: str) -> list[bytes | None]:
    """Return the values of a topic's records, as Kafka's consumer got them."""
    rows = [
        json.loads(line)
        for listing in sorted((WHOLE / "expected").glob(f"{topic}-?.jsonl"))
        for line in listing.read_text("utf-8").splitlines()
    ]
    return [None if row["value"] is None else base64.b64decode(row["value"]) for row in rows]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_topic_in_several_directories_is_read_whole_or_not_at_all(
    tmp_path: Path, count: int, enumerated: Enumerated
) -> None:
    """A hole in the numbers, or the metadata beside some of them, shows that there are others."""
    paths = spread(tmp_path, count)
    expected, tried = values_of("whole-part"), 0
    for size in range(1, count + 1):
        for chosen in itertools.combinations(paths, size):
            logs = tidelog.open_directory_read_only(*chosen)
            if size == count:
                assert [record.value for record in logs.read("whole-part")] == expected
            else:
                with pytest.raises(PartitionsElsewhere, match=r"whole-part-\d"):
                    next(logs.read("whole-part"))
            tried += 1

    enumerated("choices of directories", tried, at_least=count)
