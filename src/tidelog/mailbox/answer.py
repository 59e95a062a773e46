"""The answer to a letter: what was done, or the error that it ended with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog import errors
from tidelog.errors import KafkaStorageError, TidelogError
from tidelog.exit_codes import exit_code_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION: Final = 1
"""Of the form of answers."""


class Answer(NamedTuple):
    """The result of a letter as JSON, or the error: its class, text, and exit code.

    With an error, the result is what a long command had done until then. ``args`` are the error's
    arguments, None if the process that asked does not raise it again.
    """

    result: Any = None
    error: str = ""
    text: str = ""
    exit_code: int = 0
    args: Sequence[Any] | None = None

    @classmethod
    def of_error(cls, error: Exception, done: Sequence[Any] = ()) -> Answer:
        """Return the answer to a letter that ended with ``error``, when parts were ``done``."""
        return cls(list(done), type(error).__name__, text_of(error), exit_code_of(error))

    def encoded(self) -> bytes:
        """Return the content of the file.

        A form with ``args`` has its text as ``reason``, too: earlier releases look for it there.
        """
        content = {"version": VERSION, **self._asdict(), "reason": self.text}
        if self.args is None:  # earlier releases refuse members that they do not know
            del content["args"], content["reason"]
        return json.dumps(content, default=str).encode()

    @classmethod
    def parsed(cls, content: Any) -> Answer:  # noqa: ANN401 - whatever a file may hold
        """Return the answer that a file holds; raise one of the errors of ``read_versioned``."""
        text = content["text"] if "text" in content else content["reason"]
        result, code = content.get("result"), content.get("exit_code", 0)
        answer = cls(result, content["error"], text, code, content.get("args"))
        is_list = type(result) is list or not answer.error or answer.args is not None
        if not (type(code) is int and isinstance(text, str) and is_list):
            raise TypeError("an answer has a text and an exit code")
        return answer

    def typed_error(self) -> TidelogError:
        """Return the error, of the class that was raised if that is one of ``tidelog.errors``."""
        found = getattr(errors, str(self.error), None)
        if isinstance(found, type) and issubclass(found, TidelogError):
            try:
                error = found(*map(_tuple, self.args or ()))
                if str(error) == self.text:
                    return error
            except Exception:  # noqa: BLE001, S110 - arguments of another version
                pass
        return KafkaStorageError(self.text)


def _tuple(value: object) -> object:
    return tuple(_tuple(one) for one in value) if isinstance(value, list) else value
