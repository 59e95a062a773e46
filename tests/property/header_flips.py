"""Logs with one flipped bit among the header bytes that no checksum covers."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.records.builder import BatchSpec
from tidelog.records.control import build_marker
from tidelog.testing import build_batch
from tidelog.testing.directory_home import DataHome, record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tidelog.embedded.logs import Logs

HEADER_BITS: Final = 8 * 21
"""Base offset, length, leader epoch, magic and the checksum itself."""
BASE_OFFSET_BITS: Final = 8 * 8


class Place(NamedTuple):
    """Where a batch begins."""

    path: str
    position: int
    size: int
    base_offset: int
    last_offset: int


class Flip(NamedTuple):
    """One bit of the header of one batch; bit 0 is the lowest one of byte 0."""

    place: Place
    bit: int

    def apply(self, home: DataHome) -> None:
        """Flip it on the disk."""
        data = bytearray(home.fs.read(self.place.path))
        data[self.place.position + self.bit // 8] ^= 1 << self.bit % 8
        home.fs.write(self.place.path, bytes(data))


def plain(logs: Logs) -> None:
    """Batches of one, two and five records."""
    logs.create_topic("t")
    for number in range(9):
        count = (1, 2, 5)[number % 3]
        logs.partition("t", 0).append_records([record(b"%d" % number)] * count)


def many_segments(logs: Logs) -> None:
    """Three segments of four batches."""
    logs.create_topic("t")
    for number in range(12):
        logs.append("t", b"%d" % number)
        if number in {3, 7}:
            logs.partition("t", 0).log.roll()


def compacted(logs: Logs) -> None:
    """A cleaned segment with gaps between its batches, and an active one."""
    logs.create_topic("t", config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    for number in range(24):
        logs.append("t", b"%d" % number, key=b"k%d" % (number % 7 if number % 5 else number))
    logs.partition("t", 0).log.roll()
    logs.append("t", b"last", key=b"last")
    logs.compact("t")
    logs.append("t", b"more", key=b"more")


def transactional(logs: Logs) -> None:
    """Committed and aborted transactions between plain records."""
    logs.create_topic("t")
    partition = logs.partition("t", 0)
    sequence = 0
    for is_commit in (True, False, True):
        for _ in range(2):
            made = [(1, b"k", b"%d" % sequence, ()), (1, b"k", b"+", ())]
            spec = BatchSpec(base_offset=partition.log.log_end_offset)
            batch = build_batch(
                made,
                spec,
                transactional=True,
                leader_epoch=0,
                producer_id=7,
                producer_epoch=0,
                base_sequence=sequence,
            )
            partition.log.append_as_follower(batch, 0)
            sequence += 2
        marker = build_marker(
            producer_id=7,
            producer_epoch=0,
            coordinator_epoch=1,
            is_commit=is_commit,
            timestamp=1,
            base_offset=partition.log.log_end_offset,
            leader_epoch=0,
        )
        partition.log.append_as_follower(marker, 0)
        partition.append_records([record(b"between")])


STORIES: Final[tuple[Callable[[Logs], None], ...]] = (
    plain,
    many_segments,
    compacted,
    transactional,
)


def written(story: Callable[[Logs], None]) -> DataHome:
    """Return a directory with the story's topic, shut down cleanly."""
    home = DataHome()
    with home.open() as logs:
        story(logs)
    return home


def places(home: DataHome) -> list[Place]:
    """Return where the batches of the topic's partition begin."""
    found = []
    directory = f"{home.path}/t-0"
    for name in sorted(home.fs.list(directory)):
        if not name.endswith(".log"):
            continue
        data, position = home.fs.read(f"{directory}/{name}"), 0
        while position < len(data):
            base, length = struct.unpack_from(">qi", data, position)
            (delta,) = struct.unpack_from(">i", data, position + 23)
            where = f"{directory}/{name}", position, length + 12, base, base + delta
            found.append(Place(*where))
            position += length + 12
    return found


def flips(home: DataHome, bits: Iterable[int] = range(HEADER_BITS)) -> Iterator[Flip]:
    """Yield each flip of each batch."""
    chosen = list(bits)
    for place in places(home):
        for bit in chosen:
            yield Flip(place, bit)
