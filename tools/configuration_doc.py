"""Writes docs/configuration.md from the settings that the code declares, so that they agree.

``--check`` writes nothing and fails when the page is stale.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import HOUR_MS, MINUTE_MS, LogConfig
from tidelog.config.option import options_of
from tidelog.config.sources import is_dynamic

if TYPE_CHECKING:
    from tidelog.config.option import Option, Synonym

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "configuration.md"
UNITS = {HOUR_MS: " (hours)", MINUTE_MS: " (minutes)"}

HEADER = """\
# Settings

Written by `tools/configuration_doc.py` from the declarations; `make docs` does it anew. Names,
defaults and ranges are Kafka's; those that begin with `tidelog.` are our own.

Settings of a service come from `-o KEY=VALUE`, from the environment and from a properties file, in
this order: `tidelog run --config server.properties -o log.retention.ms=3600000`. A variable is
named after its setting, in capitals, with underscores for dots: `TIDELOG_LOG_RETENTION_MS`. A
program gives them to `tidelog.open` as a mapping or as keyword arguments: `retention_ms=3_600_000`.
Whatever is wrong is told at once, all of it. SIGHUP lets a service read its settings again: those
marked as dynamic take effect, and where another one has changed, none does.

"""

TOPIC_HEADER = """\
## Of topics

Set for one topic by `tidelog create` and `tidelog alter`. For all topics that do not set it, the
names of the second column count, the first one set; so does the topic's name itself, before them.

| Setting | For all topics | Type | Default | Valid | Meaning |
|---|---|---|---|---|---|
"""

BROKER_HEADER = """
## Of a data directory or a service

| Setting | Type | Default | Valid | Dynamic | Meaning |
|---|---|---|---|---|---|
"""


def render() -> str:
    """Return the page."""
    topics = "".join(topic_row(known) for known in options_of(LogConfig))
    brokers = "".join(broker_row(known) for known in options_of(BrokerConfig))
    return HEADER + TOPIC_HEADER + topics + BROKER_HEADER + brokers


def topic_row(known: Option) -> str:
    """Return the line of a topic's setting."""
    synonyms = ", ".join(synonym_text(one) for one in known.synonyms)
    valid, default = cell(known.check.valid), default_text(known)
    return (
        f"| `{known.name}` | {synonyms} | {known.kind.name} | {default} | {valid}"
        f" | {cell(known.doc)} |\n"
    )


def broker_row(known: Option) -> str:
    """Return the line of a broker's setting."""
    dynamic = "yes" if is_dynamic(known.name) else ""
    valid, default = cell(known.check.valid), default_text(known)
    return (
        f"| `{known.name}` | {known.kind.name} | {default} | {valid} | {dynamic}"
        f" | {cell(known.doc)} |\n"
    )


def synonym_text(synonym: Synonym) -> str:
    """Return a broker-level name with its unit."""
    return f"`{synonym.name}`{UNITS.get(synonym.factor, '')}"


def default_text(known: Option) -> str:
    """Return the default as it would be written in a file."""
    if known.default is None:
        return "not set"
    text = known.kind.format(known.default)
    return f"`{text}`" if text else "empty"


def cell(text: str) -> str:
    """Return text that does not end its column."""
    return text.replace("|", "\\|")


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    page = render()
    if parser.parse_args().check:
        return 0 if PAGE.read_text("utf-8") == page else 1
    PAGE.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
