"""The ``tidelog`` command: find the command's module, run it, turn errors into exit codes.

Owns exit codes and what the user sees of an error. Must not know what any command does.
"""

from __future__ import annotations

import io
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidelog.cli.parser import make_parser
from tidelog.errors import (
    DirectoryLocked,
    InvalidArgument,
    InvalidConfig,
    InvalidPartitions,
    InvalidTopic,
    OffsetOutOfRange,
    PolicyViolation,
    TidelogError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    UnsupportedPlatform,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

OK: Final = 0
BAD_DATA: Final = 1
BAD_USAGE: Final = 2
INTERRUPTED: Final = 130
"""What shells make of Ctrl-C."""
TERMINATED: Final = 143
"""What shells make of SIGTERM."""

_USAGE_ERRORS: Final = (
    DirectoryLocked,
    InvalidArgument,
    InvalidConfig,
    InvalidPartitions,
    InvalidTopic,
    OffsetOutOfRange,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    UnsupportedPlatform,
    FileNotFoundError,
    NotADirectoryError,
    IsADirectoryError,
    PermissionError,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 when fine, 1 when the data is bad, 2 when the usage is wrong."""
    _speak_utf8()
    try:
        with _closing_on_sigterm():
            code = _run(argv)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse has printed help, or what is wrong
        return stop.code if isinstance(stop.code, int) else OK
    except BrokenPipeError:
        # The reader of our output has left, as `| head` does. The interpreter must not try to
        # write the rest when it ends.
        sys.stdout = None
        return OK
    except KeyboardInterrupt:
        return INTERRUPTED
    except _Terminated:
        return TERMINATED
    return code


class _Terminated(BaseException):
    """SIGTERM came."""


def _terminate(_number: int, _frame: object) -> None:
    raise _Terminated


@contextmanager
def _closing_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the body as Ctrl-C does: what is open is closed in order."""
    try:
        before = signal.signal(signal.SIGTERM, _terminate)
    except ValueError:  # only the main thread hears signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    parser = make_parser(words)
    args = parser.parse_args(words)
    if args.version:
        return _print_version()
    if args.command is None:
        parser.print_help(sys.stderr)
        return BAD_USAGE
    try:
        return _run_command(args)
    except _USAGE_ERRORS as error:
        return _fail(args.command, error, BAD_USAGE)
    except BrokenPipeError:
        raise
    except (TidelogError, OSError) as error:
        return _fail(args.command, error, BAD_DATA)


def _run_command(args: Namespace) -> int:
    code: int
    if not hasattr(args, "printed_events"):  # the service logs for machines, and sets that up
        code = args.run(args)
        return code
    from tidelog.cli.notices import telling  # not for --help, which answers at once

    name = f"tidelog {args.command}"
    with telling(name, verbose=args.verbose, left_out=args.printed_events):
        code = args.run(args)
    return code


def _print_version() -> int:
    from importlib import metadata  # slow to load, and nobody else asks

    print(f"tidelog {metadata.version('tidelog')}")
    return OK


def _fail(command: str, error: Exception, code: int) -> int:
    sys.stdout.flush()
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    print(f"tidelog {command}: {text}", file=sys.stderr)
    return code


def _speak_utf8() -> None:
    """Write UTF-8 whatever the locale says: JSON is UTF-8, and pictures have signs beyond ASCII."""
    for stream, errors in ((sys.stdout, "strict"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(encoding="utf-8", errors=errors)
