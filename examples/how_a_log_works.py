"""Runs the page docs/how-a-log-works.md, and prints it with what its blocks print here and now.

The page follows one log from its first record to its deletion. The files of the log stay in the
directory that is given, so that you can explore them.

    python examples/how_a_log_works.py .how-a-log-works
    python examples/how_a_log_works.py .how-a-log-works --pause   # Enter shows the next section
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "how-a-log-works.md"
BLOCK: Final = re.compile(
    r"^```(?P<language>python|console)\n(?P<code>.*?)^```\n(?:\n```text\n.*?^```\n)?",
    re.DOTALL | re.MULTILINE,
)
"""A block that runs, with the output that the page shows right below it."""

SECTION: Final = re.compile(r"^(?=## )", re.MULTILINE)


def main() -> int:
    """Run the page; return the exit code."""
    parser = argparse.ArgumentParser(description="Run docs/how-a-log-works.md.")
    parser.add_argument("directory", type=Path, help="a directory that is new or empty")
    parser.add_argument("--pause", action="store_true", help="wait for Enter after each section")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    if any(given.directory.iterdir()):
        print(f"{given.directory} is not empty: choose another directory", file=sys.stderr)
        return 1
    os.chdir(given.directory)
    scripts = Path(sys.executable).parent  # where the command tidelog is
    os.environ["PATH"] = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    names: dict[str, Any] = {"__name__": "__main__"}
    for section in SECTION.split(PAGE.read_text("utf-8")):
        run_section(section, names)
        if given.pause:
            input("Enter: continue ")
    return 0


def run_section(section: str, names: dict[str, Any]) -> None:
    """Print the text of a section, and run its blocks where they stand; they share ``names``."""
    end = 0
    for block in BLOCK.finditer(section):
        print(section[end : block.start()], end="")
        end = block.end()
        if block["language"] == "python":
            print(f"```python\n{block['code']}```")
            print(output_of(block["code"], names), end="")
        else:
            print("```console")
            for command in commands_of(block["code"]):
                print(f"$ {command}", flush=True)
                subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.STDOUT, check=False)
            print("```")
    print(section[end:], end="", flush=True)


def output_of(code: str, names: dict[str, Any]) -> str:
    """Run a block of Python; return the block with what it printed, empty if that was nothing."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102 - running the page is the point
    return f"\n```text\n{output.getvalue()}```\n" if output.getvalue() else ""


def commands_of(code: str) -> Iterator[str]:
    """Yield the commands of a console block, without their outputs."""
    return (line.removeprefix("$ ") for line in code.splitlines() if line.startswith("$ "))


if __name__ == "__main__":
    sys.exit(main())
