"""Where an offset lies on the axis of a picture.

Offsets between two known places are placed in proportion. A later offset never lies before an
earlier one, whatever the files claim.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.explain.pictures.log_picture import LogPicture


class PictureScale:
    """Turns offsets into positions, and positions into places of a drawing."""

    def __init__(self, picture: LogPicture) -> None:
        self.total_bytes = picture.total_bytes
        self._offsets: list[int] = []
        self._positions: list[int] = []
        for offset, position in _known_places(picture):
            if self._offsets:
                offset = max(offset, self._offsets[-1])  # noqa: PLW2901 - the checked value
                position = max(position, self._positions[-1])  # noqa: PLW2901 - as above
            self._offsets.append(offset)
            self._positions.append(position)

    def position_of(self, offset: int) -> float:
        """Return the position of an offset: where its batch begins, if it is the first of one."""
        after = bisect_right(self._offsets, offset)
        if after == 0:
            return float(self._positions[0]) if self._positions else 0.0
        if after == len(self._offsets):
            return float(self._positions[-1])
        first, last = self._offsets[after - 1 : after + 1]
        start, end = self._positions[after - 1 : after + 1]
        return start + (end - start) * ((offset - first) / (last - first))

    def place(self, position: float, size: float) -> float:
        """Return where a position lies in a drawing of a certain size."""
        return size * min(position / self.total_bytes, 1.0) if self.total_bytes else 0.0

    def offset_place(self, offset: int, size: float) -> float:
        """Return where an offset lies in a drawing of a certain size."""
        return self.place(self.position_of(offset), size)


def _known_places(picture: LogPicture) -> Iterator[tuple[int, int]]:
    """Yield offsets with their positions, in the order of the files."""
    spans = list(picture.spans)
    at = 0
    for block in picture.blocks:
        yield block.base_offset, block.position
        begun = at
        while at < len(spans) and spans[at].position < block.end_position:
            yield spans[at].start_offset, spans[at].position
            yield spans[at].end_offset, spans[at].end_position
            at += 1
        if at == begun:
            yield block.end_offset, block.end_position
