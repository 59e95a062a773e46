"""A job for spark-submit: append rows to a topic, read them back, and print how many there are."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from pyspark_tidelog import DefaultSource
from tidelog.spark import session_conf


def main(directory: str) -> None:
    """Write 1,000 records to the topic ``tides``, once however often the job is run again."""
    builder = SparkSession.builder.appName("tides")
    for key, value in session_conf().items():
        builder.config(key, value)
    spark = builder.getOrCreate()
    # Spark finds sources that are installed, not those of --py-files.
    spark.dataSource.register(DefaultSource)
    rows = spark.range(1000).selectExpr(
        "CAST(id % 10 AS string) AS key", "CAST(id AS string) AS value"
    )
    to_log = rows.write.format("tidelog").option("topic", "tides").option("numPartitions", 4)
    to_log.option("txnId", "tides-1").mode("append").save(directory)
    log = spark.read.format("tidelog").option("subscribe", "tides").load(directory)
    print("records:", log.count())
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
