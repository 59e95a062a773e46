"""Values of the command line: numbers, times, settings, directories.

Each function reads one word. Its error has the form ``<word>: <rule>``, to which the parser adds
the name of the option.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from tidelog.config.whole_numbers import whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

_INT64_MAX: Final = 2**63 - 1


@cache
def whole(
    least: int = 0, most: int = _INT64_MAX, *, rule: str | None = None
) -> Callable[[str], int]:
    """Return what reads a whole number of these bounds; ``rule`` is the error for a smaller one."""

    def read(text: str) -> int:
        try:
            number = whole_number(text)
        except ValueError:
            raise ArgumentTypeError(f"{text}: not a whole number") from None
        if number < least:
            raise ArgumentTypeError(f"{text}: {rule or f'must be at least {least}'}")
        if number > most:
            raise ArgumentTypeError(f"{text}: must be at most {most}")
        return number

    return read


@cache
def either(read: Callable[[str], Any], *words: str, **values: object) -> Callable[[str], Any]:
    """Return what reads as ``read``, except ``words``, as they are, and the names of ``values``."""
    known = dict(zip(words, words, strict=True)) | values
    return lambda text: known[text] if text in known else read(text)


def time_ms(text: str) -> int:
    """Return milliseconds since the Unix epoch; see ``env.moments``."""
    from tidelog.env import moments
    from tidelog.env.clock import SYSTEM_CLOCK
    from tidelog.errors import InvalidArgument

    try:
        return moments.time_ms(text, SYSTEM_CLOCK.now_ms)
    except InvalidArgument as error:
        raise ArgumentTypeError(str(error)) from None


def period_ms(text: str) -> int:
    """Return a period such as ``10s`` or ``5m`` in milliseconds, at least a second."""
    from tidelog.env import moments
    from tidelog.env.clock import MS_PER_S
    from tidelog.errors import InvalidArgument

    try:
        found = moments.time_ms(f"+{text}", lambda: 0)
    except InvalidArgument:
        found = 0
    if found < MS_PER_S or text.isdigit():
        raise ArgumentTypeError(f"{text}: not a period of a second or more, such as 10s, 5m or 1h")
    return found


def directory_name(text: str) -> str:
    """Return the name of a directory; an empty one would mean the current directory."""
    if not text:
        raise ArgumentTypeError("'': the name of a directory must not be empty")
    return text


def target_name(text: str) -> str:
    """Return the name of a directory to write to."""
    from tidelog.env.paths import NOT_A_DIRECTORY, is_uri

    if is_uri(text):
        raise ArgumentTypeError(f"{text}: {NOT_A_DIRECTORY}")
    return directory_name(text)


def key_value(text: str) -> tuple[str, str]:
    """Return a setting's name and its value, which may be empty or contain equal signs."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ArgumentTypeError(f"{text}: expected KEY=VALUE")
    return key, value


def _checked(text: str, check: Callable[[str], object]) -> str:
    """Return a word as it is, unless ``check`` raises ValueError for it."""
    try:
        check(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text}: {error}") from None
    return text


def log_level(text: str) -> str:
    """Return a level, or a logger with its level, as it is if it is valid."""
    from tidelog.config.log_levels import parse_log_levels

    return _checked(text, lambda one: parse_log_levels([one]))


def listen_address(text: str) -> str:
    """Return where to listen, as it is if it is valid."""
    from tidelog.config.serve_config import parse_endpoint

    return _checked(text, parse_endpoint)


def byte_pattern(text: str) -> re.Pattern[bytes]:
    """Return a regular expression of Python's, to be searched in bytes of UTF-8."""
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise ArgumentTypeError(f"{text}: not a regular expression: {error}") from None


def record_form(text: str) -> str:
    """Return a form of ``cat``, as it is if it is valid."""
    from tidelog.cli.cat.record_forms import check_form

    return _checked(text, check_form)


def deletion_end(text: str) -> int:
    """Return an offset to delete records before, or what stands for the high watermark."""
    from tidelog.errors import InvalidArgument
    from tidelog.log.retention import retention_rules as rules

    try:
        word = rules.HIGH_WATERMARK_WORD
        return rules.deletion_end(word if text in {word, "latest"} else whole_number(text))
    except ValueError:
        raise ArgumentTypeError(
            f"{text}: neither an offset nor latest or {rules.HIGH_WATERMARK_WORD}"
        ) from None
    except InvalidArgument:
        raise ArgumentTypeError(
            f"{text}: must be at least 0; {rules.HIGH_WATERMARK_WORD} stands for the end of"
            " what readers see"
        ) from None


def input_form(text: str) -> str:
    """Return the form of input, unless it is one that only ``cat`` has."""
    if text in {"csv", "raw", "arrow", "parquet"}:
        raise ArgumentTypeError(
            f"{text} cannot be read: cat --format json prints records that append --format json"
            " takes"
        )
    return text
