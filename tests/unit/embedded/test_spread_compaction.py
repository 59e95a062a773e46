"""A compaction by tasks whose results are lost, and made again by other tasks."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tidelog.embedded.spread_compaction import (
    Failed,
    NumberedEvents,
    SpreadTerms,
    compact_spread,
    hash_task,
    merge_task,
    rewrite_task,
)
from tidelog.errors import CleaningAborted, TidelogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tidelog.cleaner.rewriting.cleaned_transactions import CleanedTransactions
    from tidelog.cleaner.spread.plan import SpreadPlan
    from tidelog.embedded.spread_compaction import FileEvents, RewrittenGroup

BUCKETS = 3


class LosesResults:
    """Workers in this process that lose the merged values of one bucket, and make them again."""

    def __init__(self, lost: int) -> None:
        self._lost = lost
        self._merged: dict[int, list[tuple[int, Any]]] = {}

    def buckets_for(self, offsets: int, key_bytes: int) -> int:
        """Return the number of buckets."""
        assert offsets > key_bytes
        return BUCKETS

    def watch(self, on_share: Callable[[float], None]) -> None:
        """Report nothing."""

    def find_superseded(self, plan: SpreadPlan) -> Sequence[FileEvents]:
        """Hash all files and merge all buckets."""
        hashed = self._hashed(plan)
        self._merged = {number: list(merge_task(plan, hashed[number])) for number in range(BUCKETS)}
        values = checked(value for merged in self._merged.values() for _, value in merged)
        found = {one.number: one.found for one in values if isinstance(one, NumberedEvents)}
        return [found[number] for number in range(len(plan.files))]

    def rewrite(
        self, plan: SpreadPlan, transactions: Sequence[CleanedTransactions]
    ) -> Sequence[RewrittenGroup]:
        """Rewrite all groups; what is made again is made where one file cannot be seen."""
        path = Path(plan.files[0].path)
        hidden = path.rename(path.with_suffix(".hidden"))
        again = self._hashed(plan)[self._lost]
        hidden.rename(path)
        self._merged[self._lost] = list(merge_task(plan, again))
        values: dict[int, list[Any]] = defaultdict(list)
        for group, value in (pair for merged in self._merged.values() for pair in merged):
            values[group].append(value)
        groups = range(len(plan.groups))
        return checked(
            rewrite_task(plan, group, values[group], transactions[group]) for group in groups
        )

    def _hashed(self, plan: SpreadPlan) -> dict[int, list[Any]]:
        hashed: dict[int, list[Any]] = defaultdict(list)
        for number in range(len(plan.files)):
            for bucket, value in hash_task(plan, number):
                hashed[bucket].append(value)
        return hashed


def checked(values: Iterable[Any]) -> list[Any]:
    """Return the values, if none has failed."""
    found = list(values)
    errors: Iterator[TidelogError] = (one.error for one in found if isinstance(one, Failed))
    for error in errors:
        raise error
    return found


@pytest.mark.parametrize("lost", range(BUCKETS))
def test_what_fails_once_results_are_made_again_ends_it(tmp_path: Path, lost: int) -> None:
    """Without some sets a group keeps a value whose tombstone a later cleaning removes."""
    path = str(tmp_path / "data")
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": "400"}
    with tidelog.open(path, log_cleaner_enable=False) as logs:
        logs.create_topic("t", config=settings)
        for number in range(40):
            logs.append("t", b"value", key=b"%d" % (number % 10))
    before = {one.name: one.read_bytes() for one in (tmp_path / "data" / "t-0").glob("*.log")}
    terms = SpreadTerms(None, {}, min_bytes=0, is_exact=False)

    with pytest.raises(CleaningAborted, match="is gone"):
        list(compact_spread([path], [], LosesResults(lost), terms, lambda _: None))

    after = {one.name: one.read_bytes() for one in (tmp_path / "data" / "t-0").glob("*.log")}
    assert after == before
