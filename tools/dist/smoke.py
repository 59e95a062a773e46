"""Uses an installed tidelog as a user does; run by the Python of a new environment.

    python -I smoke.py core|arrow|sql|spark VERSION
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

RECORDS = [f"{number % 7}\t{number}" for number in range(1_000)]
INSTALLER = {"pip", "setuptools", "wheel"}


def tidelog(*words: str, lines: str = "") -> str:
    """Run the installed command; it must end with 0 and print nothing to standard error."""
    command = [str(Path(sys.prefix, "bin", "tidelog")), *words]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    if done.returncode != 0 or "Traceback" in done.stderr:
        raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def core(directory: str, version: str) -> None:
    """Create a topic, append to it, read and check it; by commands, then in Python."""
    import tidelog as library

    assert tidelog("--version") == f"tidelog {version}\n"
    assert library.__version__ == metadata.version("tidelog") == version
    tidelog("create", "by-command", "-d", directory, "--partitions", "2")
    tidelog("append", "by-command", "-d", directory, lines="\n".join(RECORDS) + "\n")
    read = tidelog("cat", "by-command", "-d", directory).splitlines()
    assert sorted(json.loads(line)["value"] for line in read) == sorted(RECORDS)
    with library.open(directory) as logs:
        logs.create_topic("in-python", config={"compression.type": "zstd"})
        logs.append_all("in-python", [record.encode() for record in RECORDS])
        values = [record.value for record in logs.read("in-python")]
    assert [value.decode() for value in values if value is not None] == RECORDS
    tidelog("describe", "-d", directory)
    tidelog("verify", "-d", directory)
    if find_spec("numba") is not None:
        from tidelog.kernels.runtime.gate import use_kernels

        assert use_kernels(1 << 30), "numba is installed, but no kernel can be compiled"


def arrow(directory: str, _version: str) -> None:
    """Load what works on Arrow tables."""
    import tidelog as library
    from tidelog.arrow import SCHEMA, ArrowDecoder

    with library.open(directory) as logs:
        logs.create_topic("t")
    assert "offset" in SCHEMA.names
    assert ArrowDecoder.__module__ == "tidelog.arrow.decode"


def store(directory: str, _version: str) -> None:
    """Archive a topic in a directory, and list the archive."""
    tidelog("create", "t", "-d", directory)
    uri = Path(directory).with_name("lake").as_uri()
    tidelog("archive", "-d", directory, "--to", uri)
    assert "t-0" in tidelog("list", "-d", uri)


def sql(directory: str, _version: str) -> None:
    """Query a topic and a system table."""
    tidelog("create", "t", "-d", directory)
    tidelog("append", "t", "-d", directory, lines="\n".join(RECORDS) + "\n")
    query = "SELECT count(*) AS rows FROM t, tidelog.topics"
    assert json.loads(tidelog("sql", "-d", directory, query, "--format", "json")) == {"rows": 1_000}


def console(directory: str, _version: str) -> None:
    """Render a page, with the templates and the style sheet that the wheel has."""
    from tidelog.console.rendering import Answer, render, static_file

    answer = Answer("notice.html", {"title": "A title", "text": "<text>"})
    assert "&lt;text&gt;" in render(answer, paths=[directory])
    assert static_file("console.css")


def spark(directory: str, _version: str) -> None:
    """Write rows with Spark, and read them back."""
    from tidelog.spark import session

    running = session(**{"spark.master": "local[1]", "spark.ui.enabled": "false"})
    rows = running.range(1_000).selectExpr("cast(id AS string) AS value")
    rows.write.format("tidelog").option("topic", "t").mode("append").save(directory)
    read = running.read.format("tidelog").option("subscribe", "t").load(directory)
    count = read.selectExpr("cast(value AS string)").distinct().count()
    running.stop()
    assert count == 1_000


def installed() -> tuple[int, int]:
    """Return the number of packages in this environment, and their bytes; not pip's own."""
    packages = [one for one in metadata.distributions() if one.name.lower() not in INSTALLER]
    paths = [Path(str(file.locate())) for one in packages for file in one.files or []]
    return len(packages), sum(path.stat().st_size for path in paths if path.is_file())


def main() -> None:
    """Run one part in a new directory; print the number of packages, and their bytes."""
    part, version = sys.argv[1:]
    packages, size = installed()
    with tempfile.TemporaryDirectory() as directory:
        parts = {
            **{"core": core, "arrow": arrow, "store": store, "sql": sql},
            **{"console": console, "spark": spark},
        }
        parts[part](str(Path(directory, "data")), version)
    print(f"{packages} {size}")


if __name__ == "__main__":
    main()
