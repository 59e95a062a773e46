"""The words of a command line as values: numbers, times, settings, directories.

Owns how each is written and what is said of one that is not. Must not know which command takes it.
"""

from __future__ import annotations

from argparse import ArgumentTypeError


def offset_target(text: str) -> str | int:
    """Return a name that ``offsets --at`` knows, or a time in ms."""
    return text if text in {"earliest", "latest", "max-timestamp"} else time_ms(text)


def time_ms(text: str) -> int:
    """Return milliseconds since 1970, given so or as ISO 8601."""
    if text.lstrip("-").isdigit():
        return int(text)
    from datetime import UTC, datetime  # slow to load, and few commands ask

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(
            f"{text!r} is no time: give milliseconds, or as 2026-11-21T14:30"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def directory_name(text: str) -> str:
    """Return the name of a directory; an empty one would be the current directory."""
    if not text:
        raise ArgumentTypeError("an empty name is no directory")
    return text


def key_value(text: str) -> tuple[str, str]:
    """Return a setting's name and its value, which may be empty or hold equal signs."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def not_negative(text: str) -> int:
    """Return a whole number from 0 on."""
    return _at_least(0, text)


def positive(text: str) -> int:
    """Return a whole number from 1 on."""
    return _at_least(1, text)


def _at_least(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a whole number") from None
    if number < least:
        raise ArgumentTypeError(f"{number} is below {least}")
    return number
