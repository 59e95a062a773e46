"""What docs/broker.md says to send a first message with, in other languages, sends one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.interop.clients.conftest import PATIENCE_S, Kcat
from tests.interop.clients.test_kafkajs import INSTALLED

if TYPE_CHECKING:
    from tests.machinery.brokers import Served

PAGE = Path(__file__).parents[3] / "docs" / "broker.md"


def first_message(client: str, bootstrap: str) -> str:
    """Return what the page says for a client, for a broker elsewhere."""
    found = re.search(rf"^\| {client} \| `(.*)` \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert found is not None
    text = found[1].replace(r"\|", "|")
    assert "127.0.0.1:9092" in text
    return text.replace("127.0.0.1:9092", bootstrap)


def sent(broker: Served) -> list[bytes | None]:
    """Return the values of the records that the page's topic has."""
    return [record.value for record in broker.logs.read("tides")]


def test_kcat_sends_it(broker: Served) -> None:
    """By the line for a shell."""
    line = first_message(r"kcat \(C\)", broker.bootstrap).replace("kcat", Kcat.program())

    subprocess.run(["sh", "-c", line], check=True, timeout=PATIENCE_S)

    assert sent(broker) == [b"high"]


@pytest.mark.slow
def test_kafkajs_sends_it(broker: Served) -> None:
    """By the lines for a module that has the name ``Kafka``."""
    node = shutil.which("node")
    if node is None or not (INSTALLED / ".installed").exists():
        pytest.skip("needs Node.js: make .venvs/kafkajs/.installed")
    lines = first_message("JavaScript, kafkajs", broker.bootstrap)
    script = f'import {{ Kafka }} from "kafkajs"; {lines}; await producer.disconnect()'

    words = [node, "--input-type=module", "-e", script]
    subprocess.run(words, check=True, timeout=PATIENCE_S, cwd=INSTALLED)

    assert sent(broker) == [b"high"]
