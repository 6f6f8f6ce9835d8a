"""What is written once for two databases: the places of its statements, and rows that come in batches."""

import inspect
import re
from collections.abc import Iterator
from types import ModuleType

import apsw
import pytest

from sidecar.adapters import memory_tables
from sidecar.adapters.rollout_tables import reading, writing
from sidecar.adapters.sqlite.statements import run
from sidecar.adapters.statements import ROWS_AT_ONCE, insert


def out_of_order(source: str) -> Iterator[list[int]]:
    """Yield the places of each text in which they do not first appear in the order of their numbers."""
    for text in re.findall(r'"""(.*?)"""|"((?:[^"\\]|\\.)*)"', source, re.DOTALL):
        first = list(dict.fromkeys(int(place) for place in re.findall(r"\$(\d+)", "".join(text))))
        if first != list(range(1, len(first) + 1)):
            yield first


@pytest.mark.parametrize("module", [memory_tables, reading, writing], ids=lambda module: module.__name__)
def test_places_first_appear_in_the_order_of_their_numbers(module: ModuleType) -> None:
    """SQLite counts places as they appear, PostgreSQL by their number: otherwise values would be exchanged silently."""
    source = inspect.getsource(module)

    assert list(out_of_order(source)) == []
    assert list(out_of_order(source + '\n"update a set b = $2 where c = $1"')) == [[2, 1]]


def test_many_rows_come_in_several_statements_and_are_all_there() -> None:
    """More rows than one statement may have values for; each is there once, with its columns in their places."""
    connection = apsw.Connection(":memory:")
    connection.execute("create table kept (number integer, name text)")
    rows = [(number, f"row {number}") for number in range(2 * ROWS_AT_ONCE + 1)]
    statements = list(insert("kept", rows))

    run(connection, insert("kept", rows))

    assert len(statements) == 3
    assert connection.execute("select number, name from kept order by number").fetchall() == rows
    assert list(insert("kept", [])) == []
