"""The tests of librdkafka, the C client, as the npm package of its JavaScript binding has them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

from brokers import KAFKA_JARS
from outcome import Outcome, run

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE: Final = "@confluentinc/kafka-javascript@1.10.1"
NAME: Final = f"librdkafka of {PACKAGE}"
AT_ONCE: Final = 4
"""Tests that run at the same time; most of them mostly wait."""

PATIENCE_S: Final = 900
KAFKA_VERSION: Final = "4.3.1"
NO_LOCAL: Final = "-L"
"""Leave out tests that need no broker."""

OPTIONS: Final = ("--disable-gssapi", "--disable-curl", "--disable-lz4-ext", "--disable-zstd")
ENTRY: Final = re.compile(r"_TEST\((\w+),(.*?)(?=_TEST\(|NULL\})", re.DOTALL)
SCENARIO: Final = re.compile(r'\.scenario = "(\w+)')
AUTO_CREATE: Final = "auto.create.topics.enable"
SCENARIOS: Final = {"default": {}, "noautocreate": {AUTO_CREATE: "false"}}
"""What the broker is to be set to, by the name of the scenario that tests ask for."""

COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


def prepare(folder: Path) -> Path:
    """Fetch and build the library and its tests; return the folder of the tests."""
    source = folder / "package" / "deps" / "librdkafka"
    tests = source / "tests"
    if not (tests / "test-runner").exists():
        archive = run("npm", "pack", "--silent", PACKAGE, cwd=folder).split()[-1]
        run("tar", "xzf", archive, cwd=folder)
        run("./configure", *OPTIONS, cwd=source)
        run("make", f"-j{os.cpu_count()}", "libs", cwd=source)
        run("make", f"-j{os.cpu_count()}", "-C", tests, "build", cwd=source)
    return tests


def names(tests: Path, scenario: str) -> list[str]:
    """Return the tests that need a broker and are run in a scenario."""
    text = (tests / "test.c").read_text("utf-8").partition("struct test tests[] = {")[2]
    found = []
    for name, rest in ENTRY.findall(text.partition("NULL}")[0] + "NULL}"):
        wanted = SCENARIO.search(rest)
        is_ours = (wanted[1] if wanted else "default") == scenario
        if is_ours and "TEST_F_LOCAL" not in rest and "TEST_F_MANUAL" not in rest:
            found.append(name)
    return found


def outcomes(
    tests: Path, address: str, scenario: str, wanted: list[str], logs: Path
) -> list[Outcome]:
    """Run the tests of a scenario whose names contain one of ``wanted``."""
    _write_tools(logs)
    config = logs / f"{scenario}.conf"
    config.write_text(f"bootstrap.servers={address}\ntest.topic.random=true\n", "utf-8")
    # The program chooses tests by their numbers, which several may share.
    groups = groupby(names(tests, scenario), key=lambda name: name.partition("_")[0])
    chosen = [(number, list(some)) for number, some in groups]
    chosen = [
        (number, some)
        for number, some in chosen
        if any(part in name for part in wanted for name in some)
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(partial(_outcomes, tests, config, address, scenario), chosen)
        return [one for some in found for one in some]


def _write_tools(folder: Path) -> None:
    """Write the one program of Kafka's that tests start, for those who have it by ``make peer``."""
    program = folder / "bin" / "kafka-topics.sh"
    program.parent.mkdir(exist_ok=True)
    program.write_text(
        "#!/bin/sh\nexec java -XX:TieredStopAtLevel=1 "
        f"-cp '{KAFKA_JARS}/*' org.apache.kafka.tools.TopicCommand \"$@\"\n"
    )
    program.chmod(0o755)


def _outcomes(
    tests: Path, config: Path, address: str, scenario: str, chosen: tuple[str, list[str]]
) -> list[Outcome]:
    number, wanted = chosen
    stem = f"{number}-{scenario}"
    report, log = config.with_name(f"{stem}.json"), config.with_name(f"{stem}.log")
    report.unlink(missing_ok=True)
    environ = os.environ | {
        "TESTS": number,
        "TEST_REPORT": str(report),
        "KAFKA_PATH": str(config.parent),
        "BROKERS": address,
        "TEST_KAFKA_VERSION": KAFKA_VERSION,
        "RDKAFKA_TEST_CONF": str(config),
        "LD_LIBRARY_PATH": f"{tests.parent / 'src'}:{tests.parent / 'src-cpp'}",
    }
    command = ["./test-runner", "-p1", NO_LOCAL, "-s", scenario]
    with log.open("w") as output:
        try:
            subprocess.run(
                command,
                cwd=tests,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [Outcome(name, "failed", f"not done after {PATIENCE_S} s") for name in wanted]
    text = log.read_text("utf-8", "replace")
    if not report.exists():
        return [
            Outcome(name, "failed", _failure(name, text) or "the process died") for name in wanted
        ]
    states = {
        name: one["state"].lower()
        for name, one in json.loads(report.read_text("utf-8", "replace"))["tests"].items()
    }
    return [
        Outcome(name, states[name], "" if states[name] == "passed" else _failure(name, text))
        for name in wanted
    ]


def _failure(name: str, text: str) -> str:
    """Return the first line that a test has said of its failure."""
    plain = COLOUR.sub("", text)
    found = re.search(rf'^### Test "{name}\b.* failed at (\S+) at .*\n(.*)', plain, re.MULTILINE)
    return f"{found[1]} {found[2]}"[:300] if found else ""
