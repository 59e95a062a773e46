"""``tidelog sql``: topics and system tables as tables of a query, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
from tidelog.exit_codes import ExitCode
from tidelog.records.builder import build_batch
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.testing import damage_batch

if TYPE_CHECKING:
    from tests.machinery.outcome import Outcome
    from tests.unit.cli.conftest import Cli

FIRST_MS = 1_000_000_000_000


@pytest.fixture
def readings(cli: Cli) -> Cli:
    """Six records in two partitions of topic t, of which one has a key that is not text."""
    return cli.made(make_readings)


def make_readings(cli: Cli) -> None:
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t", 2)
        for number in range(6):
            value = json.dumps({"n": number}).encode()
            key = b"\xff" if number == 5 else b"k%d" % (number % 2)
            logs.append("t", value, key=key, partition=number % 2, timestamp=FIRST_MS + number)


def rows(cli: Cli, query: str, *words: str) -> list[dict[str, Any]]:
    """Return the rows that a query prints as JSON."""
    found = cli.on("sql", query, "--format", "json", *words)
    assert (found.code, found.err) == (0, "")
    return [json.loads(line) for line in found.out.splitlines()]


def refused(cli: Cli, query: str) -> str:
    """Return why a query is refused; nothing is printed."""
    found = cli.on("sql", query)
    assert (found.code, found.out) == (ExitCode.BAD_USAGE, "")
    return str(found.err)


def test_a_topic_is_a_table_of_its_records(readings: Cli) -> None:
    """It has the columns of ``SCHEMA_WITH_HEADERS``; here, values are JSON."""
    query = """
        SELECT partition, "offset", decode(key) AS key, (decode(value)->>'n')::INT AS n
        FROM t WHERE "offset" = 1 ORDER BY partition
    """

    assert rows(readings, query) == [
        {"partition": 0, "offset": 1, "key": "k0", "n": 2},
        {"partition": 1, "offset": 1, "key": "k1", "n": 3},
    ]


def test_system_tables_are_in_a_schema_of_their_own(readings: Cli) -> None:
    """So a topic may have the name of one; they can be joined with one another, and with topics."""
    with tidelog.open(readings.data) as logs:
        logs.create_topic("partitions")
        logs.append("partitions", b"x")
    query = """
        SELECT p.topic, p.logEndOffset, count(s.baseOffset) AS segments,
            (SELECT count(*) FROM partitions) AS records
        FROM tidelog.partitions p JOIN tidelog.segments s USING (topic, partition)
        GROUP BY ALL ORDER BY ALL
    """

    found = rows(readings, query)

    assert found == [
        {"topic": "partitions", "logEndOffset": 1, "segments": 1, "records": 1},
        {"topic": "t", "logEndOffset": 3, "segments": 2, "records": 1},
    ]


@pytest.mark.parametrize("table", ["topics", "groups", "batches", "plan_retention", "findings"])
def test_a_system_table_is_what_the_command_prints(readings: Cli, table: str) -> None:
    """The same rows, with times as text."""
    printed = readings.on("table", table, "--json").rows

    found = rows(readings, f"SELECT * FROM tidelog.{table}")

    assert [list(row) for row in found] == [list(row) for row in printed]
    same = [
        {name for name in row if row[name] == other[name]}
        for row, other in zip(found, printed, strict=True)
    ]
    times = {"createdAt", "baseTimestamp", "maxTimestamp", "due", "deleteHorizonMs", "now"}
    assert all(set(row) - names <= times for row, names in zip(found, same, strict=True))


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT * FROM read_csv('/etc/passwd')", "file system operations are disabled"),
        ("SELECT * FROM '/etc/passwd'", "does not exist"),
        ("SELECT * FROM glob('/*')", "file system operations are disabled"),
        ("SELECT getenv('HOME')", "getenv does not exist"),
        ("COPY t TO 'x.csv'", "COPY is not possible"),
        ("ATTACH 'x.db'", "ATTACH is not possible"),
        ("INSTALL httpfs", "LOAD is not possible"),
        ("SET enable_external_access = true", "SET is not possible"),
        ("DELETE FROM t", "DELETE is not possible"),
        ("CREATE TABLE x AS FROM t", "CREATE is not possible"),
        ("SELECT 1; SELECT 2", "2 statements were given"),
        ("", "0 statements were given"),
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("SELECT nothing FROM t", "nothing"),
    ],
)
def test_a_query_reads_topics_and_nothing_else(readings: Cli, query: str, reason: str) -> None:
    """No file, no setting, no change; what is wrong is said in one line."""
    text = refused(readings, query)

    assert reason in text
    assert text.count("\n") == 1


def test_an_unknown_table_is_an_error_that_names_the_topics(readings: Cli) -> None:
    """And says where the system tables are."""
    assert "topics: t; system tables: tidelog.topics" in refused(readings, "FROM nothing")


def test_a_system_table_without_its_schema_is_an_error_that_names_it(readings: Cli) -> None:
    """They are in a schema of their own, since a topic may have such a name."""
    assert refused(readings, "FROM batches LIMIT 2").endswith("did you mean tidelog.batches?\n")


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ("SELECT value->>'n' FROM t", "value"),
        ("SELECT 'k' AS key, t.value ->> 'n' FROM t", "value"),
        ("SELECT json_extract(\"key\", 'n') FROM t", "key"),
        ("SELECT decode(value)->>'n' FROM t", None),
        ("WITH r AS (SELECT decode(value) AS value FROM t) SELECT value->>'n' FROM r", None),
        ("SELECT topic, 'value->1' FROM tidelog.topics", None),
    ],
)
def test_bytes_that_are_taken_for_json_are_hinted_at(
    readings: Cli, query: str, column: str | None
) -> None:
    """DuckDB gives NULL for them, without an error."""
    found = readings.on("sql", query)

    hint = f"tidelog sql: {column} is bytes, in which JSON finds nothing: use decode({column})\n"
    assert (found.code, found.err) == (0, "" if column is None else hint)


def test_bytes_that_are_cast_to_text_are_hinted_at(cli: Cli) -> None:
    """DuckDB escapes their quotation marks, so that valid JSON looks malformed."""
    cli.on("create", "t")
    cli.append('{"n": 3}')

    text = refused(cli, "SELECT json_extract(value::varchar, '$.n') FROM t")
    assert text.endswith("; key and value are bytes: decode(value) is their text, a cast is not\n")


def test_a_name_that_needs_quotes_is_shown_with_them(readings: Cli) -> None:
    """Dots and dashes mean something else in SQL."""
    readings.on("create", "a-b.c")

    assert 'write the topic "a-b.c" in double quotes' in refused(readings, "FROM a-b.c")
    assert rows(readings, 'SELECT count(*) AS n FROM "a-b.c"') == [{"n": 0}]


@pytest.mark.parametrize("query", ["SELECT offset FROM t", "SELECT key FROM t WHERE offset > 1"])
def test_a_column_that_is_a_word_of_sql_is_shown_with_quotes(readings: Cli, query: str) -> None:
    """DuckDB speaks of a syntax error somewhere after it."""
    assert 'write the column as "offset"' in refused(readings, query)
    assert "write the column" not in refused(readings, 'SELECT "offset", FROM t WHERE')


def test_values_that_are_not_json_can_be_found_and_passed_over(cli: Cli) -> None:
    """The error says how: DuckDB does not know which record it was."""
    cli.on("create", "t")
    cli.append('{"price": 3}', "oops", '{"price": 5}')
    price = "decode(value)->>'price'"

    hint = "WHERE NOT json_valid(decode(value)) finds such records"
    assert hint in refused(cli, f"SELECT {price} FROM t")
    where = "WHERE NOT json_valid(decode(value))"
    assert rows(cli, f'SELECT "offset" FROM t {where}') == [{"offset": 1}]
    tried = rows(cli, f"SELECT TRY({price}) AS p FROM t")
    assert [row["p"] for row in tried] == ["3", None, "5"]


def test_topics_that_differ_by_case_cannot_be_told_apart(readings: Cli) -> None:
    """Neither is taken for the other; a query that names neither is not concerned."""
    readings.on("create", "T")

    assert "topics T and t have the same name in SQL" in refused(readings, "FROM t")
    assert rows(readings, "SELECT 1 AS one") == [{"one": 1}]


@pytest.mark.parametrize(("isolation", "count"), [("read_uncommitted", 3), ("read_committed", 1)])
def test_a_query_sees_what_cat_sees(cli: Cli, isolation: str, count: int) -> None:
    """Both isolations, up to the high watermark."""
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t")
        logs.append("t", b"a")
        batch = build_batch(
            [(FIRST_MS, b"k", b"open", ()), (FIRST_MS, b"k", b"as well", ())],
            base_offset=1,
            leader_epoch=0,
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        logs.manager.partition("t", 0).append(batch, AppendOrigin.REPLICATION)
    printed = cli.on("cat", "t", "--isolation", isolation).rows

    found = rows(cli, "SELECT count(*) AS n FROM t", "--isolation", isolation)

    assert (len(printed), found) == (count, [{"n": count}])


def test_records_above_a_stale_high_watermark_are_reported(readings: Cli) -> None:
    """Once a query, with the option that reads them."""
    (readings.data / "replication-offset-checkpoint").write_text("0\n2\nt 0 1\nt 1 3\n")
    query = "SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM t) AS n"

    found = readings.on("sql", query, "--format", "json")

    assert found.out == '{"n": 8}\n'
    (line,) = found.err.splitlines()
    assert "2 offsets above the high watermark, from 1 on of t-0, are not read" in line
    assert "use --up-to logEnd" in line
    assert rows(readings, query, "--up-to", "logEnd") == [{"n": 12}]


def test_damage_is_an_error_of_the_query(torn: Cli) -> None:
    """Typed, with its place; a file that was begun is kept as incomplete."""
    whole = torn.on("cat", "t")
    found = torn.on("sql", "SELECT count(*) FROM t")

    assert (found.code, found.out) == (whole.code, "")
    assert found.err.split(":", 1)[1] == whole.err.split(":", 1)[1]
    assert ": --skip-damage skips it, and says what is lost; `tidelog rescue` copies" in found.err


def test_damage_is_skipped_if_it_is_asked_for(readings: Cli) -> None:
    """It is reported once, however often a query reads it, and the exit code is 1."""
    damage_batch(readings.data, "t", 1)
    query = "SELECT count(*) AS n FROM t UNION ALL SELECT count(*) FROM t"

    found = readings.on("sql", query, "--format", "json", "--skip-damage")

    assert (found.code, found.out) == (1, '{"n": 5}\n' * 2)
    (line,) = found.err.splitlines()
    assert "tidelog sql: skipped " in line
    assert "offset 1" in line
    whole = readings.on("sql", "SELECT count(*) AS n FROM tidelog.topics", "--skip-damage")
    assert (whole.code, whole.err) == (0, "")


def test_damage_is_skipped_in_system_tables_if_it_is_asked_for(readings: Cli) -> None:
    """Else it ends a query of them: the count of what is left would look like that of all."""
    damage_batch(readings.data, "t", 1)
    query = "SELECT DISTINCT partition AS n FROM tidelog.keys"

    refused = readings.on("sql", query)
    found = readings.on("sql", query, "--format", "json", "--skip-damage")

    assert (refused.code, refused.out) == (1, "")
    assert (found.code, found.out) == (1, '{"n": 1}\n')
    (line,) = found.err.splitlines()
    assert line.startswith("tidelog sql: skipped t-0: the CRC of a batch is wrong at byte ")


def test_damage_leaves_no_file_of_that_name(torn: Cli) -> None:
    """A file is whole or not there."""
    path = torn.data.parent / "rows.csv"

    found = torn.on("sql", "SELECT decode(value) AS v FROM t", "--format", "csv", "-o", path)

    assert (found.code, path.exists()) == (ExitCode.DAMAGED, False)


FORMS = """SELECT decode(key) AS k, "offset" AS o, NULL AS none, '' AS empty, 1.5 AS half,
    [1, 2] AS list, {'a': 1} AS object, 'NaN'::DOUBLE AS nan, TRUE AS yes, DATE '2020-01-31' AS day,
    170141183460469231731687303715884105727::HUGEINT AS huge, timestamp AS at, '\xff'::BLOB AS b
    FROM t WHERE partition = 0 AND "offset" = 0"""


def test_a_line_of_json_has_every_type(readings: Cli) -> None:
    """Times are text in UTC; bytes that are not text are named."""
    assert rows(readings, FORMS.replace("\xff", "\\xFF")) == [
        {
            "k": "k0",
            "o": 0,
            "none": None,
            "empty": "",
            "half": 1.5,
            "list": [1, 2],
            "object": {"a": 1},
            "nan": "nan",
            "yes": True,
            "day": "2020-01-31",
            "huge": 2**127 - 1,
            "at": "2001-09-09T01:46:40.000Z",
            "b": "/w==",
            "bEncoding": "base64",
        }
    ]


def test_bytes_within_a_struct_are_named_as_well(readings: Cli) -> None:
    """As the values of headers: base64 reads like a text."""
    query = r"SELECT [{'key': 'h', 'value': '\xFF'::BLOB}, {'key': 'i', 'value': 'x'::BLOB}] AS h"

    assert rows(readings, query) == [
        {
            "h": [
                {"key": "h", "value": "/w==", "valueEncoding": "base64"},
                {"key": "i", "value": "x"},
            ]
        }
    ]


def test_maps_hold_values_of_any_type(readings: Cli) -> None:
    """Their keys are texts in JSON; what they hold is printed as it is elsewhere."""
    query = """
        SELECT map([value], [key]) AS bytes, map([DATE '2020-01-31'], [1.5]) AS day,
            map(['far'], [DATE '20000-01-01']) AS far
        FROM t WHERE "offset" = 0 AND partition = 0
    """

    assert rows(readings, query) == [
        {"bytes": {'{"n": 0}': "k0"}, "day": {"2020-01-31": 1.5}, "far": {"far": 6_585_322}}
    ]


def test_no_digit_of_a_number_or_a_time_is_lost(readings: Cli) -> None:
    """Those that no number of 64 bits has are text, and times have microseconds if need be."""
    query = """
        SELECT 12345678901234567.89 AS exact, [0.1] AS list,
            TIMESTAMP '2020-01-31 00:00:00.000001' AS at
    """

    assert rows(readings, query) == [
        {"exact": "12345678901234567.89", "list": [0.1], "at": "2020-01-31T00:00:00.000001"}
    ]


def test_columns_of_one_name_are_told_apart(readings: Cli) -> None:
    """As a join has them; of two members of JSON with one name, readers keep one."""
    found = rows(readings, "SELECT 1 AS a, 2 AS a_1, 3 AS a, 4 AS a")

    assert found == [{"a": 1, "a_1": 2, "a_2": 3, "a_3": 4}]


def test_csv_and_text_have_the_same_cells(readings: Cli) -> None:
    """Null is empty in CSV and a dash in text; bytes that are not text are escaped."""
    query = FORMS.replace("\xff", "\\xFF")
    csv, text = (readings.on("sql", query, "--format", form).out for form in ("csv", "text"))

    assert csv.splitlines() == [
        "k,o,none,empty,half,list,object,nan,yes,day,huge,at,b",
        (
            'k0,0,,"",1.5,"[1, 2]","{""a"": 1}",nan,true,2020-01-31,'
            f"{2**127 - 1},2001-09-09T01:46:40.000Z,\\xff"
        ),
    ]
    names, cells = text.splitlines()
    assert names.split() == csv.splitlines()[0].split(",")
    assert cells.split()[2:4] == ["-", "-"]


def test_a_query_without_rows_prints_the_names(readings: Cli) -> None:
    """In text and CSV; JSON has no line then."""
    query = 'SELECT "offset", key FROM t WHERE partition > 7'
    found = {form: readings.on("sql", query, "--format", form).out for form in FORMATS}

    assert found == {"text": "  offset  key\n", "csv": "offset,key\n", "json": ""}


FORMATS = ("text", "csv", "json")


def test_files_hold_the_rows(readings: Cli) -> None:
    """As an Arrow stream or a Parquet file, for other programs."""
    query = "SELECT partition, count(*) AS n FROM t GROUP BY ALL ORDER BY ALL"
    arrow, parquet = (readings.data.parent / f"rows.{form}" for form in ("arrow", "parquet"))
    for path in (arrow, parquet):
        words = ("--format", path.suffix[1:], "-o", path)
        assert readings.on("sql", query, *words).code == 0

    with pa.ipc.open_stream(arrow) as stream:
        found = stream.read_all()
    assert found.to_pylist() == [{"partition": 0, "n": 3}, {"partition": 1, "n": 3}]
    assert pq.read_table(parquet).equals(found)


def test_a_query_may_come_from_standard_input(readings: Cli) -> None:
    """With a dash in its place."""
    found: Outcome = readings.on("sql", "-", stdin="SELECT 1 AS a\n")

    assert (found.code, found.out) == (0, "  a\n  1\n")


def test_a_query_that_is_not_utf_8_is_refused(readings: Cli) -> None:
    """Wherever it comes from."""
    given = readings.on("sql", "SELECT '\udcff'")
    read = readings.on("sql", "-", stdin=b"SELECT '\xff'")

    assert (given.code, read.code) == (ExitCode.BAD_USAGE,) * 2
    assert given.err == read.err
    assert "the query is not UTF-8" in given.err


def test_a_time_that_no_calendar_has_is_a_number(readings: Cli) -> None:
    """A log may hold any; in microseconds since 1970."""
    with tidelog.open(readings.data) as logs:
        logs.create_topic("late", config={"message.timestamp.after.max.ms": str(2**63 - 1)})
        logs.append("late", b"far", timestamp=2**52)

    found = rows(readings, "SELECT timestamp AS at FROM late")

    assert found == [{"at": 2**52 * 1000}]


@pytest.mark.parametrize("query", ["SELECT count(*) AS n FROM s", "FROM tidelog.partitions"])
def test_partitions_in_another_directory_are_an_error_unless_they_may_be_left_out(
    cli: Cli, query: str
) -> None:
    """With the option for that; a query that names no such topic is not concerned."""
    other = cli.data.parent / "other"
    with tidelog.open(cli.data, other) as logs:
        logs.create_topic("s", 2, is_spread=True)
    alone = ("sql", query, "-d", cli.data)

    assert "add --allow-partial" in refused(cli, query)
    assert cli(*alone, "--allow-partial").code == ExitCode.OK
    assert cli(*alone, "-d", other).code == ExitCode.OK
    assert rows(cli, "SELECT 1 AS one") == [{"one": 1}]
