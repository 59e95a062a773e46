"""Writes a file that the user names: whole or not at all, and over no other unless asked to."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.cli.terminal import print_message
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument, TidelogError
from tidelog.exit_codes import is_damage

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator
    from typing import Self

    from tidelog.env.files import FileSystem

    Write = Callable[[bytes | memoryview], object]

INCOMPLETE: Final = ".incomplete"
"""What is added to the name of a file that damage has cut short."""

_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""Errors of a disk that cannot give a file a second name."""


class Framed(Protocol):
    """The form of an output: what stands before and after all that it consists of."""

    def head(self) -> bytes:
        """Return what is printed first."""

    def end(self) -> bytes:
        """Return what is printed last; without it the output is not whole."""


class Unframed:
    """The form of an output whose parts say everything; others replace what they have."""

    def head(self) -> bytes:
        """Return nothing."""
        return b""

    def end(self) -> bytes:
        """Return nothing."""
        return b""


@contextmanager
def opened_output(args: Namespace, form: Framed) -> Iterator[Write]:
    """Yield what writes to standard output, or to the new file of ``--output``.

    The body follows the head of ``form``, and the end follows the body. If damage ends the body,
    the file is finished, too, but gets another name; without a file there is no end then, so that
    what was printed does not look whole. Errors as ``NewFile``.
    """
    sys.stdout.flush()
    if args.output is None:
        write = sys.stdout.buffer.write
        write(form.head())
        yield write
        write(form.end())
        return
    path, may_replace = os.path.abspath(args.output), args.force
    incomplete = f"{path}{INCOMPLETE}"
    check_output_file(SYSTEM_FILES, incomplete, may_replace=may_replace)
    with NewFile(SYSTEM_FILES, path, may_replace=may_replace) as file:
        try:
            file.write(form.head())
            yield file.write
        except TidelogError as error:
            if is_damage(error):
                file.write(form.end())
                file.keep_as(incomplete)
                text = f"{args.output}{INCOMPLETE} holds what precedes the damage"
                print_message(args.command, text)
            raise
        file.write(form.end())


def check_output_file(fs: FileSystem, path: str, *, may_replace: bool) -> None:
    """Raise InvalidArgument if there is a file of this name, unless it may be replaced.

    Only a regular file is ever replaced. Raises OSError for anything else of that name.
    """
    if not fs.exists(path) and not fs.is_link(path):
        return
    if not may_replace:
        raise InvalidArgument(f"{path} exists; --force replaces it")
    fs.open(path).close()


def write_output_file(fs: FileSystem, path: str, data: bytes, *, may_replace: bool) -> None:
    """Write a file of which all is known; errors as ``NewFile``."""
    with NewFile(fs, path, may_replace=may_replace) as file:
        file.write(data)


class NewFile:
    """A file that is written by way of another one in the same directory, to be used with ``with``.

    If the body succeeds, it gets its name. If it fails, it is deleted, or, after ``keep_as``, gets
    that name instead.

    Raises InvalidArgument as ``check_output_file``, also for a file that appears meanwhile, and
    OSError; then the directory is as it was before.
    """

    def __init__(self, fs: FileSystem, path: str, *, may_replace: bool) -> None:
        from secrets import token_hex  # most commands write no file

        check_output_file(fs, path, may_replace=may_replace)
        self._fs = fs
        self._path = path
        self._may_replace = may_replace
        target = fs.real_path(path)
        self._temporary = f"{target}.{token_hex(8)}.tmp"
        with _naming(path):
            self._file = fs.open(self._temporary, "x")
        self._position = 0
        self._kept_as: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        fs, name = self._fs, self._path if kind is None else self._kept_as
        try:
            with _naming(self._path), closing(self._file):
                if name is not None:
                    self._file.sync()
            if name is not None:
                self._give_name(name)
        finally:
            with suppress(FileNotFoundError):
                fs.delete(self._temporary)

    def write(self, data: bytes | memoryview) -> None:
        """Write at the end; OSError."""
        with _naming(self._path):
            self._file.pwrite(data, self._position)
        self._position += len(data)

    def keep_as(self, path: str) -> None:
        """Let the file have another name, as its body ends with an error."""
        self._kept_as = path

    def _give_name(self, path: str) -> None:
        fs, may_replace = self._fs, self._may_replace
        target = fs.real_path(path)
        if may_replace or not _link(fs, self._temporary, target):
            check_output_file(fs, path, may_replace=may_replace)
            fs.rename(self._temporary, target)
        fs.sync_directory(os.path.dirname(target))


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Let an OSError name the file that is wanted: one without a name is standard output's."""
    try:
        yield
    except OSError as error:
        error.filename = path
        raise


def _link(fs: FileSystem, source: str, target: str) -> bool:
    """Give a file its name, which must be free; return False where the disk has no links."""
    try:
        fs.link(source, target)
    except FileExistsError:
        raise InvalidArgument(f"{target} exists; --force replaces it") from None
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True
