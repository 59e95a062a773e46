"""The driver of the stream that ``run.py`` watches: lines of files, a file a batch, to a topic.

python tools/soak/stream.py SOURCE CHECKPOINT DIRECTORY
"""

from __future__ import annotations

import sys

from tidelog.spark import session


def main(source: str, checkpoint: str, directory: str) -> None:
    """Copy lines that begin with a number, which chooses the partition, until killed."""
    spark = session(**{"spark.master": "local[1]", "spark.ui.enabled": "false"})
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(source)
    number = "cast(substring_index(value, ' ', 1) AS int)"
    rows = lines.selectExpr("value", f"{number} % 2 AS partition")
    writer = rows.writeStream.format("tidelog").option("topic", "streamed")
    writer = writer.option("checkpointLocation", checkpoint)
    writer.trigger(processingTime="500 milliseconds").start(directory).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
