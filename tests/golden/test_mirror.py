"""Mirrors of directories that Kafka wrote have its batches, byte for byte."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.machinery.batches_of_logs import batches_of

import tidelog
from tidelog.cli.main import main
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.readonly.read_only_directory import open_directory_read_only

if TYPE_CHECKING:
    from tests.conftest import Enumerated


DATA = Path(__file__).parent / "data"
CASES = (
    *("codecs", "compaction/before", "epochs", "logappendtime", "segments", "transactions"),
    "whole-dir",
)


@pytest.mark.parametrize("case", CASES)
def test_a_mirror_has_kafkas_batches(case: str, tmp_path: Path, enumerated: Enumerated) -> None:
    """Of every codec, with gaps of compaction, transactions and epochs; a second run is idle."""
    source, target = tmp_path / "source", tmp_path / "target"
    shutil.copytree(DATA / case, source)
    copied = tidelog.mirror(source, target)

    theirs = open_directory_read_only(str(source), fs=SYSTEM_FILES)
    ours = open_directory_read_only(str(target), fs=SYSTEM_FILES)
    compared = 0
    for log in theirs.logs():
        with ours.open(log.topic, log.partition) as mirror:
            wanted = batches_of(log)
            assert batches_of(mirror) == wanted
            assert mirror.log_start_offset == log.log_start_offset
            compared += len(wanted)
    assert compared == sum(one.batches for one in copied)
    assert [one.batches for one in tidelog.mirror(source, target)] == [0] * len(copied)
    assert main(["verify", str(target)]) == 0
    enumerated("batches", compared, at_least=1)
