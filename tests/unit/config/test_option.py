"""Declaring, parsing and formatting settings of any meaning."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import LogConfig
from tidelog.config.option import (
    Int32,
    Synonym,
    any_value,
    at_least,
    between,
    check_options,
    check_value,
    one_of,
    option,
    options_of,
    parse_options,
    subset_of,
    to_properties,
)
from tidelog.errors import InvalidConfig, InvariantError


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One setting of each kind."""

    flag: bool = option("flag", False, any_value, "A boolean.")
    small: Int32 = option("small", 1, at_least(0), "An int.", synonyms=("a", Synonym("b", 60)))
    unset: Int32 | None = option("unset", None, any_value, "An int that may be unset.")
    large: int = option("large", 2, any_value, "A long.")
    ratio: float = option("ratio", 0.5, between(0, 1, or_else=(-1,)), "A double.")
    word: str = option("word", "x", one_of("x", "y"), "A string.")
    words: tuple[str, ...] = option("words", ("x",), subset_of("x", "y"), "A list.")

    def __post_init__(self) -> None:
        check_options(self, ["word: y needs flag"] if self.word == "y" and not self.flag else [])


def problems_of(properties: dict[str, str]) -> tuple[str, ...]:
    """Return the problems with the properties of a Sample."""
    with pytest.raises(InvalidConfig) as caught:
        parse_options(Sample, properties)
    return caught.value.problems


def test_a_missing_setting_has_its_default() -> None:
    """Without properties, every setting has its default."""
    assert parse_options(Sample, {}) == Sample()


def test_each_kind_is_parsed() -> None:
    """Text becomes a value of the field's type; surrounding space is ignored."""
    properties = {
        "flag": " TRUE ",
        "small": "+7",
        "unset": "-3",
        "large": "9223372036854775807",
        "ratio": "2.5e-1",
        "word": " x",
        "words": " y , x ",
    }

    assert parse_options(Sample, properties) == Sample(
        flag=True, small=7, unset=-3, large=2**63 - 1, ratio=0.25, words=("y", "x")
    )


@pytest.mark.parametrize("text", ["1", ".5", "1.", "0.5d", "0.5F", "5E-1", "+0.1"])
def test_doubles_are_parsed_as_in_java(text: str) -> None:
    """A decimal point, an exponent and Java's suffixes are accepted."""
    assert 0 < parse_options(Sample, {"ratio": text}).ratio <= 1


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("flag", "yes", "flag: 'yes' is not true or false"),
        ("small", "", "small: '' is not a whole number"),
        ("small", "1_000", "small: '1_000' is not a whole number"),
        ("small", "1.0", "small: '1.0' is not a whole number"),
        ("small", "٣", "small: '٣' is not a whole number"),
        ("small", "2147483648", "small: 2147483648 does not fit in 32 bits"),
        ("small", "-1", "small: -1 must be at least 0"),
        ("large", "9223372036854775808", "large: 9223372036854775808 does not fit in 64 bits"),
        ("ratio", "inf", "ratio: 'inf' is not a number"),
        ("ratio", "1_0", "ratio: '1_0' is not a number"),
        ("ratio", "NaN", "ratio: nan must be 0 to 1 or -1"),
        ("ratio", "1.1", "ratio: 1.1 must be 0 to 1 or -1"),
        ("word", "X", "word: X must be one of x, y"),
        ("words", "x,,y", "words: a list must not contain an empty element"),
        ("words", "z", "words: z must be any of x, y"),
        ("wird", "x", "wird: unknown, did you mean word?"),
        ("42", "x", "42: unknown"),
    ],
)
def test_a_bad_value_is_named_with_its_reason(name: str, text: str, problem: str) -> None:
    """Each value that Kafka rejects is rejected, and the error gives the reason."""
    assert problems_of({name: text}) == (problem,)


def test_one_error_names_every_bad_key() -> None:
    """Bad values, unknown names and conflicts are reported all at once."""
    problems = problems_of({"small": "x", "none": "1", "word": "y", "large": "1"})

    assert [problem.split(":")[0] for problem in problems] == ["small", "none", "word"]


def test_what_is_not_text_is_bad() -> None:
    """Names and values of properties are text; a number is not converted."""
    settings: Any = {"small": 5, 7: "x"}

    assert problems_of(settings) == ("small: 5 is not text", "7: the name of a setting is text")


def test_an_empty_list_is_a_value() -> None:
    """Empty text is an empty list."""
    assert parse_options(Sample, {"words": " "}).words == ()


def test_duplicates_in_a_list_are_dropped_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The first of equal entries is kept, and a warning names the list."""
    with caplog.at_level(logging.WARNING, "tidelog.config.option"):
        words = parse_options(Sample, {"words": "y,x,y"}).words

    assert words == ("y", "x")
    assert "duplicates-dropped value=y,x,y kept=y,x" in caplog.text


def test_a_value_set_in_code_is_checked_too() -> None:
    """It is impossible to construct a config with a bad value."""
    with pytest.raises(InvalidConfig, match="small: -1 must be at least 0"):
        Sample(small=-1)


def test_a_base_supplies_missing_settings() -> None:
    """Settings on top of others replace only those they name."""
    base = Sample(small=5, large=6)

    assert parse_options(Sample, {"large": "7"}, base) == Sample(small=5, large=7)


def test_properties_are_what_differs_from_the_defaults() -> None:
    """Defaults are omitted; the rest is formatted as in Kafka."""
    config = Sample(flag=True, ratio=1.0, words=("x", "y"), unset=3)

    assert to_properties(config) == {"flag": "true", "unset": "3", "ratio": "1.0", "words": "x,y"}


@given(
    st.builds(
        Sample,
        flag=st.booleans(),
        small=st.integers(0, 2**31 - 1),
        unset=st.none() | st.integers(-(2**31), 2**31 - 1),
        large=st.integers(-(2**63), 2**63 - 1),
        ratio=st.floats(0, 1),
        words=st.lists(st.sampled_from(["x", "y"]), unique=True).map(tuple),
    )
)
def test_properties_are_read_back(config: Sample) -> None:
    """Parsing the formatted text gives the same settings."""
    assert parse_options(Sample, to_properties(config)) == config


def test_options_describe_a_setting_fully() -> None:
    """Tables of settings are generated from the declarations."""
    small = options_of(Sample)[1]

    assert (small.name, small.field, small.kind.name, small.default) == ("small", "small", "int", 1)
    assert (small.check.valid, small.doc) == ("at least 0", "An int.")
    assert small.synonyms == (("a", 1), ("b", 60))


def test_kinds_follow_the_types_of_the_fields() -> None:
    """Each field has Kafka's type of the same range."""
    kinds = [known.kind.name for known in options_of(Sample)]

    assert kinds == ["boolean", "int", "int", "long", "double", "string", "list"]


def test_a_field_of_another_type_is_a_bug() -> None:
    """A setting can only have types that Kafka has."""

    @dataclass
    class Wrong:
        field: bytes = option("field", b"", any_value, "No such kind.")

    with pytest.raises(InvariantError, match="bytes"):
        options_of(Wrong)


@pytest.mark.parametrize("declared", [Sample, LogConfig, BrokerConfig])
def test_each_default_is_valid(declared: type[object]) -> None:
    """So that a value which is the default need not be checked again."""
    options = options_of(declared)
    for known in options:
        check_value(known, known.default)

    assert len(options) >= 7
