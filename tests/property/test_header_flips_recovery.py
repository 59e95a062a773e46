"""One flipped bit in a batch header, where no checksum covers it, against whatever writes.

A recovery cuts nothing sound for a base offset that one damaged batch explains, after a kill as
after a clean stop; for any other bit it cuts as Kafka does, and keeps what it cuts. What ``verify``
calls damaged nobody writes again: neither the cleaner nor a mirror. What nobody can see is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pytest
from tests.property.header_flips import (
    BASE_OFFSET_BITS,
    HEADER_BITS,
    STORIES,
    Flip,
    flips,
    many_segments,
    places,
    written,
)

from tidelog.errors import DamagedLog, KafkaStorageError, TidelogError
from tidelog.explain.verify.findings import Severity
from tidelog.explain.verify.verify_partition import verify_partition
from tidelog.log.loading.cut_keeper import KeepCuts
from tidelog.manager.lifecycle.log_opener import RecoveryRules
from tidelog.manager.mirror import Mirror
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.isolation import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.machinery.directory_home import DataHome

    from tidelog.embedded.logs import Logs
    from tidelog.log.log import Log

Shown = list[tuple[int, bytes | None]]
Story = Callable[["Logs"], None]

CUTTING: Final = RecoveryRules(keep_cuts=KeepCuts.ALWAYS, cuts_contradictions=True)
COMPACTING: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "min.compaction.lag.ms": "0",
}


def shown(log: Log) -> tuple[Shown, TidelogError | None]:
    """Return what the owner of a log reads, and the error after it."""
    found: Shown = []
    try:
        found.extend((each.offset, each.value) for each in log.records(isolation=Isolation.LOG_END))
    except TidelogError as error:
        return found, error
    return found, None


def log_files(home: DataHome) -> dict[str, bytes]:
    names = [name for name in home.files("t-0") if name.endswith(".log")]
    return {name: home.fs.read(f"{home.path}/t-0/{name}") for name in names}


def batches_of(home: DataHome) -> bytes:
    """Return the bytes of the whole log; a segment may have been split."""
    return b"".join(data for _, data in sorted(log_files(home).items()))


def cut_files(home: DataHome) -> list[str]:
    return [name for name in home.files() if name.endswith(".cut")]


def kill(home: DataHome) -> None:
    """Leave a directory as a process does that is killed before it has flushed anything."""
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        home.fs.delete(f"{home.path}/{name}")


def damaged_places(home: DataHome) -> set[tuple[str, int | None]]:
    """Return the files and bytes of batches that ``verify`` calls damaged."""
    found = verify_partition(home.fs, f"{home.path}/t-0", clock=home.clock, is_compacted=True)
    return {
        (each.path, each.byte)
        for each in found.findings
        if each.severity is Severity.DAMAGE and each.path.endswith(".log")
    }


def keeps_what_is_sound(home: DataHome, flip: Flip, truth: Shown, *, is_killed: bool) -> str:
    """Open a damaged log, as after a kill or a clean stop; say what became of it."""
    if is_killed:
        kill(home)
    before = batches_of(home)
    try:
        with home.open() as logs:
            log = logs.partition("t", 0).log
            kept, (found, error) = log.contradiction, shown(log)
            if kept is not None:
                with pytest.raises(DamagedLog):
                    logs.append("t", b"refused", key=b"k")
    except KafkaStorageError:
        assert flip.bit >= BASE_OFFSET_BITS, flip
        assert (batches_of(home), cut_files(home)) == (before, []), flip
        return "not loaded"
    if flip.bit >= BASE_OFFSET_BITS and not flip.is_of_epoch:
        assert found == truth[: len(found)], flip
        return "cut" if batches_of(home) != before else "damage stays"
    if is_killed and cut_files(home):
        assert before == batches_of(home) + before[-flip.place.size :], flip
        assert (kept, error, found) == (None, None, truth[: len(found)]), flip
        return "torn end"
    assert (batches_of(home), cut_files(home)) == (before, []), flip
    if error is not None:
        assert found == truth[: len(found)], flip
    if kept is not None:
        assert is_killed, flip
        assert flip.place.position in kept.found.damaged, flip
        return "takes no appends" if len(kept.found.damaged) == 1 else "undecided"
    return "seen by readers" if error is not None else "right" if found == truth else "not seen"


def after_a_clean_stop(home: DataHome, flip: Flip, truth: Shown) -> str:
    """Open the log as it was left in order."""
    return keeps_what_is_sound(home, flip, truth, is_killed=False)


def after_a_kill(home: DataHome, flip: Flip, truth: Shown) -> str:
    """Open the log without that; then recover it as an operator does, and append to it."""
    outcome = keeps_what_is_sound(home, flip, truth, is_killed=True)
    if outcome in REFUSING:
        with home.open(recovery=CUTTING) as logs:
            log = logs.partition("t", 0).log
            end = log.log_end_offset
            assert logs.append("t", b"more", key=b"k").offset == end
            found, error = shown(log)
        assert error is None, flip
        assert found[:-1] == truth[: len(found) - 1], flip
        assert cut_files(home), flip
    return outcome


def under_a_cleaner(home: DataHome, flip: Flip, truth: Shown) -> str:
    """Compact the log, and plan it: a file with damage stays as it is."""
    del truth
    damaged = damaged_places(home)
    before = log_files(home)
    outcome = "cleaned"
    with home.open(overrides=COMPACTING) as logs:
        try:
            logs.manager.on_demand.compact("t")
        except TidelogError:
            outcome = "uncleanable"
    after = log_files(home)
    for path, _ in damaged:
        name = path.rpartition("/")[2]
        if flip.bit < BASE_OFFSET_BITS or name in after:
            assert after[name][: flip.place.position] == before[name][: flip.place.position], flip
        if flip.bit < BASE_OFFSET_BITS:
            assert after[name] == before[name], flip
            assert damaged <= damaged_places(home), flip
    return outcome if damaged else f"{outcome}, not seen by verify"


def into_a_mirror(home: DataHome, flip: Flip, truth: Shown) -> str:
    """Mirror the topic in another directory: all of it is there, or nothing."""
    damaged = damaged_places(home)
    source = open_directory_read_only(home.path, fs=home.fs)
    with home.open(paths=("/mirror",)) as logs:
        try:
            Mirror(source, logs.manager, "/mirror").run(())
        except TidelogError:
            assert logs.topics() == {}, flip
            return "refused"
        assert not damaged, flip
        found, error = shown(logs.partition("t", 0).log)
    assert error is None, flip
    return "right" if found == truth else "not seen"


REFUSING: Final = {"takes no appends", "undecided"}
"""What becomes of a log whose recovery sees the flipped bit, and keeps the batches after it."""
Act = Callable[["DataHome", Flip, Shown], str]
ACTS: Final[dict[str, Act]] = {
    "clean stop": after_a_clean_stop,
    "kill": after_a_kill,
    "cleaner": under_a_cleaner,
    "mirror": into_a_mirror,
}


def rolled(story: Story) -> Story:
    """Return a story after which the cleaner may clean the batches."""

    def tell(logs: Logs) -> None:
        story(logs)
        logs.partition("t", 0).log.roll()
        logs.append("t", b"active", key=b"k")

    return tell


def check(story: Story, act: str, bits: Iterable[int], *, every: int = 1) -> Counter[str]:
    """Try each flip of a story's log; return how many of them had which outcome."""
    home = written(rolled(story) if act == "cleaner" else story)
    with home.copied(0).open() as logs:
        truth, error = shown(logs.partition("t", 0).log)
    assert error is None
    counts: Counter[str] = Counter()
    there = places(home)
    for number, flip in enumerate(flips(home, bits)):
        if number % every:
            continue
        damaged = home.copied(1)
        flip.apply(damaged)
        outcome = ACTS[act](damaged, flip, truth)
        if act == "kill" and flip.bit < BASE_OFFSET_BITS:
            # An append after an offset that recovery believes would be given a wrong one.
            is_seen = outcome in {*REFUSING, "torn end"}
            assert is_seen or not flip.is_contradicted(there, None), (flip, outcome)
        counts[outcome] += 1
    return counts


QUICK_BITS: Final = (0, 16, 57, 59, 70, 100, 129, 140)


@pytest.mark.parametrize("act", ACTS)
def test_a_flipped_bit_of_a_header_does_no_more_damage(
    act: str, enumerated: Callable[..., None]
) -> None:
    """No sound batch is cut for it, and nobody writes over what it has damaged."""
    counts = check(many_segments, act, QUICK_BITS, every=13)

    enumerated("flips", counts.total(), at_least=7)


@pytest.mark.slow
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_no_flipped_bit_of_a_header_does_more_damage(
    story: Story, act: str, enumerated: Callable[..., None]
) -> None:
    """The same for each bit of a base offset, of each batch, and for others no checksum covers."""
    counts = check(story, act, range(BASE_OFFSET_BITS), every=3 if act == "mirror" else 1)
    # A checksum that does not match ends a log in one way, whatever bit it was.
    counts += check(story, act, range(BASE_OFFSET_BITS, HEADER_BITS), every=7)

    for what, count in counts.items():
        enumerated(f"{act}: {what}", count, at_least=1)
