"""Text that users choose as a name and that files hold as UTF-8."""

from __future__ import annotations

from typing import Final

from tidelog.errors import InvalidArgument

MAX_GROUP_BYTES: Final = 32_767
"""Kafka's records have no room for more, nor for a longer transactional id."""


def check_text(text: str, what: str, max_bytes: int) -> None:
    """Raise InvalidArgument unless ``text`` is a str of 1 to ``max_bytes`` bytes of UTF-8.

    A lone surrogate, as the command line makes it of a byte that is not UTF-8, has no such form.
    """
    if not isinstance(text, str) or not text:
        raise InvalidArgument(f"{text!r} is not {what}: it must be text that is not empty")
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(f"{text!r} is not {what}: not valid Unicode") from None
    if size_bytes > max_bytes:
        raise InvalidArgument(
            f"{text[:32]!r}... is not {what}: it has {size_bytes:,} bytes of UTF-8, and"
            f" {max_bytes:,} are allowed"
        )


def check_group(group: str) -> None:
    """Raise InvalidArgument for what is not the name of a consumer group."""
    check_text(group, "the name of a group", MAX_GROUP_BYTES)
