"""The files of deploy/ name what is there: options, metrics, ports, files."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
from tests.tidy.test_workflows import parsed

from tidelog.cli.parser import make_parser
from tidelog.env.waiting import sleep_ms
from tidelog.records.validation.rejection import Rejection
from tidelog.spark import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TIDELOG = str(Path(sys.executable).with_name("tidelog"))
METRIC = re.compile(r"\b(?:kafka|tidelog)_\w+")
RECORDED = re.compile(r"\btidelog:\w+(?::\w+)?")
PROMTOOL = shutil.which("promtool")
UNREADABLE = 1
"""What promtool exits with for what is not in Prometheus' format; 3: a name it would not give."""
PROCESS = "tidelog_streams_"
"""Metrics of a Spark driver, which no service has."""


def rules() -> list[dict[str, Any]]:
    """Return every rule of Prometheus."""
    groups: Any = parsed((DEPLOY / "prometheus/rules.yml").read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def queries() -> list[str]:
    """Return every expression of the rules and of the dashboard."""
    board = json.loads((DEPLOY / "grafana/tidelog.json").read_text("utf-8"))
    targets = [target for panel in board["panels"] for target in panel.get("targets", ())]
    variables = [each["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    return [rule["expr"] for rule in rules()] + [each["expr"] for each in targets] + variables


def metrics_used() -> set[str]:
    """Return the metrics in all expressions."""
    return {name for query in queries() for name in METRIC.findall(query)}


def unit_commands() -> Iterator[tuple[str, list[str]]]:
    """Yield each unit with the arguments of its command."""
    for path in sorted((DEPLOY / "systemd").glob("*.service")):
        command = re.search(r"^ExecStart=(.+)$", path.read_text("utf-8"), re.MULTILINE)
        assert command is not None
        yield path.name, command[1].split()


def test_the_commands_of_units_are_taken() -> None:
    """Their options exist, and the program is where the page installs it."""
    commands = dict(unit_commands())

    assert len(commands) == 4
    for program, *arguments in commands.values():
        assert program == "/opt/tidelog/bin/tidelog"
        make_parser().parse_args(arguments)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """No directive is unknown or has a wrong value; the program is this environment's."""
    units = [*(DEPLOY / "systemd").glob("*.service"), *(DEPLOY / "systemd").glob("*.timer")]
    for unit in units:
        text = unit.read_text("utf-8").replace("/opt/tidelog/bin/tidelog", TIDELOG)
        (tmp_path / unit.name).write_text(text, "utf-8")

    command = ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_rules_are_whole() -> None:
    """An alert has a severity and a summary; what a rule or panel reads is recorded."""
    alerts = [rule for rule in rules() if "alert" in rule]
    recorded = {rule["record"] for rule in rules() if "record" in rule}

    assert len(alerts) > 15
    assert len({rule["alert"] for rule in alerts}) == len(alerts)
    assert {rule["labels"]["severity"] for rule in alerts} == {"critical", "warning"}
    assert all(rule["annotations"]["summary"] for rule in alerts)
    read = {name for query in queries() for name in RECORDED.findall(query)}
    assert read == recorded


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: apt install prometheus")
def test_prometheus_takes_the_rules() -> None:
    """By its own check of a rule file, queries included."""
    assert PROMTOOL is not None
    command = [PROMTOOL, "check", "rules", str(DEPLOY / "prometheus/rules.yml")]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_refused_records_alert_for_every_reason() -> None:
    """Each metric that counts refused records is in the alert."""
    (alert,) = [rule["expr"] for rule in rules() if rule.get("alert") == "TidelogRecordsRefused"]
    counted = [kind.value for kind in Rejection if kind is not Rejection.BYTES_REJECTED]

    names = [re.sub("(?<!^)(?=[A-Z])", "_", name).lower() for name in counted]
    assert all(f"broker_topic_metrics_{name}_per_sec_total[" in alert for name in names)


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    """Seven rows, each panel in a place and with a number of its own."""
    panels = json.loads((DEPLOY / "grafana/tidelog.json").read_text("utf-8"))["panels"]
    places = [
        (at["x"] + x, at["y"] + y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["w"])
        for y in range(at["h"])
    ]

    assert sum(panel["type"] == "row" for panel in panels) == 7
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) < 24


def test_metrics_of_streams_are_listed() -> None:
    """A service has none of them, so the page of metrics is what they are compared with."""
    page = (ROOT / "docs/monitoring.md").read_text("utf-8")
    line = next(line for line in page.splitlines() if "`OffsetsBehindLatest`" in line)
    listed = {re.sub("(?<!^)(?=[A-Z])", "_", name).lower() for name in re.findall("`(\\w+)`", line)}
    used = {name for name in metrics_used() if name.startswith(PROCESS)}

    assert used
    assert {name.removeprefix(PROCESS) for name in used} <= listed


@pytest.fixture
def service(tmp_path: Path) -> Iterator[str]:
    """The address of a broker that archives, as the unit starts it."""
    options = ["-o", f"tidelog.archive.uri=file://{tmp_path}/lake"]
    options += ["-o", "remote.log.manager.task.interval.ms=100"]
    command = [TIDELOG, "serve", "-d", "data", "--listen", "127.0.0.1:0", "--http", "0", *options]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = next(
            found[1] for line in process.stderr if (found := re.search(r"path=(http\S+)", line))
        )
        next(line for line in process.stderr if " ready " in line)
        yield address
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
    assert process.returncode == 0


@pytest.mark.slow
def test_a_service_has_the_metrics_of_rules_and_panels(service: str, tmp_path: Path) -> None:
    """Except those of Spark's streams, which their driver writes."""
    create = [TIDELOG, "create", "tides", "-d", "data", "-o", "remote.storage.enable=true"]
    reset = [TIDELOG, "groups", "-d", "data", "reset", "g", "tides", "--to", "earliest"]
    for command in (create, [*reset, "--execute"]):
        subprocess.run(command, cwd=tmp_path, check=True)
    needed = {name for name in metrics_used() if not name.startswith(PROCESS)}

    missing, served = needed, b""
    for _ in range(600):
        with urlopen(f"{service}/metrics") as answer:
            served = answer.read()
        missing = needed - set(METRIC.findall(served.decode()))
        if not missing:
            break
        sleep_ms(100)

    assert missing == set()
    if PROMTOOL is not None:
        command = [PROMTOOL, "check", "metrics"]
        checked = subprocess.run(command, input=served, capture_output=True, check=False)
        assert checked.returncode != UNREADABLE, checked.stderr


def test_the_image_copies_what_is_there() -> None:
    """Each file that it copies exists and is not ignored; the probe asks the service's port."""
    text = (DEPLOY / "container/Containerfile").read_text("utf-8")
    ignored = (DEPLOY / "container/Containerfile.dockerignore").read_text("utf-8").split()
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE)
    files = [name for line in copied for name in line.split()]

    assert len(files) == 6
    assert all((ROOT / name).exists() for name in files)
    assert {f"!{name}" for name in files} == {line for line in ignored if line.startswith("!")}
    arguments = json.loads(text.rpartition("\nCMD ")[2])
    assert make_parser().parse_args(arguments).http_port == int(
        re.findall(r":(\d+)/health", text)[0]
    )


def test_compose_keeps_the_broker_on_this_machine() -> None:
    """Its ports are published on the loopback interface, and it builds this image."""
    services: Any = parsed((DEPLOY / "container/compose.yaml").read_text("utf-8"))["services"]
    broker = services["broker"]

    assert all(port.startswith("127.0.0.1:") for port in broker["ports"])
    assert (ROOT / broker["build"]["dockerfile"]).exists()
    assert services["prometheus"]["network_mode"] == "service:broker"


@pytest.mark.slow
@pytest.mark.spark
def test_spark_submit_runs_the_job_twice_and_writes_once(tmp_path: Path) -> None:
    """The job finds the source and its id of a transaction lets a second run change nothing."""
    import pyspark

    home = str(Path(pyspark.__file__).parent)
    environment = {**os.environ, "SPARK_HOME": home, "PYSPARK_PYTHON": sys.executable}
    command = [f"{home}/bin/spark-submit", "--master", "local[2]", str(DEPLOY / "spark/tides.py")]

    for _ in range(2):
        done = subprocess.run(
            [*command, str(tmp_path / "data")],
            env={**environment, "JAVA_HOME": find_java().home},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "records: 1000" in done.stdout
