"""Histories of a source between the runs of its mirror, at random."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers, lists, sampled_from, tuples
from tests.machinery.scale import examples
from tests.unit.manager.test_mirror import SMALL, SOURCE, TARGET, Homes, append, transact

from tidelog.readonly.read_only_directory import open_directory_read_only

STEPS = ("append", "large", "commit", "abort", "open", "compact", "retain", "delete", "mirror")
BOTH = {**SMALL, "cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.01"}


def offsets_of(homes: Homes, path: str) -> list[int]:
    """Return the offsets of all records of a partition."""
    with open_directory_read_only(path, fs=homes.home.fs).open("t", 0) as log:
        return [record.offset for record in log.records(end_offset=log.log_end_offset)]


def act(homes: Homes, step: str, number: int, epoch: int) -> None:
    """Let the owner of the source do something."""
    with homes.source() as logs:
        partition = logs.partition("t", 0)
        log = partition.log
        if step in {"append", "large"}:
            size = 300 if step == "large" else 3
            append(log, *(b"%d" % (at % 2) * size for at in range(number)))
        elif step == "compact":
            logs.manager.on_demand.compact("t")
        elif step == "retain":
            log.roll()
            logs.manager.on_demand.retain("t")
        elif step == "delete":
            offset = log.log_start_offset + number
            if offset <= log.high_watermark:
                log.maybe_increment_log_start_offset(offset)
        else:
            is_commit = {"commit": True, "abort": False, "open": None}[step]
            transact(log, epoch, is_commit=is_commit)


@pytest.mark.slow
@settings(max_examples=examples(30), deadline=None)
@given(lists(tuples(sampled_from(STEPS), integers(1, 4)), max_size=16))
def test_whatever_the_source_did_a_mirror_has_what_is_left_of_it(
    steps: list[tuple[str, int]],
) -> None:
    """Its end, its start, and every record that the source still has; a further run is idle."""
    homes = Homes()
    with homes.source() as logs:
        logs.create_topic("t", config=BOTH)
    for epoch, (step, number) in enumerate(steps):
        if step == "mirror":
            homes.mirror()
        else:
            act(homes, step, number, epoch)

    homes.mirror()

    assert [one.batches for one in homes.mirror()] == [0]
    found, wanted = offsets_of(homes, TARGET), offsets_of(homes, SOURCE)
    assert set(wanted) <= set(found)
    with homes.source() as logs, homes.target() as mirror:
        theirs, ours = logs.partition("t", 0).log, mirror.partition("t", 0).log
        if theirs.log_start_offset < theirs.log_end_offset:  # else there was nothing to copy
            assert ours.log_end_offset == theirs.log_end_offset
            if theirs.last_stable_offset > theirs.log_start_offset:
                # Else a transaction is open of which the first record was deleted.
                assert ours.last_stable_offset == theirs.last_stable_offset
        assert ours.log_start_offset == min(theirs.log_start_offset, ours.log_end_offset)
