"""What tests of several kinds share.

One Spark session for all tests of a worker, as it takes seconds to start, and one for a short run
of several workers; the count of what a test enumerates; a long run that continues where an earlier
one was stopped.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import signal
from collections import defaultdict
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import pytest
from hypothesis import settings
from tests.machinery.scale import examples, scaled
from tests.machinery.store_servers import (
    AZURITE,
    MOTO,
    S3PROXY,
    StoreServer,
    azurite,
    moto,
    s3proxy,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling


def pytest_collection_finish() -> None:
    """Keep what lasts as long as the run out of garbage collections, which take time over it.

    Garbage stays in memory, too: collecting it would make pytest's collection a tenth longer.
    What modules loaded later leave is gone over rarely: it took a twelfth of the time of the tests.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)
    gc.enable()


class Enumerated(Protocol):
    """Asserts that a test went over ``at_least`` things, and reports their count."""

    def __call__(self, what: str, count: int, *, at_least: int) -> None:
        """``what`` names the things in the plural; ``at_least`` is more than 0."""


ROOT: Final = Path(__file__).parents[1]

# No test depends on the time that a busy machine takes for an example.
settings.register_profile("tidelog", deadline=None, max_examples=examples(100))
settings.load_profile("tidelog")
QUICK_JAVA: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""Java's options for runs of seconds: verifying its classes is a sixth of Spark's start."""
CONNECTOR = ROOT / ".peer" / "spark-connector"
"""Spark's own Kafka source, as ``make peer`` installs it."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return a local session with two task slots; it has Spark's Kafka source where that is."""
    pytest.importorskip("pyspark")
    from tidelog.spark import session

    conf = {"spark.master": "local[2]", "spark.app.name": "tidelog tests"}
    if CONNECTOR.is_dir():
        conf["spark.jars"] = ",".join(str(path) for path in sorted(CONNECTOR.glob("*.jar")))
    running = session(**conf)
    yield running
    running.stop()


@pytest.fixture(params=[False, True], ids=["plain", "kernels"])
def engine(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Let plain code do all work, then kernels, of any size; yield whether they do."""
    from tidelog.kernels.runtime import gate

    gate.force(request.param)
    yield request.param
    gate.force(None)


@pytest.fixture
def kernels() -> Iterator[None]:
    """Let compiled code do work of any size; skip what needs it where there is none."""
    from tidelog.kernels.runtime import gate

    gate.force(True)
    is_there = gate.use_kernels(0)
    if is_there:
        yield
    gate.force(None)
    if not is_there:
        pytest.skip("numba is not installed")


@pytest.fixture(scope="session")
def moto_server() -> Iterator[StoreServer]:
    """A server of moto for all tests of this process."""
    if not MOTO.exists():
        pytest.skip("make .venvs/moto/.installed")
    with moto() as server:
        yield server


@pytest.fixture(scope="session")
def s3proxy_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    """A server of S3Proxy for all tests of this process."""
    if not S3PROXY.exists():
        pytest.skip("make peer")
    with s3proxy(tmp_path_factory.mktemp("s3proxy")) as server:
        yield server


@pytest.fixture(scope="session")
def azurite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    """A server of Azurite for all tests of this process."""
    if not AZURITE.exists():
        pytest.skip("make .venvs/azurite/.installed")
    with azurite(tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture
def enumerated(record_property: Callable[[str, object], None]) -> Enumerated:
    """Keep a test that goes over what it computes from passing when that is nothing.

    The counts are printed at the end of the run, summed over the parameters of a test.
    """

    def check(what: str, count: int, *, at_least: int) -> None:
        assert at_least > 0
        record_property(f"enumerated {what}", count)
        assert count >= at_least, f"{count} {what}"

    return check


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print how much each test enumerated, here and in the runs that this one resumes."""
    counts: dict[str, int] = {}
    earlier = config.stash.get(EARLIER, {})
    passed = {
        report.nodeid: enumerated_by(report) for report in terminalreporter.getreports("passed")
    }
    for nodeid, properties in (earlier | passed).items():
        for what, count in properties.items():
            line = f"{nodeid.partition('[')[0]}: {{}} {what}"
            counts[line] = counts.get(line, 0) + count
    if counts:
        terminalreporter.section("enumerated")
        for line, count in sorted(counts.items()):
            terminalreporter.write_line(line.format(count))
    if earlier:
        terminalreporter.write_line(f"{len(earlier)} more tests passed before this run")


def enumerated_by(report: pytest.TestReport) -> dict[str, int]:
    """Return what a test enumerated, and its count."""
    return {
        name.removeprefix("enumerated "): count
        for name, count in report.user_properties
        if name.startswith("enumerated ") and isinstance(count, int)
    }


class Validated(Protocol):
    """Asserts that each line of JSON is of exactly one kind that its schema names.

    Returns the kinds, by the descriptions in the schema of a command.
    """

    def __call__(self, command: str, lines: Iterable[object]) -> list[str]:
        """``command`` is a name that ``tidelog schema`` takes."""


@pytest.fixture(scope="session")
def validated() -> Validated:
    """Hold JSON against the schemas that ``tidelog schema`` prints, by an independent validator."""
    from jsonschema import Draft202012Validator

    from tidelog.cli.schemas.outputs import all_outputs

    validators: dict[str, list[Draft202012Validator]] = {}
    for name, output in all_outputs().items():
        Draft202012Validator.check_schema(output.schema(name))
        validators[name] = [Draft202012Validator(kind) for kind in output.lines]

    def check(command: str, lines: Iterable[object]) -> list[str]:
        found = []
        for line in lines:
            problems = {
                each.schema["description"]: [error.message for error in each.iter_errors(line)]
                for each in validators[command]
            }
            kinds = [kind for kind, errors in problems.items() if not errors]
            assert len(kinds) == 1, (command, line, problems)
            found += kinds
        return found

    return check


# A long run that continues where an earlier one was stopped

SLOWEST_SHOWN: Final = 15
SPARK_SECONDS: Final = 1200
"""The limit of a test on Spark: on a busy machine what starts in seconds takes minutes."""
EARLIER: Final = pytest.StashKey[dict[str, dict[str, int]]]()
"""Tests that have passed in earlier runs, with what each enumerated."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--resume``."""
    parser.addoption(
        "--resume",
        metavar="DIRECTORY",
        help="leave out the tests that passed in earlier runs on the same sources; kept there",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Prepare what tests start; read what passed before.

    No test lasts long enough for Java to compile thoroughly, and Spark's classes need no proof.
    A shell lets a command in the background ignore Ctrl-C, and so would all that tests start.
    """
    gc.disable()  # while tests are collected: nearly all of it lasts
    os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(QUICK_JAVA))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    directory = config.getoption("--resume")
    if directory is None:
        return
    path = Path(directory) / f"{sources_digest()}.jsonl"
    config.stash[EARLIER] = {nodeid: properties for nodeid, properties, _ in passed_in(path)}
    if not hasattr(config, "workerinput"):  # of pytest-xdist: only the controller writes
        path.parent.mkdir(parents=True, exist_ok=True)
        config.pluginmanager.register(PassedTests(path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that have passed before; give the others the time that they need.

    Files with slow tests come first, those on Spark before the others as they take longest, so that
    at the end no worker waits for another.
    """
    for item in items:
        given, on_spark = item.get_closest_marker("timeout"), item.get_closest_marker("spark")
        if scaled(1) > 1 or (on_spark and not given):
            usual = SPARK_SECONDS if on_spark else config.getini("timeout")
            seconds = int(given.args[0] if given else usual)
            item.add_marker(pytest.mark.timeout(scaled(seconds)), append=False)
    earlier = config.stash.get(EARLIER, {})
    done = [item for item in items if item.nodeid in earlier]
    if done:
        config.hook.pytest_deselected(items=done)
        items[:] = [item for item in items if item.nodeid not in earlier]
    slow_files = {item.path for item in items if item.get_closest_marker("slow")}
    spark_files = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: (item.path not in slow_files, item.path not in spark_files))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Start one Spark session in a run of minutes; in one of hours each worker has its own."""
    if config.getoption("dist") != "loadfile" or config.getoption("--resume"):
        return None
    from tests.machinery.sharing_workers import SharingWorkers

    return SharingWorkers(config, log)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Succeed if nothing was left to run."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.stash.get(EARLIER, {}):
        session.exitstatus = pytest.ExitCode.OK


def passed_in(path: Path) -> Iterator[tuple[str, dict[str, int], float]]:
    """Yield each test noted in a file, with what it enumerated and its seconds."""
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        if line.endswith("]"):  # a killed run may leave a part of a line
            nodeid, properties, seconds = json.loads(line)
            yield nodeid, properties, seconds


class PassedTests:
    """Writes down each test that passes, as it passes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._called: dict[str, dict[str, int]] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the test once its teardown has passed too."""
        self._seconds[report.nodeid] += report.duration
        if report.when == "call" and report.passed:
            self._called[report.nodeid] = enumerated_by(report)
        elif report.when == "teardown" and report.passed and report.nodeid in self._called:
            seconds = round(self._seconds[report.nodeid], 3)
            with self._path.open("a", encoding="utf-8") as file:
                line = [report.nodeid, self._called.pop(report.nodeid), seconds]
                file.write(json.dumps(line) + "\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print which files took longest, in all runs."""
        files: defaultdict[str, float] = defaultdict(float)
        for nodeid, _, seconds in passed_in(self._path):
            files[nodeid.partition("::")[0]] += seconds
        terminalreporter.section("seconds of the slowest files")
        slowest = sorted(files.items(), key=itemgetter(1), reverse=True)[:SLOWEST_SHOWN]
        for file, seconds in [*slowest, ("all files", sum(files.values()))]:
            terminalreporter.write_line(f"{seconds:6.0f} {file}")


def sources_digest() -> str:
    """Return a digest of ``SCALE`` and all that tests depend on in this checkout."""
    digest = hashlib.sha256(f"{scaled(1)}".encode())
    roots = (
        "src",
        "tests",
        "docs",
        "examples",
        "tools",
        "benchmarks",
        "README.md",
        "pyproject.toml",
    )
    for root in roots:
        found = sorted((ROOT / root).rglob("*")) or [ROOT / root]
        for path in found:
            if path.is_file() and path.suffix in {".py", ".md", ".toml", ".json", ".log"}:
                digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]
