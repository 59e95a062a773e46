"""One flipped bit in a batch header, where no checksum covers it, against every reader.

A reader yields the right records, or all before the damage and then an error that names the damaged
batch, or the two of which one is. A lookup gives the right answer or such an error. What nobody can
see is counted: a base offset that moves inside a gap, or at a tail that no clean end bounds.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.property import flip_readers
from tests.property.flip_readers import Found, Questions, found
from tests.property.header_flips import (
    EPOCH_BITS,
    FIRST_TIME_MS,
    Flip,
    Place,
    places,
)

from tidelog.errors import CorruptMessage, InvalidRecord, TidelogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tidelog.embedded.logs import Logs
    from tidelog.testing.directory_home import DataHome

QUICK_BITS: Final = (2, 40, 57, 59, 70, 129)
TELLING_BITS: Final = (
    *range(8),
    *(15, 16, 31, 45),
    *range(48, 64),
    *(64, 71, *range(80, 96)),
    *(100, 127, *range(128, 136), 140, 167),
)
"""Bits that differ in what they do; the others are like their neighbours."""


class Case(NamedTuple):
    """A damaged directory, and what is known of it."""

    flip: Flip
    places: Sequence[Place]
    end: int | None
    """The log end offset, where a reader can know it."""

    @property
    def may_hide(self) -> bool:
        """Whether nothing contradicts the flipped bit."""
        return not self.flip.is_contradicted(self.places, self.end)

    def is_named_by(self, error: TidelogError) -> bool:
        """Return whether an error names the damaged batch, alone or with its neighbour."""
        if not isinstance(error, CorruptMessage):
            # A mirror does not stage epochs that fall; nothing else tells of a flipped one.
            return isinstance(error, InvalidRecord) and self.flip.bit in EPOCH_BITS
        at = self.places.index(self.flip.place)
        named = [self.flip.place]
        if "one of the two" in error.reason:
            named = list(self.places[max(at - 1, 0) : at + 1])
        return (error.path, error.position) in [one[:2] for one in named]

    def judged_records(self, now: Found, truth: Found) -> str:
        """Return what became of a reader of records; anything but the four outcomes fails."""
        if now.error is None:
            if now.yielded == truth.yielded:
                return "right"
            assert self.may_hide, (self.flip, now)
            return "not seen"
        yielded = len(now.yielded)
        before = [one for one in truth.yielded if one[0] < self.flip.place.base_offset]
        assert now.yielded == truth.yielded[:yielded], (self.flip, now)
        assert self.is_named_by(now.error), (self.flip, now.error)
        if "one of the two" in str(now.error):
            return "one of two is named"
        assert yielded <= len(before), (self.flip, now)
        return "error" if yielded == len(before) else "error before all was yielded"

    def judged_answers(self, now: Found, truth: Found) -> Iterator[str]:
        """Yield what became of each lookup."""
        assert now.error is None, (self.flip, now)
        for answer, right in zip(now.yielded, truth.yielded, strict=True):
            if isinstance(answer, TidelogError):
                assert self.is_named_by(answer), (self.flip, answer, right)
                yield "error"
            elif answer == right:
                yield "right"
            else:
                assert self.may_hide, (self.flip, answer, right)
                yield "not seen"


Readers = tuple[
    "Mapping[str, Callable[[], Iterable[object]]]", "Mapping[str, Callable[[], Iterable[object]]]"
]
"""Readers of records, and lookups, by name."""


def looked_at(readers: Readers) -> tuple[dict[str, Found], dict[str, Found]]:
    """Let all readers read."""
    records, answers = readers
    return (
        {name: found(read) for name, read in records.items()},
        {name: found(read) for name, read in answers.items()},
    )


class Judge:
    """Counts outcomes by reader."""

    def __init__(self, truth: tuple[dict[str, Found], dict[str, Found]]) -> None:
        self._truth = truth
        self.counts: Counter[str] = Counter()
        for name, each in truth[0].items():
            assert each.error is None, (name, each)

    def look(self, case: Case, readers: Readers) -> None:
        """Judge what all readers find."""
        records, answers = looked_at(readers)
        for name, now in records.items():
            try:
                self.counts[case.judged_records(now, self._truth[0][name])] += 1
            except AssertionError as error:
                raise AssertionError(name, *error.args) from error
        for name, now in answers.items():
            try:
                self.counts.update(case.judged_answers(now, self._truth[1][name]))
            except AssertionError as error:
                raise AssertionError(name, *error.args) from error


def questions(home: DataHome) -> Questions:
    """Return what lookups ask of a story: offsets at and between batches, and their times."""
    there = places(home)
    chosen = sorted(
        {0, *(offset for one in there for offset in (one.base_offset, one.last_offset))}
    )
    offsets = [offset for offset in chosen if offset >= there[0].base_offset][::3]
    return Questions(offsets, [FIRST_TIME_MS + offset for offset in offsets[1:]])


def check_owner(home: DataHome, chosen: Iterable[Flip]) -> Counter[str]:
    """Let the owner of an open log read after each flip."""
    asked, there = questions(home), places(home)

    def readers(logs: Logs) -> Readers:
        return flip_readers.owners_records(logs), flip_readers.owners_answers(logs, asked)

    with home.copied(0).open() as logs:
        end = logs.partition("t", 0).log.log_end_offset
        judge = Judge(looked_at(readers(logs)))
    for flip in chosen:
        damaged = home.copied(1)
        with damaged.open() as logs:
            logs.partition("t", 0)
            flip.apply(damaged)
            judge.look(Case(flip, there, end), readers(logs))
            flip.apply(damaged)
    return judge.counts


def check_beside(home: DataHome, chosen: Iterable[Flip], *, is_clean: bool) -> Counter[str]:
    """Let readers without a lock read after each flip."""
    asked, there = questions(home), places(home)

    def readers(home: DataHome) -> Readers:
        answers = flip_readers.beside_answers(home, asked)
        return flip_readers.beside_records(home), answers

    judge = Judge(looked_at(readers(home.copied(0))))
    end = there[-1].last_offset + 1 if is_clean else None
    for flip in chosen:
        damaged = home.copied(1)
        flip.apply(damaged)
        judge.look(Case(flip, there, end), readers(damaged))
    return judge.counts


def counted(counts: Counter[str], enumerated: Callable[..., None]) -> None:
    """Print the outcomes."""
    for what, count in counts.items():
        enumerated(what, count, at_least=1)
