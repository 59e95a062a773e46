"""Values of the command line: numbers, times, settings, directories.

Each function reads one word. Its error has the form ``<word>: <rule>``, to which the parser adds
the name of the option.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from typing import Final

from tidelog.cli.terminal import MAX_COLUMNS

MAX_PERCENT: Final = 100
_MAX_PORT: Final = 65535
_INT64_MAX: Final = 2**63 - 1


def offset_target(text: str) -> str | int:
    """Return a name that ``offsets --at`` takes, or a time in ms."""
    return text if text in {"earliest", "latest", "max-timestamp"} else time_ms(text)


def reset_target(text: str) -> str | int:
    """Return a name that ``groups reset --to`` takes, or a time in ms."""
    return text if text in {"earliest", "latest", "current"} else time_ms(text)


def time_ms(text: str) -> int:
    """Return milliseconds since the Unix epoch; see ``env.moments``."""
    from tidelog.env import moments
    from tidelog.env.clock import SYSTEM_CLOCK
    from tidelog.errors import InvalidArgument

    try:
        return moments.time_ms(text, SYSTEM_CLOCK.now_ms)
    except InvalidArgument as error:
        raise ArgumentTypeError(str(error)) from None


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


def log_level(text: str) -> str:
    """Return a level, or a logger with its level, as it is if it is valid."""
    from tidelog.config.log_levels import parse_log_levels

    try:
        parse_log_levels([text])
    except ValueError as error:
        raise ArgumentTypeError(f"{text}: {error}") from None
    return text


def not_negative(text: str) -> int:
    """Return a whole number, at least 0."""
    return _at_least(0, text)


def at_least_one(text: str) -> int:
    """Return a whole number, at least 1."""
    return _at_least(1, text)


def offset_or_end(text: str) -> int | str:
    """Return an offset, or the word end."""
    return text if text == "end" else _at_least(0, text)


def byte_pattern(text: str) -> re.Pattern[bytes]:
    """Return a regular expression of Python's, to be searched in bytes of UTF-8."""
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise ArgumentTypeError(f"{text}: not a regular expression: {error}") from None


def record_form(text: str) -> str:
    """Return a form of ``cat``, as it is if it is valid."""
    from tidelog.cli.cat.record_forms import check_form

    try:
        return check_form(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text}: {error}") from None


def deletion_end(text: str) -> int:
    """Return an offset to delete records before, or what stands for the high watermark."""
    from tidelog.errors import InvalidArgument
    from tidelog.log.retention import retention_rules as rules

    try:
        word = rules.HIGH_WATERMARK_WORD
        return rules.deletion_end(word if text in {word, "latest"} else int(text))
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


def partition_or_all(text: str) -> int | None:
    """Return the number of a partition; None for the word all."""
    return None if text == "all" else _at_least(0, text)


def port_number(text: str) -> int:
    """Return a TCP port; 0 stands for any that is free."""
    return _at_least(0, text, most=_MAX_PORT)


def percentage(text: str) -> int:
    """Return a whole number from 1 to 100."""
    return _at_least(1, text, most=MAX_PERCENT)


def rate_or_none(text: str) -> int:
    """Return bytes per second, at least 1; 0 stands for the word none."""
    return 0 if text == "none" else _at_least(1, text)


def columns(text: str) -> int:
    """Return the width of a drawing in columns, at least 1 and at most 1,000."""
    return _at_least(1, text, most=MAX_COLUMNS)


def partition_count(text: str) -> int:
    """Return the number of partitions of a topic, at least 1."""
    return _at_least(1, text, "a topic has at least 1 partition")


def _at_least(least: int, text: str, rule: str | None = None, most: int = _INT64_MAX) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text}: not a whole number") from None
    if number < least:
        raise ArgumentTypeError(f"{text}: {rule or f'must be at least {least}'}")
    if number > most:
        raise ArgumentTypeError(f"{text}: must be at most {most}")
    return number
