"""The command line's words."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tidelog.cli.parser import EXIT_CODES, make_parser

HEAVY = ("numpy", "numba", "llvmlite", "pyarrow", "pyspark", "hypothesis", "importlib.metadata")


@pytest.mark.parametrize("words", [["--help"], ["cat", "--help"], []])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    """The first answer comes at once: no arrays, kernels or tables are imported for it."""
    code = (
        "import sys; from tidelog.cli.main import main; main(sys.argv[1:]);"
        f" print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )

    assert done.stderr.splitlines()[-1] == "[]"


def test_settings_may_be_given_again() -> None:
    """Each is a name and a text, which may itself hold equal signs or be empty."""
    args = make_parser().parse_args(
        ["create", "t", "-d", "x", "-o", "a=1", "--option", "b=c=d", "-o", "e="]
    )

    assert args.options == [("a", "1"), ("b", "c=d"), ("e", "")]


def test_options_are_not_guessed_from_their_beginning() -> None:
    """A new option must not change what an old command line means."""
    with pytest.raises(SystemExit):
        make_parser().parse_args(["cat", "t", "-d", "x", "--part", "1"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["creat", "t"], "there is no command 'creat'; did you mean create?"),
        (["xyzzy"], "there is no command 'xyzzy'\n"),
        (["plan", "-d", "x"], "required: operation\n"),
        (["describe", "-d", ""], "an empty name is no directory"),
        (["cat", "t", "-d", "x", "--since", "noon"], "'noon' is no time: give milliseconds, or as"),
    ],
)
def test_a_slip_is_answered_in_two_lines(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """What is wrong, and where to look; not all options."""
    with pytest.raises(SystemExit):
        make_parser().parse_args(words)
    told = capsys.readouterr().err

    assert said in told
    assert told.splitlines()[-1].startswith("see: tidelog ")
    assert told.count("\n") == 2


def test_exit_codes_are_told_by_every_help(capsys: pytest.CaptureFixture[str]) -> None:
    """With those that shells make of signals."""
    for words in ([], ["cat"], ["append"], ["run"]):
        with pytest.raises(SystemExit):
            make_parser().parse_args([*words, "--help"])
        assert EXIT_CODES in capsys.readouterr().out
