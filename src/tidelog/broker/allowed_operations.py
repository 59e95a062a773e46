"""What a client may do, for those who ask: all there is, since there are no access rules.

Kafka: ``AclEntry.supportedOperations``, which it also answers when it has no authorizer.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class _Operation(IntEnum):
    """Source: Kafka AclOperation."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _bits(*operations: _Operation) -> int:
    return sum(1 << one for one in operations)


_SETTINGS: Final = (_Operation.DESCRIBE_CONFIGS, _Operation.ALTER_CONFIGS)
OF_TOPIC: Final = _bits(
    _Operation.READ,
    _Operation.WRITE,
    _Operation.CREATE,
    _Operation.DELETE,
    _Operation.ALTER,
    _Operation.DESCRIBE,
    *_SETTINGS,
)
OF_GROUP: Final = _bits(_Operation.READ, _Operation.DESCRIBE, _Operation.DELETE, *_SETTINGS)
OF_CLUSTER: Final = _bits(
    _Operation.CREATE,
    _Operation.ALTER,
    _Operation.DESCRIBE,
    _Operation.CLUSTER_ACTION,
    _Operation.IDEMPOTENT_WRITE,
    *_SETTINGS,
)
