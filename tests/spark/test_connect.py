"""The format in Spark Connect, without import or registration."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.spark.connect_client import client_environment

import tidelog
from tidelog.spark import session_conf

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CLIENT = """
import sys
from pyspark.sql import SparkSession

path = sys.argv[1]
builder = SparkSession.builder.remote("local[1]")
for pair in sys.argv[2:]:
    builder = builder.config(*pair.split("=", 1))
spark = builder.getOrCreate()
read = spark.read.format("tidelog").option("subscribe", "t").load(path)
read.write.format("tidelog").option("topic", "copy").mode("append").save(path)
copy = spark.read.format("tidelog").option("subscribe", "copy").load(path)
stream = spark.readStream.format("tidelog").option("subscribe", "t")
rows = stream.option("startingOffsets", "earliest").load(path)
query = rows.writeStream.format("memory").queryName("rows").trigger(availableNow=True)
query.start().awaitTermination(60)
print(type(spark).__module__, read.count(), copy.count(), spark.table("rows").count(), sep="|")
spark.stop()
"""


def test_spark_connect_reads_writes_and_streams(tmp_path: Path) -> None:
    """A client of a Connect server uses the format by name; the package is on the server."""
    environ = client_environment()
    path = tmp_path / "data"
    with tidelog.open(path) as directory:
        directory.create_topic("t")
        directory.partition("t", 0).append_records([(-1, None, b"v", [])] * 100)
    conf = session_conf() | {"spark.ui.enabled": "false"}
    settings = [f"{name}={value}" for name, value in conf.items()]

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CLIENT, str(path), *settings],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    kind, *counts = done.stdout.splitlines()[-1].split("|")
    assert kind.startswith("pyspark.sql.connect")
    assert counts == ["100", "100", "100"]
