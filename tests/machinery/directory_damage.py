"""Damage to a whole data directory, as caused by disks, people and attackers, chosen by a seed.

It works on a tree in memory, which the runner of a case writes to a disk. ``damage`` holds what
can happen to the files of one log.
"""

from __future__ import annotations

import json
import struct
from copy import deepcopy
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from tests.machinery.damage import apply_damage, batch_positions

from tidelog.codec.crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    Tree = dict[str, "Entry"]
    """What a data directory holds, by path relative to it."""
    Mutation = Callable[[Random, Tree], str]
    """Changes some entries; returns a description, empty if nothing was changed."""


class Kind(Enum):
    """What an entry of a directory is."""

    FILE = auto()
    DIRECTORY = auto()
    LINK = auto()
    FIFO = auto()


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, directory, symbolic link or FIFO.

    ``size`` extends a file with a hole; ``target`` is a link's, in which ``{beside}`` stands for a
    directory that nothing may change. ``mode`` is its permissions, None for the usual ones.
    """

    kind: Kind = Kind.FILE
    data: bytes = b""
    size: int = 0
    target: str = ""
    mode: int | None = None


DIRECTORY: Final = Entry(Kind.DIRECTORY)
FAKE_LINE: Final = "FAKE: sound"
"""Stands after a newline in names: no line of any output may begin with it."""
_ID: Final = "0123456789abcdef0123456789abcdef"
_TOPIC_ID: Final = "AAAAAAAAQACAAAAAAAAAAQ"
_CHECKPOINTS: Final = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
_ROOT_FILES: Final = (
    *_CHECKPOINTS,
    "tidelog.topics.json",
    "tidelog.metrics.json",
    "meta.properties",
    "bootstrap.checkpoint",
    ".lock",
    ".kafka_cleanshutdown",
    f"tidelog.{_TOPIC_ID}-0.00000000000000000007.1.cut",
    f"tidelog.{_ID}-0.00000000000000000007.1.cut",
)
_LOG_FILES: Final = (
    "leader-epoch-checkpoint",
    "partition.metadata",
    "00000000000000000000.log",
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "00000000000000000000.txnindex",
    "00000000000000000003.snapshot",
    "00000000000000000000.log.deleted",
    "00000000000000000000.log.swap",
    "00000000000000000000.log.cleaned",
    "00000000000000000009.index.swap",
    "00000000000000000003-0000000001.checkpoint",
)
_ODD_DIRECTORIES: Final = (
    "x-00",
    "x-+0",
    "x--1",
    "x-99999999999",
    "x-2147483647",
    "x-2147483648",
    "my copy-0",
    "-0",
    "-",
    ".-0",
    "..-0",
    "é-0",
    f"a\n{FAKE_LINE}-0",
    f"\x1b[2J\r\n{FAKE_LINE}\n-0",
    "bad\udcff-0",
    "a" * 249 + "-0",
    "a" * 250 + "-0",
    "photos-delete",
    "photos-0-future",
    "x.y-0",
    "x_y-0",
    "lost+found",
    "remote-log-index-cache",
    "staging",
    "__cluster_metadata-0",
    "__cluster_metadata-1",
    f"flights-0.{_ID}-delete",
    f"flights-0.{_ID}-future",
    f"flights-0.{_ID}-stray",
    f"flights-00.{_ID}-future",
    f"flights-99999999999.{_ID}-delete",
    "tidelog.topics.json.tmp",
)
_ODD_FILES: Final = (
    *_ODD_DIRECTORIES,
    "foo.log",
    "5.log",
    "+5.log",
    "x.deleted",
    "00000000000000000000.log\n" + FAKE_LINE,
    "\x1b[1m.log",
    "bad\udcff.log",
    "\N{ARABIC-INDIC DIGIT ZERO}" * 20 + ".log",
    "00000000000000000000.log ",
    "99999999999999999999.log",
    "09223372036854775807.log",
    "09223372036854775807.snapshot",
    "09223372036854775808.log",
    "00000000000000000003.snapshot.deleted",
    "tidelog.metrics.json.tmp",
    "move.request",
    ".lock.tmp",
)
_VALUES: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 1.5, 2**31, 2**63, 10**40, "", "x", "../outside", "/", "\x00", "\ud800",
    f"\n{FAKE_LINE}", "a" * 300, [], {}, [[]], {"": ""}, "NaN", float("nan"), float("inf"),
)  # fmt: skip
_SETTINGS: Final = (
    ("retention.ms", "x"), ("retention.ms", "-2"), ("segment.bytes", "-1"), ("segment.bytes", "1"),
    ("cleanup.policy", "shred"), ("cleanup.policy", "compact,delete"), ("cleanup.policy", ""),
    ("no.such.setting", "1"), ("segment.index.bytes", "3"), ("segment.index.bytes", "2147483647"),
    ("index.interval.bytes", "-5"), ("max.message.bytes", "99999999999"), ("segment.ms", "0"),
    ("segment.ms", "9" * 40), ("preallocate", "perhaps"), ("compression.type", "rar"),
    ("internal.segment.bytes", "1"), ("file.delete.delay.ms", "-1"), ("flush.messages", "0"),
    ("min.compaction.lag.ms", "5"), ("max.compaction.lag.ms", "1"), ("retention.bytes", "1"),
    ("local.retention.ms", "9"), ("remote.storage.enable", "true"), ("", ""),
)  # fmt: skip


def partitions_of(tree: Tree) -> list[str]:
    """Return the directories in the data directory that hold a segment, in order."""
    found = {path.partition("/")[0] for path in tree if path.endswith(".log") and "/" in path}
    return sorted(name for name in found if tree.get(name, Entry()).kind is Kind.DIRECTORY)


def files_of(tree: Tree, name: str) -> dict[str, bytes]:
    """Return the contents of the plain files of a directory, by name."""
    return {
        path[len(name) + 1 :]: entry.data
        for path, entry in tree.items()
        if path.startswith(f"{name}/") and entry.kind is Kind.FILE and path.count("/") == 1
    }


def damage_log(rng: Random, tree: Tree) -> str:
    """Damage the files of one log, as ``damage`` does."""
    name = _partition(rng, tree)
    if not name:
        return ""
    before = files_of(tree, name)
    after = dict(before)
    done = apply_damage(rng, after)
    for gone in before.keys() - after.keys():
        del tree[f"{name}/{gone}"]
    for changed, data in after.items():
        if before.get(changed) != data:
            tree[f"{name}/{changed}"] = Entry(data=data)
    return f"{name}: {'; '.join(done)}"


def change_bytes(rng: Random, tree: Tree) -> str:
    """Flip, truncate, extend, zero or replace the bytes of any file."""
    path = _file(rng, tree)
    data = tree[path].data if path else b""
    if not path or not data:
        return ""
    at = rng.randrange(len(data))
    how, changed = rng.choice(
        (
            ("flip", data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]),
            ("cut", data[:at]),
            ("zero", data[:at] + bytes(len(data) - at)),
            ("repeat", data + data),
            ("extend", data + rng.randbytes(rng.choice((1, 8, 13, 100)))),
            ("noise", rng.randbytes(len(data))),
            ("empty", b""),
            ("carriage returns", data.replace(b"\n", b"\r\n")),
            ("NUL", data[:at] + b"\0" + data[at:]),
            ("not UTF-8", data[:at] + b"\xff\xfe" + data[at:]),
        )
    )
    tree[path] = replace(tree[path], data=changed)
    return f"{how} {path} at {at}"


def swap_entries(rng: Random, tree: Tree) -> str:
    """Swap the contents of any two files."""
    paths = sorted(path for path, entry in tree.items() if entry.kind is Kind.FILE)
    if len(paths) < 2:
        return ""
    one, two = rng.sample(paths, 2)
    tree[one], tree[two] = tree[two], tree[one]
    return f"swap {one} and {two}"


def grow(rng: Random, tree: Tree) -> str:
    """Extend a file with a hole: a few times what memory may be, or beyond any limit."""
    path = _file_or_new(rng, tree)
    sizes = [1 << 31, 3 << 30, 1 << 40]
    if path.endswith(".log"):  # everything in a log has to be looked at, but its holes
        sizes += [1 << 20, 100 << 20, 200 << 20]
    size = rng.choice(sizes)
    held = tree.get(path, Entry())
    tree[path] = replace(held if held.kind is Kind.FILE else Entry(), size=size)
    return f"grow {path} to {size}"


def rewrite_records(rng: Random, tree: Tree) -> str:
    """Change a byte inside a batch, and correct the checksum."""
    logs = sorted(p for p, e in tree.items() if p.endswith(".log") and e.kind is Kind.FILE)
    if not logs:
        return ""
    path = rng.choice(logs)
    data = tree[path].data
    positions = batch_positions(data)
    if len(positions) < 2:
        return ""
    number = rng.randrange(len(positions) - 1)
    start, end = positions[number], positions[number + 1]
    if data[start + 16] != 2 or end - start < 62:
        return ""
    batch = bytearray(data[start:end])
    at = rng.randrange(21, len(batch))
    batch[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, batch[at] ^ (1 << rng.randrange(8))))
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    tree[path] = replace(tree[path], data=data[:start] + bytes(batch) + data[end:])
    return f"rewrite {path}: byte {at} of the batch at {start}"


def put_entry(rng: Random, tree: Tree) -> str:
    """Put a link, directory, FIFO or unreadable file where a file is or could be."""
    path = _file_or_new(rng, tree)
    held = tree.get(path, Entry())
    name = path.rpartition("/")[2]
    entry = rng.choice(
        (
            Entry(Kind.FIFO),
            Entry(Kind.FIFO),
            DIRECTORY,
            Entry(Kind.LINK, target="nowhere"),
            Entry(Kind.LINK, target=name),
            Entry(Kind.LINK, target="."),
            Entry(Kind.LINK, target="{beside}/file"),
            Entry(Kind.LINK, target="{beside}/kept-0"),
            Entry(Kind.LINK, target="{beside}/kept-0/00000000000000000000.log"),
            Entry(Kind.LINK, target="{beside}/missing"),
            Entry(Kind.LINK, target="/dev/zero"),
            Entry(Kind.LINK, target="/dev/null"),
            replace(held if held.kind is Kind.FILE else Entry(), mode=0),
        )
    )
    _remove(tree, path)
    tree[path] = entry
    if entry is DIRECTORY and rng.random() < 0.5:
        tree[f"{path}/inner"] = rng.choice((DIRECTORY, Entry(data=b"x"), Entry(Kind.FIFO)))
    return f"put {entry} at {path}"


def replace_directory(rng: Random, tree: Tree) -> str:
    """Put something else where a partition's directory is, or take permissions from it."""
    names = partitions_of(tree)
    if not names:
        return ""
    name = rng.choice(names)
    entry = rng.choice(
        (
            Entry(Kind.FIFO),
            Entry(data=b"not a directory"),
            DIRECTORY,
            Entry(Kind.LINK, target=name),
            Entry(Kind.LINK, target="."),
            Entry(Kind.LINK, target=".."),
            Entry(Kind.LINK, target=rng.choice(names)),
            Entry(Kind.LINK, target="missing"),
            Entry(Kind.LINK, target="{beside}/fifos"),
            replace(tree[name], mode=rng.choice((0, 0o500, 0o400))),
        )
    )
    if entry.mode is None:
        _remove(tree, name)
    tree[name] = entry
    return f"{name} becomes {entry}"


def rename_directory(rng: Random, tree: Tree) -> str:
    """Rename a partition's directory, copy it, or link to it, under any name."""
    names = partitions_of(tree)
    if not names:
        return ""
    name = rng.choice(names)
    topic, _, number = name.rpartition("-")
    new = rng.choice(
        (
            *_ODD_DIRECTORIES,
            *(f"{name}.{_ID}{suffix}" for suffix in ("-delete", "-future", "-stray")),
            *(f"{name}{suffix}" for suffix in ("-delete", "-future", "-stray", " ", ".bak")),
            f"{topic}-0{number}",
            f"{topic}-7",
            f"{topic.upper()}-{number}",
            f"copy of {name}",
        )
    )
    if new == name:
        return ""
    how = rng.choice(("rename", "copy", "link"))
    _remove(tree, new)
    if how == "link":
        tree[new] = Entry(Kind.LINK, target=name)
        return f"link {new!r} to {name}"
    inside = [path for path in tree if path == name or path.startswith(f"{name}/")]
    for path in inside:
        tree[new + path[len(name) :]] = tree[path]
    if how == "rename":
        _remove(tree, name)
    return f"{how} {name} to {new!r}"


def add_odd(rng: Random, tree: Tree) -> str:
    """Add files and directories with names that do not occur."""
    where = rng.choice(("", "", *partitions_of(tree)))
    name = rng.choice(_ODD_FILES)
    path = f"{where}/{name}" if where else name
    if path in tree:
        return ""
    tree[path] = rng.choice((Entry(), Entry(data=b"x" * 100), DIRECTORY, Entry(Kind.FIFO)))
    if tree[path].kind is Kind.DIRECTORY and rng.random() < 0.5:
        inner = rng.choice(_LOG_FILES)
        tree[f"{path}/{inner}"] = rng.choice((Entry(), Entry(data=b"0\n0\n"), Entry(Kind.FIFO)))
    return f"add {path!r}: {tree[path].kind.name}"


def remove_any(rng: Random, tree: Tree) -> str:
    """Remove a file, or a directory with all that is in it."""
    path = rng.choice(sorted(tree)) if tree else ""
    _remove(tree, path)
    return path and f"remove {path!r}"


def spoil_checkpoint(rng: Random, tree: Tree) -> str:
    """Write hostile lines into one of the offset checkpoints."""
    path = rng.choice(_CHECKPOINTS)
    name = rng.choice((*partitions_of(tree), "none-0"))
    topic, _, number = name.rpartition("-")
    offset = rng.choice((0, 1, 5, 60, 10_000, -1, 2**31, 2**63 - 1, 2**63, 10**30))
    text = rng.choice(
        (
            f"0\n1\n{topic} {number} {offset}\n",
            f"0\n1\n{topic} {number} {offset}\n",
            f"0\n1\n{topic} {number} {offset}\n",
            f"0\n2\n{topic} {number} 0\n{topic} {number} {offset}\n",
            f"0\n1\n{topic} {number}\n",
            f"0\n1\n{topic} -1 {offset}\n",
            f"0\n1\n{topic} {number} {offset} 0\n",
            f"0\n999999999999\n{topic} {number} {offset}\n",
            f"0\n2\n{topic} {number} {offset}\n",
            f"1\n1\n{topic} {number} {offset}\n",
            f"0\n1\n../x 0 {offset}\n",
            f"0\n1\n\x1b[2J 0 {offset}\n",
            f"0\n1\n{topic} \N{ARABIC-INDIC DIGIT THREE} {offset}\n",
            f"0\n1\n{topic} {number} 1_0\n",
            "0\n",
            "\n\n\n",
            "0\n0\n\n",
            "0\n1\n" + "x" * 100_000,
            "\ud800",
        )
    )
    tree[path] = Entry(data=text.encode("utf-8", "surrogatepass"))
    return f"{path} with {text[:80]!r}"


def spoil_catalogue(rng: Random, tree: Tree) -> str:
    """Change a value of the catalogue, at any depth, to a hostile one."""
    path = "tidelog.topics.json"
    try:
        content = json.loads(tree[path].data)
    except (KeyError, ValueError):
        content = _adopted(tree)
    if rng.random() < 0.15:
        text = rng.choice(("", "[]", "null", "[" * 100_000, '{"version": 1}', "{", "1" * 5_000))
        tree[path] = Entry(data=text.encode())
        return f"catalogue {text[:20]}"
    done = [_spoil_value(rng, content) for _ in range(rng.choice((1, 1, 2)))]
    text = json.dumps(content, ensure_ascii=rng.random() < 0.8)
    tree[path] = Entry(data=text.encode("utf-8", "surrogatepass"))
    return f"catalogue: {'; '.join(done)}"


def _adopted(tree: Tree) -> dict[str, Any]:
    """Return a catalogue that lists the partitions whose directories are there."""
    topics: dict[str, Any] = {}
    for name in partitions_of(tree):
        topic, _, number = name.rpartition("-")
        entry = topics.setdefault(
            topic, {"name": topic, "id": _TOPIC_ID, "partitions": {}, "config": {}}
        )
        entry["partitions"][number] = _TOPIC_ID
    return {"version": 1, "topics": list(topics.values())}


def _spoil_value(rng: Random, content: Any) -> str:  # noqa: ANN401 - any JSON value
    """Change one value somewhere inside ``content``."""
    at, where = content, []
    while isinstance(at, (dict, list)):
        keys = sorted(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            break
        key: Any = rng.choice(keys)
        where.append(str(key))
        inner = at[key]
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.8:
            at = inner
            continue
        if key == "config" and isinstance(inner, dict):
            name, value = rng.choice(_SETTINGS)
            inner[name] = rng.choice((value, value, value, deepcopy(rng.choice(_VALUES))))
            return f"{name} = {inner[name]!r}"
        how = rng.random()
        if how < 0.2:
            del at[key]
            return f"no {'.'.join(where)}"
        if how < 0.4 and isinstance(at, dict):
            new = rng.choice(("../x", "-1", "00", "x", "\n", "4294967296", "name", ""))
            at[new] = at.pop(key)
            return f"{'.'.join(where)} is {new!r}"
        at[key] = deepcopy(rng.choice(_VALUES))  # a later change must not change the choices
        return f"{'.'.join(where)} = {str(at[key])[:40]!r}"
    return ""


def spoil_text(rng: Random, tree: Tree) -> str:
    """Write hostile text into ``meta.properties`` or another small file of the directory."""
    path = rng.choice(("meta.properties", "meta.properties", ".kafka_cleanshutdown", ".lock"))
    text = rng.choice(
        (
            "",
            "version=1\n",
            "version=0\nbroker.id=1\n",
            "version=2\n",
            "version=x\n",
            f"version=1\ndirectory.id={_TOPIC_ID}\n",
            f"version=1\ndirectory.id={_TOPIC_ID}\ndirectory.id=x\n",
            "version=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\n",
            f"version=1\ndirectory.id=../{_TOPIC_ID}\nnode.id=99999999999\n",
            "version=1\ncluster.id=\\uD800\n",
            "version=1\nnode.id=\\u12\n",
            "version\n=\n:\n\\",
            '{"version":0,"brokerEpoch":-1}',
            '{"version":0,"brokerEpoch":"x"}',
            "{",
            "\x1b[2J",
        )
    )
    tree[path] = Entry(data=text.encode())
    return f"{path} with {text!r}"


def add_cut_file(rng: Random, tree: Tree) -> str:
    """Add a file that looks like one that recovery has kept."""
    topic = rng.choice((_TOPIC_ID, _ID, "A" * 22))
    number = rng.choice(("0", "7", "9999999999"))
    path = f"tidelog.{topic}-{number}.{rng.choice(('0' * 20, '9' * 20))}.1.cut"
    logs = [e.data for p, e in sorted(tree.items()) if p.endswith(".log") and e.data]
    described: dict[str, Any] = {
        "topic": "flights", "partition": 0, "topicId": _TOPIC_ID, "file": "0.log", "position": 0,
        "cutBytes": 100, "fromOffset": 0, "reason": "r", "cutAtMs": 0,
    }  # fmt: skip
    for _ in range(rng.choice((0, 1, 1))):
        described[rng.choice(sorted(described))] = rng.choice(
            (*_VALUES, 2**62, f"\x1b[2J\n{FAKE_LINE}")
        )
    text = json.dumps(described).encode()
    size = rng.choice((len(text), len(text), -1, 0, 2**31 - 1))
    end = struct.pack(">iiq", size, rng.choice((1, 1, 0, 2)), 0x7469_6465_2E63_7574)
    tree[path] = Entry(data=(rng.choice(logs) if logs else b"") + text + end)
    return f"cut file {path} {text[:300]!r}"


MUTATIONS: Final[dict[Mutation, int]] = {
    damage_log: 8,
    change_bytes: 4,
    swap_entries: 1,
    grow: 3,
    rewrite_records: 4,
    put_entry: 5,
    replace_directory: 2,
    rename_directory: 3,
    add_odd: 3,
    remove_any: 2,
    spoil_checkpoint: 3,
    spoil_catalogue: 4,
    spoil_text: 2,
    add_cut_file: 2,
}


@dataclass(slots=True)
class DamagedDirectory:
    """A data directory after damage, with what was done to it."""

    tree: Tree
    done: list[str] = field(default_factory=list)


def damage_directory(rng: Random, tree: Tree, most: int = 4) -> DamagedDirectory:
    """Return a copy of ``tree`` with one to ``most`` kinds of damage."""
    damaged = DamagedDirectory(dict(tree))
    wanted = rng.randint(1, most)
    while len(damaged.done) < wanted:
        mutation = rng.choices(list(MUTATIONS), list(MUTATIONS.values()))[0]
        what = mutation(rng, damaged.tree)
        if what:
            damaged.done.append(f"{mutation.__name__}: {what}")
    return damaged


def _partition(rng: Random, tree: Tree) -> str:
    names = partitions_of(tree)
    return rng.choice(names) if names else ""


def _file(rng: Random, tree: Tree) -> str:
    """Choose a file; one of the directory itself as often as one of a log."""
    paths = sorted(path for path, entry in tree.items() if entry.kind is Kind.FILE)
    own = [path for path in paths if "/" not in path]
    if own and rng.random() < 0.5:
        return rng.choice(own)
    return rng.choice(paths) if paths else ""


def _file_or_new(rng: Random, tree: Tree) -> str:
    """Choose a file that is there, or a place where a file could be."""
    if rng.random() < 0.5 and (path := _file(rng, tree)):
        return path
    where = _partition(rng, tree) if rng.random() < 0.6 else ""
    return f"{where}/{rng.choice(_LOG_FILES)}" if where else rng.choice(_ROOT_FILES)


def _remove(tree: Tree, path: str) -> None:
    for inside in [each for each in tree if each == path or each.startswith(f"{path}/")]:
        del tree[inside]
