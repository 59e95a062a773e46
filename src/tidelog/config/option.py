"""Settings declared once: name, default, check and documentation in one place.

Properties (text) are converted to values and back by Kafka's rules. Kafka: ``ConfigDef``.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from dataclasses import dataclass
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeVar,
    get_args,
    get_type_hints,
)

from tidelog.config.kafka_names import REMOVED, RENAMED, foreign_names
from tidelog.config.units import plain_number_hint
from tidelog.config.whole_numbers import whole_number
from tidelog.errors import InvalidConfig, InvariantError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

C = TypeVar("C")

_LOGGER: Final = logging.getLogger(__name__)

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_OPTION: Final = "tidelog.option"
_DECIMAL: Final = re.compile(
    r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?)"
)
_COMMA: Final = re.compile(r"\s*,\s*")


class Check(NamedTuple):
    """A rule for a value, and its description for messages and tables."""

    valid: str
    holds: Callable[[Any], bool]


class Synonym(NamedTuple):
    """A broker-level name of the same setting, whose value is multiplied by ``factor``."""

    name: str
    factor: int = 1


class Kind(NamedTuple):
    """One of Kafka's types: name, parser (ValueError if the text is not valid), formatter."""

    name: str
    parse: Callable[[str], Any]
    format: Callable[[Any], str] = str


def _parse_boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(f"{text!r} is not true or false")
    return text.lower() == "true"


def _whole_parser(name: str, limit: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not -limit - 1 <= (value := whole_number(text)) <= limit:
            raise ValueError(f"{text} does not fit in {name}")
        return value

    return parse


def _parse_double(text: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    return float(text.rstrip("dDfF"))


def _parse_list(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    entries = _COMMA.split(text)
    if "" in entries:
        raise ValueError("a list must not contain an empty element")
    kept = tuple(dict.fromkeys(entries))
    if len(kept) < len(entries):
        _LOGGER.warning("duplicates-dropped value=%s kept=%s", text, ",".join(kept))
    return kept


_BOOLEAN: Final = Kind("boolean", _parse_boolean, lambda value: str(value).lower())
_INT: Final = Kind("int", _whole_parser("32 bits", INT32_MAX))
_LONG: Final = Kind("long", _whole_parser("64 bits", INT64_MAX))
_DOUBLE: Final = Kind("double", _parse_double, repr)
_STRING: Final = Kind("string", str)
_LIST: Final = Kind("list", _parse_list, ",".join)

Int32 = Annotated[int, _INT]
"""The type of a field that Kafka stores in 32 bits; a plain ``int`` is a long in Kafka."""

_KINDS: Final[dict[object, Kind]] = {
    bool: _BOOLEAN,
    Int32: _INT,
    int: _LONG,
    float: _DOUBLE,
    str: _STRING,
    tuple[str, ...]: _LIST,
}


@dataclass(frozen=True, slots=True)
class Option:
    """One setting. ``field`` is its dataclass field; ``synonyms`` are in order of precedence.

    ``kafka_default`` is the default of a broker, which for some differs from ``default``.
    """

    name: str
    field: str
    kind: Kind
    default: Any
    kafka_default: Any
    check: Check
    doc: str
    synonyms: tuple[Synonym, ...]


any_value: Final = Check("", lambda _: True)


def at_least(low: float) -> Check:
    """Accept ``low`` and above."""
    return Check(f"at least {low}", lambda value: value is None or value >= low)


def between(low: float, high: float, *, or_else: tuple[float, ...] = ()) -> Check:
    """Accept ``low`` to ``high``, both inclusive, and the values of ``or_else``."""
    others = "".join(f" or {value}" for value in or_else)
    return Check(f"{low} to {high}{others}", lambda value: low <= value <= high or value in or_else)


def one_of(*names: str) -> Check:
    """Accept exactly one of these words; case matters."""
    return Check(f"one of {', '.join(names)}", lambda value: value in names)


def subset_of(*names: str) -> Check:
    """Accept a list, possibly empty, of these words."""
    return Check(f"any of {', '.join(names)}", lambda value: set(value) <= set(names))


def option(
    name: str,
    default: Any,  # noqa: ANN401 - each setting has its own type; mypy checks it at the field
    check: Check,
    doc: str,
    *,
    synonyms: tuple[str | Synonym, ...] = (),
    kafka_default: object = None,
) -> Any:  # noqa: ANN401 - as dataclasses.field, so that the field keeps its declared type
    """Declare one setting as a dataclass field.

    Args:
        name: Kafka's name.
        default: the value if the setting is not present.
        check: the rule for valid values.
        doc: the meaning, in one sentence, with the unit.
        synonyms: broker-level names of the same setting, in order of precedence.
        kafka_default: Kafka's default, if tidelog has another one.
    """
    known = tuple(Synonym(s) if isinstance(s, str) else s for s in synonyms)
    kafka_default = default if kafka_default is None else kafka_default
    metadata = {_OPTION: (name, kafka_default, check, doc, known)}
    return dataclasses.field(default=default, metadata=metadata)


def options_of(cls: Any) -> tuple[Option, ...]:  # noqa: ANN401 - mypy: type[X] is not hashable
    """Return the settings that a dataclass declares, in order of declaration."""
    return _options_of(cls)


@cache
def _options_of(cls: type[Any]) -> tuple[Option, ...]:
    hints = get_type_hints(cls, include_extras=True)
    found = []
    for field in dataclasses.fields(cls):
        if _OPTION in field.metadata:
            name, kafka_default, *others = field.metadata[_OPTION]
            kind = _kind_of(hints[field.name])
            found.append(Option(name, field.name, kind, field.default, kafka_default, *others))
    return tuple(found)


def parse_options(
    cls: type[C],
    properties: Mapping[str, str],
    base: C | None = None,
    *,
    others: Iterable[str] = (),
    **values: object,
) -> C:
    """Build a ``cls`` from properties.

    Args:
        cls: a dataclass of options, whose ``__post_init__`` calls ``check_options``.
        properties: settings as text, by Kafka's names.
        base: supplies the values of settings that are not present; None for the defaults.
        others: names that the user may give beside these, which a mistyped one may mean.
        values: values of the fields of ``cls`` that are not options.

    Raises:
        InvalidConfig: names every bad key with the reason, including unknown names and conflicts.

    Source: Kafka ConfigDef.parse.
    """
    options = {known.name: known for known in options_of(cls)}
    problems = []
    for name, text in properties.items():
        try:
            known = options[name]
            value = read_value(known, text)
            check_value(known, value)
            values[known.field] = value
        except KeyError:
            problems.append(unknown_setting(name, {*options, *others}))
        except ValueError as error:
            problems.append(f"{name}: {error}{plain_number_hint(name, text)}")
    try:
        config = cls(**values) if base is None else dataclasses.replace(base, **values)  # type: ignore[type-var]  # C is a dataclass
    except InvalidConfig as error:
        raise InvalidConfig((*problems, *error.problems)) from None
    if problems:
        raise InvalidConfig(tuple(problems))
    return config


def read_value(known: Option, text: str, factor: int = 1) -> Any:  # noqa: ANN401 - the option's type
    """Parse the text of a setting, without checking the value.

    ``factor`` is that of the synonym used: Kafka stores hours and minutes in 32 bits. Raises
    ValueError.
    """
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is not text")  # noqa: TRY004 - one kind of error for bad values
    if factor != 1:
        return _INT.parse(text.strip()) * factor
    return known.kind.parse(text.strip())


def check_value(known: Option, value: object) -> None:
    """Raise ValueError if the value is not valid for the setting."""
    if not known.check.holds(value):
        shown = "" if value is None else known.kind.format(value)
        renamed = [RENAMED[part] for part in shown.split(",") if part in RENAMED]
        hint = f" ({'; '.join(renamed)})" if renamed else ""
        raise ValueError(f"{shown or 'nothing'} must be {known.check.valid}{hint}")


def check_options(config: object, conflicts: Iterable[str] = ()) -> None:
    """Raise one InvalidConfig if values break their checks, or if there are ``conflicts``."""
    problems = []
    for known in options_of(type(config)):
        value = getattr(config, known.field)
        if value is known.default:
            continue  # valid by a test of all settings: each topic has a config, mostly of defaults
        try:
            check_value(known, value)
        except ValueError as error:
            problems.append(f"{known.name}: {error}")
    problems += conflicts
    if problems:
        raise InvalidConfig(tuple(problems))


def to_properties(config: object) -> dict[str, str]:
    """Return the settings that differ from their defaults, as text, by Kafka's names."""
    values = ((known, getattr(config, known.field)) for known in options_of(type(config)))
    return {
        known.name: known.kind.format(value) for known, value in values if value != known.default
    }


def _kind_of(hint: object) -> Kind:
    """Return the kind for a field's type; ``X | None`` is an X that may be unset."""
    for part in (hint, *get_args(hint)):
        if part in _KINDS:
            return _KINDS[part]
    raise InvariantError(f"a setting cannot have the type {hint}")


def unknown_setting(name: object, options: Iterable[str]) -> str:
    """Return what is wrong with an unknown name, and which of ``options`` it may mean."""
    if not isinstance(name, str):
        return f"{name!r}: the name of a setting is text"
    if name in REMOVED:
        return f"{name}: unknown, removed from Kafka: {REMOVED[name]}"
    from difflib import get_close_matches  # noqa: PLC0415 - few names are mistyped

    is_foreign = bool(foreign_names([name]))
    near = get_close_matches(name, sorted(options), n=1, cutoff=0.9 if is_foreign else 0.6)
    if is_foreign and not near:
        return f"{name}: unknown here; `tidelog serve` has some of Kafka's settings of listeners"
    return f"{name}: unknown" + (f", did you mean {near[0]}?" if near else "")
