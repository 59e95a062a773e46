"""The prose of the project avoids phrases that readers stumble over.

Docstrings, comments, messages, help texts and pages are all prose. A phrase is listed here if it
was found unclear once and can be matched without false alarms; the second column is what to write.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.tidy.conftest import Source


class Phrase(NamedTuple):
    """A phrase to avoid, in which ``_`` stands for a space, and what to write instead."""

    pattern: str
    instead: str
    examples: str
    """Texts that match, separated by ``;``."""
    allowed: str = ""
    """Similar texts that do not match, separated by ``;``."""


PHRASES: Final = (
    Phrase(
        r"(?<!there_)\b(is|are|was|were)_no_(?!(longer|more|less|such|need|[a-z]+er)\b)[a-z]",
        "is not a valid, is not a",
        "what_is_no_UTF-8;these_are_no_rows;It_was_no_time",
        "there_is_no_file;it_is_no_longer_used;There_are_no_rows;are_no_more_than;are_no_smaller",
    ),
    Phrase(
        r"\blet(s|ting)?_(it_|them_)?go_of\b", "close, release", "lets_go_of_it;letting_go_of_a_log"
    ),
    Phrase(
        r"\bthat_go\b|\bfiles_go\b|\bwent_away\b|\bunder_our_hands\b",
        "is deleted, is dropped, is removed",
        "staged_files_go;batches_that_go;it_went_away",
        "it_goes_offline;the_position_goes_down",
    ),
    Phrase(
        r"\bt(old|ells?)\b|\bsays_so\b|\bwhoever\b|\b(is|was|are)_news\b",
        "is reported, is notified, is logged; callers; whether it changed",
        "damage_is_told;its_name_tells;and_says_so;whoever_asks;what_is_news",
    ),
    Phrase(
        r"\bdo(es)?_not_read(?!_(as|it)\b)", "is unreadable", "it_does_not_read", "does_not_read_it"
    ),
    Phrase(r"\bgo(es)?_before_(a|the)\b", "take precedence over", "they_go_before_the_topic's"),
    Phrase(r"\bin_the_making\b", "incomplete", "copies_in_the_making"),
    Phrase(r"\bso_many\b", "count, n, that many", "wait_for_so_many_records"),
    Phrase(r"\bmay_be_given_again\b", "repeatable", "may_be_given_again"),
    Phrase(r"\band_leave($|[.;,)])", "and exit", "print_the_version_and_leave", "and_leave_it"),
    Phrase(r"\bas_far_as_(it_goes|they_go)\b", "what is supported", "as_far_as_it_goes"),
    Phrase(
        r"\bas_they_lie\b|\bat_rest\b|\blies?_still\b",
        "from the files, offline, without a running service",
        "logs_at_rest;files_as_they_lie;logs_that_lie_still",
    ),
    Phrase(r"\bput_in_(its|their)_place\b", "reconcile, replace", "logs_put_in_their_place"),
    Phrase(r"\bprints_anyway\b", "always prints", "what_it_prints_anyway"),
    Phrase(r"\bwhatever_their\b", "ignoring, regardless of", "whatever_their_dirt"),
    Phrase(r"\bmust_not_know\b", "an import contract", "Must_not_know_of_logs"),
    Phrase(
        r"(^|\._)owns_", "one sentence on what it is for", "Owns_the_state;A_log._Owns_its_files"
    ),
    Phrase(r"^take_other\b", "replace", "Take_other_settings"),
    Phrase(r"\bsee_``fs``", "what the parameter is", "clock:_see_``fs``"),
    Phrase(r"(?<!-)\banew\b", "again", "opened_anew;written_anew,_for", "move-begun-anew;reopened"),
    Phrase(
        r"\bbut_for_(a|an|the|that|those|this|its|their|one)\b|,_but_for\b",
        "except",
        "empty_but_for_the_header;all_but_for_those;if_it_fails,_but_for_CommitUnfinished",
        "not_for_that_but_for",
    ),
    Phrase(r"\b(die|dies|died)_on_the_way\b", "crash midway", "a_pipeline_that_dies_on_the_way"),
    Phrase(
        r"(?-i:\bWho)_(opens|reads|writes|wants|needs)\b",
        "To open ..., pass ...",
        "Who_opens_many_logs",
    ),
    Phrase(
        r"\b(offset|byte|position|batch|segment|record|entrie|zero|lie|continue|goe|log)(e?s)?"
        r"_(on_)?behind_(it|them|its|the|a|an|damage|which|what|another|one|that)\b",
        "after",
        "the_batches_behind_it;bytes_behind_the_last_one;lies_behind_damage;continues_behind_it",
        "the_test_behind_each_promise;how_far_is_it_behind_the_latest_offset;it_left_a_log_behind",
    ),
    Phrase(
        r"\b(go|goes|going|went|gone)_on\b(?!_(to|the|a|an)\b)",
        "continue",
        "other_disks_go_on;the_log_goes_on_after_them;and_went_on.",
        "it_is_ongoing;it_goes_on_to_fail",
    ),
    Phrase(r"\bfrom_the_begin\b|\bat_the_begin\b", "start, beginning", "bytes_from_the_begin"),
    Phrase(
        r"(?-i:What)_(is|was|were|are)_\w+(_\w+)?_(when|while|where|before|since|until|once)_[^.;]*"
        r"_(is|are|stays?|counts|comes|holds|ends|takes)\b",
        "the noun, as subject of a sentence or two",
        "What_was_yielded_last_when_a_loop_is_left_comes_again",
        "What_was_appended_before_each_truncation.;Return_what_was_sent_before_it_is_closed",
    ),
    Phrase(
        r"\b(that|those)_(of|in|from)_(that|those|it|them|others|another_one)\b"
        r"(?!_time)",
        "the noun again",
        "with_those_of_others;that_of_another_one;which_becomes_that_of_it",
        "that_of_another_directory;those_of_one_topic;records_until_those_of_that_time",
    ),
    Phrase(
        r"(?-i:So)_(it|they)_do(es)?_(where|with|if|after|until|when|for)\b",
        "the verb again",
        "So_they_do_where_it_is_lost",
        "It_waits,_so_it_does_so_on_a_thread",
    ),
    Phrase(
        r"\bgives?_(a|the|its|each)_\w+_no_\w|\bdoes_not_end_as\b",
        "does not pass ..., use ...; is not a complete ...",
        "this_Spark_gives_a_task_no_ids_of_its_query;it_does_not_end_as_a_cut_file",
        "gives_no_task_an_id",
    ),
    Phrase(r"\bnobody_asked\b", "was not requested", "nobody_asked_to_move"),
)
PAGE_FOLDERS: Final = ("benchmarks", "docs", "examples", "peer", "src", "tests", "tools")
PARAGRAPH_END: Final = re.compile(r"(?<=\n\n)|(?<=\|\n)|(?<=\n)(?=\* |- )")
STRING_OR_COMMENT: Final = re.compile(
    r'''"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'''
    r"""|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"""
    r"|(?P<comment>#[^\n]*)",
    re.DOTALL,
)
"""Strings match so that a ``#`` in one begins no comment; Python's own tokens take far longer."""

MIN_TEXTS: Final = 10_000
"""Fewer texts than this mean that the test has stopped to find them."""


def compiled(phrase: Phrase) -> re.Pattern[str]:
    """Return the pattern, with spaces."""
    return re.compile(phrase.pattern.replace("_", r"\s"), re.IGNORECASE)


def test_prose_is_plain(sources: list[Source], root: Path) -> None:
    """No docstring, comment, message or page holds a phrase that was found unclear."""
    # Each text once, with the last of its places: more than half of all are repeats of others.
    texts = {text: place for place, text in [*texts_of_code(sources), *texts_of_pages(root)]}
    found = [
        f"{place}: {match[0]!r}, write {phrase.instead!r}"
        for phrase in PHRASES
        for pattern in [compiled(phrase)]
        for text, place in texts.items()
        for match in pattern.finditer(text)
    ]

    assert len(texts) >= MIN_TEXTS
    assert found == []


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.instead)
def test_a_phrase_matches_its_examples_only(phrase: Phrase) -> None:
    """Each pattern finds its examples, and not the similar texts that are fine."""
    examples = phrase.examples.replace("_", " ").split(";")
    allowed = [text for text in phrase.allowed.replace("_", " ").split(";") if text]

    assert [text for text in examples if not compiled(phrase).search(text)] == []
    assert [text for text in allowed if compiled(phrase).search(text)] == []


def texts_of_code(sources: list[Source]) -> Iterator[tuple[str, str]]:
    """Yield each string literal and each block of comments, on one line, with its place."""
    for source in sources:
        for line, text in [*strings(source), *comments(source.text)]:
            yield f"{source.name}:{line}", " ".join(text.split())


def texts_of_pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each paragraph of each Markdown page written for this project, with its place."""
    folders = ("docs", "peer", "examples", "tests", "tools")
    paths = [
        *root.glob("*.md"),
        *(path for name in folders for path in (root / name).rglob("*.md")),
    ]
    for path in sorted(paths):
        line = 1
        for paragraph in PARAGRAPH_END.split(path.read_text("utf-8")):
            if paragraph.strip():
                yield f"{path.relative_to(root).as_posix()}:{line}", " ".join(paragraph.split())
            line += paragraph.count("\n")


def strings(source: Source) -> Iterator[tuple[int, str]]:
    """Yield the string literals, docstrings among them; a formatted value becomes ``{}``."""
    inside: set[ast.AST] = set()
    for node in source.nodes:
        if isinstance(node, ast.JoinedStr):
            inside.update(node.values)
            parts = [p.value if isinstance(p, ast.Constant) else "{}" for p in node.values]
            yield node.lineno, "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield node.lineno, node.value


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments; those on adjacent lines are one text."""
    block: list[str] = []
    first = last = counted = 0
    line = 1
    for match in STRING_OR_COMMENT.finditer(text):
        if match["comment"] is None:
            continue
        line += text.count("\n", counted, match.start())
        counted = match.start()
        if line != last + 1:
            if block:
                yield first, " ".join(block)
            first, block = line, []
        block.append(match["comment"].lstrip("#: "))
        last = line
    if block:
        yield first, " ".join(block)
