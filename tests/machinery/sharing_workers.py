"""Which worker of a run tests which file: files that share what takes long to make, the same one.

A Spark session costs ten seconds of a core until it has answered its first query, and the tidy
tests parse every file of the checkout.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import pytest
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

ROOT: Final = Path(__file__).parents[2]
SESSION: Final = re.compile(r"\bspark: SparkSession\b")
"""How a test asks for the Spark session of its process."""

SPARK: Final = "spark"
SOURCES: Final = "sources"


@cache
def shared_by(file: str) -> str | None:
    """Name what tests of a file, given by its path in the checkout, share with tests of others."""
    if file.startswith("tests/tidy/"):
        return SOURCES
    return SPARK if SESSION.search((ROOT / file).read_text("utf-8")) else None


def next_file(waiting: Iterable[str], own: Collection[str], others: Collection[str]) -> str | None:
    """Return the file that a worker gets: the first of those that are best for it.

    These are files that share what it has made itself (``own``), then files that share nothing that
    another worker has made (``others``).
    """

    def cost(file: str) -> int:
        shared = shared_by(file)
        return 0 if shared in own else 2 if shared in others else 1

    return min(waiting, key=cost, default=None)


class SharingWorkers(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives workers whole files; what one of them has made, others make only if else they idle."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._makers: dict[str, WorkerController] = {}

    def _assign_work_unit(self, node: WorkerController) -> None:
        # After each test xdist counts what is left of all files that a worker has ever got.
        files = self.assigned_work[node]
        for file in [file for file, ended in files.items() if all(ended.values())]:
            del files[file]
        alive = {each: maker for each, maker in self._makers.items() if maker in self.assigned_work}
        own = [each for each, maker in alive.items() if maker is node]
        file = next_file(self.workqueue, own, alive.keys() - own)
        if file is not None:
            self.workqueue.move_to_end(file, last=False)
            shared = shared_by(file)
            if shared is not None:
                self._makers = {shared: node} | alive
        super()._assign_work_unit(node)
