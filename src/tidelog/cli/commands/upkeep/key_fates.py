"""What a cleaning of a log would do with each record of one key, and why, as lines."""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING, Any

from tidelog.cli.commands.upkeep.dropped_lines import DroppedLines, json_key
from tidelog.explain.plans.kept_records import kept_records
from tidelog.readonly.chosen_records import RecordFilter
from tidelog.records.json.json_record import Encoding, bytes_from_text

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from tidelog.cleaner.compaction_facts import CompactionFacts
    from tidelog.cleaner.rewriting.filter_result import DroppedRecords
    from tidelog.explain.plans.kept_records import KeptRecord
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.segment.filenames import TopicPartition


class KeyFates(DroppedLines):
    """Keeps the lines about one key: its records that would be dropped, then those that stay."""

    def __init__(self, args: Namespace) -> None:
        encoding = Encoding(args.encoding or Encoding.UTF8).of_texts
        self._key = bytes_from_text(args.key, encoding, "key")
        self._is_json: bool = args.json
        super().__init__(args)
        self._dropped = array("q")

    def begin(self, key: TopicPartition) -> Callable[[DroppedRecords], None]:
        """As of all records, of one key."""
        super().begin(key)
        self._dropped = array("q")

        def add(dropped: DroppedRecords) -> None:
            found = [one for one in dropped.explained() if one.key == self._key]
            self._dropped.extend(one.offset for one in found)
            self.add(key, found)

        return add

    def complete(self, log: ReadOnlyLog, facts: CompactionFacts) -> None:
        """Add the records that stay."""
        import numpy as np

        place = {"topic": facts.topic, "partition": facts.partition}
        wanted, dropped = RecordFilter(key=self._key), np.array(self._dropped, np.int64)
        for columns in wanted.records(log, log.log_start_offset, log.log_end_offset):
            stays = columns.select(np.isin(columns.offset, dropped, invert=True))
            self.write(self._line(place, one) for one in kept_records(log, facts, stays.records()))

    def _line(self, place: dict[str, Any], kept: KeptRecord) -> str:
        if not self._is_json:
            return f"  offset {kept.offset:,}: stays: {kept.text}\n"
        facts = {"offset": kept.offset, "staysAs": kept.reason.value, "until": kept.until_ms}
        return json.dumps({**place, **facts, **json_key(self._key)}) + "\n"
