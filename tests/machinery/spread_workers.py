"""The processes of a cleaning by many, as calls one after the other in this one."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from tidelog.cleaner.spread.spread_cleaner import FileEvents
from tidelog.cleaner.spread.stages import HashedFile, hash_file, merge_bucket, rewrite_group

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from tidelog.cleaner.rewriting.cleaned_transactions import CleanedTransactions
    from tidelog.cleaner.spread.entries import OffsetSet
    from tidelog.cleaner.spread.plan import SpreadPlan
    from tidelog.cleaner.spread.stages import BucketPart, RewrittenGroup
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem


class SerialWorkers:
    """``Workers`` that pickle all that would be sent, in an order that ``rng`` chooses.

    ``attempts`` is how often each group is rewritten; the last one counts. ``between`` is called
    before the groups are rewritten, ``at_end`` after.
    """

    def __init__(
        self,
        fs: FileSystem,
        clock: Clock,
        rng: Random,
        *,
        buckets: int = 3,
        max_entries: int = 1 << 20,
        attempts: int = 1,
        between: Callable[[], None] = lambda: None,
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._machine: dict[str, Any] = {"fs": fs, "clock": clock, "rng": rng}
        self._fs = fs
        self._rng = rng
        self._buckets = buckets
        self._max_entries = max_entries
        self._attempts = attempts
        self._between = between
        self._at_end = at_end
        self._sets: dict[int, list[OffsetSet]] = {}

    def buckets_for(self, offsets: int, key_bytes: int) -> int:  # noqa: ARG002 - of ``Workers``
        """Return the number of buckets."""
        assert offsets > 0
        return self._buckets

    def watch(self, on_share: Callable[[float], None]) -> None:
        """Report that it is done before it begins."""
        on_share(1.0)

    def find_superseded(self, plan: SpreadPlan) -> Sequence[FileEvents]:
        """Hash each file, then merge each bucket."""
        plan = _sent(plan)
        parts: dict[int, list[BucketPart]] = {}
        found: dict[int, FileEvents] = {}
        self._sets = {}
        for number in self._shuffled(range(len(plan.files))):
            for one in hash_file(plan, number, self._fs, max_entries=self._max_entries):
                if isinstance(one, HashedFile):
                    group = plan.group_of(one.number)
                    self._sets.setdefault(group, []).append(_sent(one.superseded))
                    found[number] = FileEvents(_sent(one.events), one.records, one.size_bytes)
                else:
                    parts.setdefault(one.bucket, []).append(_sent(one))
        for bucket in self._shuffled(parts):
            for group, offsets in merge_bucket(plan, self._shuffled(parts[bucket])):
                self._sets.setdefault(group, []).append(_sent(offsets))
        return [found[number] for number in range(len(plan.files))]

    def rewrite(
        self, plan: SpreadPlan, transactions: Sequence[CleanedTransactions]
    ) -> Sequence[RewrittenGroup]:
        """Rewrite each group, in any order."""
        self._between()
        plan = _sent(plan)
        found: dict[int, RewrittenGroup] = {}
        for group in self._shuffled(range(len(plan.groups))) * self._attempts:
            sets, state = self._sets.get(group, []), _sent(transactions[group])
            found[group] = _sent(rewrite_group(plan, group, sets, state, **self._machine))
        self._at_end()
        return [found[group] for group in range(len(plan.groups))]

    def _shuffled(self, items: Any) -> list[Any]:  # noqa: ANN401 - of any kind
        shuffled = list(items)
        self._rng.shuffle(shuffled)
        return shuffled


def _sent(value: Any) -> Any:  # noqa: ANN401 - of any kind
    """Return what arrives of ``value`` in another process."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes
