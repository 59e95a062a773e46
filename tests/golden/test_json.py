"""What commands print as JSON of directories that Kafka wrote fits the schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.cli.commands.inspection.table_command import TABLES
from tidelog.cli.main import main
from tidelog.cli.schemas.outputs import OUTPUTS

if TYPE_CHECKING:
    from tests.conftest import Enumerated, Validated

DATA = Path(__file__).parent / "data"
DIRECTORIES = [
    *("codecs", "compaction/before", "epochs", "internal", "logappendtime", "oldformat"),
    *("segments", "transactions", "v2edge", "whole-dir", "whole-dir-crash/before"),
]
DAMAGED = [
    f"crash/{name}"
    for name in ("flip-middle", "index-garbage", "log-empty", "segment-missing", "snapshot-corrupt")
] + ["crash/torn-batch", "crash/zero-tail"]
LOOKS: dict[str, list[tuple[str, ...]]] = {
    "list": [("list", "--json")],
    "describe": [
        ("describe", "--json"),
        ("describe", "--segments", "--json"),
    ],
    "picture": [("picture", "--json"), ("picture", "--brief", "--json")],
    "describe log-dirs": [("describe", "--log-dirs", "--json")],
    "offsets": [
        ("offsets",),
        ("offsets", "--count"),
        ("offsets", "--at", "max-timestamp"),
        ("offsets", "--at", "0"),
    ],
    "txns": [("txns", "--json"), ("txns", "--open", "--json")],
    "groups": [("groups", "--json")],
    "verify": [("verify", "--json")],
    "salvage": [("salvage", "--json")],
    "plan recovery": [("plan", "recovery", "--full", "--json")],
    "plan retention": [("plan", "retention", "-o", "retention.bytes=1000", "--json")],
    "plan compaction": [
        ("plan", "compaction", "-o", "cleanup.policy=compact", "--json"),
        ("plan", "compaction", "-o", "cleanup.policy=compact", "--records", "--json"),
    ],
    "cleaner status": [("cleaner", "status", "-o", "cleanup.policy=compact", "--json")],
    "staged list": [("staged", "list", "--json")],
    "metrics": [("metrics", "--json")],
    **{f"table {name}": [("table", name, "--json")] for name in TABLES},
}
"""Commands that only look at a directory, by the name of their schema."""
ONLY_ROWS = {"offsets", "describe log-dirs"}
"""Commands whose output does not end with counts."""
DUMPED = ("*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot", "*checkpoint")
DUMPED_CASES = (
    *("codecs", "internal", "oldformat", "v2edge", "whole-dir", "crash/index-garbage"),
    *("crash/flip-middle", "crash/txn-torn-batch"),
)
PLAIN = ("meta.properties", "partition.metadata", ".kafka_cleanshutdown")


def data_dirs(name: str) -> list[Path]:
    """Return the data directories of a case: itself, or those it consists of."""
    case = DATA / name
    found = [case, *sorted(path for path in case.rglob("*") if path.is_dir())]
    return [path for path in found if list(path.glob("*-[0-9]*/*.log"))]


def lines_of(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[Any]]:
    """Run a command; return its exit code and the lines that it printed."""
    code = main([str(word) for word in words])
    return code, [json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]]


@pytest.mark.parametrize(
    "name",
    [
        "crash/txn-torn-batch",
        *(pytest.param(name, marks=pytest.mark.slow) for name in (*DIRECTORIES, *DAMAGED)),
    ],
)
def test_looks_print_what_their_schemas_name(
    name: str, validated: Validated, capsys: pytest.CaptureFixture[str], enumerated: Enumerated
) -> None:
    """Also of damage: the same fields, nothing else, and the counts at the end."""
    checked = 0
    for data in data_dirs(name)[:2]:
        for command, variants in LOOKS.items():
            for words in variants:
                code, lines = lines_of(capsys, *words, "-d", data)
                kinds = validated(command, lines)
                checked += len(lines)
                assert code in {0, 1}, (words, name)
                is_cut_short = code == 1 and words[0] == "table"
                if command not in ONLY_ROWS and not is_cut_short:
                    assert kinds[-1] == "The last line.", (words, name)
                    assert kinds.count("The last line.") == 1
    enumerated("lines", checked, at_least=20)


@pytest.mark.slow
def test_dumps_print_what_their_schema_names(
    validated: Validated, capsys: pytest.CaptureFixture[str], enumerated: Enumerated
) -> None:
    """Entries of every kind of file, healthy and damaged; each kind is there."""
    kinds: set[str] = set()
    count = 0
    for pattern in (*DUMPED, *PLAIN):
        found = [path for name in DUMPED_CASES for path in DATA.glob(f"{name}/**/{pattern}")]
        for path in sorted(found):
            if not path.is_file() or path.stat().st_size > 20_000:
                continue
            extra = ("--records", "--encoding", "base64") if path.suffix == ".log" else ()
            main(["dump", str(path), *extra])
            lines = [json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]]
            kinds |= set(validated("dump", lines[:200]))
            count += 1

    of_catalogues = {kind for kind in kinds_of("dump") if "tidelog.topics.json" in kind}
    assert kinds_of("dump") - kinds == of_catalogues
    enumerated("files", count, at_least=100)


def kinds_of(command: str) -> set[str]:
    """Return the kinds of lines that a schema names."""
    return {str(kind["description"]) for kind in OUTPUTS[command].lines}


def test_records_are_printed_as_their_schema_names_them(
    validated: Validated, capsys: pytest.CaptureFixture[str]
) -> None:
    """By cat; and all of them are input that append takes by its own schema."""
    topics = [("codecs", "codec-zstd"), ("transactions", "txn-mix"), ("v2edge", None)]
    for name, topic in (*topics, ("oldformat", "old-v1-none")):
        words = ("cat", *([topic] if topic else []), "-d", data_dirs(name)[0] / "")
        if topic is None:
            first = min(data_dirs(name)[0].glob("*-0"))
            words = ("cat", "-d", first)
        _, lines = lines_of(capsys, *words, "--encoding", "base64", "-n", 300)
        assert lines
        assert set(validated("cat", lines)) == {"One record."}
        validated("append", lines)
