"""How deep JSON is nested, and where it ends, which its parser neither limits nor reports.

PyArrow's parser calls itself for each level, so deep JSON would end the process. It also ignores
what a text adds to the line it stands in, after the end of its own object.
Jackson: ``StreamReadConstraints.getMaxNestingDepth``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from tidelog.arrow.buffers import Ints

    Kinds = NDArray[np.int8]

MOST_LEVELS: Final = 200
"""Functions that call themselves for each level of a type can still handle these."""

_OPENING, _CLOSING, _COMMA, _QUOTE = 1, -1, 2, 3
_KINDS: Final = np.zeros(256, np.int8)
"""What each byte is; 0 for those that do not count."""
for _bytes, _kind in ((b"[{", _OPENING), (b"]}", _CLOSING), (b",", _COMMA), (b'"', _QUOTE)):
    _KINDS[list(_bytes)] = _kind

_JOINED: Final = 4096
"""Texts that are looked at together: calls of NumPy take longer than a short text."""
_MAY_HAVE_MORE: Final = (re.compile(rb"\}\s*,"), re.compile(rb"\n\s*null\s*,"))
"""What texts with a comma outside of brackets have; flat objects do not, and need no other look."""


def are_deep(texts: Iterable[bytes]) -> bool:
    """Return whether a text, which may be JSON, has more than ``MOST_LEVELS`` brackets open."""
    return any(_is_deep(text) for text in texts if len(text) > MOST_LEVELS)


def _is_deep(text: bytes) -> bool:
    if text.count(b"[") + text.count(b"{") <= MOST_LEVELS:
        return False
    return int(_levels(text)[1].max(initial=0)) > MOST_LEVELS


def are_single(texts: Sequence[bytes]) -> bool:
    """Return whether no text has a comma outside of brackets.

    Each is null or begins with an object, and its quotes are balanced.
    """
    for start in range(0, len(texts), _JOINED):
        joined = b"\n".join((b"", *texts[start : start + _JOINED]))
        if any(pattern.search(joined) for pattern in _MAY_HAVE_MORE):
            kinds, levels = _levels(joined)
            if ((levels == 0) & (kinds == _COMMA)).any():
                return False
    return True


def _levels(text: bytes) -> tuple[Kinds, Ints]:
    """Return the brackets and commas outside of strings, and after each how many are open."""
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    kinds = _KINDS[np.frombuffer(plain, np.uint8)]
    kinds = kinds[kinds != 0]
    is_quote = kinds == _QUOTE
    kinds = kinds[(np.cumsum(is_quote) % 2 == 0) & ~is_quote]
    return kinds, np.cumsum(np.where(kinds == _COMMA, 0, kinds), dtype=np.int64)
