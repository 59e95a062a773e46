"""The table of finished transactions, as it is read again and again."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tidelog.codec.checkpoint_file import read_small_file
from tidelog.staging import finished
from tidelog.staging.finished import (
    FINISHED_FILE,
    CommittedTransaction,
    forget_finished,
    read_finished,
    write_finished,
)
from tidelog.staging.stream_batch import StreamBatch
from tidelog.testing import CrashFileSystem

DATA = "/data"


def home() -> CrashFileSystem:
    """Return a disk with a data directory."""
    files = CrashFileSystem()
    files.make_directory(DATA)
    return files


def committed(number: int, rng: Random) -> CommittedTransaction:
    """Return a transaction of any kind."""
    stream = StreamBatch(f"q{rng.randrange(3)}", number) if rng.random() < 0.3 else None
    return CommittedTransaction(
        f"t{rng.randrange(20)}" if stream is None else f"s{number}",
        number,
        {"t": number},
        rng.random() < 0.5,
        stream,
        {"t": UUID(int=number)},
    )


def read_as_another_process(files: CrashFileSystem) -> dict[str, CommittedTransaction]:
    """Read the table without what this process knows of it."""
    finished._tables.clear()
    return dict(read_finished(files, DATA))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_of_the_table_is_what_is_in_the_file(seed: int) -> None:
    """Also where another process writes it in between."""
    rng, files = Random(seed), home()
    for number in range(60):
        known = read_finished(files, DATA)
        if known and rng.random() < 0.2:
            forget_finished(files, DATA, known, rng.choice(sorted(known)))
        else:
            if rng.random() < 0.2:  # another process knows nothing of what was read here
                known = read_as_another_process(files)
            write_finished(files, DATA, known, committed(number, rng), awaited=["none"])
        kept = dict(read_finished(files, DATA))
        assert kept == read_as_another_process(files)


def test_a_commit_formats_only_its_own_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids of a week are neither parsed nor formatted again for each commit."""
    files, calls = home(), Counter[str]()
    for name in ("_as_json", "_from_json"):
        plain = getattr(finished, name)

        def counted(given: Any, name: str = name, plain: Any = plain) -> Any:
            calls[name] += 1
            return plain(given)

        monkeypatch.setattr(finished, name, counted)
    for number in range(50):
        one = CommittedTransaction(f"t{number}", number, {"t": 1})
        write_finished(files, DATA, read_finished(files, DATA), one)

    assert calls == {"_as_json": 50}
    assert len(read_small_file(files, f"{DATA}/{FINISHED_FILE}").splitlines()) == 52
