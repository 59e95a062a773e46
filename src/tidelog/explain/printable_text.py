"""Text for people: what is safe to print, and numbers with their nouns."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return ``text`` with every unprintable character escaped, as in ``a\nb`` or ``\x1b[2J``.

    Names of topics, files and directories come from outside. Printed as they are, they could break
    lines or send escape sequences to the terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 record``, ``2,000 records``, ``2 batches``."""
    plural = noun + ("es" if noun.endswith("ch") else "s")
    return f"{count:,} {noun if count == 1 else plural}"
