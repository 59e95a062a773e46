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
    def rows(self) -> list[Any]:
        """The lines of the output, read as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]
