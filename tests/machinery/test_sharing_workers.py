"""Files that share what takes long to make go to one worker, so that it is made once in a run."""

from __future__ import annotations

from tests.machinery.sharing_workers import SOURCES, SPARK, next_file, shared_by

ON_SPARK = "tests/spark/test_spark.py"
ALSO_ON_SPARK = "tests/golden/test_spark.py"
TIDY = "tests/tidy/test_sizes.py"
PLAIN = "tests/machinery/test_scale.py"
OTHER = "tests/machinery/test_explorer.py"


def test_what_files_share_is_told_from_them() -> None:
    """A session of Spark, the parsed sources, or nothing."""
    files = (ON_SPARK, ALSO_ON_SPARK, TIDY, PLAIN)

    assert [shared_by(file) for file in files] == [SPARK, SPARK, SOURCES, None]


def test_the_worker_with_a_session_gets_the_files_on_spark_first() -> None:
    """In their order; then it helps with the others."""
    assert next_file([PLAIN, ON_SPARK, ALSO_ON_SPARK], {SPARK}, ()) == ON_SPARK
    assert next_file([PLAIN, OTHER], {SPARK}, ()) == PLAIN


def test_another_worker_starts_a_session_only_if_nothing_else_is_left() -> None:
    """Then two sessions at once end the run sooner."""
    assert next_file([ON_SPARK, PLAIN, TIDY], (), {SPARK}) == PLAIN
    assert next_file([ON_SPARK, TIDY], (), {SPARK}) == TIDY
    assert next_file([ON_SPARK, TIDY], (), {SPARK, SOURCES}) == ON_SPARK


def test_a_run_that_is_over_gives_no_file() -> None:
    """There is nothing to choose."""
    assert next_file([], {SPARK}, ()) is None
