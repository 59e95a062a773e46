"""Of a log that is archived, retention deletes what its plan announced, on the disk and beyond."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.archives import files_with
from tests.machinery.manager_home import ManagerHome
from tests.machinery.object_model import Timed
from tests.machinery.scale import examples

from tidelog.archive import open_archives
from tidelog.explain.plans.retention_plan import plan_retention
from tidelog.manager.manager_part import OpenStores
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.testing import build_batch

URI = "s3://lake/logs"
KEEP = {"remote.storage.enable": "true", "internal.segment.bytes": "300", "retention.ms": "-1"}
SECOND_MS = 1_000


class Case(NamedTuple):
    """A log, and the limits that it gets once it is archived; ages in seconds."""

    ages: list[int | None]
    """Of its records, in order of offset; None: one without a timestamp."""
    local_bytes: str
    """What the disk has kept before."""
    limits: dict[str, str]


LIMITS = {
    "retention.bytes": st.sampled_from(["-1", "0", "300", "700"]),
    "retention.ms": st.sampled_from(["-1", "0", "5000", "40000"]),
    "local.retention.bytes": st.sampled_from(["-2", "0"]),
    "local.retention.ms": st.sampled_from(["-2", "0"]),
}
CASES = st.builds(
    Case,
    st.lists(st.none() | st.integers(0, 60), min_size=1, max_size=14),
    st.sampled_from(["-2", "0", "300"]),
    st.fixed_dictionaries(LIMITS).filter(
        lambda limits: limits["retention.ms"] != "-1" or limits["local.retention.ms"] == "-2"
    ),
)


@settings(max_examples=examples(40))
@given(case=CASES)
def test_a_log_with_an_archive_loses_what_the_plan_says(case: Case) -> None:
    """By the limits of the whole log and by those of the disk, with and without timestamps."""
    home, store = ManagerHome(), Timed(Random(1))
    store.name, store.now_ms = URI, home.clock.now_ms()
    files_with(store, URI)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(OpenStores, "opened", lambda _self, _uri: store)
        with home.open(tidelog_archive_uri=URI) as manager:
            manager.create_topic("t", config={**KEEP, "local.retention.bytes": case.local_bytes})
            log = manager.partition("t", 0).log
            now_ms = home.clock.now_ms()
            for age in case.ages:
                time = -1 if age is None else now_ms - age * SECOND_MS
                log.append_as_leader(build_batch([(time, None, b"v" * 40, ())]))
            log.update_high_watermark(log.log_end_offset)
            archiving = manager.tasks.archiving
            assert archiving is not None
            archiving.run()
            manager.tasks.cleanup_logs()
            manager.alter_topic("t", case.limits)
            home.clock.advance(10 * SECOND_MS)

            open_archives._archives[URI]._states.clear()
            directory = open_directory_read_only(*home.paths, fs=home.fs)
            plan = plan_retention(lambda: directory.open("t", 0), log.config, home.clock)
            for _ in range(2):  # the disk follows once the archive begins where the log does
                archiving.run()
                manager.tasks.cleanup_logs()

            kept = [one.base_offset for one in plan.kept if one.is_on_disk]
            assert plan.log_start_offset == log.log_start_offset
            assert kept == [one.base_offset for one in log.segments]
