"""A replacement of segments that a crash stopped, and whose repair is stopped by another crash."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.machinery.log_home import LogHome, all_values

from tidelog.testing import PowerCut, build_batch

if TYPE_CHECKING:
    from tidelog.testing.disk import Kept

NOW_MS = 1_700_000_000_000
FIRST = f"{0:020}"
_SEEDS = 4
"""How often each operation is the last: another seed loses other changes."""


def batch(*values: bytes, base_offset: int = 0, last_offset: int | None = None) -> bytes:
    """Make a batch of some records."""
    records = [(NOW_MS, b"key", value, ()) for value in values]
    end = base_offset + len(values) - 1 if last_offset is None else last_offset
    return build_batch(records, base_offset=base_offset, leader_epoch=0, last_offset=end)


def stopped(names: dict[str, bytes], seed: int = 0) -> LogHome:
    """Leave segments at 0, 2 and 4 behind, and these files, all durable."""
    home = LogHome(seed, internal_segment_bytes=2 * len(batch(b"0")), index_interval_bytes=0)
    log = home.open()
    for number in range(5):
        log.append_as_leader(batch(b"%d" % number))
    log.close()
    for name, content in names.items():
        home.write(name, content)
    home.power_cut("all")
    return home


def values_after_two_crashes(names: dict[str, bytes], kept: Kept) -> set[tuple[bytes | None, ...]]:
    """Return the values of logs whose opening was stopped once, at each operation."""
    found: set[tuple[bytes | None, ...]] = set()
    for seed in count():
        # Twice at each operation: another seed loses other changes.
        operations = seed // 2
        home = stopped(names, seed)
        home.fs.crash_after(operations)
        try:
            home.open(clean=False)
        except PowerCut:
            home.power_cut(kept)
        else:
            return found
        found.add(tuple(value for _, value in all_values(home.open(clean=False))))
    raise AssertionError


@pytest.mark.parametrize("kept", ["all", "none", "any", "prefix"])
def test_a_replacement_that_is_undone_stays_undone(kept: Kept) -> None:
    """The new files named ``.swap`` go first: without the ``.cleaned`` ones they look complete.

    Their records would then be in the log twice: also in the old segment, which stays.
    """
    names = {
        f"{FIRST}.log.cleaned": batch(b"0"),
        f"{1:020}.log.swap": batch(b"1", base_offset=1),
    }

    assert values_after_two_crashes(names, kept) == {(b"0", b"1", b"2", b"3", b"4")}


@pytest.mark.parametrize("kept", ["all", "none", "any", "prefix"])
def test_a_replacement_that_is_finished_replaces_all(kept: Kept) -> None:
    """Old segments are gone for good before a new one takes its name.

    One that came back after a power cut would hold the records of the new one again.
    """
    names = {f"{FIRST}.log.swap": batch(b"new", last_offset=3)}

    assert values_after_two_crashes(names, kept) == {(b"new", b"4")}
