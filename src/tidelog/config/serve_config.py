"""The settings of the listeners of a service. Kafka: ``SocketServerConfigs``, ``GroupConfig``..."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.config.log_config import MINUTE_MS, SECOND_MS
from tidelog.config.option import (
    INT32_MAX,
    Check,
    Int32,
    any_value,
    at_least,
    check_options,
    one_of,
    option,
    options_of,
    parse_options,
    to_properties,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MIB: Final = 1 << 20
_LISTENER: Final = re.compile(r"(?:(\w+)://)?(\[[0-9a-fA-F:.]+\]|[^:/\[\]]*):([0-9]{1,5})")
_PORTS: Final = 1 << 16
_EVERY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - what may not be advertised
"""Hosts of listeners that are every address of the machine, and lead a client to its own."""
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
"""Hosts that no other machine can connect to."""


class FlushPolicy(StrEnum):
    """What an acknowledged produce request has waited for."""

    GROUP = "group"
    """acks=all: a flush, shared by all requests that wait for one."""
    NONE = "none"
    """Nothing, as with one replica of Kafka's."""
    EACH = "each"
    """acks=1, too: such a flush."""


class Endpoint(NamedTuple):
    """Where to listen, or where clients connect to; a ``port`` of 0 is any that is free."""

    host: str
    port: int


def parse_endpoint(text: str) -> Endpoint:
    """Parse ``HOST:PORT`` or ``PLAINTEXT://HOST:PORT``; raise ValueError.

    An empty host is every address of the machine, as in Kafka.
    """
    found = _LISTENER.fullmatch(text)
    if found is None or int(found[3]) >= _PORTS:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9092")
    protocol, host, port = found.groups()
    if protocol not in {None, "PLAINTEXT"}:
        raise ValueError(f"{text!r}: only PLAINTEXT is there yet, not {protocol}")
    return Endpoint(host.strip("[]"), int(port))


def _are_endpoints(texts: tuple[str, ...]) -> bool:
    try:
        return bool([parse_endpoint(text) for text in texts])
    except ValueError:
        return False


_endpoints: Final = Check("a list of PLAINTEXT://HOST:PORT", _are_endpoints)


def _lead_somewhere(texts: tuple[str, ...]) -> bool:
    """Whether a client that is given these addresses can connect to each of them."""
    if texts and not _are_endpoints(texts):
        return False
    found = [parse_endpoint(text) for text in texts]
    return all(one.host not in _EVERY_ADDRESS and one.port for one in found)


_no_or_advertised: Final = Check(
    f"{_endpoints.valid}, each with a host that clients can connect to and a port above 0",
    _lead_somewhere,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """Settings of what clients connect to."""

    listeners: tuple[str, ...] = option(
        "listeners",
        ("PLAINTEXT://127.0.0.1:9092",),
        _endpoints,
        "Where clients connect to; port 0 is any that is free.",
        kafka_default=("PLAINTEXT://:9092",),
    )
    advertised_listeners: tuple[str, ...] = option(
        "advertised.listeners",
        (),
        _no_or_advertised,
        "The addresses that clients get to connect to, one for each of the listeners; empty: the"
        " address to which they have connected.",
    )
    auto_create_topics_enable: bool = option(
        "auto.create.topics.enable",
        True,
        any_value,
        "Whether topics are created that clients ask for.",
    )
    num_partitions: Int32 = option(
        "num.partitions", 1, at_least(1), "Partitions of topics that are created without a number."
    )
    max_connections: Int32 = option(
        "max.connections",
        10_000,
        at_least(1),
        "Connections of clients that are open at the same time; programs that have joined by the"
        " socket beside the data are not counted.",
        kafka_default=INT32_MAX,
    )
    connections_max_idle_ms: int = option(
        "connections.max.idle.ms",
        10 * MINUTE_MS,
        at_least(1),
        "Time in ms after which a connection is closed on which no byte has moved; a client that"
        " waits for an answer keeps it.",
    )
    socket_request_max_bytes: Int32 = option(
        "socket.request.max.bytes",
        100 * _MIB,
        at_least(1),
        "Largest request in bytes; a connection with a larger one is closed.",
    )
    queued_max_request_bytes: int = option(
        "queued.max.request.bytes",
        256 * _MIB,
        at_least(1),
        "Bytes of large requests that are held at the same time; others wait to be read, and one"
        " that arrives too slowly meanwhile is closed.",
        kafka_default=-1,
    )
    fetch_max_bytes: Int32 = option(
        "fetch.max.bytes",
        55 * _MIB,
        at_least(1024),
        "Largest answer in bytes to a fetch; a single batch may be larger.",
    )
    group_initial_rebalance_delay_ms: Int32 = option(
        "group.initial.rebalance.delay.ms",
        0,
        at_least(0),
        "Time in ms that a new group waits for more members before its first assignment.",
        kafka_default=3 * SECOND_MS,
    )
    group_min_session_timeout_ms: Int32 = option(
        "group.min.session.timeout.ms",
        6 * SECOND_MS,
        at_least(1),
        "Smallest session timeout in ms that a member of a group may have.",
    )
    group_max_session_timeout_ms: Int32 = option(
        "group.max.session.timeout.ms",
        30 * MINUTE_MS,
        at_least(1),
        "Largest session timeout in ms that a member of a group may have.",
    )
    group_max_size: Int32 = option(
        "group.max.size", INT32_MAX, at_least(1), "Largest number of members of a group."
    )
    offset_metadata_max_bytes: Int32 = option(
        "offset.metadata.max.bytes",
        4096,
        at_least(0),
        "Most characters (as in Java, of UTF-16) in a committed position's metadata.",
    )
    offsets_retention_minutes: Int32 = option(
        "offsets.retention.minutes",
        -1,
        Check("-1, or at least 1", lambda value: value == -1 or value >= 1),
        "Time in minutes after which positions of groups without members are deleted; -1: never.",
        kafka_default=7 * 24 * 60,
    )
    offsets_retention_check_interval_ms: int = option(
        "offsets.retention.check.interval.ms",
        10 * MINUTE_MS,
        at_least(1),
        "Time in ms between two looks for positions that are to be deleted.",
    )
    tidelog_flush_policy: str = option(
        "tidelog.flush.policy",
        FlushPolicy.GROUP.value,
        one_of(*FlushPolicy),
        "What an acknowledgement waits for: group, a flush where a producer has acks=all, shared by"
        " all that wait; none, nothing, as in Kafka; each, such a flush also with acks=1.",
    )

    def __post_init__(self) -> None:
        check_options(self, self._conflicts())

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> ServeConfig:
        """Parse Kafka-style properties; raise one InvalidConfig that names every bad key."""
        return parse_options(cls, properties)

    def given(self) -> dict[str, str]:
        """Return the settings that differ from their defaults, as text."""
        return to_properties(self)

    @property
    def flush_policy(self) -> FlushPolicy:
        """What acknowledgements wait for."""
        return FlushPolicy(self.tidelog_flush_policy)

    @property
    def most_request_bytes(self) -> int:
        """What large requests hold together: the largest fits, whatever the settings are."""
        return max(self.queued_max_request_bytes, self.socket_request_max_bytes + 4)

    @property
    def endpoints(self) -> list[Endpoint]:
        """Where to listen."""
        return [parse_endpoint(text) for text in self.listeners]

    @property
    def advertised(self) -> list[Endpoint | None]:
        """The address that each listener names to clients; None: where they have connected."""
        if not self.advertised_listeners:
            return [None] * len(self.listeners)
        return [parse_endpoint(text) for text in self.advertised_listeners]

    def _conflicts(self) -> Iterator[str]:
        count = len(self.advertised_listeners)
        if count and count != len(self.listeners):
            yield f"advertised.listeners: {count} for {len(self.listeners)} listeners"
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            yield "group.min.session.timeout.ms: above group.max.session.timeout.ms"


SERVE_NAMES: Final = frozenset(known.name for known in options_of(ServeConfig))
"""The names of the settings."""
