"""Each code block of each page on Spark runs, in one session for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.docs.test_pages import ENVIRONMENT, FLIGHTS, ROOT, cases

import tidelog

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
@pytest.mark.parametrize("name", cases(with_spark=True))
def test_each_block_of_a_page_on_spark_runs(
    name: str, run_page: Callable[..., Any], spark: SparkSession
) -> None:
    """All blocks run in order; what a page creates in the session is dropped at the end."""
    if name == "docs/pipeline.md" and not FLIGHTS.exists():
        pytest.skip("the flights are not there: make demo downloads them")
    try:
        ran = run_page(ROOT / name, ENVIRONMENT.get(name), with_spark=True)
        counts = {
            table.name: spark.table(table.name).count() for table in spark.catalog.listTables()
        }
    finally:
        for table in spark.catalog.listTables():
            if table.isTemporary:
                spark.catalog.dropTempView(table.name)
            else:
                spark.sql(f"DROP TABLE IF EXISTS {table.name}")

    if name == "docs/spark.md":
        assert counts == {"flights": 6, "all_flights": 6, "lines": 6, "followed": 6, "notes": 1}
        assert ran.names["morning"].count() == 5
        assert ran.names["gaps"](Path("data"), "flights", 0) == []
        for topic, count in (("copy", 6), ("streamed", 6), ("notes", 1)):
            with tidelog.open_read_only(Path("data", f"{topic}-0")) as written:
                assert written.log_end_offset == count
