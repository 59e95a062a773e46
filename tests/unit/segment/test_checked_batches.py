"""Batches of a file checked by several threads, with the same result as by one."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pytest
from tests.machinery.old_batches import build_old

from tidelog.env.system_files import SYSTEM_FILES
from tidelog.kernels.runtime import gate
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import BatchSpec
from tidelog.records.control import build_marker
from tidelog.records.memory import walk
from tidelog.segment.checked_batches import (
    PIECE_BYTES,
    BatchChecker,
    CheckedBatches,
    Helpers,
)
from tidelog.testing import CrashFileSystem, ManualClock, ManualScheduler, build_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tidelog.env.files import OpenFile
    from tidelog.records.builder import BatchFields

PATH = "/t-0.log"
FIRST_OFFSET = 5 << 32


def batch(offset: int, value: bytes, **fields: Unpack[BatchFields]) -> bytes:
    return build_batch([(0, None, value, ())], BatchSpec(base_offset=offset), **fields)


def repeated(one: bytes, count: int, offset: int) -> bytes:
    """Return copies of a batch of one record, from ``offset`` on: its CRC does not cover that."""
    copies = np.tile(np.frombuffer(one, np.uint8), (count, 1))
    copies[:, :8] = np.arange(offset, offset + count).astype(">i8").view(np.uint8).reshape(-1, 8)
    return copies.tobytes()


def file_of(data: bytes) -> OpenFile:
    fs = CrashFileSystem()
    fs.write(PATH, data)
    return fs.open(PATH)


@pytest.fixture(params=["memory", "disk"])
def file_with(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[bytes], OpenFile]]:
    """Create files that only Python reads, or that compiled code reads itself."""
    if request.param == "memory":
        yield file_of
        return
    opened: list[OpenFile] = []

    def make(data: bytes) -> OpenFile:
        path = tmp_path / str(len(opened))
        path.write_bytes(data)
        opened.append(SYSTEM_FILES.open(str(path)))
        return opened[-1]

    gate.force(True)
    yield make
    gate.force(None)
    for file in opened:
        file.close()


def checked(
    data: bytes, threads: int, part_bytes: int, file: OpenFile | None = None
) -> tuple[list[CheckedBatches], str]:
    """Return the batches found, and the reason why the bytes after them are bad."""
    helpers = Helpers(ManualScheduler(ManualClock()), threads)
    file = file or file_of(data)
    checker = BatchChecker(file, len(data), FIRST_OFFSET, helpers, part_bytes=part_bytes)
    found = list(checker.pieces())
    return found, "" if checker.error is None else checker.error.reason


def headers(found: list[CheckedBatches]) -> list[list[int]]:
    return np.hstack([piece.batches.array for piece in found]).T.tolist() if found else []


def walked(data: bytes) -> tuple[list[list[int]], str]:
    """Return the same for a walk over all bytes at once."""
    found = walk(data, check_crc=True, in_memory=False)
    return found.batches.array.T.tolist(), "" if found.error is None else found.error.reason


def log_of(count: int, rng: Random, least: int = 1, most: int = 900) -> bytes:
    """Build batches of random sizes; every fifth is a marker."""
    parts = []
    for offset in range(FIRST_OFFSET, FIRST_OFFSET + count):
        if offset % 5 == 4:
            parts.append(
                build_marker(
                    producer_id=7,
                    producer_epoch=0,
                    coordinator_epoch=offset % 100,
                    is_commit=False,
                    timestamp=0,
                    base_offset=offset,
                )
            )
        else:
            parts.append(batch(offset, rng.randbytes(rng.randint(least, most))))
    return b"".join(parts)


class CountingFile:
    """Counts the bytes read from a file."""

    def __init__(self, file: OpenFile) -> None:
        self.file = file
        self.read_bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def pread(self, size: int, position: int) -> bytes:
        self.read_bytes += size
        return self.file.pread(size, position)

    def pread_into(self, buffer: Any, position: int) -> int:
        self.read_bytes += len(buffer)
        return self.file.pread_into(buffer, position)


DAMAGE: dict[str, Callable[[bytes, int], bytes]] = {
    "none": lambda data, _: data,
    "flip": lambda data, at: data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :],
    "torn": lambda data, at: data[:at],
    "zeros": lambda data, at: data[:at] + bytes(3_000),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_parts_find_what_a_single_walk_finds(
    file_with: Callable[[bytes], OpenFile], damage: str, threads: int
) -> None:
    """This holds wherever parts start, on any thread, and for any damage."""
    rng = Random(f"{damage}{threads}")
    for _ in range(12):
        whole = log_of(60, rng)
        data = DAMAGE[damage](whole, rng.randrange(1, len(whole)))
        part_bytes = rng.randint(200, 4_000)

        found, reason = checked(data, threads, part_bytes, file_with(data))

        assert walked(data) == (headers(found), reason)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_bytes_of_control_batches_are_included(
    file_with: Callable[[bytes], OpenFile], threads: int
) -> None:
    """They survive the reuse of buffers; bytes of other batches are not included."""
    data = log_of(50, Random(1))

    found, _ = checked(data, threads, 2_000, file_with(data))

    markers = 0
    for piece in found:
        rows = zip(piece.in_data.position, piece.batches.position, piece.batches.size, strict=True)
        for is_control, (at, position, size) in zip(piece.batches.is_control, rows, strict=True):
            if is_control:
                markers += 1
                assert piece.data[at : at + size].tobytes() == data[position : position + size]
    assert markers == 10


def test_a_batch_inside_a_record_is_not_a_batch_of_the_file() -> None:
    """In a log of copied logs, what looks like a batch must follow the one before it."""
    inner = b"".join(batch(FIRST_OFFSET + n, b"inner" * 20) for n in range(40))
    parts = [batch(FIRST_OFFSET + n, inner) for n in range(6)]
    data = b"".join(parts)

    for part_bytes in (900, 2_500, len(parts[0]), 2 * len(parts[0]) + 100):
        found, reason = checked(data, 2, part_bytes)
        assert walked(data) == (headers(found), reason)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_batch_larger_than_a_part_is_read_whole(threads: int) -> None:
    """If it covers all of a thread's part, that thread finds nothing."""
    data = batch(FIRST_OFFSET, bytes(9_000)) + batch(FIRST_OFFSET + 1, b"x") * 1

    found, reason = checked(data, threads, 1_000)

    assert [header[2] for header in headers(found)] == [FIRST_OFFSET, FIRST_OFFSET + 1]
    assert not reason


@pytest.mark.parametrize("threads", [1, 2])
def test_batches_larger_than_a_buffer_are_found_between_small_ones(
    file_with: Callable[[bytes], OpenFile], threads: int
) -> None:
    """This holds after the buffer grew to their size, and where it never does."""
    sizes = [10, 1_300_000, 1_600_000, 10, 1_200_000, 5_000_000, 10, 1_300_000]
    data = b"".join(batch(FIRST_OFFSET + n, bytes(size)) for n, size in enumerate(sizes))

    found, reason = checked(data, threads, 2_000_000, file_with(data))

    assert walked(data) == (headers(found), reason)


def test_a_small_file_is_checked_by_one_thread() -> None:
    """Threads would cost more than they save."""

    class Refusing(ManualScheduler):
        def run_ahead(self, name: str, tasks: object, threads: int) -> Any:
            raise AssertionError((name, tasks, threads))

    data = log_of(20, Random(2))
    checker = BatchChecker(
        file_of(data), len(data), FIRST_OFFSET, Helpers(Refusing(ManualClock()), 2)
    )

    assert sum(len(piece.batches) for piece in checker.pieces()) == 20
    assert len(data) > 20 * BATCH_HEADER.size


def test_a_file_that_cannot_be_divided_is_checked_by_one_thread() -> None:
    """Batches of old formats are not searched for: one thread continues after the first part."""
    old = build_old(1, [(0, b"k", b"v" * 50)] * 40, base_offset=FIRST_OFFSET + 1)
    data = batch(FIRST_OFFSET, b"x") + old

    found, reason = checked(data, 2, 500)

    assert walked(data) == (headers(found), reason)


def test_threads_that_are_no_longer_needed_are_released() -> None:
    """A caller that stops early leaves no thread behind that reads the file."""
    ended: list[str] = []

    class Watching(ManualScheduler):
        def run_ahead(self, name: str, tasks: Any, threads: int) -> Any:
            try:
                yield from super().run_ahead(name, tasks, threads)
            finally:
                ended.append(name)

    data = log_of(300, Random(4))
    helpers = Helpers(Watching(ManualClock()), 2)
    pieces = BatchChecker(
        file_of(data), len(data), FIRST_OFFSET, helpers, part_bytes=2_000
    ).pieces()
    assert len(next(pieces).batches)

    pieces.close()

    assert ended == ["segment-recovery"]


@pytest.mark.parametrize("threads", [1, 2])
def test_headers_stay_within_memory_when_batches_become_small(
    file_with: Callable[[bytes], OpenFile], threads: int
) -> None:
    """Parts grow while batches are large; the memory for headers does not grow with them."""
    large, small = batch(0, bytes(8_000)), batch(0, b"")
    data = repeated(large, 300, FIRST_OFFSET) + repeated(small, 30_000, FIRST_OFFSET + 300)

    file = file_with(data)
    found, reason = checked(data, threads, 64_000, file)

    assert walked(data) == (headers(found), reason)
    read_at_once = 0 if file.native_reads() and gate.would_use(len(data)) else PIECE_BYTES
    held = (64_000 + read_at_once) // BATCH_HEADER.size
    assert max(len(piece.batches) for piece in found) <= held + 1


def test_bytes_that_look_like_many_batches_are_not_all_read() -> None:
    """A client chooses a record's bytes: the bytes read stay a small multiple of the file."""
    false = bytearray(batch(FIRST_OFFSET, bytes(40_000))[: BATCH_HEADER.size])
    false[17] ^= 1
    data = b"".join(batch(FIRST_OFFSET + n, bytes(false) * 1_000) for n in range(10))
    file = CountingFile(file_of(data))

    found, reason = checked(data, 2, 100_000, file)

    assert walked(data) == (headers(found), reason)
    assert file.read_bytes < 6 * len(data)
