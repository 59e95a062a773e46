"""Batches found by compiled code that reads the file itself."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tidelog.env.files import NativeReads
from tidelog.env.system_files import SYSTEM_FILES, SystemFiles
from tidelog.kernels.runtime import gate
from tidelog.records.control import build_marker
from tidelog.records.decoding.native_walk import NativeWalk, walk_natively
from tidelog.records.file_records import piece_buffer
from tidelog.records.memory import walk
from tidelog.testing import CrashFileSystem, build_batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tidelog.env.files import FileSystem

pytestmark = pytest.mark.usefixtures("kernels")


def batch(offset: int, size: int = 100) -> bytes:
    return build_batch([(0, None, bytes(size), ())], base_offset=offset)


def marker(offset: int) -> bytes:
    return build_marker(
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=1,
        is_commit=True,
        timestamp=0,
        base_offset=offset,
    )


def found_in(fs: FileSystem, path: str, start: int, end: int, most: int = 10_000) -> NativeWalk:
    with closing(fs.open(path)) as file:
        return walk_natively(file, start, end, end, piece_buffer(5_000), most=most)


def test_batches_are_those_of_a_walk_over_the_bytes(tmp_path: Path) -> None:
    """Batches have positions in the file, up to the first that does not end in the range."""
    data = b"".join(batch(offset, 10 + offset) for offset in range(300))
    path = tmp_path / "log"
    path.write_bytes(data)

    found = found_in(SYSTEM_FILES, str(path), 0, len(data) - 1)

    expected = walk(data, 0, len(data) - 1, check_crc=True)
    assert found.batches.array.tolist() == expected.batches.array.tolist()
    assert found.next_position == expected.next_position
    assert found.controls == []


def test_more_batches_than_there_is_room_for_at_a_time(tmp_path: Path) -> None:
    """Small batches and markers fill columns and buffers several times."""
    data = b"".join(marker(n) if n % 2 else batch(n, 1) for n in range(3_000))
    path = tmp_path / "log"
    path.write_bytes(data)

    found = found_in(SYSTEM_FILES, str(path), 0, len(data))

    assert found.batches.base_offset.tolist() == list(range(3_000))
    assert found.next_position == len(data)
    assert b"".join(part.tobytes() for part in found.controls) == b"".join(
        marker(n) for n in range(1, 3_000, 2)
    )


def test_a_walk_ends_before_an_invalid_batch(tmp_path: Path) -> None:
    """The valid batches before an invalid one are found."""
    data = batch(0) + batch(1)[:-1] + b"x" + batch(2)
    path = tmp_path / "log"
    path.write_bytes(data)

    found = found_in(SYSTEM_FILES, str(path), 0, len(data))

    assert (found.batches.count, found.next_position) == (1, len(batch(0)))


def test_nothing_is_found_where_compiled_code_cannot_read(tmp_path: Path) -> None:
    """Nothing is found in memory, or where a read would move the file's position."""
    memory = CrashFileSystem()
    memory.write("/log", batch(0))
    path = tmp_path / "log"
    path.write_bytes(batch(0))

    for fs, name in ((memory, "/log"), (SystemFiles(has_posix=False), str(path))):
        found = found_in(fs, name, 0, len(batch(0)))
        assert (found.batches.count, found.next_position) == (0, 0)


def test_little_work_does_not_load_the_compiler(tmp_path: Path) -> None:
    """A short command does not wait for the kernels to load."""
    gate.force(False)
    path = tmp_path / "log"
    path.write_bytes(batch(0))

    found = found_in(SYSTEM_FILES, str(path), 0, len(batch(0)))

    assert (found.batches.count, found.next_position) == (0, 0)


def test_a_walk_ends_when_it_holds_as_many_batches_as_it_may(tmp_path: Path) -> None:
    """Headers of small batches take more memory than the batches, so their number is limited."""
    data = b"".join(batch(offset, 1) for offset in range(300))
    path = tmp_path / "log"
    path.write_bytes(data)

    found = found_in(SYSTEM_FILES, str(path), 0, len(data), most=40)

    assert (found.batches.count, found.next_position) == (40, 40 * len(batch(0, 1)))


def test_small_batches_are_not_read_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full columns end a call of the kernel, but only few calls are needed."""
    data = b"".join(batch(offset, 1) for offset in range(9_000))
    path = tmp_path / "log"
    path.write_bytes(data)
    calls: list[int] = []

    class Watched(NativeReads):
        __slots__ = ()

        def __iter__(self) -> Iterator[int]:
            calls.append(1)
            return super().__iter__()

    with closing(SYSTEM_FILES.open(str(path))) as file:
        reads = file.native_reads()
        assert reads is not None
        monkeypatch.setattr(file, "native_reads", lambda: Watched(*reads))
        found = walk_natively(file, 0, len(data), len(data), piece_buffer(1 << 20), most=10_000)

    assert found.batches.count == 9_000
    assert len(calls) == 2


def test_a_file_is_held_while_it_is_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the file is closed meanwhile, its descriptor is not reused for another file."""
    path = tmp_path / "log"
    path.write_bytes(batch(0))
    file = SYSTEM_FILES.open(str(path))
    native_reads = file.native_reads

    def closed_meanwhile() -> NativeReads | None:
        reads = native_reads()
        file.close()
        return reads

    monkeypatch.setattr(file, "native_reads", closed_meanwhile)
    found = walk_natively(file, 0, len(batch(0)), len(batch(0)), piece_buffer(500), most=10)

    assert found.batches.count == 1
    with pytest.raises(OSError, match="closed"):
        file.hold()
