"""Logs of every kind with random damage: what ``rescue`` copies, against readers and a model."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from tests.machinery.damage import KINDS
from tests.property.test_verify import BASES, DATA, LOG, healthy, home_of, tree

from tidelog.explain.verify.findings import Severity
from tidelog.explain.verify.verify_partition import verify_partition
from tidelog.manager.rescue.failing_files import FailingFiles
from tidelog.manager.rescue.rescue import Rescue
from tidelog.readonly.missing.damaged_range import ignore_damage
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.damage.past_damage import BadBytes, walk_past_damage

if TYPE_CHECKING:
    from tests.conftest import Enumerated
    from tests.machinery.damage import Files
    from tests.machinery.manager_home import ManagerHome

    from tidelog.manager.rescue.rescued_partition import Rescued

    Offsets = tuple[int, int]
    Batches = dict[Offsets, bytes]

NEW: Final = "/new"
CASES: Final = 60
SEEDS: Final = [
    (0, CASES),
    *(pytest.param(first, 400, marks=pytest.mark.slow) for first in range(20_000, 22_000, 400)),
]
FORGING: Final = {"rewrite"}
"""Damage with valid checksums: what it leaves was never in the log."""
CHECKED: Final = BATCH_HEADER.offsets["crc"]
LOGS: Final = (".log", ".log.swap", ".log.deleted", ".log.cleaned")


def hurt(seed: int, *, forges: bool = False) -> tuple[Files, Files, list[str]]:
    """Return a directory before and after some damage, and what was done."""
    rng = Random(seed)
    before = dict(healthy(rng.randrange(BASES)))
    inside = {path.rpartition("/")[2]: data for path, data in before.items() if LOG in path}
    kinds = {name: kind for name, kind in KINDS.items() if forges or name not in FORGING}
    weights = [weight for _, weight in kinds.values()]
    done: list[str] = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        kind, _ = rng.choices(list(kinds.values()), weights)[0]
        done += filter(None, [kind(rng, inside)])
    after = {path: data for path, data in before.items() if LOG not in path}
    return before, after | {f"{LOG}/{name}": data for name, data in inside.items()}, done


def rescue(home: ManagerHome) -> Rescued:
    """Rescue the directory of a machine."""
    disk = FailingFiles(home.fs, [DATA])
    source = open_directory_read_only(DATA, fs=disk, accept=None)
    return Rescue(source, disk, NEW, home.machine()).run()


def batches(home: ManagerHome, directory: str) -> Batches:
    """Return the batches in the segments of a log by their offsets, without empty ones."""
    found: Batches = {}
    names = home.fs.list(directory) if home.fs.exists(directory) else []
    for name in sorted(name for name in names if name[20:] == ".log"):
        file = home.fs.open(f"{directory}/{name}")
        for piece in walk_past_damage(file, 0, file.size()):
            if isinstance(piece, BadBytes):
                continue
            rows = piece.batches_in_data
            for at in range(len(rows)):
                start, size = int(rows.position[at]), int(rows.size[at])
                if rows.records_count[at] or rows.producer_id[at] >= 0:
                    key = int(rows.base_offset[at]), int(rows.last_offset[at])
                    found[key] = bytes(piece.data[start : start + size])
        file.close()
    return found


def invented(model: Batches, copy: Batches) -> set[Offsets | None]:
    """Return the offsets at which a copy has what was not there.

    Only the last batch may be such a one: nobody sees that bits of its offset have flipped. The
    checksum does not cover what comes before it either, such as the leader epoch.
    """
    return {key for key, data in copy.items() if model.get(key, b"")[CHECKED:] != data[CHECKED:]}


def readable(home: ManagerHome, data_dir: str) -> dict[int, object]:
    """Return the records that readers past damage find from the first byte on, by offset."""
    starts = f"{data_dir}/log-start-offset-checkpoint"
    if home.fs.exists(starts):
        home.fs.delete(starts)
    directory = open_directory_read_only(data_dir, fs=home.fs)
    if ("t", 0) not in directory.partitions:
        return {}
    with directory.open("t", 0, on_damage=ignore_damage) as log:
        found = log.records(log.log_start_offset, log.log_end_offset)
        return {record.offset: record for record in found}


def unsound(home: ManagerHome) -> list[str]:
    """Return the damage that verify finds in the copy.

    Not what follows from a flip that no checksum covers: of a leader epoch, or of the offset of the
    last batch, which seems to lie more than a segment can hold after the one before it.
    """
    found = verify_partition(home.fs, f"{NEW}/t-0", clock=home.clock).findings
    damage = [one.what for one in found if one.severity is Severity.DAMAGE]
    return [what for what in damage if " is of epoch " not in what and "no segment" not in what]


@pytest.mark.parametrize(("first", "count"), SEEDS)
def test_a_copy_has_what_readers_find_and_nothing_that_was_never_there(
    first: int, count: int, enumerated: Enumerated
) -> None:
    """At the same offsets; it verifies, its counts are right, and the source is as it was."""
    losses = damaged = 0
    for seed in range(first, first + count):
        before, after, done = hurt(seed)
        home = home_of(after)
        source = tree(home.fs)
        rescued = rescue(home)
        (one,) = rescued.partitions
        label = f"seed {seed}: {done}"

        assert tree(home.fs) == source, label
        model, copy = batches(home_of(before), LOG), batches(home, f"{NEW}/t-0")
        assert invented(model, copy) <= {max(copy, default=None)}, label
        assert (one.batches, one.size_bytes) == (len(copy), sum(map(len, copy.values()))), label
        logs = [data for path, data in after.items() if LOG in path and path.endswith(LOGS)]
        assert one.size_bytes + one.left_out_bytes == sum(map(len, logs)), label
        missing = [key for key in model if key not in copy]
        # Before the first segment everything may have been deleted by right.
        is_short = any(key[0] >= one.log_start_offset for key in missing)
        assert not (is_short and rescued.is_whole), label
        assert not unsound(home), label
        assert readable(home, DATA).items() <= readable(home, NEW).items(), label
        damaged += not rescued.is_whole
        losses += bool(missing)
    enumerated("logs with losses", losses, at_least=count // 10)
    enumerated("damaged logs", damaged, at_least=count // 8)
