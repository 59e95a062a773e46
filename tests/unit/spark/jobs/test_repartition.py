"""What a repartition that failed leaves in the data directory."""

from __future__ import annotations

from random import Random

from tidelog.spark.jobs.repartition import files_of_failed_run
from tidelog.staging.staged_file import list_staged, staged_name
from tidelog.testing.directory_home import DataHome


def test_a_run_that_fails_leaves_the_files_of_another_run_alone() -> None:
    """Both have the same id, so only the other's marker shows that the files may be its own."""
    home = DataHome()
    home.fs.make_directory(home.path)
    ours, others, file, unrelated = (
        staged_name(txn, Random(seed)) for seed, txn in enumerate(("t", "t", "t", "u"))
    )
    home.write(ours, b"")
    home.write(others, b"")
    home.write(file, b"batches")
    home.write(unrelated, b"")
    assert len(list_staged(home.fs, home.path)) == 4

    assert files_of_failed_run(home.fs, home.path, "t", ours) == []
    home.fs.delete(f"{home.path}/{others}")
    assert files_of_failed_run(home.fs, home.path, "t", ours) == [file]
