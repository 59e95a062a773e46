"""What a page is asked for: the fields of an address, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.env.moments import time_ms
from tidelog.errors import InvalidArgument
from tidelog.records.batch import INT32_MAX, INT64_MAX
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tidelog.env.clock import Clock

_MAX_TEXT: Final = 4096
_MAX_DIGITS: Final = 19


class Asked:
    """The parts of a path and the fields after it; what is not valid raises InvalidArgument."""

    def __init__(self, path: Mapping[str, str], fields: Mapping[str, str]) -> None:
        self._path: Final = path
        self.fields: Final = dict(fields)

    @property
    def topic(self) -> str:
        """The topic that the path names."""
        return self._path["topic"]

    @property
    def key(self) -> TopicPartition:
        """The partition that the path names."""
        number = _whole("partition", self._path["partition"], INT32_MAX)
        return TopicPartition(self.topic, number)

    @property
    def offset(self) -> int:
        """The offset that the path names."""
        return _whole("offset", self._path["offset"], INT64_MAX)

    def text(self, name: str) -> str:
        """Return a text; empty if it is not given."""
        given = self.fields.get(name, "")
        if len(given) > _MAX_TEXT:
            raise InvalidArgument(f"{name} has more than {_MAX_TEXT:,} characters")
        return given

    def number(self, name: str, most: int = INT64_MAX) -> int | None:
        """Return a whole number from 0 to ``most``; None if it is not given."""
        given = self.text(name).replace(",", "").strip()
        return _whole(name, given, most) if given else None

    def choice(self, name: str, known: Collection[str]) -> str:
        """Return one of ``known``; the first of them if it is not given."""
        given = self.text(name) or next(iter(known))
        if given not in known:
            raise InvalidArgument(f"{name} is one of {', '.join(known)}")
        return given

    def flag(self, name: str) -> bool:
        """Return whether a box is ticked."""
        return bool(self.text(name))

    def time(self, name: str, clock: Clock) -> int | None:
        """Return a time in ms, given as for the commands; None if it is not given."""
        given = self.text(name).strip()
        return time_ms(given, clock.now_ms) if given else None


def _whole(name: str, text: str, most: int) -> int:
    """Return a whole number; no text is so long that reading it takes time."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        raise InvalidArgument(f"{name} is a whole number, 0 or more")
    number = int(text)
    if number > most:
        raise InvalidArgument(f"{name} is at most {most:,}")
    return number
