"""What code costs, counted in lines that run: the same on every machine, unlike time."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from _typeshed import TraceFunction


class Lines:
    """The lines of tidelog that have run; those of its fakes do not count."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count during the block; a loop on one line counts as often as it goes around."""
        before = sys.gettrace()
        gc.disable()  # what other tests have left would be ended here
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)
            gc.enable()

    def _called(self, frame: FrameType, _event: str, _arg: object) -> TraceFunction | None:
        path = frame.f_code.co_filename
        return self._ran if "/tidelog/" in path and "/testing/" not in path else None

    def _ran(self, _frame: FrameType, event: str, _arg: object) -> TraceFunction:
        self.count += event == "line"
        return self._ran
