"""The golden data is there, all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import Enumerated
    from tests.golden.conftest import Partition


def test_no_golden_case_is_left_out(
    partitions: list[Partition], recovered: list[Partition], enumerated: Enumerated
) -> None:
    """A test that goes over the partitions, or over those with some listing, finds them."""
    enumerated("partitions", len(partitions), at_least=100)
    enumerated("recovered partitions", len(recovered), at_least=5)
    indexed = [each for each in partitions if not each.is_log_files_only]
    enumerated("partitions with indexes", len(indexed), at_least=76)
    snapshots = sum(len(each.files(".snapshot")) for each in indexed)
    enumerated("producer snapshots", snapshots, at_least=75)
    enumerated("loadable", sum(not each.is_refused for each in partitions), at_least=98)
    enumerated("with control records", sum(bool(each.control) for each in partitions), at_least=9)
    enumerated("with transactions", sum(each.has_committed for each in partitions), at_least=13)
    adopted = sum(each.case.startswith("adopted") for each in partitions)
    enumerated("adopted by Kafka", adopted, at_least=22)
