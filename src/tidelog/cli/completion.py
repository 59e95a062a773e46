"""What may come next on a command line: candidates for the completion of shells.

They come from the parser itself, so a new option is completed without a word about it here. A
shell's own part (``commands/completion.py``) hands over the words up to the cursor.
"""

from __future__ import annotations

import os
from argparse import SUPPRESS
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.cli.options import DIRECTORY_VARIABLE, DIRECTORY_WORD, count_directories
from tidelog.cli.parser import COMMAND_MODULES, command_texts, make_parser
from tidelog.errors import TidelogError
from tidelog.segment.filenames import check_topic_name, parse_topic_partition

if TYPE_CHECKING:
    from argparse import Action
    from collections.abc import Iterable, Iterator, Sequence

    from tidelog.cli.argument_parser import CommandParser

FILES: Final = "files"
DIRECTORIES: Final = "directories"
_WORDS: Final = {
    "FORMAT": ("json", "text", "raw", "csv"),
    "WHEN": ("earliest", "latest", "max-timestamp"),
    "URL": ("local[*]",),
    "[LOGGER=]LEVEL": ("ALL", "TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL", "OFF"),
}
"""Words that an argument takes besides others, by its metavar."""


class Candidate(NamedTuple):
    """A word that may stand next, and a few words about it, or none."""

    word: str
    text: str = ""


class Answer(NamedTuple):
    """What may stand next: candidates, and ``FILES`` or ``DIRECTORIES``, of which shells know."""

    candidates: list[Candidate]
    paths: str = ""


def complete(words: Sequence[str]) -> Answer:
    """Return what the last of ``words`` may become; they are those after ``tidelog``."""
    *before, last = _joined(words) or [""]
    if before[:1] == ["help"]:
        return _starting(last, _commands()) if len(before) == 1 else Answer([])
    if not before:
        general = map(Candidate, ("-h", "--help", "-V", "--version"))
        first = [*_commands(), Candidate("help", "print the help of a command"), *general]
        return _starting(last, first)
    if before[0] not in COMMAND_MODULES:
        return Answer([])
    return _Line(parser_of(before[0]), before[1:]).complete(last)


def _joined(words: Sequence[str]) -> list[str]:
    """Return the words without the ``=`` at which bash splits ``--dir=data``."""
    joined: list[str] = []
    for number, word in enumerate(words):
        follows_option = bool(joined) and joined[-1].startswith("--")
        if word == "=" and follows_option:
            if number == len(words) - 1:
                joined.append("")
            continue
        joined.append(word)
    return joined


def _commands() -> list[Candidate]:
    return [Candidate(name, text) for name, text in command_texts().items()]


def parser_of(command: str) -> CommandParser:
    """Return the parser of one command."""
    actions = make_parser([command]).actions
    [action] = [one for one in actions if one.nargs == "A..."]
    return _nested(action)[command]


def _starting(last: str, candidates: Iterable[Candidate], paths: str = "") -> Answer:
    return Answer([one for one in candidates if one.word.startswith(last)], paths)


class _Line:
    """A command line up to the word that is completed."""

    def __init__(self, parser: CommandParser, before: Sequence[str]) -> None:
        self._used: set[str] = set()
        self._pending: Action | None = None
        self._directories: list[str] = []
        self._begin(parser)
        for word in before:
            self._take(word)

    def _begin(self, parser: CommandParser) -> None:
        """Expect the arguments of a command, or of one of its jobs, in the next words."""
        self._parser = parser
        self._plain: list[str] = []
        self._arguments = [one for one in parser.actions if not one.option_strings]
        found = (one for one in self._arguments if one.dest == DIRECTORY_WORD)
        self._directory = next(found, None)
        # DIR comes after the words that are choices.
        self._first = sum(one.choices is not None for one in self._arguments)

    def _take(self, word: str) -> None:
        """Read one word before the cursor."""
        if self._pending is not None:
            if "--dir" in self._pending.option_strings:
                self._directories.append(word)
            self._pending = None
            return
        name, equals, value = word.partition("=")
        option = self._option(name)
        if option is not None:
            self._used.update(option.option_strings)
            if option.nargs != 0 and not equals:
                self._pending = option
            elif equals and "--dir" in option.option_strings:
                self._directories.append(value)
            return
        nested = _nested(self._positional())
        if word in nested:
            self._begin(nested[word])
        elif not word.startswith("-"):
            self._plain.append(word)

    def _option(self, name: str) -> Action | None:
        found = (one for one in self._parser.actions if name in one.option_strings)
        return next(found, None)

    def _positional(self) -> Action | None:
        """Return the argument that the next plain word is for."""
        arguments, count, directory = list(self._arguments), len(self._plain), self._directory
        if directory is not None:
            is_named = self._directories or os.environ.get(DIRECTORY_VARIABLE)
            if count == self._first and not is_named:
                return directory
            arguments.remove(directory)
            count -= len(self._directory_words())
        if count < len(arguments):
            return arguments[count]
        last = arguments[-1] if arguments else directory
        return last if last is not None and last.nargs in {"*", "+"} else None

    def _directory_words(self) -> list[str]:
        """Return the plain words that the command takes as directories."""
        if self._directory is None:
            return []
        words = [os.path.expanduser(word) for word in self._plain[self._first :]]
        count = count_directories(
            words,
            is_one=self._directory.nargs == "?",
            is_lone=len(self._arguments) - self._first == 1,
            is_given=bool(self._directories),
        )
        return words[:count]

    def complete(self, last: str) -> Answer:
        """Return what ``last`` may become."""
        if self._pending is not None:
            return self._values(self._pending, last)
        name, equals, value = last.partition("=")
        option = self._option(name) if last.startswith("--") and equals else None
        if option is not None:
            found = self._values(option, value)
            return Answer([Candidate(f"{name}={one.word}", one.text) for one in found.candidates])
        if last.startswith("-"):
            return _starting(last, self._options())
        argument = self._positional()
        return Answer([]) if argument is None else self._values(argument, last)

    def _options(self) -> Iterator[Candidate]:
        for action in self._parser.actions:
            is_repeatable = type(action).__name__ == "_AppendAction"
            if is_repeatable or self._used.isdisjoint(action.option_strings):
                text = "" if action.help in {None, SUPPRESS} else str(action.help)
                yield from (Candidate(name, text) for name in action.option_strings)

    def _values(self, action: Action, last: str) -> Answer:
        """Return what the value of an argument may be."""
        if action.choices is not None:
            return _starting(last, [Candidate(str(word)) for word in action.choices])
        metavar = str(action.metavar)
        if metavar in {"FILE", "DIR"}:
            return Answer([], FILES if metavar == "FILE" else DIRECTORIES)
        if metavar == "TOPIC":
            may_be_directory = len(self._plain) == self._first and not self._directories
            known = [Candidate(name) for name in sorted(self._partitions())]
            return _starting(last, known, DIRECTORIES if may_be_directory else "")
        if "--partition" in action.option_strings:
            return _starting(last, [Candidate(str(number)) for number in self._numbers()])
        return _starting(last, [Candidate(word) for word in self._words_of(action, metavar)])

    def _words_of(self, action: Action, metavar: str) -> Iterable[str]:
        if metavar == "KEY=VALUE" and "--option" in action.option_strings:
            return [f"{name}=" for name in _settings()]
        if "--unset" in action.option_strings:
            return _settings()
        if "--from" in action.option_strings:
            return ["end"] if self._parser.prog.endswith(" cat") else []
        if metavar == "COMMAND":
            return self._words_of_schemas()
        return _WORDS.get(metavar, ())

    def _words_of_schemas(self) -> Iterable[str]:
        """Return the words that may follow those of a command that has a schema."""
        from tidelog.cli.schemas.outputs import all_outputs

        names = [name.split() for name in all_outputs()]
        count = len(self._plain)
        return {name[count] for name in names if name[:count] == self._plain and len(name) > count}

    def _numbers(self) -> list[int]:
        partitions = self._partitions()
        chosen = [name for name in self._plain if name in partitions] or list(partitions)
        return sorted({number for name in chosen for number in partitions[name]})

    def _partitions(self) -> dict[str, list[int]]:
        """Return the partitions in the directories of the line, by topic."""
        from tidelog.env.system_files import SYSTEM_FILES

        given = [*self._directory_words(), *self._directories]
        usual = os.environ.get(DIRECTORY_VARIABLE)
        found: dict[str, list[int]] = {}
        names: list[str] = []
        for directory in given or ([usual] if usual else []):
            with suppress(OSError):
                names += SYSTEM_FILES.list(os.path.expanduser(directory))
        for name in names:
            try:
                key = parse_topic_partition(name)
                check_topic_name(key.topic)
            except TidelogError:
                continue
            found.setdefault(key.topic, []).append(key.partition)
        return found


def _nested(action: Action | None) -> dict[str, CommandParser]:
    """Return the parsers of the jobs of a command, by name."""
    if action is None or action.nargs != "A...":
        return {}
    return dict(action.choices or {})


def _settings() -> list[str]:
    """Return the names of all settings of topics."""
    from tidelog.config.log_config import LogConfig
    from tidelog.config.option import options_of

    return sorted(option.name for option in options_of(LogConfig))
