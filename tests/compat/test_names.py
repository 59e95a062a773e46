"""Every name of Kafka's log, its settings and its metrics stands in a page, with what is here."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest
from tests.compat.test_messages import texts

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.kafka_names import foreign_names
from tidelog.config.log_config import LogConfig
from tidelog.config.option import options_of

if TYPE_CHECKING:
    from tests.compat.conftest import Java
    from tests.conftest import Enumerated

pytestmark = pytest.mark.compat

ROOT = Path(__file__).parents[2]
JARS = ROOT / ".peer" / "kafka"
CLASS = re.compile(r"org/apache/kafka/storage/internals/(log|checkpoint)/(\w+)\.class")
METRICS = {
    "kafka-storage-4.3.1.jar": r".*/(internals/log/\w*|log/metrics/\w*)\.class",
    "kafka_2.13-4.3.1.jar": r"kafka/(log/LogManager|\w+/ReplicaManager|\w+/Partition)\$?\.class",
}
METRIC = re.compile(
    r"[A-Z][A-Za-z]+(Count|PerSec|Percent|TimeMs|Lag|Isr|Partitions)"
    r"|(Num|Log)[A-Z]\w+(Segments|Offset)"
    r"|[a-z]+-[a-z-]+-(ms|secs|percent|bytes|count)|remaining[A-Z]\w+ToRecover"
)
NOT_A_METRIC = {"logSegments"}


@pytest.fixture(scope="module")
def pages() -> str:
    """All pages."""
    if not JARS.is_dir():
        pytest.skip("needs Apache Kafka: make peer")
    return "\n".join(page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md"))


def test_each_class_of_kafkas_log_is_on_the_page(pages: str, enumerated: Enumerated) -> None:
    """By what is here for it, or by why there is nothing."""
    with ZipFile(JARS / "kafka-storage-4.3.1.jar") as jar:
        found = {match[2] for match in map(CLASS.fullmatch, jar.namelist()) if match}

    enumerated("classes", len(found), at_least=80)
    assert sorted(found - set(re.findall(r"\w+", pages))) == []


def test_each_metric_of_kafkas_log_is_on_a_page(pages: str, enumerated: Enumerated) -> None:
    """Those of its manager, its cleaner, and of what brokers count of a partition and a topic."""
    found = set()
    for name, rooms in METRICS.items():
        with ZipFile(JARS / name) as jar:
            classes = [one for one in jar.namelist() if re.fullmatch(rooms, one)]
            found |= {text for one in classes for text in texts(jar.read(one))}
    metrics = {text for text in found if METRIC.fullmatch(text)} - NOT_A_METRIC

    enumerated("metrics", len(metrics), at_least=50)
    assert sorted(name for name in metrics if name not in pages) == []


def test_each_setting_of_a_broker_is_known_and_on_a_page(
    pages: str, java: Java, enumerated: Enumerated
) -> None:
    """Either taken, or recognized as one that does not concern storage, with what there is here."""
    names = set(re.findall(r'<a id="([a-z.0-9]+)"', java.run("kafka.server.KafkaConfig")))
    options = [*options_of(BrokerConfig), *options_of(LogConfig)]
    ours = {one.name for one in options} | {s.name for one in options for s in one.synonyms}
    quoted = set(re.findall(r"`([^`\s]+)`", pages))
    families = [name for name in quoted if re.fullmatch(r"[a-z.]{4,}\*", name)]

    enumerated("settings", len(names), at_least=300)
    assert sorted(names - ours - set(foreign_names(names))) == []
    missing = (name for name in names if not any(fnmatch(name, one) for one in families))
    assert sorted(name for name in missing if name not in quoted) == []
