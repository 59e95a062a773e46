"""The exactly-once protocol keeps its promises in every state that its model can reach.

The model is ``tests.machinery.model.exactly_once``. A rule that it relies on is left out in turn:
the damage must be found, or the explorer would find nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from tests.machinery.model.exactly_once import ExactlyOnce
from tests.machinery.model.explorer import explore
from tests.machinery.model.staged_state import Attempt, Rule, Scenario
from tests.machinery.samples import sampled

if TYPE_CHECKING:
    from tests.conftest import Enumerated

ONE = Attempt("A", (2, 1))
"""Two batches for one partition, one for another."""
SMALL = Attempt("A", (1,))
OTHER = Attempt("B", (1,))
UNNAMED = (Attempt("A", (1, 0), is_named=False), Attempt("B", (0, 1), is_named=False))
STREAM = (
    Attempt("q", (1,), batch=1),
    Attempt("q", (1,), batch=2, after=0),
    Attempt("q", (1,), batch=1, after=1),
)
"""Two batches of a stream, and the first again from a checkpoint that was rolled back."""
REQUEST = Attempt("R", (0,), is_request=True)
"""A command, which nobody may carry out twice."""

SCENARIOS = {
    "alone": Scenario((ONE,)),
    "beside Kafka": Scenario((Attempt("A", (2,)),), foreign=1, has_manifests=False),
    "refused": Scenario((SMALL,), refusals=1),
    "repeated": Scenario((SMALL, SMALL._replace(after=0)), cuts=0),
    "unnamed": Scenario(UNNAMED, kills=0, cuts=0),
    "stream": Scenario(STREAM, kills=0, cuts=0),
    "full disk": Scenario(UNNAMED, kills=0, full=1, has_manifests=False),
    "request": Scenario((REQUEST,)),
    "two requests": Scenario((REQUEST, REQUEST._replace(txn="S")), kills=0),
}
LARGE = {
    "alone, two power cuts": Scenario((ONE,), cuts=2),
    "beside Kafka": Scenario((Attempt("A", (2, 1)),), foreign=1),
    "refused and repeated": Scenario((SMALL, SMALL._replace(after=0)), kills=0, refusals=1),
    "repeated": Scenario((SMALL, SMALL._replace(after=0))),
    "the same at the same time": Scenario((SMALL, SMALL), kills=0),
    "two transactions": Scenario((SMALL, OTHER), kills=0),
    "full disk": Scenario(UNNAMED, kills=0, cuts=0, full=1),
    "stream": Scenario(STREAM, kills=1, cuts=0),
    "two requests": Scenario((REQUEST, REQUEST._replace(txn="S"))),
    "a request and a transaction": Scenario((REQUEST, SMALL), kills=0),
}


def check(scenario: Scenario, enumerated: Enumerated, *, at_least: int) -> None:
    """Visit every state of a scenario; print what breaks a promise, and how."""
    found = explore(ExactlyOnce(scenario))

    assert found.violation is None, str(found.violation)
    enumerated("states", found.states, at_least=at_least)
    enumerated("transitions", found.transitions, at_least=2 * at_least)


@pytest.mark.parametrize("name", sampled([*SCENARIOS], 4))
def test_every_promise_holds_in_every_state(name: str, enumerated: Enumerated) -> None:
    """Wherever a process ends or the power fails, records are in the logs once or not at all."""
    check(SCENARIOS[name], enumerated, at_least=500)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", LARGE)
def test_every_promise_holds_in_every_state_of_larger_scenarios(
    name: str, enumerated: Enumerated
) -> None:
    """The same with more faults, and with several transactions at a time."""
    check(LARGE[name], enumerated, at_least=5000)


DAMAGED = {
    Rule.REPEAT_SKIPPED: "repeated",
    Rule.ENDS_SYNCED: "beside Kafka",
    Rule.REPLACED_FIRST: "beside Kafka",
    Rule.LOST_TAKEN_BACK: "beside Kafka",
    Rule.ENTRY_AWAITED: "unnamed",
    Rule.ENTRY_NEEDED: "full disk",
    Rule.REFUSAL_SYNCED: "refused",
    Rule.REFUSED_STAYS: "refused",
    Rule.BATCHES_ORDERED: "stream",
    Rule.CLAIM_SYNCED: "request",
    Rule.CLAIM_DROPPED: "request",
}
"""The scenario that each rule is needed for, if it is another one than "alone"."""


@pytest.mark.parametrize("rule", sampled([*Rule], 8))
def test_no_rule_can_be_left_out(rule: Rule) -> None:
    """Without any one rule of the protocol a promise is broken, and a trace shows how."""
    scenario = SCENARIOS[DAMAGED.get(rule, "alone")]

    violation = explore(ExactlyOnce(scenario, rule)).violation

    assert violation is not None, f"not needed: {rule.value}"
    sys.stdout.write(f"without {rule.name} {violation}\n")
    assert len(violation.trace) >= 5
