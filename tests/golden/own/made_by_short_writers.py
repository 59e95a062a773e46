"""Directories that short-lived writers left: in order, or because they were killed.

Runs on the base commit only, see ``make_own_golden.py``.
"""

from __future__ import annotations

import json
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from made_by_hand import FIRST_MS, SEED, SMALL, died, save, stage
from tidelog.config.log import LogConfig
from tidelog.testing.data_home import DataHome

from tidelog.codec.compression import Codec

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.manager.data_directory import DataDirectory


def command(facts: Any, *words: str | Path) -> None:
    """Run a command of tidelog, which must end well."""
    code, _ = facts.run(*words)
    assert code == 0, words


def lines(path: Path, count: int, name: str) -> Path:
    """Write records as ``tidelog append`` takes them."""
    rng = Random(f"{SEED} lines {name}")
    rows = [
        {
            "key": rng.choice((None, "", f"key {rng.randrange(9)}", "Ŧide")),
            "value": rng.choice((None, "", f"value {number} of {name}", "x" * 60)),
            "headers": rng.choice(([], [["source", "golden"]], [["", None], ["twice", ""]])),
            "timestamp": FIRST_MS + 1000 * number,
        }
        for number in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_short_writer(facts: Any, target: Path) -> None:
    """``short-writer``: one command after the other, each a process that came and went."""
    data, batch = target / "short-writer", target / "batch.jsonl"
    run = partial(command, facts)
    for codec in Codec:
        name = f"codec-{codec.name.lower()}"
        run("create", name, "-d", data)
        given = lines(batch, 40, name)
        words = ("-d", data, "--compression", codec.name.lower())
        run("append", "--format", "json", name, given, *words)
    run("create", "tides", "-d", data, "-p", "3")
    run("append", "--format", "json", "tides", lines(batch, 60, "tides"), "-d", data)
    run("create", "quiet", "-d", data, "-p", "2")
    small = [word for key, value in SMALL.items() for word in ("-o", f"{key}={value}")]
    run("create", "altered", "-d", data, *small, "-o", "compression.type=zstd")
    run("append", "--format", "json", "altered", lines(batch, 30, "altered"), "-d", data)
    words = ("-o", "max.message.bytes=50000", "-o", "compression.type=lz4")
    run("alter", "altered", "-d", data, *words)
    run("alter", "altered", "-d", data, "-o", "retention.ms=-1", "--unset", "max.message.bytes")
    run("append", "--format", "json", "altered", lines(batch, 30, "altered again"), "-d", data)
    for name, settings in {
        "trimmed": (),
        "aged": ("-o", "retention.ms=60000"),
        "latest": ("-o", "cleanup.policy=compact"),
    }.items():
        run("create", name, "-d", data, *small, *settings)
        given = [json.dumps({"key": "k", "value": f"{n}" * 50}) for n in range(24)]
        for number, line in enumerate(given):
            stamped = {**json.loads(line), "timestamp": FIRST_MS + number * 10_000}
            batch.write_text(json.dumps(stamped) + "\n")
            run("append", "--format", "json", name, batch, "-d", data)
    run("delete-records", "trimmed", "-p", "all", "-d", data, "--before", "11")
    run("retain", "aged", "-d", data, "--now", str(FIRST_MS + 200_000))
    run("compact", "latest", "-d", data, "--now", str(FIRST_MS + 300_000))
    run("create", "gone", "-d", data, "-p", "2")
    run("append", "--format", "json", "gone", lines(batch, 10, "gone"), "-d", data)
    run("delete", "gone", "-d", data)
    batch.unlink()


def append_rows(directory: DataDirectory, name: str, number: int, count: int) -> None:
    """Append to a partition of a short-lived writer, a record a batch."""
    for row in range(count):
        record_of_row = (FIRST_MS + row, b"key %d" % (row % 3), b"row %d of some text" % row, ())
        directory.partition(name, number).append_records([record_of_row])


def killed_short_writer(home: DataHome) -> None:
    """Left in order once; then killed with one log flushed in part and another never."""
    with home.open(defaults=LogConfig()) as directory:
        for name in ("flushed", "dirty", "untouched"):
            directory.create_topic(name, 1, SMALL)
            append_rows(directory, name, 0, 12)
    directory = home.open(defaults=LogConfig())
    append_rows(directory, "flushed", 0, 8)
    directory.flush()
    append_rows(directory, "flushed", 0, 8)
    append_rows(directory, "dirty", 0, 20)
    staged = stage(home, home.path, "dirty")
    assert staged is not None
    directory.commit_staged([staged])
    append_rows(directory, "dirty", 0, 5)
    stage(home, home.path, "dirty", finishes=False)
    home.fs.kill()


def with_topics(home: DataHome) -> DataDirectory:
    """Return an open directory with two topics of two partitions."""
    with home.open(defaults=LogConfig()) as directory:
        for name in ("kept", "doomed"):
            directory.create_topic(name, 2, SMALL)
            for number in range(2):
                append_rows(directory, name, number, 6)
    return home.open(defaults=LogConfig())


def write_dead_short_writers(target: Path) -> None:
    """``short-writer-killed``, ``-creating``, ``-deleting``: it died at a bad moment."""
    home = DataHome(SEED)
    killed_short_writer(home)
    save(home.fs, home.path, target / "short-writer-killed")
    acts: dict[str, tuple[Any, tuple[str, str, int]]] = {
        # The topic stands in the catalogue, one of its three directories is made.
        "creating": (
            lambda one: one.create_topic("new", 3, SMALL),
            ("make_directory", "/new-1", 0),
        ),
        # The catalogue says "deleted"; one directory waits for deletion, one still looks alive.
        "deleting": (lambda one: one.delete_topic("doomed"), ("rename", "/doomed-1", 0)),
    }
    for name, (act, fatal) in acts.items():
        home = died(lambda: DataHome(SEED + 1), with_topics, act, fatal)
        save(home.fs, home.path, target / f"short-writer-{name}")
