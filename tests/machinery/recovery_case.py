"""Damaged logs generated from a seed: their files, and the values of the checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from tests.machinery.damage import apply_damage, bases, name_of
from tests.machinery.odd_logs import StoredLog, write_log

from tidelog.records.builder import build_batch
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.records.batch_columns import BatchColumns

CHANGED_S: Final = 1_690_000_000
"""Modification time of the files, in seconds since the epoch: it stands in for the timestamp of
segments whose records have none."""

_SPECIAL_TIMES: Final = (-1, -2, -3, -4, 0, CHANGED_S * 1000, CHANGED_S * 1000 + 1)


@dataclass(frozen=True)
class RecoveryCase:
    """One damaged log, and how it is opened and used.

    ``done`` describes the damage, ``times`` are looked up, ``append`` are batches of a client. If
    ``closes`` is false, the process ends as if it was killed.
    """

    seed: int
    log: StoredLog
    files: dict[str, bytes]
    done: list[str]
    is_clean: bool
    recovery_point: int
    log_start_offset: int
    high_watermark: int
    times: list[int]
    append: list[bytes]
    closes: bool

    def __str__(self) -> str:
        how = "clean" if self.is_clean else "unclean"
        return (
            f"seed {self.seed}: {self.log.origin}, {how}, recovery point {self.recovery_point}, "
            f"start {self.log_start_offset}; {'; '.join(self.done)}"
        )

    @property
    def has_odd_offsets(self) -> bool:
        """Whether the batches of some file have offsets that are impossible there."""
        logs = {
            (int(name[:20]), name): walk(data, in_memory=False).batches
            for name, data in self.files.items()
            if name[:20].isdigit() and ".log" in name
        }
        if any(_are_odd(batches, base) for (base, _), batches in logs.items()):
            return True
        ends = [
            (base, int(found.last_offset[-1])) for (base, _), found in logs.items() if len(found)
        ]
        return any(
            base <= other <= last for base, last in ends for other, _ in logs if other != base
        )


def _was_closed(files: dict[str, bytes]) -> bool:
    """Return whether the indexes were trimmed, so that a clean shutdown is plausible."""
    return not any(data.endswith(bytes(12)) for name, data in files.items() if "index" in name)


def _are_odd(batches: BatchColumns, base_offset: int) -> bool:
    before = base_offset - 1
    for first, last in zip(batches.base_offset.tolist(), batches.last_offset.tolist(), strict=True):
        if first <= before < last and before >= base_offset:
            return True
        if not before < last <= base_offset + 2**31 - 1 or first > last or first < 0:
            return True
        before = last
    return False


def make_case(seed: int, stored: Sequence[StoredLog]) -> RecoveryCase:
    """Return the case of a seed: one of the ``stored`` logs, or a generated one."""
    rng = Random(seed)
    log = rng.choice(stored) if stored and rng.random() < 0.5 else write_log(rng.randrange(100_000))
    files = dict(log.files)
    segments = bases(files) or [0]
    headers = {base: walk(files.get(name_of(base), b"")).batches for base in segments}
    last = headers[segments[-1]]
    end = last.next_offset if len(last) else segments[-1]
    done = apply_damage(rng, files) if rng.random() < 0.97 else []
    anywhere = rng.randrange(end + 1)
    return RecoveryCase(
        seed,
        log,
        files,
        done,
        is_clean=rng.random() < 0.3 and _was_closed(log.files),
        recovery_point=rng.choice((0, 0, 0, end, segments[-1], rng.choice(segments), end + 50)),
        log_start_offset=rng.choice((*(segments[0],) * 8, 0, anywhere, end, end + 7)),
        high_watermark=rng.choice((0, end, end, anywhere)),
        times=_times(rng, list(headers.values())),
        append=_new_batches(rng, log),
        closes=rng.random() < 0.8,
    )


def _times(rng: Random, segments: Sequence[BatchColumns]) -> list[int]:
    """Choose timestamps to look up: those of some batches, their neighbours, and special values."""
    found = []
    for _ in range(6):
        batches = rng.choice(segments)
        if len(batches):
            time = int(rng.choice(batches.base_timestamp.tolist())) + rng.choice((-1, 0, 1, 2))
            found.append(min(max(time, 0), 2**62))
    return [*_SPECIAL_TIMES, *found]


def _new_batches(rng: Random, log: StoredLog) -> list[bytes]:
    """Build batches to append; none if the log recompresses, which no two libraries do alike."""
    if log.settings.get("compression.type", "producer") != "producer":
        return []
    return [
        build_batch([(log.now_ms, b"new", b"x" * rng.choice((1, 500)), ())] * rng.choice((1, 4)))
        for _ in range(rng.choice((0, 0, 0, 1, 3)))
    ]
