"""Keyword arguments that batches and markers of one producer have in common."""

from __future__ import annotations

from typing import TypedDict


class ProducerFields(TypedDict):
    """Who appends, for ``build_batch`` and for ``build_marker``."""

    producer_id: int
    producer_epoch: int


class SequenceFields(ProducerFields):
    """The batch of an idempotent producer, for ``build_batch``."""

    base_sequence: int


class TransactionFields(SequenceFields):
    """A batch of a transaction, for ``build_batch``."""

    transactional: bool


class MarkerFields(ProducerFields):
    """How a transaction ends, for ``build_marker``."""

    coordinator_epoch: int
    is_commit: bool
