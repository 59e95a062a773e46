"""The examples in the guide run, and its tables are complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tidelog.spark.options import source_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GUIDE = Path(__file__).parents[2] / "docs" / "spark.md"
AFTERNOON_MS = 1_700_000_000_000 + 13 * 3_600_000
CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_guide_names_every_option() -> None:
    """Every option of a read or a write is in one of the tables, refused ones included."""
    options = {*source_options._READ_OPTIONS, *source_options._WRITE_OPTIONS}
    options |= {"txnId", "skipOldBatches"}
    tables = "".join(line for line in GUIDE.read_text("utf-8").splitlines() if line[:1] == "|")

    assert [name for name in sorted(options) if f"`{name}`" not in tables] == []
    assert "kafka.auto.offset.reset" in tables


def test_the_examples_of_the_guide_run(spark: SparkSession, tmp_path: Path) -> None:
    """They run in order, over a directory with flights, and find all or those of a morning."""
    data = tmp_path / "data"
    with tidelog.open(data) as directory:
        directory.create_topic("flights")
        log = directory.partition("flights", 0)
        log.append_records([(1_700_000_000_000 + n, None, b"UA 1", []) for n in range(5)])
        log.append_records([(AFTERNOON_MS, None, b"UA 2", [])])
    codes = CODE.findall(GUIDE.read_text("utf-8"))
    names: dict[str, Any] = {"spark": spark, "checkpoint": str(tmp_path / "checkpoint")}

    try:
        for code in codes:
            # Spark resolves a relative path against the working directory of its Java process.
            absolute = re.sub(r"(['\"])data\1", rf"\1{data}\1", code)
            exec(compile(absolute, str(GUIDE), "exec"), names)
        counts = [spark.table(name).count() for name in ("flights", "all_flights", "lines")]
    finally:
        spark.sql("DROP TABLE IF EXISTS all_flights")
        spark.sql("DROP TABLE IF EXISTS notes")
        spark.catalog.dropTempView("flights")

    assert len(codes) >= 6
    assert counts == [6, 6, 6]
    assert names["morning"].count() == 5
    assert names["gaps"](data, "flights", 0) == []
    for topic, count in (("copy", 6), ("streamed", 6), ("notes", 1)):
        with tidelog.open_read_only(data / f"{topic}-0") as written:
            assert written.log_end_offset == count
