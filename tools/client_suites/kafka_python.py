"""The integration tests of kafka-python, from its source archive."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Final

from outcome import Outcome, run

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE: Final = "kafka-python==3.0.12"
NAME: Final = PACKAGE
KAFKA_VERSION: Final = "4.3.1"
NEEDED: Final = (
    "pytest",
    "pytest-mock",
    "pytest-timeout",
    "py",
    "crc32c",
    "lz4",
    "python-snappy",
    "zstandard",
)
PATIENCE_S: Final = 120
SCENARIOS: Final[dict[str, dict[str, str]]] = {"default": {}}
MISSING: Final = {
    "__init__.py": "",
    "service.py": (
        "class SpawnedService:\n    pass\n\n\n"
        "class ExternalService:\n"
        "    def __init__(self, host, port):\n        self.host, self.port = host, port\n"
    ),
}
"""Files of the folder ``test`` that its archive lacks; a broker that runs needs no more of them."""

NEED_THEIR_OWN_BROKER: Final = ("test_sasl_integration.py", "test_ssl_integration.py")


def prepare(folder: Path) -> Path:
    """Fetch the archive and install it; return its folder."""
    python = folder / "venv" / "bin" / "python"
    source = folder / PACKAGE.replace("-", "_").replace("==", "-")
    if not source.exists():
        fetch = ("download", "-q", "--no-deps", "--no-binary", ":all:", PACKAGE)
        run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
        run(python, "-m", "pip", *fetch, cwd=folder)
        run(python, "-m", "pip", "install", "-q", f"{source}.tar.gz", *NEEDED, cwd=folder)
        run("tar", "xzf", f"{source}.tar.gz", cwd=folder)
        for name, text in MISSING.items():
            (source / "test" / name).write_text(text, "utf-8")
    return source


def outcomes(
    source: Path, address: str, scenario: str, wanted: list[str], logs: Path
) -> list[Outcome]:
    """Run the tests whose names contain one of ``wanted``."""
    report = logs / f"{scenario}.xml"
    environ = os.environ | {
        "KAFKA_URI": f"kafka://{address}",
        "KAFKA_VERSION": KAFKA_VERSION,
        "KAFKA_ROOT": str(source),  # it only has to be there
    }
    tests = source / "test" / "integration"
    left_out = [f"--ignore={tests / name}" for name in NEED_THEIR_OWN_BROKER]
    options = [f"--timeout={PATIENCE_S}", "--show-capture=no", f"--junit-xml={report}"]
    command: list[str | Path] = [
        source.parent / "venv" / "bin" / "python",
        "-m",
        "pytest",
        "-q",
        *options,
        *left_out,
    ]
    if all(wanted):
        command += ["-k", " or ".join(wanted)]
    with (logs / "pytest.log").open("w") as output:
        subprocess.run([*command, tests], cwd=source, env=environ, stdout=output, check=False)
    found = ET.parse(report)  # noqa: S314 - pytest has just written it
    return [_outcome(case) for case in found.iter("testcase")]


def _outcome(case: ET.Element) -> Outcome:
    name = case.attrib["name"]
    for tag, state in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = case.find(tag)
        if found is not None:
            return Outcome(name, state, found.attrib.get("message", "").splitlines()[0][:300])
    return Outcome(name, "passed", "")
