"""The workflows that the repository's host runs, and its forms for issues."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Node: TypeAlias = "dict[str, Node] | list[Node] | str"
Lines: TypeAlias = "list[tuple[int, str]]"

KEY = re.compile(r"([A-Za-z][\w.-]*):(?: (.*))?")
PLAIN = re.compile(r"[A-Za-z0-9$./][^#\"']*|\$\{\{[^{}]*\}\}(?:[^#\"{}]|\$\{\{[^{}]*\}\})*")
COMMAND = re.compile(r'[a-z][^#]*|test -f "[^"]*"')
MAKE = re.compile(r"^make ((?:[a-z-]+ ?)+)", re.MULTILINE)
WORKFLOWS = ("compat", "release", "test")


def parsed(text: str) -> dict[str, Node]:
    """Read the part of YAML that workflows need; anything else is an error.

    Mappings and sequences in blocks, sequences of one line, text in double quotes or none, and
    text of several lines after ``|``. All scalars stay text.
    """
    lines = [
        (len(line) - len(line.lstrip(" ")), line.strip())
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    node = block(lines)
    assert isinstance(node, dict)
    assert lines == [], f"what is left cannot be read: {lines}"
    return node


def block(lines: Lines) -> Node:
    """Take the block at the first line's indent."""
    indent = lines[0][0]
    if lines[0][1].startswith("- "):
        return [*sequence(lines, indent)]
    found: dict[str, Node] = {}
    while lines and lines[0][0] == indent and not lines[0][1].startswith("- "):
        _, line = lines.pop(0)
        key = KEY.fullmatch(line)
        assert key is not None, f"not a key: {line}"
        assert key[1] not in found, f"twice: {line}"
        found[key[1]] = value_of(key[2], lines, indent)
    return found


def sequence(lines: Lines, indent: int) -> Iterator[Node]:
    """Take the entries of a sequence in a block, one after the other."""
    while lines and lines[0][0] == indent and lines[0][1].startswith("- "):
        entry = lines[0][1][2:]
        if KEY.fullmatch(entry):
            lines[0] = (indent + 2, entry)
            yield block(lines)
        else:
            lines.pop(0)
            yield scalar(entry)


def value_of(text: str | None, lines: Lines, indent: int) -> Node:
    """Return what stands after a key: on its line, or in the lines indented further."""
    if text == "|":
        taken = []
        while lines and lines[0][0] > indent:
            taken.append(lines.pop(0)[1])
        assert taken
        return "\n".join(taken)
    if text is None:
        return block(lines) if lines and lines[0][0] > indent else ""
    if text.startswith("["):
        assert text.endswith("]"), text
        return [scalar(each.strip()) for each in text[1:-1].split(",")]
    return scalar(text)


def scalar(text: str) -> str:
    """Return a text, without its quotes."""
    if text.startswith('"'):
        whole: str = json.loads(text)
        return whole
    is_plain = PLAIN.fullmatch(text) or COMMAND.fullmatch(text)
    assert is_plain, f"to be quoted: {text}"
    assert ": " not in text, f"to be quoted: {text}"
    return text


@pytest.fixture(scope="module")
def workflows(root: Path) -> dict[str, dict[str, Node]]:
    """Every workflow by its name."""
    paths = sorted((root / ".github" / "workflows").iterdir())
    return {path.stem: parsed(path.read_text("utf-8")) for path in paths}


def jobs_of(workflow: dict[str, Node]) -> dict[str, dict[str, Node]]:
    """Return the jobs of a workflow."""
    jobs = workflow["jobs"]
    assert isinstance(jobs, dict)
    return {name: job for name, job in jobs.items() if isinstance(job, dict)}


def steps_of(job: dict[str, Node]) -> list[dict[str, Node]]:
    """Return the steps of a job."""
    steps = job["steps"]
    assert isinstance(steps, list)
    return [step for step in steps if isinstance(step, dict)]


def commands(workflow: dict[str, Node]) -> list[str]:
    """Return the commands of all steps."""
    steps = [step for job in jobs_of(workflow).values() for step in steps_of(job)]
    return [str(step["run"]) for step in steps if "run" in step]


def targets(workflow: dict[str, Node]) -> set[str]:
    """Return the targets that a workflow makes."""
    found = [MAKE.match(command) for command in commands(workflow)]
    return {target for each in found if each for target in each[1].split()}


def test_the_workflows_are_those_and_each_is_whole(workflows: dict[str, dict[str, Node]]) -> None:
    """Each has a name, an event, few permissions, and jobs that end in time and have steps."""
    assert tuple(workflows) == WORKFLOWS
    assert [flow["name"] for flow in workflows.values()] == list(WORKFLOWS)
    assert all(flow["on"] for flow in workflows.values())
    assert all(flow["permissions"] == {"contents": "read"} for flow in workflows.values())
    jobs = [job for flow in workflows.values() for job in jobs_of(flow).values()]
    assert all("runs-on" in job and "timeout-minutes" in job for job in jobs)
    steps = [step for job in jobs for step in steps_of(job)]
    assert len(steps) >= 14
    assert all(("uses" in step) != ("run" in step) for step in steps)


def test_jobs_make_targets_that_exist(root: Path, workflows: dict[str, dict[str, Node]]) -> None:
    """A job runs what a person runs: targets of the Makefile."""
    makefile = (root / "Makefile").read_text("utf-8")
    known = set(re.findall(r"^([a-z-]+):.*?##", makefile, re.MULTILINE))
    made = {name: targets(flow) for name, flow in workflows.items()}

    assert made == {
        "compat": {"peer", "test-all", "test-pythons"},
        "release": {"test", "dist"},
        "test": {"test"},
    }
    assert set().union(*made.values()) <= known


def test_each_python_that_is_supported_is_tested(
    root: Path, workflows: dict[str, dict[str, Node]]
) -> None:
    """On Linux and on macOS, and none may fail."""
    named = r'"Programming Language :: Python :: (3\.\d+)"'
    supported = re.findall(named, (root / "pyproject.toml").read_text("utf-8"))
    strategy = jobs_of(workflows["test"])["test"]["strategy"]
    assert isinstance(strategy, dict)
    matrix = strategy["matrix"]
    assert isinstance(matrix, dict)

    assert matrix["python"] == supported
    assert matrix["os"] == ["ubuntu-latest", "macos-latest"]
    assert matrix.keys() == {"python", "os"}


def test_a_release_needs_no_secret(workflows: dict[str, dict[str, Node]]) -> None:
    """Only the job that publishes may ask for an identity, and it runs nothing of the checkout."""
    build, publish = jobs_of(workflows["release"]).values()

    assert "permissions" not in build
    assert publish["permissions"] == {"id-token": "write"}
    assert (publish["needs"], publish["environment"]) == ("build", "pypi")
    assert [str(step["uses"]).partition("@")[0] for step in steps_of(publish)] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]
    assert "secrets." not in str(workflows)


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_a_form_for_issues_asks_what_is_needed(root: Path, name: str) -> None:
    """It has a name and a description; each question has a label, and the first needs an answer."""
    form = parsed((root / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text("utf-8"))
    body = form["body"]
    assert isinstance(body, list)
    questions = [one for one in body if isinstance(one, dict) and one["type"] != "markdown"]
    attributes = [one["attributes"] for one in questions]

    assert form["name"]
    assert form["description"]
    assert len({one["id"] for one in questions if isinstance(one["id"], str)}) == len(questions)
    assert len(questions) >= 3
    assert all(isinstance(one, dict) and one["label"] for one in attributes)
    assert questions[0]["validations"] == {"required": "true"}


@pytest.mark.parametrize(
    "text",
    [
        "a: b: c",
        "a:\n  - b\n c: d",
        "a: 'b'",
        "a: {b: c}",
        "a: b # c",
        "a: 1\na: 2",
        "a\n",
        "a: *b",
    ],
)
def test_yaml_beyond_the_simple_part_is_an_error(text: str) -> None:
    """A workflow that this test can read is one that any reader of YAML can read."""
    with pytest.raises(AssertionError):
        parsed(text)
