"""Logs with one flipped bit among the header bytes that no checksum covers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.machinery.directory_home import MARK, DataHome
from tests.machinery.old_batches import build_old

from tidelog.codec.compression import Codec
from tidelog.records.batch import INT64_MAX, MAGIC_V2
from tidelog.records.builder import BatchSpec
from tidelog.records.control import build_marker
from tidelog.records.legacy import base_offset
from tidelog.records.memory import walk
from tidelog.segment.filenames import offset_from_file_name
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tidelog.embedded.logs import Logs
    from tidelog.manager.partition import Partition

HEADER_BITS: Final = 8 * 21
"""Base offset, length, leader epoch, magic and the checksum itself."""
BASE_OFFSET_BITS: Final = 8 * 8
EPOCH_BITS: Final = range(8 * 12, 8 * 16)
"""Of magic 2; in old formats the checksum stands there."""
FIRST_TIME_MS: Final = 1_600_000_000_000
EACH_ENTRY: Final = {"index.interval.bytes": "1"}


class Place(NamedTuple):
    """Where a batch begins."""

    path: str
    position: int
    size: int
    base_offset: int
    last_offset: int
    is_old: bool

    @property
    def span(self) -> int:
        """From the first offset to the last one."""
        return self.last_offset - self.base_offset

    @property
    def segment_base(self) -> int:
        """The base offset of the segment."""
        return offset_from_file_name(self.path.rpartition("/")[2])


class Flip(NamedTuple):
    """One bit of the header of one batch; bit 0 is the lowest one of byte 0."""

    place: Place
    bit: int

    @property
    def is_of_epoch(self) -> bool:
        """Whether it is in a leader epoch."""
        return self.bit in EPOCH_BITS and not self.place.is_old

    def apply(self, home: DataHome) -> None:
        """Flip it on the disk; a second time flips it back."""
        data = bytearray(home.fs.read(self.place.path))
        data[self.place.position + self.bit // 8] ^= 1 << self.bit % 8
        home.fs.write(self.place.path, bytes(data))

    def is_contradicted(self, others: Sequence[Place], end: int | None) -> bool:
        """Return whether neighbours, the bounds of the segment, or the known end contradict it.

        ``end`` is the log end offset, None where it is not known. Of old formats only the last
        offset is compared, also with that of the next one.
        """
        if self.bit >= BASE_OFFSET_BITS:
            return True
        at = others.index(self.place)
        field = self.place.last_offset if self.place.is_old else self.place.base_offset
        data = bytearray(field.to_bytes(8, "big"))
        data[self.bit // 8] ^= 1 << self.bit % 8
        first = int.from_bytes(data, "big", signed=True)
        last = first if self.place.is_old else first + self.place.span
        before, behind = others[at - 1 : at] if at else [], others[at + 1 : at + 2]
        lowest = max([self.place.segment_base, *(one.last_offset + 1 for one in before)])
        ends = [one.last_offset if one.is_old else one.base_offset for one in behind]
        ends += [one.segment_base for one in behind if one.path != self.place.path]
        if not behind and end is not None:
            ends = [end]
        return not lowest <= first <= last < min(ends, default=INT64_MAX)


def _append(partition: Partition, number: int, count: int = 1, key: bytes | None = None) -> None:
    """Append a batch of records, all with a time of their own."""
    first_ms = partition.log.log_end_offset + FIRST_TIME_MS
    records = [(first_ms + at, key, b"%d" % number, ()) for at in range(count)]
    partition.append_records(records)


def plain(logs: Logs) -> None:
    """Batches of one, two and five records."""
    logs.create_topic("t")
    for number in range(9):
        _append(logs.partition("t", 0), number, (1, 2, 5)[number % 3])


def many_segments(logs: Logs) -> None:
    """Three segments of four batches, each of them in the indexes."""
    logs.create_topic("t", config=EACH_ENTRY)
    for number in range(12):
        _append(logs.partition("t", 0), number, 1 + number % 2)
        if number in {3, 7}:
            logs.partition("t", 0).log.roll()


def compacted(logs: Logs) -> None:
    """A cleaned segment with gaps between its batches, and an active one."""
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", **EACH_ENTRY}
    logs.create_topic("t", config=settings)
    partition = logs.partition("t", 0)
    for number in range(24):
        _append(partition, number, key=b"k%d" % (number % 7 if number % 5 else number))
    partition.log.roll()
    _append(partition, 24, key=b"last")
    logs.compact("t")
    _append(partition, 25, key=b"more")


def transactional(logs: Logs) -> None:
    """Committed and aborted transactions between plain records, and one that is open."""
    logs.create_topic("t")
    partition = logs.partition("t", 0)
    sequence = 0
    for is_commit in (True, False, True, None):
        for _ in range(2):
            _append_in_transaction(partition, sequence)
            sequence += 2
        if is_commit is not None:
            _append_marker(partition, is_commit=is_commit)
        _append(partition, sequence)


def _append_in_transaction(partition: Partition, sequence: int) -> None:
    end = partition.log.log_end_offset
    first_ms = end + FIRST_TIME_MS
    made = [(first_ms, b"k", b"%d" % sequence, ()), (first_ms + 1, b"k", b"+", ())]
    batch = build_batch(
        made,
        BatchSpec(base_offset=end),
        transactional=True,
        leader_epoch=0,
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
    )
    partition.log.append_as_follower(batch, 0)


def _append_marker(partition: Partition, *, is_commit: bool) -> None:
    end = partition.log.log_end_offset
    marker = build_marker(
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=1,
        is_commit=is_commit,
        timestamp=end + FIRST_TIME_MS,
        base_offset=end,
        leader_epoch=0,
    )
    partition.log.append_as_follower(marker, 0)


def old_formats(logs: Logs) -> None:
    """Entries and sets of magic 0 and 1, as brokers wrote until 0.11, and batches after them."""
    logs.create_topic("t")
    partition, offset = logs.partition("t", 0), 0
    for magic, count in ((0, 1), (0, 3), (1, 1), (1, 1), (1, 4), (1, 1)):
        times = [FIRST_TIME_MS + offset + at for at in range(count)]
        records = [(time, b"k", b"%d" % magic) for time in times]
        codec = Codec.GZIP if count > 1 else Codec.NONE
        batch = build_old(magic, records, codec=codec, base_offset=offset)
        partition.log.append_as_follower(batch, 0)
        offset += count
    _append(partition, 2)
    _append(partition, 3, 2)


STORIES: Final[tuple[Callable[[Logs], None], ...]] = (
    plain,
    many_segments,
    compacted,
    transactional,
    old_formats,
)


def written(story: Callable[[Logs], None], *, is_clean: bool = True) -> DataHome:
    """Return a directory with the story's topic, shut down cleanly or as if it had been killed."""
    home = DataHome()
    with home.open() as logs:
        story(logs)
    if not is_clean:
        home.fs.delete(f"{home.path}/{MARK}")
    return home


def places(home: DataHome) -> list[Place]:
    """Return where the batches of the topic's partition begin."""
    found = []
    directory = f"{home.path}/t-0"
    for name in sorted(home.fs.list(directory)):
        if not name.endswith(".log"):
            continue
        data = memoryview(home.fs.read(f"{directory}/{name}"))
        for position, size, base, last, *_ in walk(data, in_memory=False).batches.array.T.tolist():
            is_old = data[position + 16] < MAGIC_V2
            first = base_offset(data, position, size) if is_old else base
            found.append(Place(f"{directory}/{name}", position, size, first, last, is_old))
    return found


def flips(home: DataHome, bits: Iterable[int] = range(HEADER_BITS)) -> Iterator[Flip]:
    """Yield each flip of each batch."""
    chosen = list(bits)
    for place in places(home):
        for bit in chosen:
            yield Flip(place, bit)
