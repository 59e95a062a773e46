"""Nothing is deleted or compacted that the creator of a topic keeps, by any later process.

A history is run twice: once every process brings the settings that were drawn for it, once all
bring those of the process that created the topic. What is left must be the same.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.machinery.scale import scaled
from tests.property.births import ADOPTED, CREATED, PATH, World, drawn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.conftest import Enumerated


def check(seeds: Iterable[int]) -> Counter[str]:
    """Run histories twice each; return how many of them there were of each kind."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        history = drawn(seed, Random(seed))
        world = World(history, as_creator=False)
        left = world.run()
        assert left == World(history, as_creator=True).run(), (seed, history)
        if not world.may_go:
            assert left[PATH] == world.appended, (seed, history)
            seen["histories in which nothing may go"] += 1
        has_lost = left[PATH] != world.appended
        seen["histories in which records went"] += has_lost
        seen[f"histories created by {history.created}"] += 1
        seen["histories with a mirror"] += history.is_mirrored
        seen["histories with a hand-over to Kafka"] += history.handed_over_before >= 0
        for session in history.sessions:
            seen[f"sessions of {session.kind}"] += 1
            seen[f"sessions with settings by {session.brought.way}"] += 1
    return seen


@pytest.mark.parametrize("created", CREATED)
def test_what_a_creator_keeps_is_kept_by_all_that_open_it_later(created: str) -> None:
    """However the topic was created; a sample."""
    first = CREATED.index(created)

    assert check([first, first + len(CREATED)])[f"histories created by {created}"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("created", CREATED)
def test_what_a_creator_keeps_is_kept_in_many_histories(
    created: str, enumerated: Enumerated
) -> None:
    """The whole."""
    first = CREATED.index(created) + 2 * len(CREATED)
    seen = check(range(first, scaled(1600), len(CREATED)))
    if created == ADOPTED:
        assert seen["histories in which records went"] == 0

    for what, count in sorted(seen.items()):
        if count:
            enumerated(what, count, at_least=1)
