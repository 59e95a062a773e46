"""Whole numbers as people write them, wherever they give one: digits of ASCII, and a sign.

Python's ``int`` also takes underscores, spaces around them and digits of other scripts, which in a
setting, an offset or an option are slips.
"""

from __future__ import annotations

import re
from typing import Final

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


def whole_number(text: str) -> int:
    """Return the number; ValueError for other text, and for more digits than Python converts."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)
