"""Files under a tiny limit of descriptors, against plain bytes in memory."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING

import pytest

from tidelog.env.descriptors import DescriptorBudget
from tidelog.env.pooled_file import PooledFile
from tidelog.env.system_files import SystemFiles
from tidelog.testing import CrashFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tidelog.env.files import FileSystem, OpenFile

STEPS = 400
FILES = 6
SIZE = 60


class Model:
    """Pooled files, what each must hold, and slices that are held of them."""

    def __init__(self, fs: FileSystem, root: str, rng: Random) -> None:
        self.fs, self.root, self.rng = fs, root, rng
        self.names = 0
        self.directory = self.new_name()
        fs.make_directory(self.directory)
        self.files: list[tuple[PooledFile, bytearray]] = []
        self.held: list[tuple[OpenFile, bytearray]] = []
        for _ in range(FILES):
            self.make()

    def new_name(self) -> str:
        """Return a path that was never used."""
        self.names += 1
        return f"{self.root}/{self.names}"

    def make(self) -> None:
        """Begin an empty file."""
        self.names += 1
        file = PooledFile(self.fs, f"{self.directory}/{self.names}")
        self.files.append((file.open("w"), bytearray()))

    def step(self) -> None:
        """Do one thing at random, to one file at random."""
        uses = [self.read, self.read, self.write, self.write, self.truncate, self.sync, self.hold]
        others = [self.read_held, self.end_hold, self.rename, self.rename_directory, self.delete]
        do = self.rng.choice([*uses, *others, self.evict])
        do(self.rng.randrange(len(self.files)))

    def read(self, at: int) -> None:
        """Read any bytes."""
        file, expected = self.files[at]
        position, size = self.rng.randrange(SIZE), self.rng.randrange(SIZE)
        assert file.pread(size, position) == bytes(expected[position : position + size])
        assert file.size() == len(expected)

    def write(self, at: int) -> None:
        """Write any bytes anywhere."""
        file, expected = self.files[at]
        position, data = self.rng.randrange(SIZE), self.rng.randbytes(self.rng.randrange(1, 20))
        file.pwrite(data, position)
        expected.extend(bytes(max(position - len(expected), 0)))
        expected[position : position + len(data)] = data

    def truncate(self, at: int) -> None:
        """Cut or extend a file."""
        file, expected = self.files[at]
        size = self.rng.randrange(SIZE)
        file.truncate(size)
        del expected[size:]
        expected.extend(bytes(size - len(expected)))

    def sync(self, at: int) -> None:
        """Make a file durable."""
        self.files[at][0].sync()

    def evict(self, _: int) -> None:
        """Close some files, as if others had been opened."""
        self.fs.descriptors.evict(self.rng.randrange(1, FILES))

    def hold(self, at: int) -> None:
        """Begin to hold a file; the model holds the same bytes, which writes keep changing."""
        file, expected = self.files[at]
        self.held.append((file.hold(), expected))

    def read_held(self, _: int) -> None:
        """Read what is held."""
        for file, held in self.held:
            assert file.pread(2 * SIZE, 0) == bytes(held)

    def end_hold(self, _: int) -> None:
        """End one hold."""
        if self.held:
            self.held.pop(self.rng.randrange(len(self.held)))[0].close()

    def rename(self, at: int) -> None:
        """Give a file another name."""
        self.names += 1
        self.files[at][0].rename(f"{self.directory}/{self.names}")

    def rename_directory(self, _: int) -> None:
        """Give the directory around all files another name."""
        before, self.directory = self.directory, self.new_name()
        self.fs.rename(before, self.directory)
        for file, _content in self.files:
            file.moved_to(file.path.replace(before, self.directory, 1))

    def delete(self, at: int) -> None:
        """Delete a file, also one in use, and begin another."""
        file, _ = self.files.pop(at)
        file.close()
        self.fs.delete(file.path)
        self.make()

    def check(self) -> None:
        """Compare all that is there."""
        self.read_held(0)
        for file, expected in self.files:
            assert file.pread(2 * SIZE, 0) == bytes(expected)

    def close(self) -> None:
        """Close all files."""
        for file, _ in (*self.files, *self.held):
            file.close()


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("limit", [1, 3])
def test_evictions_change_no_byte(limit: int, seed: int) -> None:
    """Between any two steps of writing, renaming, deleting and holding; and a sync is durable."""
    fs = CrashFileSystem(seed)
    fs.descriptors.limit = limit
    fs.make_directory("/data")
    model = Model(fs, "/data", Random(seed))
    for _ in range(STEPS):
        model.step()
    model.check()
    assert fs.descriptors.evictions > STEPS / 10

    for path in ("/", "/data", model.directory):
        fs.sync_directory(path)
    for file, _ in model.files:
        file.sync()
    fs.power_cut("none")
    for file, expected in model.files:
        assert fs.read(file.path) == bytes(expected)


def test_evictions_change_no_byte_on_the_machines_disk(tmp_path: Path) -> None:
    """With real descriptors, whose numbers are used again at once."""
    fs = SystemFiles(has_posix=True, descriptors=DescriptorBudget(2))
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    model = Model(fs, str(tmp_path), Random(1))
    for _ in range(STEPS):
        model.step()
    model.check()
    evictions = fs.descriptors.evictions
    model.close()

    assert evictions > STEPS / 10
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


THREADS = 4
EVICTIONS = 300
MOST_ROUNDS = 50_000


@pytest.fixture
def often_switched() -> Iterator[None]:
    """Let threads take turns after microseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Crowd:
    """Threads that use each other's files. Each file holds its number over and over."""

    def __init__(self, root: str) -> None:
        self.fs = SystemFiles(has_posix=True, descriptors=DescriptorBudget(2))
        self.files = [PooledFile(self.fs, f"{root}/{at}").open("w") for at in range(THREADS)]
        self.wrong: list[object] = []
        for number, file in enumerate(self.files):
            file.pwrite(bytes([number]) * 64, 0)

    def work(self, number: int) -> None:
        """Use files until enough were closed meanwhile."""
        rng, rounds = Random(number), 0
        try:
            while self.fs.descriptors.evictions <= EVICTIONS and rounds < MOST_ROUNDS:
                rounds += 1
                self.use(number, rng)
        except BaseException as error:  # noqa: BLE001 - shown by the test
            self.wrong.append(error)

    def use(self, number: int, rng: Random) -> None:
        """Perhaps write one's own file; read another."""
        other = rng.randrange(THREADS)
        if rng.randrange(8) == 0:
            self.files[number].pwrite(bytes([number]) * 64, rng.randrange(4) * 64)
        if rng.randrange(30) == 0:
            self.files[number].sync()
        found = set(self.files[other].pread(512, 0))
        with closing(self.files[other].hold()) as held:
            found |= set(held.pread(512, 0))
        if not found <= {other, 0}:
            self.wrong.append((other, found))


@pytest.mark.usefixtures("often_switched")
def test_no_thread_reads_or_writes_the_bytes_of_another_file(tmp_path: Path) -> None:
    """One writer and readers a file, while files are closed as fast as they are opened.

    A descriptor closed under a read or write would show another file's bytes: it got the number.
    """
    crowd = Crowd(str(tmp_path))
    threads = [threading.Thread(target=crowd.work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        crowd.fs.descriptors.evict()
    for file in crowd.files:
        file.close()

    assert crowd.wrong == []
    assert crowd.fs.descriptors.evictions > EVICTIONS
