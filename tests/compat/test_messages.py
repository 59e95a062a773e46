"""docs/monitoring.md quotes Kafka's messages as Kafka's classes hold them."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import ZipFile

import pytest
from tests.machinery.kafkas_messages import SAME_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.compat

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "monitoring.md"
JARS = ROOT / ".peer" / "kafka"
ROOMS = re.compile(r"(kafka/log/|kafka/server/|org/apache/kafka/storage/internals/).*\.class")
SIZES: Final = (
    dict.fromkeys((7, 8, 16, 19, 20), 2)
    | {15: 3}
    | dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 4)
    | dict.fromkeys((5, 6), 8)
)
"""Bytes of a class file's constants by their kind; 1 is a text. Source: Java VM, section 4.4."""
VALUE = re.compile(r"\{\}|\x01|%[a-z]")


def texts(data: bytes) -> Iterator[str]:
    """Yield the texts among the constants of a class file."""
    (count,) = struct.unpack_from(">H", data, 8)
    at, index = 10, 1
    while index < count:
        kind = data[at]
        if kind == 1:
            (size,) = struct.unpack_from(">H", data, at + 1)
            yield data[at + 3 : at + 3 + size].decode("utf-8", "replace")
            at += 3 + size
        else:
            at += 1 + SIZES[kind]
        index += 2 if kind in {5, 6} else 1


@pytest.fixture(scope="module")
def known() -> str:
    """Every text in the classes of Kafka's log and its manager, values in it as an ellipsis."""
    if not JARS.is_dir():
        pytest.skip("needs Apache Kafka: make peer")
    found = []
    for name in ("kafka-storage-4.3.1.jar", "kafka_2.13-4.3.1.jar"):
        with ZipFile(JARS / name) as jar:
            classes = [one for one in jar.namelist() if ROOMS.fullmatch(one)]
            found += [VALUE.sub("…", text) for one in classes for text in texts(jar.read(one))]
    return " ".join(" ".join(found).split())


def test_the_page_quotes_kafkas_messages_word_for_word(known: str) -> None:
    """Those in the table, and those that are logged unchanged, except the values in them."""
    table = PAGE.read_text("utf-8").partition("| Kafka's message |")[2].partition("\n\n")[0]
    cells = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    quoted = [message for cell in cells for message in re.findall("`([^`]+)`", cell)]
    quoted += SAME_MESSAGES

    missing = {
        message: words.strip()
        for message in quoted
        for words in re.split("…", message)
        if words.strip() not in known
    }

    assert len(quoted) > 25
    assert missing == {}
