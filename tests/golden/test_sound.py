"""No batch that a Kafka wrote is taken for damaged by the rule of sound offsets."""

from __future__ import annotations

import re
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.records.batch import INT64_MAX
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.records.file_records import FileRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE: Final = Path(__file__).parent
DAMAGED: Final = re.compile(r"/(whole-dir-)?crash/|/damaged")
"""Directories of which a part was cut, flipped or filled with zeros."""


def segments() -> Iterator[tuple[Path, OffsetBounds]]:
    """Yield the segments of all directories that were not damaged, with their bounds."""
    found: dict[Path, list[Path]] = {}
    for path in sorted([*(HERE / "data").rglob("*.log"), *(HERE / "own").rglob("*.log")]):
        is_log = re.fullmatch(r"\d{20}\.log", path.name)
        if is_log and not DAMAGED.search(str(path)):
            found.setdefault(path.parent, []).append(path)
    for paths in found.values():
        ends = [*(int(after.stem) for _, after in pairwise(paths)), INT64_MAX]
        for path, end in zip(paths, ends, strict=True):
            yield path, OffsetBounds(int(path.stem), end)


def test_no_golden_batch_breaks_the_rule(enumerated: Callable[..., None]) -> None:
    """Every batch is sound, also by the header after it, whatever wrote it."""
    count = files = 0
    for path, bounds in segments():
        with closing(SYSTEM_FILES.open(str(path))) as file:
            records = FileRecords(file, bounds=bounds)
            files += 1
            count += sum(len(piece.batches) for piece in records.pieces(check_crc=True))
            # Some were cut or filled with zeros on purpose; none has wrong offsets.
            assert records.error is None or "offset" not in records.error.reason, path
    enumerated("golden segments", files, at_least=300)
    enumerated("golden batches", count, at_least=3000)
