"""The console beside an Apache Kafka broker that writes, compacts and deletes."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest
from tests.interop.console.beside import Looks
from tests.interop.console.conftest import console_on

if TYPE_CHECKING:
    from tests.compat.conftest import Kafka

pytestmark = [
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="open files are looked up in /proc"),
]

SMALL = "internal.segment.bytes=65536,file.delete.delay.ms=100"
ROUNDS = 4


def test_every_page_answers_beside_a_broker(kafka: Kafka) -> None:
    """While it runs, once it was killed, and when it has stopped; then its numbers are the same."""
    with kafka.running():
        kafka.ask(
            f"create kept {SMALL},retention.ms=-1,cleanup.policy=delete",
            f"create brief {SMALL},retention.bytes=200000,cleanup.policy=delete",
            f"create keyed {SMALL},cleanup.policy=compact,min.cleanable.dirty.ratio=0.01",
        )
    with console_on("-d", kafka.directory) as console:
        looks = Looks(console, kafka.directory)
        ends = []
        for number in range(ROUNDS):
            with kafka.running(is_killed=number % 2 == 0):
                kafka.ask(*(f"produce {name} lz4 2000" for name in ("kept", "brief", "keyed")))
                looks.everywhere()
                with kafka.asked(*(f"produce {name} none 5000" for name in ("kept", "brief"))):
                    looks.everywhere("kept", "brief")
            looks.everywhere()
            found = re.search(
                r"<dt>Log end</dt><dd>([0-9,]+)</dd>", looks.page("/topics/kept/0").text
            )
            assert found is not None
            ends.append(int(found[1].replace(",", "")))
        with kafka.running():  # nothing is locked
            pass
        assert looks.compare_at_rest() >= 3

    assert looks.faults == []
    assert ends == sorted(ends)
    assert ends[0] >= 2000
