"""How far an earlier try came in a log, and how the rest is placed: nothing twice, nothing lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.machinery.log_home import LogHome, all_records, all_values
from tests.unit.staging.test_adopting import BATCHES, stage

from tidelog.errors import KafkaStorageError
from tidelog.records.builder import build_batch
from tidelog.staging.adopting import adopt_run
from tidelog.staging.journal import Journal, Move
from tidelog.staging.placing import Found, NewPlaces, find_move, place_moves

if TYPE_CHECKING:
    from tidelog.log.log import Log

OTHER = build_batch([(1_000, b"other", b"other", ())])
EARLIER = 3
"""Records that are in the log before the move."""
PER_BATCH = 2
END = EARLIER + len(BATCHES) * PER_BATCH
EPOCH = 4


class Home(LogHome):
    """A log with some records, and a move of three batches that is to follow them."""

    def __init__(self, *, is_adopted: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self.log: Log = self.open()
        self.append(*[OTHER] * EARLIER)
        self.move = Move(
            *(UUID(int=1), stage(self, *BATCHES), EARLIER, EPOCH),
            records=len(BATCHES) * PER_BATCH,
            is_stamped=False,
            is_adopted=is_adopted,
        )

    def append(self, *batches: bytes, epoch: int = EPOCH) -> None:
        """Append batches as the leader of an epoch does."""
        for batch in batches:
            self.log.append_as_leader(batch, epoch)

    def damage(self, at: int) -> None:
        """Flip a bit in the last segment, and open the log again."""
        name = self.log.segments.active.path.rpartition("/")[2]
        self.log.close()
        data = bytearray(self.read(name))
        data[at] ^= 1
        self.write(name, data)
        self.log = self.open()

    def journal(self, *moves: Move) -> Journal:
        """Return the journal of these moves."""
        return Journal("x", True, 1, {"flights": 6}, (), moves or (self.move,))

    def find(self, move: Move | None = None) -> Found:
        """Compare the log with the move."""
        one = move or self.move
        return find_move(self.fs, self.data_directory, self.log, self.journal(one), one)

    def place(self, *moves: Move) -> tuple[NewPlaces | None, list[int]]:
        """Place the moves; return what is left, and the bytes that were placed."""
        placed: list[int] = []
        left = place_moves(
            *(self.fs, self.data_directory, self.log, self.journal(*moves), moves),
            on_placed=placed.append,
        )
        return left, placed


def found(batches: int, **how: Any) -> Found:
    """Return what is found where the first batches are there, and nothing else."""
    plain: dict[str, Any] = {"is_whole": batches == len(BATCHES), "is_at_end": True} | how
    return Found(batches, batches * PER_BATCH, EARLIER + batches * PER_BATCH, **plain)


@pytest.mark.parametrize("count", range(3))
def test_the_first_batches_of_a_move_are_found(count: int) -> None:
    """With the records in them; the rest goes where they end."""
    home = Home()
    home.append(*BATCHES[:count])

    assert home.find() == found(count)
    assert home.place(home.move)[0] is None
    assert [offset for offset, _ in all_values(home.log)] == [*range(END)]
    assert {one.leader_epoch for one in all_records(home.log)} == {EPOCH}
    assert home.find() == found(3, is_at_end=False)
    assert home.place(home.move) == (None, [home.move.run.size_bytes])
    assert home.log.log_end_offset == END


@pytest.mark.parametrize("count", range(4))
def test_records_of_others_after_the_first_batches_are_not_taken_for_more(count: int) -> None:
    """Also where batches of the move seem to follow: they are another producer's, the same."""
    home = Home()
    home.append(*BATCHES[:count], OTHER, *BATCHES[count:])

    assert home.find() == found(count, is_at_end=False)


@pytest.mark.parametrize("count", range(3))
def test_what_others_have_written_since_is_followed_by_the_rest(count: int) -> None:
    """The journal has to name the new places first: an offset there is not known otherwise."""
    home = Home()
    home.append(*BATCHES[:count], OTHER)
    later = replace(home.move, base_offset=END)
    left, placed = home.place(home.move, later)

    assert placed == []
    assert left is not None
    first, second = left.moves
    base = EARLIER + count * PER_BATCH + 1
    rest = (len(BATCHES) - count) * PER_BATCH
    assert (first.base_offset, first.first_batch, first.records) == (base, count, rest)
    assert (second.base_offset, second.first_batch) == (base + rest, 0)
    assert home.place(*left.moves)[0] is None
    values = [value for offset, value in all_values(home.log) if offset >= base]
    whole = [b"0", None, b"1", None, b"2", None]
    assert values == [*whole[count * PER_BATCH :], *whole]


def test_a_newer_epoch_gets_the_rest_as_its_own() -> None:
    """Nothing may be written in an epoch that has ended: a follower would cut it off."""
    home = Home()
    home.append(*BATCHES[:1])
    home.log.maybe_assign_epoch(EPOCH + 2, home.log.log_end_offset)
    left, _ = home.place(home.move)

    assert left is not None
    assert [(one.leader_epoch, one.base_offset, one.first_batch) for one in left.moves] == [
        (EPOCH + 2, EARLIER + PER_BATCH, 1)
    ]
    assert home.place(*left.moves)[0] is None
    assert home.log.log_end_offset == END


def test_a_move_that_is_whole_stays_in_its_epoch() -> None:
    """Whatever has begun since."""
    home = Home()
    home.append(*BATCHES)
    home.log.maybe_assign_epoch(EPOCH + 2, END)

    assert home.place(home.move) == (None, [home.move.run.size_bytes])


def test_a_file_that_was_adopted_is_found_in_the_log() -> None:
    """It is gone from where it was staged; others may have written after it."""
    home = Home(is_adopted=True)
    assert home.find() == found(0)
    assert home.place(home.move)[0] is None
    assert not home.fs.exists(f"{home.data_directory}/{home.move.run.name}")
    for _ in range(2):
        assert home.find() == found(3, is_at_end=False)
        home.append(OTHER)
    assert home.place(home.move) == (None, [home.move.run.size_bytes])


@pytest.mark.parametrize(
    "change", [{"leader_epoch": EPOCH + 1}, {"base_offset": EARLIER + 2}, {"base_offset": 1}]
)
def test_a_file_that_was_adopted_elsewhere_is_not_found(change: dict[str, Any]) -> None:
    """At other offsets, or in another epoch, its records are not these."""
    home = Home(is_adopted=True)
    adopt_run(
        *(home.fs, home.data_directory, home.log, home.move.run),
        home.journal().placement(home.move),
    )

    with pytest.raises(KafkaStorageError, match="does not hold the file"):
        home.find(replace(home.move, **change))


def test_an_adopted_file_whose_records_are_damaged_is_not_found() -> None:
    """The digest covers only headers, and the checksums in them the rest."""
    home = Home(is_adopted=True)
    assert home.place(home.move)[0] is None
    home.damage(len(BATCHES[0]) - 1)
    assert home.log.log_end_offset == END

    with pytest.raises(KafkaStorageError, match="does not hold the file"):
        home.find()


def test_what_was_deleted_or_lost_leaves_open_what_was_there() -> None:
    """Records from the move's offsets on, or those before them."""
    home = Home()
    home.append(*BATCHES)
    home.log.update_high_watermark(END)
    home.log.delete_records(EARLIER + 1)
    with pytest.raises(KafkaStorageError, match=f"starts at {EARLIER + 1}, above offset {EARLIER}"):
        home.find()
    home = Home()
    home.log.truncate_to(EARLIER - 1)
    with pytest.raises(KafkaStorageError, match=f"ends at {EARLIER - 1}, below offset {EARLIER}"):
        home.find()


def test_a_batch_that_is_damaged_in_the_log_is_none_of_the_move() -> None:
    """Nobody can read it: its records are written once more."""
    home = Home()
    home.append(*BATCHES)
    home.damage(EARLIER * len(OTHER) + len(BATCHES[0]) - 1)

    assert home.find() == found(0, is_at_end=False)


def test_a_gap_in_the_log_leaves_open_what_was_there() -> None:
    """Compaction, or a loss, has taken records from the move's offsets on."""
    home = Home()
    place: dict[str, Any] = {"base_offset": EARLIER + 1, "leader_epoch": EPOCH}
    home.log.append_as_follower(build_batch([(1, b"k", b"v", ())], **place), EPOCH)

    with pytest.raises(KafkaStorageError, match=f"lacks records from offset {EARLIER} on"):
        home.find()


def test_a_file_is_adopted_at_any_offset() -> None:
    """Its offsets have only to fit the segment that it becomes."""
    home = Home(is_adopted=True)
    start = 3_000_000_000
    home.log.truncate_fully_and_start_at(start)
    left, _ = home.place(replace(home.move, base_offset=start))

    assert left is None
    assert [offset for offset, _ in all_values(home.log)] == [*range(start, start + 6)]
    assert not home.fs.exists(f"{home.data_directory}/{home.move.run.name}")


def test_a_power_cut_leaves_no_gap_between_segments() -> None:
    """What is in a segment is durable before the next one begins."""
    home = Home(internal_segment_bytes=len(BATCHES[0]))
    assert home.place(home.move)[0] is None
    home.power_cut("none")

    log = home.open(clean=False)
    assert log.log_end_offset == EARLIER + 2 * PER_BATCH
    assert len(all_values(log)) == log.log_end_offset
