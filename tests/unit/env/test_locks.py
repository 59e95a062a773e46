"""The lock between processes; the other process uses plain POSIX calls, as Java's lock does."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.env.locks import ProcessLock, is_locked
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import DirectoryLocked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX locks")

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
TRY = """
import fcntl, sys
file = open(sys.argv[1], "a")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("refused")
else:
    print("locked")
"""

FORK = """
import os, sys
from tidelog.env.locks import ProcessLock, is_locked
from tidelog.errors import DirectoryLocked
lock = ProcessLock(sys.argv[1])
if os.fork() == 0:
    try:
        ProcessLock(sys.argv[1])
    except DirectoryLocked as error:
        lock.release()
        print(error.pid == os.getppid(), flush=True)
    os._exit(0)
os.wait()
try:
    ProcessLock(sys.argv[1])
except DirectoryLocked as error:
    print(error.pid == os.getpid())
"""


@contextmanager
def holder(path: Path) -> Iterator[int]:
    """Let another process hold the lock of ``path``; yield its pid."""
    command = [sys.executable, "-S", "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        yield child.pid


def attempt(path: Path) -> str:
    """Return what happens when another process tries to lock ``path`` now."""
    command = [sys.executable, "-S", "-c", TRY, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_lock_of_another_process_is_respected(tmp_path: Path) -> None:
    """While another process holds the lock, ours fails and names it; afterwards it is free."""
    path = tmp_path / ".lock"
    with holder(path) as pid, pytest.raises(DirectoryLocked) as caught:
        ProcessLock(str(path))

    ProcessLock(str(path)).release()

    assert (caught.value.path, caught.value.pid) == (str(path), pid)


def test_a_lock_is_seen_without_being_taken(tmp_path: Path) -> None:
    """Another process's and our own, which stay held; no file is made, and a free one is free."""
    path = tmp_path / ".lock"
    seen = [is_locked(str(path)), path.exists()]
    with holder(path):
        seen.append(is_locked(str(path)))
    seen.append(is_locked(str(path)))
    lock = ProcessLock(str(path))
    seen.append(is_locked(str(path)))

    assert seen == [False, False, True, False, True]
    assert attempt(path) == "refused"
    lock.release()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_not_a_file_is_not_locked(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """Looking at it neither waits for a writer of a FIFO nor fails."""
    make(tmp_path / ".lock")

    assert not is_locked(str(tmp_path / ".lock"))


def test_our_lock_keeps_another_process_out(tmp_path: Path) -> None:
    """No other process gets the lock until it is released."""
    path = tmp_path / ".lock"
    lock = ProcessLock(str(path))
    during = attempt(path)

    lock.release()

    assert (during, attempt(path)) == ("refused", "locked")


def test_a_failed_second_lock_does_not_drop_the_first(tmp_path: Path) -> None:
    """A second attempt in the same process, under any spelling, keeps the lock."""
    path = tmp_path / ".lock"
    lock = ProcessLock(str(path))
    (tmp_path / "alias").symlink_to(path)

    for spelling in (path, tmp_path / "." / ".lock", tmp_path / "alias"):
        with pytest.raises(DirectoryLocked):
            ProcessLock(str(spelling))

    assert attempt(path) == "refused"
    lock.release()


def test_a_locked_file_is_not_opened_again(tmp_path: Path) -> None:
    """Closing the lock file would drop the lock, so opening it is an error and the lock is kept."""
    path = tmp_path / ".lock"
    lock = ProcessLock(str(path))

    with pytest.raises(OSError, match="this process locked"):
        SYSTEM_FILES.read(str(path))

    assert attempt(path) == "refused"
    lock.release()


def test_a_forked_child_holds_no_lock(tmp_path: Path) -> None:
    """A child gets no lock, and whatever it does, the parent keeps its own."""
    command = [sys.executable, "-c", FORK, str(tmp_path / ".lock")]
    environment = {"PYTHONPATH": str(Path(tidelog.__file__).parents[1])}

    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    assert result.stdout.split() == ["True", "True"]
    assert attempt(tmp_path / ".lock") == "locked"


def test_other_files_can_be_opened_while_a_lock_is_held(tmp_path: Path) -> None:
    """A lock affects only its own file."""
    lock = ProcessLock(str(tmp_path / ".lock"))

    with closing(SYSTEM_FILES.open(str(tmp_path / "f"), "w")) as file:
        assert file.size() == 0

    lock.release()


def test_a_lock_in_a_missing_directory_fails(tmp_path: Path) -> None:
    """A directory that does not exist cannot be locked, and nothing is left behind."""
    with pytest.raises(FileNotFoundError):
        ProcessLock(str(tmp_path / "none" / ".lock"))


def test_a_lock_that_an_interrupt_kept_from_beginning_ends_without_an_error() -> None:
    """Python would print it, as nobody can catch what the end of an object raises."""
    ProcessLock.__new__(ProcessLock).__del__()
