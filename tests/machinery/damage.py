"""Damage to the files of a log, as caused by disks, crashes and people, chosen by a seed.

It works on the files of one directory in memory.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tidelog.codec.crc32c import crc32c
from tidelog.log.producers.producer_snapshot import ProducerSnapshotEntry, pack_snapshot
from tidelog.records.batch import BATCH_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    Files = dict[str, bytes]
    Damage = Callable[[Random, Files], str]
    """Changes some of the files; returns a description, empty if nothing was changed."""

_ENTRY_SIZES: Final = {".index": 8, ".timeindex": 12, ".txnindex": 34, ".snapshot": 46}
_EPOCHS: Final = "leader-epoch-checkpoint"
_METADATA: Final = "partition.metadata"


def name_of(offset: int, suffix: str = ".log") -> str:
    """Return the name of a segment's file."""
    return f"{offset:020d}{suffix}"


def bases(files: Files) -> list[int]:
    """Return the base offsets of the segments."""
    return sorted(int(name[:-4]) for name in files if name.endswith(".log") and name[:-4].isdigit())


def batch_positions(data: bytes) -> list[int]:
    """Return the positions of all whole batches, and where the last one ends."""
    found, position = [0], 0
    while position + 17 <= len(data):
        length = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        if length < 14 or position + 12 + length > len(data):
            break
        position += 12 + length
        found.append(position)
    return found


def _any_file(rng: Random, files: Files, *suffixes: str) -> str:
    """Choose a file that is not empty, preferably one of the last; '' if there is none."""
    names = sorted(n for n in files if files[n] and (not suffixes or n.endswith(suffixes)))
    if not names:
        return ""
    return names[-1] if rng.random() < 0.3 else rng.choice(names)


def _place(rng: Random, name: str, data: bytes) -> int:
    """Choose a byte: anywhere, at the start of a batch or entry, or just after that."""
    if rng.random() < 0.4:
        return rng.randrange(len(data))
    if name.endswith(".log"):
        positions = batch_positions(data)
        start = rng.choice(positions[-4:] if rng.random() < 0.5 else positions)
    else:
        size = _ENTRY_SIZES.get(name[name.rfind(".") :], 1)
        start = rng.randrange(len(data) // size + 1) * size
    return min(start + rng.choice((0, 0, 0, 1, 5, 12, 16, 17, 30, 61)), len(data))


def truncate(rng: Random, files: Files) -> str:
    """Truncate a file."""
    name = _any_file(rng, files)
    if not name:
        return ""
    at = _place(rng, name, files[name])
    files[name] = files[name][:at]
    return f"truncate {name} to {at}"


def tear(rng: Random, files: Files) -> str:
    """Truncate the last segment."""
    found = bases(files)
    if not found:
        return ""
    name = name_of(found[-1])
    at = _place(rng, name, files[name]) if files[name] else 0
    files[name] = files[name][:at]
    return f"tear {name} to {at}"


def flip(rng: Random, files: Files) -> str:
    """Flip one bit, or all bits of a byte."""
    name = _any_file(rng, files, *rng.choice(((".log",), (".log",), ())))
    if not name:
        return ""
    data = bytearray(files[name])
    at = min(_place(rng, name, files[name]), len(data) - 1)
    data[at] ^= rng.choice((1, 2, 4, 8, 16, 32, 64, 128, 255))
    files[name] = bytes(data)
    return f"flip {name} at {at}"


def zero(rng: Random, files: Files) -> str:
    """Zero a range, possibly up to the end."""
    name = _any_file(rng, files)
    if not name:
        return ""
    data = files[name]
    at = min(_place(rng, name, data), len(data) - 1)
    end = len(data) if rng.random() < 0.3 else min(len(data), at + rng.choice((1, 8, 61, 512)))
    files[name] = data[:at] + bytes(end - at) + data[end:]
    return f"zero {name} from {at} to {end}"


def extend(rng: Random, files: Files) -> str:
    """Append garbage, zeros, or a copy of some of the file's own bytes."""
    names = sorted(n for n in files if n.endswith((".log", ".index", ".timeindex", ".txnindex")))
    if not names:
        return ""
    name = names[-1] if rng.random() < 0.3 else rng.choice(names)
    size = rng.choice((1, 7, 12, 13, 24, 61, 100, 4096))
    tail = bytes(size)
    how = rng.choice(("zeros", "garbage", "repeat"))
    if how == "garbage":
        tail = rng.randbytes(size)
    elif how == "repeat" and files[name]:
        positions = batch_positions(files[name]) if name.endswith(".log") else [0]
        tail = files[name][rng.choice(positions) :]
        tail = tail[: rng.choice((len(tail), len(tail), size))]
    else:
        how = "zeros" if how == "repeat" else how
    files[name] += tail
    return f"extend {name} by {len(tail)} bytes of {how}"


def delete(rng: Random, files: Files) -> str:
    """Delete a file, all files of a segment, or all files of a kind."""
    if not files:
        return ""
    name = rng.choice(sorted(files))
    chosen = [name]
    how = rng.random()
    if how < 0.2:
        chosen = [other for other in files if other[:20] == name[:20]]
    elif how < 0.4:
        chosen = [other for other in files if other.rpartition(".")[2] == name.rpartition(".")[2]]
    for other in chosen:
        del files[other]
    return f"delete {' '.join(sorted(chosen))}"


def empty(rng: Random, files: Files) -> str:
    """Empty a file."""
    name = _any_file(rng, files)
    if name:
        files[name] = b""
    return name and f"empty {name}"


def swap_contents(rng: Random, files: Files) -> str:
    """Swap the contents of two files of a kind."""
    suffix = rng.choice((".index", ".timeindex", ".log", ".snapshot", ".txnindex"))
    names = sorted(name for name in files if name.endswith(suffix))
    if len(names) < 2:
        return ""
    one, two = rng.sample(names, 2)
    files[one], files[two] = files[two], files[one]
    return f"swap {one} {two}"


def copy_under_other_base(rng: Random, files: Files) -> str:
    """Copy or move a file of a segment to a base offset within or beyond the log."""
    name = _any_file(rng, files, ".log", ".index", ".timeindex", ".snapshot", ".txnindex")
    if not name or not name[:20].isdigit():
        return ""
    base = int(name[:20])
    target = rng.choice((base + 1, max(base - 1, 0), base + 5, base + 1000, 0, 2**31 + base))
    new_name = name_of(target, name[20:])
    files[new_name] = files[name]
    if rng.random() < 0.3 and new_name != name:
        del files[name]
    return f"copy {name} to {new_name}"


def leave_over(rng: Random, files: Files) -> str:
    """Leave files of an unfinished cleaning, split or deletion behind."""
    segments = sorted({name[:20] for name in files if name[:20].isdigit()})
    if not segments:
        return ""
    suffix = rng.choice((".swap", ".swap", ".cleaned", ".deleted", ".tmp"))
    base = rng.choice(segments)
    names = [name for name in sorted(files) if name.startswith(base)]
    if rng.random() < 0.5:
        names = [name for name in names if not name.endswith(".snapshot")]
    if rng.random() < 0.3:
        names = rng.sample(names, 1) if names else []
    moves = rng.random() < 0.3
    for name in names:
        files[name + suffix] = files.pop(name) if moves else files[name]
    return f"leave {suffix} of {' '.join(names)}{' moved' if moves else ''}"


_ODD_NAMES: Final = (
    "notes.txt",
    ".hidden",
    "00000000000000000000.log.1",
    "00000000000000000003.snapshot.deleted",
    "00000000000000000003.checkpoint",
    "00000000000000000003-0000000001.checkpoint.deleted",
    "00000000000000000000.timeindex.cleaned",
    "00000000000000000000.log.swap.deleted",
    "leader-epoch-checkpoint.tmp",
    "partition.metadata.tmp",
    "99999999999999999999.log",
    "9223372036854775807.index",
    "abc.log",
    "abc.index",
    "abc.snapshot",
    "log",
    "index",
    "abc.swap",
    "abc.cleaned",
    "abc.deleted",
    "00000000000000000002.log.cleaned.swap",
)


def odd_name(rng: Random, files: Files) -> str:
    """Add a file with a name that does not occur in a log."""
    name = rng.choice(_ODD_NAMES)
    files[name] = b"" if rng.random() < 0.7 else rng.randbytes(100)
    return f"odd name {name}"


def rewrite_batch(rng: Random, files: Files) -> str:
    """Change a field of a batch's header, and correct the checksum."""
    name = _any_file(rng, files, ".log")
    positions = batch_positions(files[name]) if name else []
    starts = [at for at in positions[:-1] if files[name][at + 16] == 2]
    if not starts:
        return ""
    at = starts[-1] if rng.random() < 0.3 else rng.choice(starts)
    size = int.from_bytes(files[name][at + 8 : at + 12], "big") + 12
    batch = files[name][at : at + size]
    if len(batch) < BATCH_HEADER.size:
        return ""
    header = BATCH_HEADER.unpack(batch)
    field, values = rng.choice(
        (
            ("base_offset", (0, header.base_offset + 1, header.base_offset - 1, -1)),
            ("base_offset", (header.base_offset + 2**31, header.base_offset + 100)),
            ("leader_epoch", (-1, 0, 1, 7, 2**31 - 1)),
            ("attributes", tuple(header.attributes ^ (1 << bit) for bit in range(8))),
            ("last_offset_delta", (0, -1, 1000, 2**31 - 1, header.last_offset_delta + 1)),
            ("max_timestamp", (-1, -2, 0, 2**62, header.max_timestamp + 5)),
            ("base_timestamp", (-1, 0, 2**62)),
            ("producer_id", (-1, 0, 7, 1000, 2**62)),
            ("producer_epoch", (-1, 0, 1, 32767)),
            ("base_sequence", (-1, 0, 2**31 - 1, 5)),
            ("records_count", (0, -1, 1, 1000, header.records_count + 1)),
        )
    )
    value = rng.choice(values)
    changed = BATCH_HEADER.pack(header._replace(**{field: value})) + batch[BATCH_HEADER.size :]
    crc = struct.pack(">I", crc32c(changed[21:]))
    changed = changed[:17] + crc + changed[21:]
    files[name] = files[name][:at] + changed + files[name][at + size :]
    return f"{name} at {at}: {field} {getattr(header, field)} -> {value}"


def move_batches(rng: Random, files: Files) -> str:
    """Omit a batch, duplicate one, or swap two."""
    name = _any_file(rng, files, ".log")
    positions = batch_positions(files[name]) if name else []
    if len(positions) < 3:
        return ""
    data = files[name]
    parts = [data[start:end] for start, end in pairwise(positions)]
    one, two = rng.randrange(len(parts)), rng.randrange(len(parts))
    how = rng.choice(("without", "twice", "exchanged"))
    if how == "without":
        del parts[one]
    elif how == "twice":
        parts.insert(two, parts[one])
    else:
        parts[one], parts[two] = parts[two], parts[one]
    files[name] = b"".join(parts) + data[positions[-1] :]
    return f"{name} with batch {one} {how} ({two})"


def spoil_snapshot(rng: Random, files: Files) -> str:
    """Add or replace a producer snapshot: wrong version, wrong content."""
    names = [name for name in sorted(files) if name.endswith(".snapshot")]
    found = bases(files) or [0]
    offset = rng.choice([*found, 0, found[-1] + 1, found[-1] + 3, found[-1] + 10_000])
    name = rng.choice(names) if names and rng.random() < 0.5 else name_of(offset, ".snapshot")
    entries = [
        ProducerSnapshotEntry(
            rng.choice((7, 8, 1000, 1001, 4242)),
            rng.choice((0, 1, 5)),
            rng.choice((-1, 0, 5, 2**31 - 1)),
            rng.choice((-1, 0, max(offset - 1, 0), 99_999)),
            rng.choice((0, 1)),
            rng.choice((-1, 1_700_000_000_000, 2**50)),
            rng.choice((-1, 0, 3)),
            rng.choice((-1, -1, 0, max(offset - 1, 0))),
        )
        for _ in range(rng.choice((0, 1, 2)))
    ]
    data = pack_snapshot(entries)
    how = rng.choice(("whole", "whole", "version 0", "version 2", "longer", "count"))
    if how.startswith("version"):
        data = struct.pack(">h", int(how[-1])) + data[2:]
    elif how == "longer":
        data = _with_crc(data + bytes(46))
    elif how == "count":
        data = _with_crc(data[:6] + struct.pack(">i", rng.choice((-1, 5))) + data[10:])
    files[name] = data
    return f"snapshot {name} {how} {entries}"


def _with_crc(data: bytes) -> bytes:
    return data[:2] + struct.pack(">I", crc32c(data[6:])) + data[6:]


def spoil_epochs(rng: Random, files: Files) -> str:
    """Change the lines of the leader epoch checkpoint."""
    found = bases(files) or [0]
    end = found[-1]
    text = rng.choice(
        (
            "",
            "0\n",
            "0\n0\n",
            f"0\n1\n5 {end}\n",
            f"0\n1\n0 {end + 3}\n",
            f"0\n2\n0 0\n3 {end + 100_000}\n",
            f"0\n3\n0 0\n1 {found[0]}\n9 {end}\n",
            "0\n2\n5 10\n3 20\n",
            "0\n2\n1 20\n2 10\n",
            "0\n2\n1 10\n1 20\n",
            "0\n2\n0 0\n",
            "0\n1\n0 0\n1 5\n",
            "0\n1\n0\n",
            "0\n1\na b\n",
            "0\n1\n0 0 0\n",
            "1\n1\n0 0\n",
            "x\n1\n0 0\n",
            "0\nx\n0 0\n",
            "0\n1\n-1 0\n",
            "0\n1\n0 -1\n",
            "0\r\n1\r\n0 0\r\n",
            "0\n1\n0   0",
            "0\n1\n0\t0\n\n",
            "0\n1\n 0 0\n",
            "0\n-1\n0 0\n",
            "0\n1\n99999999999 0\n",
            "0\n1\n+1 +0\n",
        )
    )
    files[_EPOCHS] = text.encode()
    return f"epochs {text!r}"


def spoil_metadata(rng: Random, files: Files) -> str:
    """Change ``partition.metadata``."""
    topic_id = "AAAAAAAAQACAAAAAAAAAAQ"
    text = rng.choice(
        (
            "",
            f"version: 0\ntopic_id: {topic_id}",
            f"version: 0\ntopic_id: {topic_id}\n",
            f"version: 1\ntopic_id: {topic_id}",
            f"version: -1\ntopic_id: {topic_id}",
            f"version: x\ntopic_id: {topic_id}",
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
            "version: 0\ntopic_id: short",
            "version: 0\n",
            f"topic_id: {topic_id}\nversion: 0",
            f"version: 0 0\ntopic_id: {topic_id}",
            "\x00\x00",
        )
    )
    files[_METADATA] = text.encode()
    return f"metadata {text!r}"


KINDS: Final[dict[str, tuple[Damage, int]]] = {
    "truncate": (truncate, 4),
    "tear": (tear, 5),
    "flip": (flip, 6),
    "zero": (zero, 4),
    "extend": (extend, 4),
    "delete": (delete, 5),
    "empty": (empty, 2),
    "swap": (swap_contents, 2),
    "copy": (copy_under_other_base, 2),
    "leave": (leave_over, 4),
    "odd name": (odd_name, 2),
    "rewrite": (rewrite_batch, 5),
    "move": (move_batches, 3),
    "snapshot": (spoil_snapshot, 3),
    "epochs": (spoil_epochs, 2),
    "metadata": (spoil_metadata, 1),
}


def apply_damage(rng: Random, files: Files, most: int = 3) -> list[str]:
    """Apply one to ``most`` kinds of damage to the files; return their descriptions."""
    done: list[str] = []
    kinds = [kind for kind, _ in KINDS.values()]
    weights = [weight for _, weight in KINDS.values()]
    for _ in range(rng.choices(range(1, most + 1), range(most, 0, -1))[0]):
        done += filter(None, [rng.choices(kinds, weights)[0](rng, files)])
    return done
