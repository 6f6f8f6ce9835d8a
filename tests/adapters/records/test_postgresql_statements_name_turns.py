"""Every statement of the journal in PostgreSQL names the turn, so that the tables of turns can be distributed by turn.

The statements are read from the modules and migrations. Those that cannot name a turn are listed with the reason: each
asks all nodes, or goes through a day or a sequence of an instance.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from sidecar.adapters.record_postgresql import SCHEMA
from tests.adapters.records.postgresql_bench import connection_to

MODULES: Final = ("appending", "changes_since", "erasing", "journal", "opening", "reads")
"""Of the journal. The rows of lists are derived, and their statements are about many turns at once."""
OF_TURNS: Final = frozenset({"turn_heads", "facts", "attempt_frames"})
"""The tables that are distributed."""
FUNCTION: Final = re.compile(r"create function (journal_\w+)\(.*?\$\$(.*?)\$\$", re.DOTALL)
NAMED: Final = re.compile(
    r"\bturn_id\s*(=|in\b)|=\s*(\w+\.)?turn_id\b|using \(turn_id\)|insert into \w+ \([^)]*turn_id"
)
TABLE: Final = re.compile(r"\b(?:from|join|update|into)\s+(\w+)")
SQL: Final = re.compile(r"\s*(select|with|insert|update|delete)\b", re.IGNORECASE)
INNER: Final = re.compile(r"\(\s*((?:select|insert|update|delete)\b[^()]*)\)", re.IGNORECASE)
FLAT: Final = re.compile(r"\(([^()]*)\)")

OVER_MANY_TURNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "changes_since.ERASED": "the turns with erased texts, of an index that is empty until an erasure",
        "changes_since.FIRST_MISSING": "the projector follows the sequence of an instance",
        "changes_since.NEXT": "the projector follows the sequence of an instance",
        "reads.LAST_CALLED": "a new turn asks for the one before it in its episode",
        "reads.LEFT_BEHIND": "work of dead sidecars, once a second",
        "reads.NEWEST_OPEN": "an operator's screen, a page at a time",
        "reads.OF_DAY": "verifying goes by days, an instance after the other",
        "reads.OVERDUE": "turns whose parent is lost, once a second",
        "reads.TURN_IDS": "verifying goes through all turns, a page at a time",
        "erasing.SAYING": "an erasure goes through all turns, a page at a time",
        "journal_is_over": "retention goes by days",
        "journal_remove": "retention goes by days",
    }
)
PLANTED: Final = {
    "a read by version only": "select body from facts where day = $1 and version = $2",
    "an update by episode": "update turn_heads set called = true where episode_id = $1",
    "an insert without the turn": "insert into facts (day, version, body) values ($1, $2, $3)",
    "a deletion by day": "delete from attempt_frames where day = $1",
    "a subquery": "select turn_id from turn_heads where turn_id = $1 and exists (select from facts where link = $2)",
    "one part of a common table expression": (
        "with changed as (update turn_heads set version = 2 where version = 1 returning turn_id)"
        " select number from instance_heads where instance_id = $1"
    ),
    "the second statement of a body": "select 1 from facts where turn_id = $1; delete from facts where day = $1",
    "the turn as a result only": "select turn_id from turn_heads where ended_at is null",
}


def test_every_statement_names_the_turn() -> None:
    """But for those that are listed; and what is listed is needed."""
    found = {name for name, sql in statements().items() if nameless(sql)}
    assert found == set(OVER_MANY_TURNS)


def test_all_statements_are_looked_at() -> None:
    """Those of appends and of reads of one turn among them; none is written inside a function of a module."""
    known = statements()
    assert {"reads.FACTS", "reads.DAY", "reads.FRAMES", "journal_append", "journal_erase"} <= set(known)
    assert list(hidden_statements()) == []


@pytest.mark.parametrize("planted", PLANTED)
def test_a_statement_without_the_turn_is_found(planted: str) -> None:
    """Wherever in a statement it is missing."""
    assert nameless(PLANTED[planted])


@pytest.mark.parametrize(
    ("named", "taken_away"),
    [
        ("journal_append", "turn_id = p_turns[v_at] and "),
        ("journal_erase", "and fact.turn_id = given ->> 0"),
        ("reads.FACTS", "and turn_id = any ($2)"),
        ("journal_append", "turn_id, version, instance_id, number, at, body, texts, salt, texts_digest, link"),
    ],
)
def test_a_turn_that_is_taken_out_of_a_real_statement_is_missed(named: str, taken_away: str) -> None:
    """From one of its parts."""
    sql = statements()[named]
    assert taken_away in sql
    without = sql.replace(taken_away, "").replace("left join turn_heads head using (turn_id)", "")
    assert nameless(without)


async def test_unique_keys_contain_the_turn(dsn: str) -> None:
    """A distributed table can keep no other key unique."""
    asked = """
    select cls.relname, array_agg(att.attname::text) from pg_index idx
      join pg_class cls on cls.oid = idx.indrelid
      join pg_attribute att on att.attrelid = cls.oid and att.attnum = any (indkey)
      where indisunique and cls.relname = any ($1) group by cls.relname, indexrelid
    """
    async with connection_to(dsn) as connection:
        keys = await connection.fetch(asked, list(OF_TURNS))
    assert {name for name, _ in keys} == OF_TURNS
    assert [name for name, columns in keys if "turn_id" not in columns] == []


def statements() -> dict[str, str]:
    """Return the statements of modules and the bodies of functions, by name."""
    found: dict[str, str] = {}
    for name in MODULES:
        module = import_module(f"sidecar.adapters.record_postgresql.{name}")
        for constant, value in vars(module).items():
            if isinstance(value, str) and SQL.match(value):
                found.setdefault(f"{name}.{constant}", value)
    del found["reads.ERASED"]  # imported
    for migration in SCHEMA:
        found |= dict(FUNCTION.findall(without_comments(migration.sql)))
    return found


def hidden_statements() -> Iterator[str]:
    """Yield the statements that are written inside functions of the modules."""
    for name in MODULES:
        source = Path(str(import_module(f"sidecar.adapters.record_postgresql.{name}").__file__))
        for function in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and _touches_turns(node.value):
                    yield f"{name}: {node.value}"


def nameless(sql: str) -> list[str]:
    """Return the parts of a statement, or of the body of a function, that touch a table of turns and name no turn."""
    return [part for part in parts(without_comments(sql)) if _touches_turns(part) and not NAMED.search(part)]


def parts(sql: str) -> list[str]:
    """Split by statements and by their subqueries. What is in parentheses and no subquery stays where it is."""
    found = []
    for statement in sql.split(";"):
        left = statement
        while True:
            if inner := INNER.search(left):
                found.append(inner[1])
                left = left[: inner.start()] + " subquery " + left[inner.end() :]
            elif flat := FLAT.search(left):
                left = left[: flat.start()] + f"⟨{flat[1]}⟩" + left[flat.end() :]
            else:
                break
        found.append(left)
    return [each.replace("⟨", "(").replace("⟩", ")") for each in found]


def without_comments(sql: str) -> str:
    """Return SQL without the comments to the ends of lines."""
    return re.sub(r"--[^\n]*", "", sql)


def _touches_turns(sql: Any) -> bool:
    return bool(SQL.search(sql) and OF_TURNS & set(TABLE.findall(sql)))
