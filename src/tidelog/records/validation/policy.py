"""The topic's settings that decide which batches a leader accepts, and how it stores them.

Kafka: the arguments of ``LogValidator``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tidelog.codec.compression import Codec
from tidelog.records.batch import INT64_MAX, TimestampType

if TYPE_CHECKING:
    from typing import Self

    from tidelog.config.log_config import LogConfig

_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderPolicy:
    """The topic's settings that concern batches; ``codec`` None keeps the producer's codec.

    ``is_policy_known``: whether ``cleanup.policy`` is; else records need keys.
    ``keeps_plain``: uncompressed batches are stored with the codec and timestamps that they have.
    """

    codec: Codec | None = None
    level: int | None = None
    needs_keys: bool = False
    is_policy_known: bool = True
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = _HOUR_MS
    keeps_plain: bool = field(init=False)

    def __post_init__(self) -> None:
        keeps_codec = self.codec is None or self.codec is Codec.NONE
        keeps = keeps_codec and self.timestamp_type is TimestampType.CREATE_TIME
        object.__setattr__(self, "keeps_plain", keeps)  # here, and not at each append

    @classmethod
    def of(cls, config: LogConfig) -> Self:
        """Return the policy according to a topic's settings."""
        names = {"producer": None, "uncompressed": Codec.NONE}
        name = config.compression_type
        codec = names[name] if name in names else Codec.named(name)
        levels = {
            Codec.GZIP: config.compression_gzip_level,
            Codec.LZ4: config.compression_lz4_level,
            Codec.ZSTD: config.compression_zstd_level,
        }
        is_appended = config.is_stamped
        return cls(
            codec=codec,
            level=levels.get(codec) if codec is not None else None,
            needs_keys=config.needs_keys,
            is_policy_known=config.is_policy_known,
            timestamp_type=TimestampType(int(is_appended)),
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        )
