"""One flipped bit in a batch header, where no checksum covers it, against every reader.

A reader yields the right records, or all before the damage and then an error that names the damaged
batch, or the two of which one is. A lookup gives the right answer or such an error. What nobody can
see is counted: a base offset that moves inside a gap, or at a tail that no clean end bounds.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from tests.property import flip_readers
from tests.property.flip_readers import Found, OnDisk, Questions, found
from tests.property.header_flips import (
    FIRST_TIME_MS,
    HEADER_BITS,
    STORIES,
    Flip,
    Place,
    flips,
    places,
    plain,
    transactional,
    written,
)

from tidelog.errors import (
    CorruptMessage,
    InvalidRecord,
    TidelogError,
    UnsupportedForMessageFormat,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.conftest import Enumerated
    from tests.machinery.directory_home import DataHome

    from tidelog.embedded.logs import Logs

    Readers = tuple[
        Mapping[str, Callable[[], Iterable[object]]], Mapping[str, Callable[[], Iterable[object]]]
    ]
    """Readers of records, and lookups, by name."""
    Story = Callable[[Logs], None]

QUICK_BITS: Final = (2, 57, 59, 70, 129)
TELLING_BITS: Final = (
    *(0, 5, 6, 7, 15, 31, 45),
    *range(48, 64),
    *(64, 71, *range(80, 96)),
    *(100, 127, *range(128, 136), 140, 167),
)
"""Bits that differ in what they do; the others are like their neighbours."""
BY_STORY: Final = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)


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
            # A mirror does not stage epochs that fall; nothing else shows a flipped one.
            return isinstance(error, InvalidRecord) and self.flip.is_of_epoch
        at = self.places.index(self.flip.place)
        named = [self.flip.place]
        if "one of the two" in error.reason:
            named = list(self.places[max(at - 1, 0) : at + 1])
        where = os.path.basename(error.path or ""), error.position
        return where in [(os.path.basename(one.path), one.position) for one in named]

    def judged_records(self, now: Found, truth: Found) -> str:
        """Return what became of a reader of records; anything but these outcomes fails."""
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
        return "error" if yielded == len(before) else "error, with nothing or less before it"

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


def looked_at(readers: Readers) -> tuple[dict[str, Found], dict[str, Found]]:
    """Let all readers read."""
    records, answers = readers
    return (
        {name: found(read) for name, read in records.items()},
        {name: found(read) for name, read in answers.items()},
    )


class Judge:
    """Compares what readers find with what they found before the damage; counts the outcomes."""

    def __init__(self, readers: Readers) -> None:
        self._truth = looked_at(readers)
        self.counts: Counter[str] = Counter()
        for name, each in list(self._truth[0].items()):
            if isinstance(each.error, UnsupportedForMessageFormat):  # a mirror takes no old ones
                del self._truth[0][name]
            else:
                assert each.error is None, (name, each)

    def look(self, case: Case, readers: Readers) -> None:
        """Judge what all readers find."""
        records, answers = looked_at(readers)
        for name, truth in self._truth[0].items():
            try:
                self.counts[case.judged_records(records[name], truth)] += 1
            except AssertionError as error:
                raise AssertionError(name, *error.args) from error
        for name, now in answers.items():
            try:
                self.counts.update(case.judged_answers(now, self._truth[1][name]))
            except AssertionError as error:
                raise AssertionError(name, *error.args) from error


def questions(home: DataHome) -> Questions:
    """Return what lookups ask of a story: offsets of batches, and their times."""
    there = places(home)
    chosen = sorted({offset for one in there for offset in (one.base_offset, one.last_offset)})
    return Questions(chosen[::3], [FIRST_TIME_MS + offset for offset in chosen[1::3]])


def check_owner(home: DataHome, chosen: Iterable[Flip]) -> Counter[str]:
    """Let the owner of an open log read after each flip."""
    asked, there = questions(home), places(home)

    def readers(logs: Logs) -> Readers:
        return flip_readers.owners_records(logs), flip_readers.owners_answers(logs, asked)

    with home.copied(0).open() as logs:
        end = logs.partition("t", 0).log.log_end_offset
        judge = Judge(readers(logs))
    for flip in chosen:
        damaged = home.copied(1)
        with damaged.open() as logs:
            logs.partition("t", 0)
            flip.apply(damaged)
            judge.look(Case(flip, there, end), readers(logs))
            flip.apply(damaged)
    return judge.counts


def check_beside(home: DataHome, chosen: Iterable[Flip], *, is_clean: bool = True) -> Counter[str]:
    """Let readers without a lock read after each flip."""
    asked, there = questions(home), places(home)

    def readers(home: DataHome) -> Readers:
        answers = flip_readers.beside_answers(home, asked)
        return flip_readers.beside_records(home), answers

    judge = Judge(readers(home.copied(0)))
    end = there[-1].last_offset + 1 if is_clean else None
    for flip in chosen:
        damaged = home.copied(1)
        flip.apply(damaged)
        judge.look(Case(flip, there, end), readers(damaged))
    return judge.counts


def check_on_disk(
    home: DataHome, chosen: Iterable[Flip], path: Path, readers: Callable[[OnDisk], Readers]
) -> Counter[str]:
    """Let what opens files by itself read after each flip."""
    there, disk = places(home), OnDisk(home, path)
    judge = Judge(readers(disk))
    for flip in chosen:
        with disk.flipped(flip):
            judge.look(Case(flip, there, there[-1].last_offset + 1), readers(disk))
    return judge.counts


def check_skipping(home: DataHome, chosen: Iterable[Flip]) -> Counter[str]:
    """Read past the damage of each flip: what is not shown is reported, and all else is right."""
    there, counts = places(home), Counter[str]()
    truth, reported = flip_readers.skipping(home.copied(0))
    assert reported == []
    for flip in chosen:
        damaged = home.copied(1)
        flip.apply(damaged)
        shown, reported = flip_readers.skipping(damaged)
        if shown == truth and reported == []:
            counts["right"] += 1
        elif Case(flip, there, None).may_hide:
            counts["not seen"] += 1
        else:
            lost = [one for one in truth if one not in shown]
            assert [one for one in truth if one in shown] == shown, (flip, shown)
            for offset, _ in lost:
                assert any(start <= offset < end for start, end, *_ in reported), (flip, offset)
            path, position = flip.place[:2]
            assert any(
                (where, True) == (path, first <= position < end)
                for *_, where, first, end in reported
            ), (flip, reported)
            counts["reported"] += 1
    return counts


def count(counts: Counter[str], enumerated: Enumerated) -> None:
    """Print the outcomes."""
    for what, number in counts.items():
        enumerated(what, number, at_least=1)


def few(home: DataHome, every: int) -> list[Flip]:
    """Return a sample of all flips."""
    return list(flips(home, QUICK_BITS))[::every]


def commands(disk: OnDisk) -> Readers:
    """Return the commands that read."""
    return disk.commands(), disk.answers()


def spark(disk: OnDisk) -> Readers:
    """Return the readers of Spark's data source."""
    return disk.spark(), {}


def test_the_owner_sees_a_flipped_bit(enumerated: Enumerated) -> None:
    """By reads, fetches, groups, lookups by time and offset, and counts."""
    home = written(plain)

    count(check_owner(home, few(home, 9)), enumerated)


def test_readers_without_a_lock_see_a_flipped_bit(enumerated: Enumerated) -> None:
    """As does a mirror, and whatever asks for offsets, times, transactions and gaps."""
    home = written(transactional)

    count(check_beside(home, few(home, 11)), enumerated)


def test_commands_see_a_flipped_bit(tmp_path: Path, enumerated: Enumerated) -> None:
    """They end with 1, and name file and byte after what they print."""
    home = written(plain)

    count(check_on_disk(home, few(home, 9), tmp_path, commands), enumerated)


def test_spark_sees_a_flipped_bit(tmp_path: Path, enumerated: Enumerated) -> None:
    """In batches, streams and tasks of a few offsets."""
    pytest.importorskip("pyspark")
    home = written(plain)

    count(check_on_disk(home, few(home, 9), tmp_path, spark), enumerated)


def test_what_is_skipped_is_reported(enumerated: Enumerated) -> None:
    """By a reader that is asked to read past damage."""
    home = written(plain)

    count(check_skipping(home, few(home, 2)), enumerated)


@pytest.mark.slow
@BY_STORY
def test_the_owner_sees_every_flipped_bit(story: Story, enumerated: Enumerated) -> None:
    """The same for each bit that no checksum covers, of each batch."""
    home = written(story)

    count(check_owner(home, flips(home, TELLING_BITS)), enumerated)


@pytest.mark.slow
@BY_STORY
@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_readers_without_a_lock_see_every_flipped_bit(
    story: Story, is_clean: bool, enumerated: Enumerated
) -> None:
    """Nobody sees what moves the tail of a log that was not shut down cleanly."""
    home = written(story, is_clean=is_clean)

    count(check_beside(home, flips(home, TELLING_BITS), is_clean=is_clean), enumerated)


@pytest.mark.slow
@BY_STORY
def test_commands_see_every_flipped_bit(
    story: Story, tmp_path: Path, enumerated: Enumerated
) -> None:
    """The same for what ``cat`` and ``offsets`` print."""
    home = written(story)

    count(check_on_disk(home, flips(home, TELLING_BITS[::2]), tmp_path, commands), enumerated)


@pytest.mark.slow
@BY_STORY
def test_spark_sees_every_flipped_bit(story: Story, tmp_path: Path, enumerated: Enumerated) -> None:
    """The same for the readers of the data source, as workers call them."""
    pytest.importorskip("pyspark")
    home = written(story)

    count(check_on_disk(home, flips(home, TELLING_BITS[::2]), tmp_path, spark), enumerated)


@pytest.mark.slow
@BY_STORY
def test_whatever_is_skipped_is_reported(story: Story, enumerated: Enumerated) -> None:
    """The same for a reader that is asked to read past damage, and for each bit."""
    home = written(story)

    count(check_skipping(home, flips(home, range(HEADER_BITS))), enumerated)
