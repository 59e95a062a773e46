"""``tidelog completion``: a script by which a shell completes the words of command lines.

The script asks ``tidelog completion words`` for candidates, so it knows every command, option and
topic of the day, and is the same for all releases.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import Command, argument
from tidelog.explain.printable_text import printable

if TYPE_CHECKING:
    from argparse import Namespace


BASH: Final = r"""# tidelog completion bash: completion for bash 4 and later
_tidelog() {
    local IFS=$'\n' current="${COMP_WORDS[COMP_CWORD]}" paths lines line
    [ "$current" = "=" ] && current=""
    mapfile -t lines < <(
        printf '%s\n' "${COMP_WORDS[@]:1:COMP_CWORD}" |
            "${COMP_WORDS[0]/#\~/$HOME}" completion words 2>/dev/null
    )
    paths="${lines[0]}"
    COMPREPLY=()
    for line in "${lines[@]:1}"; do
        line="${line%%$'\t'*}"
        [[ "$line" == *= ]] && compopt -o nospace
        COMPREPLY+=("$line")
    done
    if [ "$paths" = files ]; then
        compopt -o filenames
        COMPREPLY+=($(compgen -f -- "$current"))
    elif [ "$paths" = directories ]; then
        compopt -o filenames
        COMPREPLY+=($(compgen -d -- "$current"))
    fi
}
complete -F _tidelog tidelog
"""
ZSH: Final = r"""#compdef tidelog
# tidelog completion zsh
_tidelog() {
    local -a lines words_only texts
    local answer line paths program="${words[1]/#\~/$HOME}"
    answer="$(printf '%s\n' "${(@)words[2,CURRENT]}" | "$program" completion words 2>/dev/null)"
    lines=("${(@f)answer}")
    paths="${lines[1]}"
    for line in "${(@)lines[2,-1]}"; do
        [[ -z "$line" ]] && continue
        words_only+=("${line%%$'\t'*}")
        texts+=("${line/$'\t'/  }")
    done
    if (( ${#words_only} )); then
        compadd -l -S ' ' -d texts -a words_only
    fi
    if [[ "$paths" == files ]]; then
        _files
    elif [[ "$paths" == directories ]]; then
        _files -/
    fi
}
if [[ "$funcstack[1]" == _tidelog ]]; then
    _tidelog "$@"
else
    compdef _tidelog tidelog
fi
"""
FISH: Final = r"""# tidelog completion fish
function __tidelog_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l lines (printf '%s\n' $before[2..-1] "$current" | $before[1] completion words 2>/dev/null)
    if test (count $lines) -gt 1
        printf '%s\n' $lines[2..-1]
    end
    if test "$lines[1]" = files
        __fish_complete_path "$current"
    else if test "$lines[1]" = directories
        __fish_complete_directories "$current" ''
    end
end
complete -c tidelog -f -a '(__tidelog_complete)'
"""
SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}


COMMAND: Final = Command(
    "completion",
    "print the script by which a shell completes commands, options and topics",
    (
        argument(
            "shell",
            choices=(*SCRIPTS, "words"),
            help="the shell; words: print candidates for the words on standard input, as scripts"
            " ask",
        ),
    ),
    epilog="bash: source <(tidelog completion bash), in ~/.bashrc\n"
    "zsh:  source <(tidelog completion zsh), in ~/.zshrc after compinit\n"
    "fish: tidelog completion fish > ~/.config/fish/completions/tidelog.fish",
)


def run(args: Namespace) -> int:
    """Print the script, or candidates."""
    if args.shell == "words":
        return _print_candidates()
    print(SCRIPTS[args.shell], end="")
    return 0


def _print_candidates() -> int:
    """Print ``files``, ``directories`` or an empty line, then a line for each candidate."""
    from tidelog.cli.completion import complete

    words = sys.stdin.buffer.read().decode(errors="surrogateescape").split("\n")[:-1]
    answer = complete(words)
    print(answer.paths)
    for word, text in answer.candidates:
        if word.isprintable():
            print(f"{word}\t{printable(text)}" if text else word)
    return 0
