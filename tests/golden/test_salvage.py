"""What Kafka's recovery drops of damaged logs, recovery here keeps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.cli.main import main
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.readonly.missing.salvage import find_cut_files
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.damage.past_damage import BadBytes, walk_past_damage

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = sorted(path.parent for path in (Path(__file__).parent / "data" / "crash").glob("*/before"))
DROPPED = {
    "flip-first": 34,
    "flip-middle": 22,
    "flip-old-norp": 60,
    "logstart-beyond": 183,
}
"""Readable records that Kafka's recovery drops, by case; none in all others."""


def logs_in(directory: Path) -> dict[str, bytes]:
    """Return the bytes of each segment, by the names of partition and file."""
    return {
        f"{path.parent.name}/{path.name}": path.read_bytes() for path in directory.glob("*/*.log")
    }


def readable(directory: Path) -> set[tuple[str, int]]:
    """Return partition and offset of each record in batches with a valid CRC, past damage too."""
    found: set[tuple[str, int]] = set()
    for path in directory.glob("*/*.log"):
        file = SYSTEM_FILES.open(str(path))
        for piece in walk_past_damage(file, 0, file.size()):
            if isinstance(piece, BadBytes):
                continue
            for first, last, is_control in zip(
                piece.batches.base_offset.tolist(),
                piece.batches.last_offset.tolist(),
                piece.batches.is_control.tolist(),
                strict=True,
            ):
                if not is_control:
                    found |= {(path.parent.name, offset) for offset in range(first, last + 1)}
        file.close()
    return found


@pytest.fixture(params=CASES, ids=lambda path: path.name)
def case(request: pytest.FixtureRequest) -> Path:
    """Each damaged directory in turn."""
    found: Path = request.param
    return found


@pytest.fixture
def data(case: Path, tmp_path: Path) -> Path:
    """A copy of what the crash left, as ``tidelog recover`` has recovered it."""
    copy = tmp_path / "data"
    shutil.copytree(case / "before", copy, copy_function=shutil.copyfile)
    about = json.loads((case / "case.json").read_text("utf-8"))
    settings = next(iter(about["topic configs"].values()))
    options = [f"-o{key}={value}" for key, value in settings.items()]
    assert main(["recover", "-d", str(copy), "--now", str(about["takenAtMs"]), *options]) in {0, 1}
    return copy


def kept_in(data: Path) -> Iterator[tuple[str, int, bytes]]:
    """Yield file, position and bytes of what is kept, with the zeros that are left out."""
    for cut in find_cut_files(open_directory_read_only(str(data), fs=SYSTEM_FILES)):
        described = cut.content.description
        assert described is not None
        stored = Path(cut.path).read_bytes()[: cut.content.size_bytes]
        name = f"{described.topic}-{described.partition}/{described.file}"
        yield name, described.position, stored.ljust(described.cut_bytes, b"\0")


def test_there_are_39_damaged_directories() -> None:
    """None is left out."""
    assert len(CASES) == 39


def test_every_byte_stays_in_its_place_or_in_a_cut_file(case: Path, data: Path) -> None:
    """Of each segment that a log consists of; only zeros at the end of a file are not kept."""
    after, kept = logs_in(data), list(kept_in(data))
    count = 0
    for name, before in logs_in(case / "before").items():
        whole = bytearray(after.get(name, b""))
        for kept_name, position, cut in kept:
            if kept_name == name:
                assert position == len(whole)
                whole += cut
        is_merged = any(before in log for log in after.values())
        assert before.rstrip(b"\0") == bytes(whole).rstrip(b"\0") or is_merged
        count += 1
    assert count


def test_what_kafka_drops_is_found_by_salvage(
    case: Path, data: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Each readable record that Kafka's recovery drops, and no other, is printed."""
    in_kafka, there = readable(case / "after"), readable(case / "before")
    dropped = there - in_kafka
    capsysbinary.readouterr()

    main(["salvage", "--records", "--encoding", "hex", "-d", str(data)])
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in capsysbinary.readouterr().out.splitlines()
    ]

    assert readable(data) == in_kafka
    assert {(f"{row['topic']}-{row['partition']}", row["offset"]) for row in rows} == dropped
    assert len(dropped) == DROPPED.get(case.name, 0)


def test_cat_finds_what_kafka_drops_before_any_recovery(
    case: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """``cat --skip-damage`` prints each readable record; its exit code says that some were bad."""
    if case.name == "logstart-beyond":
        pytest.skip("all records lie below the log start")
    there, dropped = readable(case / "before"), DROPPED.get(case.name, 0)
    copy = tmp_path / "data"
    shutil.copytree(case / "before", copy, copy_function=shutil.copyfile)
    found: set[tuple[str, int]] = set()
    codes = 0
    for path in sorted(copy.glob("*-[0-9]")):
        words = ["--skip-damage", "--encoding", "hex", "--up-to", "logEnd"]
        codes |= main(["cat", "-d", str(path), *words])
        for line in capsysbinary.readouterr().out.splitlines():
            row = json.loads(line)
            found.add((f"{row['topic']}-{row['partition']}", row["offset"]))

    # A complete .swap file stands for the segments that it replaces.
    assert found >= there
    assert codes == 1 or not dropped
