"""Output for people: text that is safe to print, times, the terminal's width."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from tidelog.explain.printable_text import printable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from json import JSONEncoder

    from tidelog.store.store_counts import StoreUse

MAX_WIDTH: Final = 120
"""Columns of a drawing on a wider terminal."""
MAX_COLUMNS: Final = 1_000
"""Columns that may be asked for."""
DEFAULT_WIDTH: Final = 80
_LINES: Final = 256
"""Lines written at a time: a write each is a call of the system where output is not buffered."""
before_messages: Final[list[Callable[[], None]]] = []
"""Called before a line is printed for people: what erases a line that shows progress."""


def begin_line() -> None:
    """Erase what shows progress; to be called before a line is printed for people."""
    for erase in before_messages:
        erase()


def json_line(row: object) -> str:
    """Return a value as one line of JSON with text as it is, except unprintable characters."""
    return printable_json(_json_encoder().encode(row))


def print_lines(lines: Iterable[str | Iterator[str]]) -> None:
    """Write lines to standard output, many at a time, and those that precede an error.

    One that comes in pieces is written so: neither the line nor its bytes are there as a whole.
    """
    held: list[str] = []
    try:
        for line in lines:
            if not isinstance(line, str):
                _print_held(held)
                for piece in line:
                    print(piece, end="")
                print()
                continue
            held.append(line)
            if len(held) == _LINES:
                _print_held(held)
    finally:
        _print_held(held)


def _print_held(held: list[str]) -> None:
    if held:
        print("\n".join(held))
        held.clear()


def printable_json(text: str) -> str:
    """Return JSON in one line with unprintable characters as JSON escapes."""
    if text.isprintable():
        return text
    import json

    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)


@cache
def _json_encoder() -> JSONEncoder:
    from json import JSONEncoder

    return JSONEncoder(ensure_ascii=False)


def print_row(args: Namespace, row: object, text: str) -> None:
    """Print a part of the answer: ``row`` with ``--json``, else ``text``, which is printable."""
    import json

    begin_line()
    print(json.dumps(row) if args.json else text)


def print_counts(args: Namespace, **counts: int) -> None:
    """Print the last line of ``--json``: how many rows precede it, and how many have a problem.

    It is printed also where there are none. Rows without this line were cut short by an error.
    """
    import json

    if args.json:
        use = store_use()
        if use is not None:
            counts |= {"storeRequests": use.total_requests, "storeBytes": use.total_bytes}
        print(json.dumps({"counts": counts}))


def print_total(args: Namespace, text: str, **counts: int) -> None:
    """Print the last line of an answer about logs: as ``print_counts`` or, if any, as text."""
    print_counts(args, **counts)
    if not args.json and counts["partitions"]:
        begin_line()
        print(f"total: {text}")


def store_use() -> StoreUse | None:
    """Return what this command has asked of object stores; None if it has used none."""
    module = sys.modules.get("tidelog.store.store_counts")
    if module is None:
        return None
    use: StoreUse = module.STORE_COUNTS.now()
    return use if use.total_requests else None


def print_store_use(command: str) -> None:
    """Print a line on the requests to object stores and their bytes, if there were any."""
    use = store_use()
    if use is None:
        return
    from tidelog.explain.printable_text import (
        counted,  # as above
        format_bytes,
    )

    kinds = ", ".join(f"{count:,} {kind}" for kind, count in use.requests.items() if count)
    received, sent = (format_bytes(use.size_bytes[kind]) for kind in ("get", "put"))
    total = counted(use.total_requests, "request")
    print_message(command, f"{total} to the store ({kinds}); {received} received, {sent} sent")


def print_line(text: str) -> None:
    """Print a line to standard output; what is unprintable in it is escaped."""
    begin_line()
    print(printable(text))


def print_message(command: str, text: str) -> None:
    """Print a line to standard error, after everything printed so far to standard output.

    It raises nothing: it is called for events of a log, too, in the middle of a change.
    """
    with suppress(OSError):  # raised again by what prints next, or at the end
        sys.stdout.flush()
    begin_line()
    print_error(f"tidelog {command}: {printable(text)}")


def print_error(line: str) -> None:
    """Print a line to standard error, if that can be written to; the exit code says it as well."""
    with suppress(OSError):
        print(line, file=sys.stderr)


class ToTheEnd:
    """Prints while something is done that is to be done to the end, whatever becomes of output.

    After an error of the output nothing more is printed, and ``finish`` raises it.
    """

    def __init__(self) -> None:
        self._error: OSError | None = None

    def print(self, show: Callable[[Any], None], row: Any) -> None:  # noqa: ANN401 - any row
        """Call ``show`` with a row, unless the output has failed."""
        if self._error is not None:
            return
        try:
            show(row)
        except OSError as error:
            self._error = error

    def finish(self) -> None:
        """Raise the error of the output, if there was one."""
        if self._error is not None:
            raise self._error


def screen_width() -> int:
    """Return the columns to draw in: ``COLUMNS``, else the terminal's, at most 120, else 80."""
    chosen = os.environ.get("COLUMNS", "")
    if chosen.isdecimal() and 0 < int(chosen) <= MAX_COLUMNS:
        return int(chosen)
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        columns = DEFAULT_WIDTH
    return min(columns, MAX_WIDTH)


def has_colour() -> bool:
    """Return whether to colour text: on a terminal that can, unless ``NO_COLOR`` is set."""
    return (
        not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and sys.stdout.isatty()
    )


def table(rows: Sequence[Sequence[str]], *, names: int = 0) -> str:
    """Return rows of cells as indented lines, aligned to the right except the first ``names``."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.ljust(width) if number < names else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "".join(f"  {line}\n" for line in lines)
