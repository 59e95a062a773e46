"""Looks at every page of a console while something else happens to its directories."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.interop.console.conftest import COMMAND
from tests.machinery.console_visitor import ReadPage

from tidelog.env.waiting import sleep_ms
from tidelog.explain.printable_text import format_bytes

if TYPE_CHECKING:
    from tests.interop.console.conftest import Console, Response

PATIENCE_S = 30
OFFSETS = ("logStartOffset", "lastStableOffset", "highWatermark", "logEndOffset", "segments")
TABS = ("", "/records", "/batches", "/transactions", "/plans", "/check", "/records/0")


@dataclass
class Looks:
    """The pages that were asked for, and the faults that were found on the way."""

    console: Console
    data: Path
    count: int = 0
    faults: list[str] = field(default_factory=list)

    def everywhere(self, *topics: str) -> None:
        """Ask for the pages of all topics, and for those of some once more by their names."""
        listed = self.page("/partitions")
        for path in ("/topics", "/groups", "/service"):
            self.page(path)
        names = {f"/topics/{topic}/0" for topic in topics}
        names |= set(re.findall(r'href="(/topics/[^/"?]+/[0-9]+)"', listed.text))
        for name in sorted(names):
            self.page(name.rpartition("/")[0])
            for tab in TABS:
                self.page(name + tab)

    def page(self, path: str) -> Response:
        """Ask for a page: it is whole, or says that there is no such thing now."""
        got = self.console.get(path)
        self.count += 1
        page = read(got.text)
        if got.status not in {200, 404} or page.odd or page.tags.count("h1") != 1:
            self.faults.append(f"{path}: {got.status} {page.odd} {got.text[:200]}")
        self.faults += [f"{path}: {one}" for one in self.holds()]
        return got

    def holds(self) -> list[str]:
        """Return what the console has open to write, or has locked."""
        pid, found = self.console.process.pid, []
        for one in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                target = os.readlink(one)
                flags = Path(f"/proc/{pid}/fdinfo/{one.name}").read_text().split("flags:")[1]
                may_write = int(flags.split()[0], 8) & os.O_ACCMODE != os.O_RDONLY
                if may_write and target.startswith(str(self.data)):
                    found.append(f"{target} is open to write")
        locks = Path("/proc/locks").read_text().splitlines()
        return found + [line for line in locks if line.split()[-4] == str(pid)]

    def compare_at_rest(self) -> int:
        """Compare the list of partitions with ``tidelog list``; return how many there are.

        The console looks again after some seconds at most.
        """
        wanted, shown = self._listed(), self._shown()
        end = time.monotonic() + PATIENCE_S
        while shown != wanted and time.monotonic() < end:
            sleep_ms(100)
            shown = self._shown()
        assert shown == wanted
        return len(wanted)

    def _listed(self) -> dict[str, list[str]]:
        ran = [COMMAND, "list", "-d", str(self.data), "--json", "--allow-partial"]
        out = subprocess.run(ran, capture_output=True, text=True, check=False).stdout
        rows = [json.loads(line) for line in out.splitlines()]
        return {
            f"{row['topic']}-{row['partition']}": [
                format_bytes(row["sizeBytes"]),
                *(f"{row[name]:,}" for name in OFFSETS),
            ]
            for row in rows
            if "counts" not in row
        }

    def _shown(self) -> dict[str, list[str]]:
        return {row[0]: row[1:7] for row in read(self.page("/partitions").text).rows[1:]}


def read(text: str) -> ReadPage:
    """Return a page, read."""
    page = ReadPage()
    page.feed(text)
    page.close()
    return page
