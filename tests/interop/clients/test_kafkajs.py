"""kafkajs, a client for Node.js that shares no code with others."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.machinery.brokers import Served

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("kafkajs") / "client.js"
INSTALLED = Path(__file__).parents[3] / ".venvs" / "kafkajs"


def test_it_creates_produces_transacts_and_consumes(broker: Served) -> None:
    """All of one program; aborted records do not come, and the group's positions are there.

    Also: what it is answered with each acks, offsets by time, and two members of a group.
    """
    node = shutil.which("node")
    if node is None or not (INSTALLED / ".installed").exists():
        pytest.skip("needs Node.js: make .venvs/kafkajs/.installed")
    broker.logs.create_topic("timed")
    for number in range(5):
        broker.logs.append("timed", b"", timestamp=1_700_000_000_000 + 1000 * number)
    script = INSTALLED / "client.js"
    shutil.copyfile(SCRIPT, script)

    done = subprocess.run(
        [node, str(script), broker.bootstrap, "tides"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    wanted = [*(f"plain-{number}" for number in range(50)), "zipped", "committed", "last"]
    assert found["values"] == wanted
    assert "tides" in found["topics"]
    assert "halves" not in broker.logs.topics()
    assert found["offsets"] == {"0": [], "1": ["0"], "-1": ["0"]}
    counts = {acks: broker.logs.count_records(f"acks{acks}").records for acks in found["offsets"]}
    assert counts == dict.fromkeys(counts, 1)
    assert found["offset"] == "4"
    assert found["shares"] == [[4, 0], [2, 2], [0, 4]]
    (place,) = found["positions"][0]["partitions"]
    assert (
        int(place["offset"]) == broker.logs.groups.committed("readers").popitem()[1].position.offset
    )
    seen = broker.logs.read("tides", isolation="read_committed")
    assert [(record.value or b"").decode() for record in seen] == wanted
