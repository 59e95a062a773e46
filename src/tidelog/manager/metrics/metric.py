"""One number about a log, or about all of them, and the text forms that others read.

A metric has a name in Kafka's form and one in Prometheus'. Kafka: ``KafkaMetricsGroup``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tidelog.segment.filenames import TopicPartition

Tags = tuple[tuple[str, str], ...]

_TAG = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
COUNTER_END = "_total"
"""How the Prometheus names of counters end."""
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


class Metric(NamedTuple):
    """One number. ``kind`` is Prometheus' type: gauge, or counter for what only grows.

    A timer, which Prometheus calls a summary, is two numbers: ``part`` is their count, or sum.
    """

    group: str
    type: str
    name: str
    tags: Tags
    value: float
    kind: str = "gauge"
    part: str = ""

    @property
    def kafka_name(self) -> str:
        """The name as JMX shows it."""
        tags = "".join(f",{key}={value}" for key, value in self.tags)
        return f"{self.group}:type={self.type},name={self.name}{tags}"

    @property
    def family(self) -> str:
        """The name as Prometheus has it, without tags."""
        words = f"{self.group}_{self.type}_{self.name}"
        plain = _snake_case(words)
        return f"{plain}{COUNTER_END}" if self.kind == "counter" else plain

    @property
    def prometheus_line(self) -> str:
        """A line of Prometheus' text format."""
        tags = _tag_text(self.tags)
        value = int(self.value) if self.value == int(self.value) else self.value
        name = f"{self.family}_{self.part}" if self.part else self.family
        return f"{name}{{{tags}}} {value}" if tags else f"{name} {value}"


def metrics_of(
    group: str, type_: str, tags: Tags, values: Mapping[str, float], kind: str = "gauge"
) -> Iterator[Metric]:
    """Yield a metric of each name, with the same tags."""
    for name, value in values.items():
        yield Metric(group, type_, name, tags, value, kind)


def timer_metrics(
    group: str, type_: str, name: str, tags: Tags, *, count: float, total_ms: float
) -> Iterator[Metric]:
    """Yield the two numbers of a timer."""
    yield Metric(group, type_, name, tags, count, "summary", "count")
    yield Metric(group, type_, name, tags, total_ms, "summary", "sum")


def in_percent(size_bytes: int, limit_bytes: int) -> int:
    """Return a size in whole percent of a limit; 0 where there is none."""
    return size_bytes * 100 // limit_bytes if limit_bytes > 0 else 0


def tags_of(key: TopicPartition) -> Tags:
    """Return the tags of one partition."""
    return (("topic", key.topic), ("partition", str(key.partition)))


def as_prometheus(metrics: Iterable[Metric]) -> str:
    """Return the text that a Prometheus scrapes, each family with its type."""
    families: dict[str, list[str]] = {}
    for metric in metrics:
        lines = families.setdefault(metric.family, [])
        if not lines:
            lines.append(f"# TYPE {metric.family} {metric.kind}")
        lines.append(metric.prometheus_line)
    return "".join(f"{line}\n" for family in sorted(families) for line in families[family])


def parse_prometheus(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield name, tags and value of each line that ``as_prometheus`` wrote."""
    for line in text.split("\n"):  # not at other ends of lines, which a name may have
        if line and not line.startswith("#"):
            found, value = line.rpartition(" ")[::2]
            name, _, tags = found.partition("{")
            yield name, {key: _plain(v) for key, v in _TAG.findall(tags)}, float(value)


@lru_cache(maxsize=1024)
def _snake_case(words: str) -> str:
    return _WORD.sub("_", words).lower()


@lru_cache(maxsize=1024)  # the numbers of a partition follow each other
def _tag_text(tags: Tags) -> str:
    return ",".join(f'{_snake_case(key)}="{_quoted(value)}"' for key, value in tags)


def _quoted(text: str) -> str:
    # A byte of a path that is not UTF-8 has no form in the text format, which is.
    text = text.encode(errors="backslashreplace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda sign: "\n" if sign[1] == "n" else sign[1], text)
