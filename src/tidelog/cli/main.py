"""The ``tidelog`` command: parse the command line, run the command, turn errors into exit codes."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidelog.errors import TidelogError
from tidelog.exit_codes import ExitCode, exit_code_of, text_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence
    from sys import UnraisableHookArgs

VERSION_OPTIONS: Final = (["-V"], ["--version"])
"""Command lines that print the version and nothing else; with more words the parser decides."""

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LAST_STREAM: Final = 2
"""The descriptor of standard error."""
_SEND_AGAIN_S: Final = 0.01
"""After which time a signal is sent again: the callback that dropped it has ended by then."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, an ``ExitCode``."""
    has_output = _open_closed_streams()
    _use_utf8()
    if not has_output:
        print("tidelog: standard output is closed", file=sys.stderr)
        return ExitCode.FAILED
    try:
        with _closing_on_sigterm():
            code = _run(argv)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse has printed the help, or the error
        return stop.code if isinstance(stop.code, int) else ExitCode.OK
    except BrokenPipeError:
        # The reader of our output has closed it, as `| head` does. The interpreter must not try to
        # write the rest at exit.
        sys.stdout = None
        return ExitCode.OK
    except OSError as error:  # commands report others; this is of standard output
        from tidelog.cli.terminal import print_error

        sys.stdout = None  # as above
        print_error(f"tidelog: standard output: {error.strerror}")
        return ExitCode.FAILED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except _Terminated:
        return ExitCode.TERMINATED
    finally:
        try:
            sys.stderr.flush()
        except OSError:  # the interpreter would try again at exit, and end with a code of its own
            sys.stderr = None
    return code


class _Terminated(BaseException):
    """SIGTERM was received."""


_NUMBERS: Final[dict[type[BaseException], signal.Signals]] = {
    KeyboardInterrupt: signal.SIGINT,
    _Terminated: signal.SIGTERM,
}
"""The signals whose handlers raise, by what they raise."""


def _terminate(_number: int, _frame: object) -> None:
    raise _Terminated


@contextmanager
def _closing_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the body with an exception, as Ctrl-C does, so that it closes its files."""
    try:
        before = signal.signal(signal.SIGTERM, _terminate)
    except ValueError:  # only the main thread can handle signals
        yield
        return
    try:
        with _sending_dropped_again():
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _sending_dropped_again() -> Iterator[None]:
    """Send a signal again if Python drops what its handler raises.

    Python prints and drops what a callback of a weak reference raises. Each import has such
    callbacks: a service that is stopped while it starts would run on.
    """
    before = sys.unraisablehook

    def hook(dropped: UnraisableHookArgs, /) -> None:
        number = _NUMBERS.get(dropped.exc_type)
        if number is None or not hasattr(signal, "setitimer"):  # Windows has none
            before(dropped)
            return
        signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(number))
        signal.setitimer(signal.ITIMER_REAL, _SEND_AGAIN_S)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _run(argv: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if words in VERSION_OPTIONS:
        return _print_version()
    from tidelog.cli.parser import make_parser, misplaced  # the version needs no parser

    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    parser = make_parser(words)
    if (problem := misplaced(words)) is not None:
        parser.error(problem)
    args = parser.parse_args(words)
    if args.version:
        return _print_version()
    if args.command is None:
        parser.print_help(sys.stderr)
        return ExitCode.BAD_USAGE
    try:
        return _run_command(args)
    except BrokenPipeError:
        raise
    except (TidelogError, OSError) as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in _NO_ROOM:
            raise  # other files are named
        return _fail(args.command, error)


def _run_command(args: Namespace) -> int:
    code: int
    if not hasattr(args, "printed_events"):  # the service sets up logging itself
        code = args.module.run(args)
        return code
    if "tidelog.store.store_counts" in sys.modules:  # a program may run several commands
        sys.modules["tidelog.store.store_counts"].STORE_COUNTS.clear()
    from tidelog.cli.notices import printing_notices  # --help needs no logging
    from tidelog.cli.progress import showing_progress

    with (
        showing_progress(args.command, args.progress),
        printing_notices(args.command, verbose=args.verbose, left_out=args.printed_events),
    ):
        try:
            code = args.module.run(args)
        finally:
            if args.verbose:
                from tidelog.cli.terminal import print_store_use

                print_store_use(args.command)
    return code


def _print_version() -> int:
    from tidelog.version import __version__

    print(f"tidelog {__version__}")
    return ExitCode.OK


def _fail(command: str, error: TidelogError | OSError) -> int:
    """Print the error and return its exit code."""
    from tidelog.cli.terminal import print_message

    text = text_of(error)
    if isinstance(error, FileNotFoundError) and error.filename is None:
        try:
            os.getcwd()
        except FileNotFoundError:  # as every relative path ends then, without a name
            text = "the current directory was deleted: change to another one"
    print_message(command, text)
    return exit_code_of(error)


def _open_closed_streams() -> bool:
    """Open what ``<&-`` and ``>&-`` have closed; return whether standard output was open.

    A file opened later would get the number of a closed stream, and what is written to that.
    """
    has_output = sys.stdout is not None
    if None in {sys.stdin, sys.stdout, sys.stderr}:
        null = os.devnull, os.O_RDWR
        while (descriptor := os.open(*null)) <= _LAST_STREAM:  # noqa: TID251 - not a log's
            continue
        os.close(descriptor)
        sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - for good
        sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - for good
        sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 - for good
    return has_output


def _use_utf8() -> None:
    """Write UTF-8 in every locale: JSON is UTF-8, and pictures have characters beyond ASCII."""
    for stream, errors in ((sys.stdout, "strict"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(encoding="utf-8", errors=errors)
