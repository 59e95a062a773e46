"""What clients have asked for, and how long answers took. Kafka: ``RequestChannel.Metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.codec.protocol.apis import apis
from tidelog.env.clock import MS_PER_S
from tidelog.manager.metrics.metric import Metric, metrics_of, timer_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    _Counts = list[float]
    """How many answers, the seconds that they took, and how many of these they have waited."""

_REQUESTS: Final = ("kafka.network", "RequestMetrics")
_GROUPS: Final = ("kafka.coordinator.group", "GroupMetadataManager")


class RequestCounts:
    """Counts requests by kind, since the start. The event loop counts; any thread may read."""

    def __init__(self) -> None:
        self._found: dict[int, _Counts] = {number: [0, 0.0, 0.0] for number in apis()}
        self.closed = 0
        """Connections that were closed for what they sent."""

    def answered(self, number: int, seconds: float, waited: float = 0.0) -> None:
        """Count a request that was answered so long after it had come, of which it has waited."""
        found = self._found[number]
        found[0] += 1
        found[1] += seconds
        found[2] += waited

    def metrics(self, connections: int, groups: Mapping[str, int]) -> Iterator[Metric]:
        """Yield the counts, how many connections there are, and what ``groups`` says of groups."""
        for number, api in sorted(apis().items()):
            tags = (("request", api.name),)
            count, total, waited = self._found[number]
            yield Metric(*_REQUESTS, "RequestsPerSec", tags, count, "counter")
            for name, seconds in (
                ("TotalTimeMs", total),
                ("LocalTimeMs", total - waited),
                ("RemoteTimeMs", waited),
            ):
                total_ms = seconds * MS_PER_S
                yield from timer_metrics(*_REQUESTS, name, tags, count=count, total_ms=total_ms)
        yield Metric("kafka.server", "socket-server-metrics", "connection-count", (), connections)
        yield Metric("tidelog", "Broker", "ConnectionsClosedCount", (), self.closed, "counter")
        yield from metrics_of(*_GROUPS, (), groups)
