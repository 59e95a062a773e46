"""What tests of writes by Spark put into a source, and find in a data directory afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import tidelog

FIRST_S = 1_700_000_000


def values(path: str, topic: str = "t") -> list[int]:
    """Return the values that readers see, sorted."""
    found = []
    for number in range(2):
        if os.path.exists(f"{path}/{topic}-{number}"):
            with tidelog.open_read_only(f"{path}/{topic}-{number}") as log:
                found += [int(record.value or b"") for record in log.records()]
    return sorted(found)


def left_over(path: str) -> list[str]:
    """Return the files that tidelog left in a directory, except those that are to stay.

    One that a kill left half written is not counted: the next one is written in its place.
    """
    stay = (".json", ".json.tmp", ".prom")
    names = os.listdir(path)
    return [name for name in names if name.startswith("tidelog.") and not name.endswith(stay)]


def write_lines(folder: str, first: int, count: int) -> None:
    """Write a file of consecutive numbers, in one step; a stream reads files by their times."""
    os.makedirs(folder, exist_ok=True)
    path = Path(folder, f".{first:09}")
    path.write_text("".join(f"{number}\n" for number in range(first, first + count)))
    os.utime(path, (FIRST_S + first, FIRST_S + first))
    path.rename(Path(folder, f"{first:09}.txt"))
