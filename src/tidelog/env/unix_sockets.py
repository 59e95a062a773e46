"""Sockets of this machine, beside the data: how a second process finds the one that holds it.

A socket lies in the data directory, ``tidelog.<random>.sock``, and is that of the user alone. Where
its path is too long for the system, or the file system takes none, it lies in the user's runtime
directory, and a plain file names it. Only the holder of the directory's lock makes and removes it.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.env.clock import MS_PER_S
from tidelog.lazy import socket

if TYPE_CHECKING:
    from random import Random

PREFIX: Final = "tidelog."
SUFFIX: Final = ".sock"
POINTER: Final = "tidelog.sock-path"
"""The file that names a socket which lies elsewhere."""
_NEW: Final = ".sock-new"
_OURS_ONLY: Final = 0o600
_RANDOM_BITS: Final = 64
_BACKLOG: Final = 1024
_LONGEST_POINTER: Final = 4096
_LOOK_S: Final = 1.0
LOOKED: Final = b"L"
"""What one that rings is sent once files left for the holder were looked for."""
_HAS_SOCKETS: Final = os.name == "posix"


class LocalListener(NamedTuple):
    """A socket that listens, and the files that lead to it."""

    socket: socket.socket
    files: tuple[str, ...]

    def remove(self) -> None:
        """Close it, and remove its files where that is possible."""
        self.socket.close()
        for path in self.files:
            # The disk may have failed or be gone. Connections are refused already, and the next
            # holder of the directory removes what is left in it.
            with suppress(OSError):
                os.unlink(path)


def listen_in(folder: str, rng: Random) -> LocalListener:
    """Listen for processes of this user; the caller holds the lock of the data directory.

    What an earlier holder has left there is removed. Raises OSError.
    """
    _remove_old(folder)
    name = f"{PREFIX}{rng.getrandbits(_RANDOM_BITS):016x}"
    try:
        path = os.path.join(folder, name + SUFFIX)
        return LocalListener(_listen(os.path.join(folder, name + _NEW), path), (path,))
    except OSError as error:
        # A path that is too long has no number; some file systems take no sockets.
        if error.errno not in {None, errno.EPERM, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}:
            raise
    import tempfile  # noqa: PLC0415 - few paths are too long, and it takes 3 ms

    elsewhere = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    path = os.path.join(elsewhere, name + SUFFIX)
    made = _listen(os.path.join(elsewhere, name + _NEW), path)
    pointer = os.path.join(folder, POINTER)
    try:
        with open(f"{pointer}-new", "w", encoding="utf-8") as file:
            file.write(path)
        os.rename(f"{pointer}-new", pointer)
    except BaseException:
        LocalListener(made, (path,)).remove()
        raise
    return LocalListener(made, (path, pointer))


def _listen(temporary: str, path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(temporary)
        try:
            # Before it listens connections are refused, so nobody comes in by the mode that the
            # system gave it; and under this name nobody looks for it.
            os.chmod(temporary, _OURS_ONLY)
            made.listen(_BACKLOG)
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except BaseException:
        made.close()
        raise
    return made


def _remove_old(folder: str) -> None:
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        is_socket = name.startswith(PREFIX) and name.endswith((SUFFIX, _NEW))
        is_pointer = name in {POINTER, f"{POINTER}-new"}
        if not is_socket and not is_pointer:
            continue
        mode = os.lstat(path).st_mode
        if stat.S_ISSOCK(mode) if is_socket else stat.S_ISREG(mode):
            os.unlink(path)


def connect_in(folder: str, timeout_s: float) -> socket.socket | None:
    """Connect to the process that holds a data directory; None where none listens. Raises OSError.

    A socket that a killed process has left behind is passed over.
    """
    for path in _candidates(folder):
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            found.settimeout(timeout_s)
            found.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            found.close()
        except BaseException:
            found.close()
            raise
        else:
            return found
    return None


def is_listened_in(folder: str) -> bool:
    """Whether a process listens for a data directory; a socket of one that was killed is none."""
    try:
        found = connect_in(folder, _LOOK_S)
    except OSError:
        return False
    if found is not None:
        found.close()
    return found is not None


def ring_in(folder: str, timeout_ms: int, *, for_watermarks: bool = False) -> bool:
    """Ask the process that holds a data directory to look for files left for it.

    Then it writes down its high watermarks; ``for_watermarks`` waits for that, too. Return whether
    it was done, each before ``timeout_ms``; False, too, where none listens. A connection on which
    nothing is sent asks for both: it is sent ``LOOKED`` after the first, and closed in the end.
    """
    try:
        found = connect_in(folder, timeout_ms / MS_PER_S)
        if found is None:
            return False
        with found:
            found.shutdown(socket.SHUT_WR)
            answer = found.recv(1)
            if for_watermarks and answer == LOOKED:
                answer = found.recv(1)
            return answer in {b"", LOOKED}
    except OSError:  # it is looked for files from time to time in any case
        return False


def _candidates(folder: str) -> list[str]:
    if not _HAS_SOCKETS:
        return []
    names = os.listdir(folder)
    found = [
        os.path.join(folder, name)
        for name in sorted(names)
        if name.startswith(PREFIX) and name.endswith(SUFFIX)
    ]
    if POINTER in names:
        found += _pointed_at(folder)
    return [path for path in found if _is_socket(path)]


def _pointed_at(folder: str) -> list[str]:
    """Return the socket elsewhere that a file names; none where anything else lies in its place."""
    pointer = os.path.join(folder, POINTER)
    if not stat.S_ISREG(os.lstat(pointer).st_mode):
        return []
    with open(pointer, "rb") as file:
        path = os.fsdecode(file.read(_LONGEST_POINTER))
    return [path] if "\0" not in path and _may_be_trusted(path, folder) else []


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def _may_be_trusted(path: str, folder: str) -> bool:
    """Whether a socket elsewhere belongs to this user, or to the owner of the data directory."""
    if not os.path.isabs(path) or not os.path.basename(path).startswith(PREFIX):
        return False
    with suppress(OSError):
        return os.lstat(path).st_uid in {os.getuid(), os.stat(folder).st_uid}
    return False
