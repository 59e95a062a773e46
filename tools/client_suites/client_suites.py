"""Runs the tests of two clients, as their makers wrote them, against a broker.

The suites are fetched from their package registries, built once, and run against a server over a
directory that is deleted afterwards. docs/client-suites.md says what is expected to fail.

    make client-suites [SUITES="--suite librdkafka --only 0081 --broker kafka"]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import brokers
import kafka_python
import librdkafka

if TYPE_CHECKING:
    from outcome import Outcome

SUITES: Final[dict[str, Any]] = {"librdkafka": librdkafka, "kafka-python": kafka_python}
BROKERS: Final = {"tidelog": brokers.tidelog, "kafka": brokers.kafka}
HOME: Final = brokers.ROOT / ".venvs" / "client-suites"


def main() -> None:
    """Run what is asked for, and print a table of each suite."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--suite", action="append", choices=SUITES, help="default: both")
    parser.add_argument("--broker", default="tidelog", choices=BROKERS)
    parser.add_argument("--only", action="append", help="a part of the names of tests")
    args = parser.parse_args()
    for name in args.suite or SUITES:
        show(SUITES[name].NAME, run(name, args.broker, args.only or [""]))


def run(name: str, broker: str, wanted: list[str]) -> list[Outcome]:
    """Run a suite; the outputs of its tests stay in .venvs/client-suites."""
    suite, folder = SUITES[name], HOME / name
    logs = folder / f"on-{broker}"
    logs.mkdir(parents=True, exist_ok=True)
    prepared = suite.prepare(folder)
    found: list[Outcome] = []
    for scenario, settings in suite.SCENARIOS.items():
        with (
            tempfile.TemporaryDirectory(prefix="client-suites-") as directory,
            BROKERS[broker](Path(directory), settings) as address,
        ):
            found += suite.outcomes(prepared, address, scenario, wanted, logs)
    return found


def show(title: str, found: list[Outcome]) -> None:
    """Print how many passed, and each that did not."""
    states = [one.state for one in found]
    counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
    print(f"{title}: {len(found)} tests, {counts}")
    for one in found:
        if one.state != "passed":
            print(f"  {one.state:<8} {one.name:<50} {one.reason}")


if __name__ == "__main__":
    main()
