"""The code of commits does only what the model of the exactly-once protocol allows.

The model is checked exhaustively in ``test_exactly_once``. Here the code itself runs on a simulated
disk, in seeded orders of its processes, with kills and power cuts; after each of its operations
some state of the model must look like the disk, and be reached from the states before.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from tests.machinery.model.conformance import Disallowed
from tests.machinery.model.staged_state import Attempt, Scenario
from tests.machinery.samples import sampled
from tests.machinery.scale import scaled
from tests.model.traces import Mutation, Run

if TYPE_CHECKING:
    from tests.conftest import Enumerated

ONE: Final = Attempt("A", (2, 1))
OTHER: Final = Attempt("B", (1, 1))
UNNAMED: Final = (
    Attempt("A", (1, 0), is_named=False),
    Attempt("B", (1, 1), is_named=False),
    Attempt("C", (0, 2), is_named=False),
)
STREAM: Final = (
    Attempt("q", (1,), batch=1),
    Attempt("q", (1,), batch=2, after=0),
    Attempt("q", (1,), batch=1, after=1),
)
REQUEST: Final = Attempt("R", (0,), is_request=True)
SCENARIOS: Final = {
    "alone": Scenario((ONE,)),
    "repeated": Scenario((ONE, ONE._replace(after=0))),
    "the same at the same time": Scenario((ONE, ONE)),
    "two transactions": Scenario((ONE, OTHER)),
    "unnamed": Scenario(UNNAMED),
    "stream": Scenario(STREAM),
    "beside Kafka": Scenario((ONE,), foreign=2),
    "requests": Scenario((REQUEST, REQUEST._replace(txn="S", after=0))),
    "a request and a transaction": Scenario((REQUEST._replace(sizes=(0, 0)), ONE)),
}
WITHIN: Final = {"requests": 150}
"""Of a scenario that is short, the operations before which its faults happen."""
FEW: Final = 12
MANY: Final = 150


def check(name: str, seeds: range, enumerated: Enumerated) -> None:
    """Follow a run for each seed."""
    taken: Counter[str] = Counter()
    operations = faults = 0
    for seed in seeds:
        run = Run(SCENARIOS[name], seed, kills=2, cuts=1, faults_within=WITHIN.get(name, 400))
        run.run()
        taken.update(run.conformance.taken)
        operations += run.changes
        faults += len(run.faults)
    enumerated("runs", len(seeds), at_least=FEW)
    enumerated("operations", operations, at_least=20 * len(seeds))
    enumerated("crashes", faults, at_least=len(seeds) // 2)
    enumerated("different steps of the model", len(taken), at_least=15)


@pytest.mark.parametrize("name", sampled([*SCENARIOS], 5))
def test_the_code_does_only_what_the_model_allows(name: str, enumerated: Enumerated) -> None:
    """At each operation on the disk, wherever a process is killed or the power fails."""
    check(name, range(FEW), enumerated)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_code_does_only_what_the_model_allows_in_thousands_of_runs(
    name: str, enumerated: Enumerated
) -> None:
    """The same for many more seeds."""
    check(name, range(FEW, FEW + scaled(MANY)), enumerated)


@pytest.mark.parametrize("mutation", Mutation)
def test_a_protocol_that_leaves_out_a_step_is_found(mutation: Mutation) -> None:
    """Otherwise the comparison would find nothing."""
    name = {
        Mutation.WITHDRAWAL_NOT_SYNCED: "beside Kafka",
        Mutation.REQUEST_NOT_SYNCED: "requests",
    }.get(mutation, "alone")

    assert any(is_found(name, seed, mutation) for seed in range(100)), mutation.value


def is_found(name: str, seed: int, mutation: Mutation) -> bool:
    """Return whether the model forbids what a mutated run does."""
    run = Run(SCENARIOS[name], seed, kills=1, cuts=0, mutation=mutation)
    try:
        run.run()
    except Disallowed:
        return True
    return False
