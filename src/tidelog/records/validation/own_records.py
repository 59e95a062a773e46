"""Records of this process's own program, checked before they are built into a batch.

A batch that was built here is not read again to be checked, as one from outside is: the same rules
(``RecordRules``) are asked of the records. Kafka: ``MemoryRecordsBuilder``, ``LogValidator``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.codec.compression import DEFAULT_DECOMPRESSED_LIMIT, Codec
from tidelog.errors import MessageTooLarge
from tidelog.records.batch import TimestampType
from tidelog.records.builder import DEFAULT_SPEC, BatchSpec, build_with_row
from tidelog.records.validation.accept import Accepted
from tidelog.records.validation.record_rules import check_records
from tidelog.records.validation.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.records.builder import RecordFields
    from tidelog.records.validation.policy import LeaderPolicy
    from tidelog.records.validation.rejection import OnRejected


class OwnRecords:
    """Records that one append writes as one batch; ``codec`` counts where the topic has none.

    The batch is kept, with the policy under which it was accepted, so that it can be built before
    a lock is taken and is built again only if the topic's settings have changed by then.
    """

    def __init__(self, records: Iterable[RecordFields], codec: Codec | str = Codec.NONE) -> None:
        self._records: Final = records if isinstance(records, list) else list(records)
        self._codec: Final = Codec.named(codec)
        self.accepted: Accepted | None = None
        """The batch; None: there are no records, or it was not built yet."""
        self.accepted_by: tuple[LeaderPolicy, int] | None = None
        """The rules, and the limit in bytes, that the batch has passed."""

    def accept(
        self, policy: LeaderPolicy, max_batch_bytes: int, now_ms: int, on_rejected: OnRejected
    ) -> Accepted | None:
        """Return the records as a batch that may be appended; None if there are none.

        Args:
            policy: the topic's rules for batches.
            max_batch_bytes: ``max.message.bytes``.
            now_ms: the time of the append in ms, which bounds timestamps.
            on_rejected: called with what a metric counts before an error is raised.

        Raises:
            InvalidRecord, InvalidTimestamp: records break a rule; they are listed.
            MessageTooLarge: the batch exceeds ``max_batch_bytes``, or what readers decompress.
            InvalidArgument: no batch can hold the records.
        """
        if self.accepted_by is None or policy is not self.accepted_by[0]:
            self.accepted = self._build(policy, now_ms, on_rejected)
        accepted = self.accepted
        if accepted is not None and len(accepted.data) > max_batch_bytes:
            size = len(accepted.data)
            on_rejected(Rejection.BYTES_REJECTED, size)
            raise MessageTooLarge("a batch", size, max_batch_bytes, "max.message.bytes")
        self.accepted_by = policy, max_batch_bytes
        return accepted

    def _build(self, policy: LeaderPolicy, now_ms: int, on_rejected: OnRejected) -> Accepted | None:
        codec, level = self._codec, None
        if policy.codec is not None and policy.codec is not codec:
            codec, level = policy.codec, policy.level
        is_plain = codec is Codec.NONE and level is None
        spec = DEFAULT_SPEC if is_plain else BatchSpec(codec=codec, level=level)
        built = build_with_row(self._records, spec)
        if built is None:
            return None
        check_records(self._records, policy, now_ms, on_rejected)
        if codec is not Codec.NONE and built.records_bytes > DEFAULT_DECOMPRESSED_LIMIT:
            # Readers would refuse to decompress it.
            raise MessageTooLarge(
                "decompressed records", built.records_bytes, DEFAULT_DECOMPRESSED_LIMIT
            )
        is_append_time = policy.timestamp_type is TimestampType.LOG_APPEND_TIME
        return Accepted(built.data, built.row, codec, is_append_time)
