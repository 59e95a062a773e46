"""What a command has printed."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """The lines of the output, read as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def rows(self) -> list[Any]:
        """The lines of JSON without the last one, if that is the counts of ``--json``."""
        lines = self.lines
        return lines[:-1] if lines and "counts" in lines[-1] else lines

    @property
    def counts(self) -> dict[str, int]:
        """The counts in the last line of ``--json``."""
        counts: dict[str, int] = self.lines[-1]["counts"]
        return counts
