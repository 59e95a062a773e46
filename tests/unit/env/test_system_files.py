"""Behaviour of the real disk only; the rest is in tests/conformance."""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tidelog.env import system_files
from tidelog.env.files import WRONG_KIND, is_gone
from tidelog.env.system_files import SYSTEM_FILES, SystemFile, SystemFiles, _sync
from tidelog.errors import UnsupportedPlatform

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Enumerated

    from tidelog.env.files import OpenFile, OpenMode

READER = SystemFiles(has_posix=False)


def test_holders_close_on_many_threads(tmp_path: Path) -> None:
    """When many holders close at once, the last one closes the descriptor, exactly once."""
    file = SYSTEM_FILES.open(str(tmp_path / "f"), "w")
    descriptor = file.fileno()
    start = threading.Barrier(8)

    def come_and_go() -> None:
        start.wait()
        for _ in range(200):
            file.hold()
            file.close()

    threads = [threading.Thread(target=come_and_go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert os.fstat(descriptor).st_size == 0

    file.close()

    with pytest.raises(OSError) as caught:
        os.fstat(descriptor)
    assert caught.value.errno == errno.EBADF


def test_linux_is_asked_to_begin_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the arguments of ``sync_file_range``: descriptor, position, size, and 2 for WRITE."""
    calls: list[tuple[int, ...]] = []
    monkeypatch.setattr(
        system_files, "_sync_file_range", lambda: lambda *given: calls.append(given)
    )
    with closing(SYSTEM_FILES.open(str(tmp_path / "f"), "w")) as file:
        file.start_writeback(5, 3)
        descriptor = file.fileno()

    assert calls == [(descriptor, 3, 5, 2)]


def test_an_unclosed_file_is_closed_with_a_warning(tmp_path: Path) -> None:
    """The descriptor is released, and a ResourceWarning is emitted."""
    with pytest.warns(ResourceWarning, match="unclosed file"):
        descriptor = SYSTEM_FILES.open(str(tmp_path / "f"), "w").fileno()

    with pytest.raises(OSError):
        os.fstat(descriptor)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_an_error_of_looking_for_a_name_does_not_mean_that_nothing_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """It is raised: who takes a file for missing may write another one, or delete what needs it."""
    looked_for, found = str(tmp_path), os.stat

    def stat(path: str, **how: bool) -> os.stat_result:
        if path == looked_for:
            raise OSError(number, "unreadable", path)
        return found(path, **how)

    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(OSError, match="unreadable"):
        SYSTEM_FILES.exists(looked_for)

    assert not is_gone(SYSTEM_FILES, looked_for)


def test_where_nothing_can_lie_nothing_exists(tmp_path: Path) -> None:
    """Names too long or with a zero byte, links to nothing or in a circle."""
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "nothing").symlink_to("none")
    for name in ("none", "none/none", "n" * 300, "zero\0", "circle", "nothing"):
        assert not SYSTEM_FILES.exists(f"{tmp_path}/{name}")
        assert is_gone(SYSTEM_FILES, f"{tmp_path}/{name}")


def test_a_new_file_follows_the_umask(tmp_path: Path) -> None:
    """A file is as readable to others as any file this user creates."""
    SYSTEM_FILES.write(str(tmp_path / "f"), b"")
    (tmp_path / "g").write_bytes(b"")

    assert (tmp_path / "f").stat().st_mode == (tmp_path / "g").stat().st_mode


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="needs a list of what is open")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_an_interrupt_while_a_file_is_opened_leaves_no_descriptor(
    tmp_path: Path, enumerated: Enumerated
) -> None:
    """At whatever call or return it comes: programs continue after one, as after a time-out."""
    path = str(tmp_path / "f")
    SYSTEM_FILES.write(path, b"")
    descriptors, count, file = os.listdir("/dev/fd"), 0, None
    while file is None:
        left = count = count + 1

        def interrupt(*_: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            file = SYSTEM_FILES.open(path)
            sys.setprofile(None)
        except KeyboardInterrupt:
            pass
        if file is not None:
            file.close()
        assert os.listdir("/dev/fd") == descriptors
    enumerated("interrupts of an open", count, at_least=20)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_enospc() -> None:
    """A write that the disk rejects is ENOSPC, never a silent short write."""
    with closing(SystemFile("/dev/full", os.open("/dev/full", os.O_WRONLY))) as file:
        with pytest.raises(OSError) as caught:
            file.pwrite(b"x", 0)

        assert caught.value.errno == errno.ENOSPC


@pytest.mark.skipif(not hasattr(os, "preadv"), reason="this platform reads by seeking")
@pytest.mark.parametrize("call", ["pread", "preadv"])
def test_a_file_closed_under_a_read_gives_no_other_files_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Between choosing the descriptor and reading it, its number may be reused."""
    (tmp_path / "f").write_bytes(b"mine")
    (tmp_path / "g").write_bytes(b"other")
    file = SYSTEM_FILES.open(str(tmp_path / "f"))
    others: list[OpenFile] = []
    read = getattr(os, call)

    def late(*arguments: object) -> object:
        monkeypatch.undo()
        file.close()
        others.append(SYSTEM_FILES.open(str(tmp_path / "g")))
        return read(*arguments)

    monkeypatch.setattr(os, call, late)
    with pytest.raises(OSError) as caught:
        file.pread(4, 0) if call == "pread" else file.pread_into(bytearray(4), 0)

    assert caught.value.errno == errno.EBADF
    others[0].close()


def test_reading_works_without_posix(tmp_path: Path) -> None:
    """A platform that cannot write logs can read them, at any position, from many threads."""
    (tmp_path / "f").write_bytes(b"abcdef")
    buffer = bytearray(3)

    with closing(READER.open(str(tmp_path / "f"))) as file:
        count = file.pread_into(buffer, 2)
        found = (file.pread(2, 4), file.pread(9, 5), file.size())

    assert (count, bytes(buffer)) == (3, b"cde")
    assert found == (b"ef", b"f", 6)
    assert READER.read(str(tmp_path / "f")) == b"abcdef"
    assert READER.list(str(tmp_path)) == ["f"]


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("open", ("w",)),
        ("open", ("x",)),
        ("write", (b"",)),
        ("rename", ("x",)),
        ("link", ("x",)),
        ("delete", ()),
        ("delete_directory", ()),
        ("make_directory", ()),
        ("set_mtime_ms", (0,)),
        ("lock", ()),
        ("sync_directory", ()),
    ],
)
def test_writing_fails_without_posix(
    tmp_path: Path, call: str, arguments: tuple[object, ...]
) -> None:
    """Where durability cannot be guaranteed nothing is written, and the error gives the reason."""
    with pytest.raises(UnsupportedPlatform, match="needs Linux or macOS"):
        getattr(READER, call)(str(tmp_path / "f"), *arguments)

    assert list(tmp_path.iterdir()) == []


def test_a_closed_file_gives_compiled_code_nothing_to_read_with(tmp_path: Path) -> None:
    """Its descriptor may have been reused for another file."""
    file = SYSTEM_FILES.open(str(tmp_path / "f"), "w")
    file.close()

    with pytest.raises(OSError, match="file is closed"):
        file.native_reads()


def test_a_file_that_was_closed_meanwhile_is_not_a_failed_disk() -> None:
    """A flush beside the deletion of its segment gets EBADF, as from any use of a closed file."""
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)

    with pytest.raises(OSError, match="Bad file descriptor") as raised:
        _sync(descriptor)

    assert raised.value.errno == errno.EBADF


needs_posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs and links")


@needs_posix
@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "socket"])
@pytest.mark.parametrize("mode", ["r", "r+", "w"])
def test_only_regular_files_are_opened_and_opening_never_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mode: OpenMode
) -> None:
    """A FIFO without another end would make every command wait for ever."""
    monkeypatch.chdir(tmp_path)  # the path of a socket has to be short
    path = str(tmp_path / kind)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path = os.devnull
    elif kind == "directory":
        os.mkdir(path)
    else:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(kind)

    with pytest.raises(OSError) as caught:
        SYSTEM_FILES.open(path, mode)

    assert caught.value.errno in WRONG_KIND
    assert caught.value.filename == path


@needs_posix
@pytest.mark.parametrize("mode", ["r+", "w", "x"])
def test_nothing_is_written_through_a_link(tmp_path: Path, mode: OpenMode) -> None:
    """A link in a data directory may lead out of it; it is followed only to read."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"theirs")
    for name, target in (("link", outside), ("dangling", tmp_path / "new")):
        (tmp_path / name).symlink_to(target)

        with pytest.raises(OSError):
            SYSTEM_FILES.open(str(tmp_path / name), mode)

    assert not (tmp_path / "new").exists()
    assert SYSTEM_FILES.read(str(tmp_path / "link")) == b"theirs"


@needs_posix
def test_a_lock_is_a_regular_file_in_its_directory(tmp_path: Path) -> None:
    """A link or a FIFO in its place is refused, at once, and nothing is created elsewhere."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "new")
    for name in ("fifo", "link"):
        with pytest.raises(OSError) as caught:
            SYSTEM_FILES.lock(str(tmp_path / name))
        assert caught.value.errno in WRONG_KIND

    assert not (tmp_path / "new").exists()
