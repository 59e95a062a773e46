"""A Kafka Streams program at a broker of ours: repartitioned, counted, killed, begun again."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest
from tests.compat.conftest import HERE, JARS, PATIENCE_S, wait_until
from tests.machinery.brokers import served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.compat.conftest import Java
    from tests.machinery.brokers import Served

pytestmark = [pytest.mark.compat, pytest.mark.slow]

STREAMS: Final = JARS.parent / "streams"
WORDS: Final = ("ebb", "flood", "neap", "slack", "spring", "stand", "surge")


class Counting:
    """Runs the program over a state directory of its own."""

    def __init__(self, java: Java, broker: Served, guarantee: str, state: Path) -> None:
        self._words = [
            *(java.program, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
            *("-cp", f"{STREAMS}/*:{JARS}/*", str(HERE / "streams" / "Counts.java")),
            *(broker.bootstrap, guarantee, str(state)),
        ]

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Run it; the body ends it."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(self._words, stdin=pipe, stdout=pipe, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def write(broker: Served, count: int) -> None:
    """Append words, each as often as the others."""
    broker.logs.append_all("words", (WORDS[n % len(WORDS)].encode() for n in range(count)))


def counted(broker: Served) -> dict[bytes | None, list[int]]:
    """Return the counts of each word, in their order."""
    found: dict[bytes | None, list[int]] = {}
    for record in broker.logs.read("counts", isolation="read_committed"):
        found.setdefault(record.key, []).append(int(record.value or b"0"))
    return found


def wait_for(broker: Served, total: int) -> None:
    """Wait until as many words are counted."""
    wait_until(lambda: sum(counts[-1] for counts in counted(broker).values()) >= total)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.timeout(900)
def test_counts_are_right_after_a_kill(java: Java, tmp_path: Path, guarantee: str) -> None:
    """Its state is rebuilt from its changelog; exactly once, no count is wrong or written twice."""
    if not STREAMS.is_dir():
        pytest.skip("needs Kafka Streams: make peer")
    with served(tmp_path / "data") as broker:
        broker.logs.create_topic("words", 3)
        broker.logs.create_topic("counts", 3)
        counting = Counting(java, broker, guarantee, tmp_path / "state")
        write(broker, 700)
        with counting.running():
            wait_for(broker, 700)
            write(broker, 700)
            wait_for(broker, 701)
        shutil.rmtree(tmp_path / "state")
        write(broker, 700)
        with counting.running() as process:
            wait_for(broker, 2100)
            output, _ = process.communicate("\n", timeout=PATIENCE_S)
        assert output.strip() == "NOT_RUNNING"
        found = counted(broker)
        changelog = broker.logs.topic("counting-store-changelog")

    totals = {word: counts[-1] for word, counts in found.items()}
    assert totals.keys() == {word.encode() for word in WORDS}
    if guarantee == "exactly_once_v2":
        assert set(totals.values()) == {300}
        assert all(counts == sorted(set(counts)) for counts in found.values())
    else:  # what was counted before the kill, and not committed, is counted again
        assert min(totals.values()) >= 300
    assert changelog.config["cleanup.policy"] == "compact"
