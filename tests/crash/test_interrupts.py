"""Interrupts at every line of every act: the whole act or none, and all continues."""

from __future__ import annotations

import gc
import logging
from itertools import cycle
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pytest
from tests.crash.interrupted_acts import ACTS, Act, find_sites, make_template, problems_of, warm
from tests.machinery.scale import scaled

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from tests.conftest import Enumerated
    from tests.crash.interrupted_acts import Value

QUICK: Final = {
    "append": 3,
    "append that rolls": 2,
    "truncate": 2,
    "retain": 2,
    "transaction": 3,
    "group commit": 2,
    "create in a service": 2,
    "open": 2,
}
"""Acts of the quick sample, with its numbers of lines."""
ERRORS: Final = KeyboardInterrupt, KeyboardInterrupt, TimeoutError
"""What interrupts a line, in turns: Ctrl-C, or an error that a handler of SIGALRM raises."""
SEED: Final = 1
"""Of the quick sample, which is the same each time; the slow test draws its own."""
SAMPLE: Final = 40
MEMORY: Final = Path("/dev/shm")


@pytest.fixture(scope="module")
def templates() -> Iterator[dict[bool, tuple[Path, Counter[Value]]]]:
    """Yield the directories in which cases begin: of a short program, and of a service."""
    logging.disable(logging.CRITICAL)
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as top:
        made = {}
        for is_service in (False, True):
            path = Path(top) / ("service" if is_service else "program")
            made[is_service] = path, make_template(path, is_service=is_service)
        gc.collect()
        gc.freeze()
        yield made
    gc.unfreeze()
    logging.disable(logging.NOTSET)


def check(
    act: Act, template: tuple[Path, Counter[Value]], lines: int, seed: int
) -> tuple[int, int]:
    """Interrupt an act at some of its lines; return how many, and how many there are."""
    warm(act, *template)
    sites = find_sites(act, *template)
    chosen = Random(seed).sample(sites, min(lines, len(sites)))
    problems = {
        f"{error.__name__} at {site}": problems_of(act, site, *template, error)
        for site, error in zip(chosen, cycle(ERRORS))
    }
    assert {site: wrong for site, wrong in problems.items() if wrong} == {}, f"seed {seed}"
    return len(chosen), len(sites)


def test_an_interrupt_leaves_the_whole_act_or_none(
    templates: dict[bool, tuple[Path, Counter[Value]]], enumerated: Enumerated
) -> None:
    """A sample of what the slow test does."""
    tried = [
        check(ACTS[name], templates[ACTS[name].is_service], n, SEED) for name, n in QUICK.items()
    ]

    enumerated("interrupted lines", sum(count for count, _ in tried), at_least=18)


@pytest.mark.parametrize("name", ["create in a service", "close of a service"])
def test_no_lock_is_held_through_a_condition(
    name: str, templates: dict[bool, tuple[Path, Counter[Value]]]
) -> None:
    """An interrupt at the end of such a ``with`` would keep it, and closing would hang."""
    sites = find_sites(ACTS[name], *templates[True])

    assert [site for site in sites if site.ends_condition] == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ACTS)
def test_an_interrupt_at_any_line_leaves_the_whole_act_or_none(
    name: str, templates: dict[bool, tuple[Path, Counter[Value]]], enumerated: Enumerated
) -> None:
    """Nothing is lost, left behind or locked; with a large ``SCALE``, at every line."""
    act = ACTS[name]

    tried, lines = check(act, templates[act.is_service], scaled(SAMPLE), Random().getrandbits(32))

    enumerated(f"interrupted lines of {name}", tried, at_least=min(lines, SAMPLE))
