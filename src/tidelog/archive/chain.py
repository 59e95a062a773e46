"""The chain of one partition's archive: immutable versions, each created once.

The name of a version is its commit: versions are never deleted, and only one writer can create the
next. Runs, which hold several versions each, only spare requests: anybody may write them again, to
the same bytes, and where one is missing its versions are read.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tidelog.archive.chain_state import ChainState
from tidelog.archive.deltas import Delta, is_segment_name, parse_line
from tidelog.errors import ArchiveOvertaken, CorruptArchive, ObjectNotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from random import Random
    from uuid import UUID

    from tidelog.archive.deltas import Entry, Operation
    from tidelog.archive.segment_object import SegmentObject
    from tidelog.store.objects import Objects

RUN: Final = 32
"""Versions in the smallest run."""
RUNS_IN_RUN: Final = 8
MAX_RUN: Final = RUN * RUNS_IN_RUN**4
MAX_VERSION: Final = 10**9
_FEW: Final = 4
"""Versions that are looked for one after another: of most chains there are few new ones."""


def version_name(version: int) -> str:
    """Return the name of a version's object, below the chain's prefix."""
    return f"m/{version:020}"


def run_name(first: int, last: int) -> str:
    """Return the name of a run of versions ``first`` to ``last``, both included."""
    return f"c/{first:020}-{last:020}"


def runs_to(version: int, after: int = 0) -> Iterator[tuple[int, int]]:
    """Yield what to read for versions ``after + 1`` to ``version``: the largest runs, then singles.

    Runs lie at multiples of their size, so that their names follow from the version.
    """
    first = after + 1
    while first <= version:
        size = MAX_RUN
        while size >= RUN and ((first - 1) % size or first + size - 1 > version):
            size //= RUNS_IN_RUN
        size = size if size >= RUN else 1
        yield first, first + size - 1
        first += size


class Chain:
    """The versions of one partition's archive; any thread may use it.

    Args:
        store: the objects of the whole archive.
        topic_id: the topic's.
        partition: its number.
        rng: makes nonces.
    """

    def __init__(self, store: Objects, topic_id: UUID, partition: int, rng: Random) -> None:
        self._store = store
        self._rng = rng
        self._looked_at: dict[int, Delta] = {}
        """Versions that were read when it was asked whether they exist: they never change."""
        self.prefix: Final = f"{topic_id}/{partition}"

    def name(self, below: str) -> str:
        """Return the name of an object of this partition."""
        return f"{self.prefix}/{below}"

    def newest(self, known: int = 0) -> int:
        """Return the number of the newest version, 0 if there is none.

        ``known``: a version that exists. It takes a request for each of the next few, then two for
        each doubling. Those for versions that exist read them, for ``read``. Raises CorruptArchive,
        NewerArchive.
        """
        low, step = known, 1
        while low + step <= MAX_VERSION and self._exists(low + step):
            low += step
            step = 1 if low - known < _FEW else 2 * step
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._exists(middle) else (low, middle)
        return low

    def read(self, version: int | None = None, state: ChainState | None = None) -> ChainState:
        """Return the state at a version, None: the newest.

        ``state`` is an older one from which to continue; it is changed.

        Raises:
            CorruptArchive, NewerArchive: as ``parse_line``, or operations contradict each other.
            ObjectNotFound: there is no such version.
        """
        found = state or ChainState()
        wanted = self.newest(found.version) if version is None else version
        for first, last in runs_to(wanted, found.version):
            for delta in self._deltas(first, last):
                found.apply(delta)
        self._looked_at.clear()
        return found

    def first(self) -> ChainState:
        """Return the state at the first version, of version 0 if there is none."""
        found = ChainState()
        with suppress(ObjectNotFound):
            found.apply(self._delta(1))
        return found

    def commit(
        self,
        state: ChainState,
        operations: Iterable[Operation],
        claim_epoch: int,
        cleaned: int = 0,
    ) -> None:
        """Create the next version after ``state``, and bring ``state`` to it.

        Whether it was created is decided by reading it; see ``Objects.create``.

        Raises:
            ArchiveOvertaken: another writer has created it; ``state`` is as before.
            CorruptArchive: the operations contradict the state; nothing was created.
            StoreUnavailable: whether it was created is unknown; read the chain again.
        """
        nonce = f"{self._rng.getrandbits(128):032x}"
        delta = Delta(state.version + 1, nonce, claim_epoch, tuple(operations), cleaned)
        state.copy().apply(delta)  # what contradicts the state must not reach the store
        if not self._store.create(self.name(version_name(delta.version)), delta.to_line()):
            raise ArchiveOvertaken(f"another writer has committed version {delta.version}")
        state.apply(delta)

    def put_segment(
        self,
        made: SegmentObject,
        claim_epoch: int,
        before_part: Callable[[int], None] = lambda _: None,
    ) -> Entry:
        """Put a segment, for a claim; return the entry that a version may have of it.

        What ends that between two parts is raised as it is, not as the store's.
        """
        ended: list[BaseException] = []

        def parts() -> Iterator[bytes]:
            try:
                for part in made.parts():
                    before_part(len(part))
                    yield part
            except BaseException as error:
                ended.append(error)
                raise

        name = f"s/{made.base_offset:020}-{claim_epoch}-{self._rng.getrandbits(128):032x}"
        try:
            put = self._store.put(self.name(name), parts(), made.object_bytes)
        except StoreError:
            if ended:
                raise ended[0] from None
            raise
        return made.entry(name, put.etag)

    def segments_beside(self, known: Collection[str]) -> list[str]:
        """Return the names of segments that are there, and not among the ``known`` ones."""
        prefix = self.name("")
        found = [info.name.removeprefix(prefix) for info in self._store.list(self.name("s"))]
        return [name for name in found if is_segment_name(name) and name not in known]

    def write_runs(self, version: int) -> list[str]:
        """Write the runs that end at a version, if some do; return their names."""
        written = []
        size = RUN
        while size <= MAX_RUN and version % size == 0:
            first = version - size + 1
            lines = b"".join(delta.to_line() for delta in self._parts(first, version))
            name = self.name(run_name(first, version))
            self._store.put(name, [lines], len(lines))
            written.append(name)
            size *= RUNS_IN_RUN
        return written

    def _exists(self, version: int) -> bool:
        try:
            self._looked_at[version] = self._delta(version)
        except ObjectNotFound:
            return False
        return True

    def _deltas(self, first: int, last: int) -> Iterator[Delta]:
        """Yield versions from their run, or from smaller ones where it is missing."""
        if first == last:
            yield self._delta(first)
            return
        name = self.name(run_name(first, last))
        try:
            lines = self._store.get(name).splitlines()
        except ObjectNotFound:
            yield from self._parts(first, last)
            return
        if len(lines) != last - first + 1:
            raise CorruptArchive(f"{name} has {len(lines)} versions, not {last - first + 1}")
        for version, line in enumerate(lines, first):
            yield _checked(parse_line(line, name), version, name)

    def _parts(self, first: int, last: int) -> Iterator[Delta]:
        """Yield the versions of a run from the next smaller runs."""
        size = (last - first + 1) // RUNS_IN_RUN
        step = size if size >= RUN else 1
        for start in range(first, last + 1, step):
            yield from self._deltas(start, start + step - 1)

    def _delta(self, version: int) -> Delta:
        known = self._looked_at.get(version)
        if known is not None:
            return known
        name = self.name(version_name(version))
        return _checked(parse_line(self._store.get(name), name), version, name)


def _checked(delta: Delta, version: int, name: str) -> Delta:
    if delta.version != version:
        raise CorruptArchive(f"{name} holds version {delta.version}, not {version}")
    return delta
