"""A sound batch that decompresses to more than a batch may be decoded as a whole."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Final

import pytest

import tidelog
from tidelog.cli.main import main
from tidelog.codec.compression import DEFAULT_DECOMPRESSED_LIMIT, Codec
from tidelog.exit_codes import ExitCode
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from pathlib import Path

VALUE: Final = bytes(1_000_000)
COUNT: Final = DEFAULT_DECOMPRESSED_LIMIT // len(VALUE) + 10
MOST_BYTES: Final = DEFAULT_DECOMPRESSED_LIMIT // 4


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with such a batch between two others."""
    path = tmp_path_factory.mktemp("enormous") / "data"
    many = build_batch(
        [(1000, b"key", VALUE, ())] * COUNT, codec=Codec.ZSTD, base_offset=1, leader_epoch=0
    )
    with tidelog.open(path, log_cleaner_enable=False) as logs:
        logs.create_topic("t")
        logs.append("t", b"before")
        logs.partition("t", 0).log.append_as_follower(many, 0)
        logs.append("t", b"after")
    return path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command line that is fine, in little memory; return what it printed."""
    tracemalloc.start()
    try:
        assert main([*words]) == ExitCode.OK
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES
    return capsys.readouterr().out


@pytest.mark.slow
def test_it_is_no_damage(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Readers read it; so verify counts its records."""
    said = printed(capsys, "verify", str(data))

    assert f"{COUNT + 2:,} records" in said


@pytest.mark.slow
def test_a_rescue_copies_it(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not left out as one that cannot be read."""
    new = str(tmp_path / "new")
    said = printed(capsys, "rescue", str(data), "--to", new)

    assert "0 of them not whole" in said
    assert f'"records": {COUNT + 2}' in printed(capsys, "offsets", "--count", "-d", new)


@pytest.mark.slow
def test_its_records_are_counted_from_the_middle_on(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It comes in several parts then, of which each counts; there are no gaps in it."""
    words = "-d", str(data), "--from", "5", "--to", str(COUNT - 5)

    assert f'"records": {COUNT - 10}' in printed(capsys, "offsets", "--count", *words)
    assert len(printed(capsys, "table", "gaps", str(data)).splitlines()) == 1


@pytest.mark.slow
def test_its_records_are_dumped(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that are asked for, from its middle; its row says no error."""
    path = str(data / "t-0" / f"{0:020d}.log")
    said = printed(capsys, "dump", path, "--records", "--from", "99", "--to", "101")
    batch, *records = map(json.loads, said.splitlines())

    assert (batch["count"], "error" in batch) == (COUNT, False)
    assert [record["offset"] for record in records] == [99, 100]
