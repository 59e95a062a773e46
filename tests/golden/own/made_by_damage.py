"""Damage by hand to the directories that ``make_own_golden.py`` wrote: one kind a partition.

Works on plain files and knows nothing of tidelog.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Hurt = Callable[[Path], None]

UNIQUE = "0123456789abcdef" * 2


def segments(log: Path) -> list[Path]:
    """Return the ``.log`` files of a partition."""
    return sorted(log.glob("*.log"))


def change(path: Path, how: Callable[[bytes], bytes]) -> None:
    """Give a file other bytes."""
    path.write_bytes(how(path.read_bytes()))


def flip(path: Path) -> None:
    """Flip a byte about the middle of a file; in a log one that a checksum covers."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    at = data.index(b"value", middle) if path.suffix == ".log" else middle
    data[at] ^= 0xFF
    path.write_bytes(data)


def tear(log: Path) -> None:
    """Cut the last batch."""
    change(segments(log)[-1], lambda data: data[:-5])


def add_garbage(log: Path) -> None:
    """Let bytes that are not a batch follow the last one."""
    change(segments(log)[-1], lambda data: data + bytes(range(1, 120)))


def add_zeros(log: Path) -> None:
    """Let zeros follow the last batch, as after a power cut."""
    change(segments(log)[-1], lambda data: data + bytes(300))


def flip_first(log: Path) -> None:
    """Flip a byte of the first segment, which was flushed long ago."""
    flip(segments(log)[0])


def flip_inactive(log: Path) -> None:
    """Flip a byte of the last segment but one."""
    flip(segments(log)[-2])


def cut_index(log: Path) -> None:
    """Cut the index of the first segment within an entry."""
    change(segments(log)[0].with_suffix(".index"), lambda data: data[:-3])


def spoil_time_index(log: Path) -> None:
    """Write nonsense over the time index of the last segment but one."""
    change(segments(log)[-2].with_suffix(".timeindex"), lambda data: b"\xff" * len(data))


def drop_indexes(log: Path) -> None:
    """Delete every index."""
    for path in [*log.glob("*.index"), *log.glob("*.timeindex")]:
        path.unlink()


def leave(suffix: str, number: int) -> Hurt:
    """Return what leaves a copy of a segment with a suffix behind."""

    def hurt(log: Path) -> None:
        chosen = segments(log)[number]
        for path in sorted(log.glob(f"{chosen.stem}.*")):
            if path.suffix in {".log", ".index", ".timeindex"}:
                shutil.copyfile(path, path.with_name(path.name + suffix))

    return hurt


def drop_snapshots(log: Path) -> None:
    """Delete all producer snapshots but the first, and spoil that."""
    first, *others = sorted(log.glob("*.snapshot"))
    flip(first)
    for path in others:
        path.unlink()


def drop_epochs(log: Path) -> None:
    """Delete the leader epochs."""
    (log / "leader-epoch-checkpoint").unlink()


def drop_metadata(log: Path) -> None:
    """Delete the topic's id."""
    (log / "partition.metadata").unlink()


def drop_segment(log: Path) -> None:
    """Delete the files of the second segment."""
    for path in sorted(log.glob(f"{segments(log)[1].stem}.*")):
        path.unlink()


def leave_temporaries(log: Path) -> None:
    """Leave half of small files that were being replaced."""
    for name in ("leader-epoch-checkpoint", "partition.metadata"):
        (log / f"{name}.tmp").write_bytes((log / name).read_bytes()[:7])


def nothing(log: Path) -> None:
    """Leave a log as it is, to be compared with."""


HURT: tuple[Hurt, ...] = (
    nothing,
    tear,
    add_garbage,
    add_zeros,
    flip_first,
    flip_inactive,
    cut_index,
    spoil_time_index,
    drop_indexes,
    leave(".cleaned", 0),
    leave(".swap", 0),
    leave(".deleted", 0),
    drop_snapshots,
    drop_epochs,
    drop_metadata,
    drop_segment,
)
HURT_MARKED: tuple[Hurt, ...] = (
    nothing,
    tear,
    add_garbage,
    add_zeros,
    flip_first,
    cut_index,
    drop_indexes,
    leave(".swap", 1),
    drop_snapshots,
    leave_temporaries,
)


def hurt_directory(directory: Path) -> None:
    """Hurt a directory that a killed service left; its watermarks and a clean catalogue go too."""
    hurt_logs(directory, HURT)
    (directory / "replication-offset-checkpoint").unlink()
    for suffix in ("delete", "stray"):
        shutil.copytree(directory / "hurt-0", directory / f"hurt-99.{UNIQUE}-{suffix}")
    whole = (directory / "tidelog.topics.json").read_bytes()
    (directory / "tidelog.topics.json.tmp").write_bytes(whole[: len(whole) // 2])
    (directory / f"tidelog.{UNIQUE}.{UNIQUE}.staged").write_bytes(b"")


def hurt_marked_directory(directory: Path) -> None:
    """Hurt a directory that has the mark of a clean shutdown; its recovery points go too."""
    hurt_logs(directory, HURT_MARKED)
    (directory / "recovery-point-offset-checkpoint").unlink()


def hurt_logs(directory: Path, kinds: tuple[Hurt, ...]) -> None:
    """Do one kind of damage to each partition of the topic ``hurt``."""
    for number, hurt in enumerate(kinds):
        hurt(directory / f"hurt-{number}")
