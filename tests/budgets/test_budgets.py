"""No number of the table rises: Python calls, passes of the loop, messages, SQL statements, writes, bytes and syncs.

Counts are the same in each run and on each machine, where times are not. A test of the table fails as soon as a turn
costs one call more, and says by how much and where.
"""

import os
import pickle
import re
import subprocess
import sys
from typing import Final

import pytest

from scripts.benchmark.processes import REPOSITORY
from scripts.benchmark.sidecar_server import MEMORY, SQLITE
from tests.budgets.ceilings import kept, risen
from tests.budgets.cohort_check import checks_counted
from tests.budgets.scenarios import Counted
from tests.budgets.table import TABLE, Budget
from tests.support.requirement import requirement

OUTSIDE: Final = frozenset({"io", "_io", "socket", "_socket", "select", "_ssl", "posix", "os", "time", "asyncio"})
AGAIN: Final = (f"one/{MEMORY}", f"one, queued/{SQLITE}")


def counted_apart(*chosen: str, seed: int) -> Counted:
    """Count in a process of its own, where no other test has left anything; `seed` is that of Python's hashes."""
    command = [sys.executable, "-m", "tests.budgets", "--raw", *chosen]
    around = {**os.environ, "PYTHONHASHSEED": str(seed)}
    ended = subprocess.run(command, cwd=REPOSITORY, env=around, stdout=subprocess.PIPE, timeout=240, check=True)
    found: Counted = pickle.loads(ended.stdout)
    return found


@pytest.fixture(scope="module")
def found() -> Counted:
    """Count everything once."""
    return counted_apart(seed=1)


@pytest.mark.parametrize("budget", TABLE, ids=str)
def test_a_budget_is_not_exceeded(budget: Budget, found: Counted) -> None:
    """Each row of the table."""
    problem = risen(budget, budget.of(found), kept()[str(budget)])
    if problem:
        pytest.fail(problem, pytrace=False)


@pytest.mark.parametrize("budget", [budget for budget in TABLE if budget.gate is not None], ids=str)
def test_a_gate_is_not_exceeded(budget: Budget, found: Counted) -> None:
    """Whatever the ceilings say: writing these again does not move a gate."""
    assert budget.gate is not None
    assert 0 < budget.of(found).total() <= budget.gate * budget.per


def test_the_documentation_names_each_page_that_is_written() -> None:
    """With the number of pages that is counted for each table and index."""
    text = (REPOSITORY / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    rows = {name: int(pages) for pages, name in re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.MULTILINE)}
    assert rows == kept()["one, queued, sqlite: pages"]


def test_a_second_count_is_the_same(found: Counted) -> None:
    """By function, statement and file, with a store and without one."""
    again = counted_apart(*AGAIN, seed=2)
    assert len(again) > len(AGAIN)
    assert again == {where: counts for where, counts in found.items() if where in again}


def test_nothing_but_the_log_is_written(found: Counted) -> None:
    """Moving it into the database file happens in a thread of its own, now and then; no scenario is to meet that."""
    files = {spot.place for counts in found.values() for spot in counts.get("writes", ())}
    assert files == {"record.sqlite-wal", "record.sqlite.lists-wal", "conversations.sqlite-wal"}
    assert {spot.place for spot in found["projected", SQLITE]["writes"]} == {"record.sqlite.lists-wal"}


@requirement("PF1-NFR-4a", "PF1-NFR-4b")
def test_the_cohort_check_is_a_few_look_ups_in_memory_and_asks_nobody() -> None:
    """Ten slots, two definitions and four flags in each: none of the calls is to anything outside."""
    counter = checks_counted()
    modules = {each.module for each in counter.counted} | counter.builtin.keys()
    assert {"sidecar.core.rollout.serving", "builtins"} <= modules
    assert OUTSIDE.isdisjoint(name.partition(".")[0] for name in modules)
