"""What the simulation runs must do the same again from the same seed.

Tasks come from the injected spawner, time from the injected clock; nothing depends on the order of a set, on a thread,
or on which task asyncio happens to finish first.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.reading import Module, dotted, imported_names, modules, planted
from tests.architecture.set_order import set_attributes, set_orders

SIMULATED: Final = ("sidecar/core", "sidecar/policy", "sidecar/operations")
FORBIDDEN_MODULES: Final = frozenset(
    "concurrent ctypes fcntl http io logging multiprocessing os queue random sched secrets select selectors signal "
    "socket socketserver sqlite3 ssl subprocess tempfile threading time uuid".split()
)
FORBIDDEN_NAMES: Final = frozenset(
    "as_completed create_subprocess_exec create_subprocess_shell create_task ensure_future run_coroutine_threadsafe "
    "run_in_executor TaskGroup to_thread".split()
)
"""Whatever they are called on: a loop, a group, asyncio itself."""
FORBIDDEN_CALLS: Final = frozenset(
    {"asyncio.wait", "asyncio.run", "asyncio.Runner", "datetime.now", "datetime.utcnow", "datetime.datetime.now"}
)
WHY: Final = "use the Spawner, Clock or Randomness of sidecar/operations/ports.py"


def violations(found: list[Module]) -> Iterator[str]:
    """Yield each place that could go otherwise on a replay."""
    attributes = set_attributes(node for one in found for node in one.nodes)
    for module in found:
        for name, statement in imported_names(module):
            last = name.rpartition(".")[2]
            if name.split(".")[0] in FORBIDDEN_MODULES or last in FORBIDDEN_NAMES or name == "asyncio.wait":
                yield f"{module.at(statement)} imports {name}; {WHY}"
        for node in module.nodes:
            if isinstance(node, ast.Call) and _is_forbidden(dotted(node.func)):
                yield f"{module.at(node)} calls {dotted(node.func)}; {WHY}"
        for node in set_orders(module.tree, attributes):
            yield f"{module.at(node)} depends on the order of a set; sort it, or keep a dict or tuple"


def _is_forbidden(called: str) -> bool:
    return called in FORBIDDEN_CALLS or called.rpartition(".")[2] in FORBIDDEN_NAMES


def test_simulated_code_replays() -> None:
    """Core, policy and operations."""
    assert list(violations(modules(*SIMULATED))) == []


@pytest.mark.parametrize(
    "content",
    [
        "import time",
        "from uuid import uuid4",
        "import threading",
        "from asyncio import TaskGroup",
        "import asyncio\ndef f(work): asyncio.create_task(work)",
        "def f(group, work): group.create_task(work)",
        "import asyncio\nasync def f(tasks): await asyncio.wait(tasks)",
        "import asyncio\nasync def f():\n    async with asyncio.TaskGroup(): pass",
        "import asyncio\nasync def f(work): await asyncio.to_thread(work)",
        "from datetime import UTC, datetime\nNOW = datetime.now(UTC)",
        "for one in {1, 2}: pass",
        "X = [one for one in set('ab')]",
        "X = list(frozenset('ab'))",
        "X = ', '.join({'a', 'b'})",
        "def f(tools: frozenset[str]) -> list[str]:\n    return [*tools]",
        "def f():\n    seen = set()\n    return seen.pop()",
        "def f(a: set[str], b: set[str]):\n    for one in a & b: pass",
        "def f(a: dict[str, int], b: dict[str, int]):\n    return tuple(a.keys() - b.keys())",
        "def f(tools: frozenset[str]):\n    return sorted([[one for one in tools]])",
        "class A:\n    tools: frozenset[str]\ndef f(a):\n    for tool in a.tools: pass",
        "class A:\n    def __init__(self): self.seen = set()\n    def f(self):\n        return [x for x in self.seen]",
    ],
)
def test_what_would_break_a_replay_is_caught(content: str, tmp_path: Path) -> None:
    """One offender of each kind."""
    assert len(list(violations(modules(root=planted(tmp_path, {"sidecar/operations/x.py": content}))))) == 1


@pytest.mark.parametrize(
    "content",
    [
        "def f(tools: frozenset[str]) -> list[str]:\n    return sorted(tools)",
        "def f(tools: set[str], one: str) -> bool:\n    return one in tools and len(tools) > 1",
        "def f(a: frozenset[str], b: frozenset[str]) -> frozenset[str]:\n    return a & b",
        "def f(a: list[str], b: frozenset[str]) -> list[str]:\n    return [one for one in a if one not in b]",
        "import asyncio\nasync def f(work): return await asyncio.gather(*work, return_exceptions=True)",
        "import asyncio\nasync def f(work): await asyncio.wait_for(work, 1)",
        "def f(tools: frozenset[str]) -> list[str]:\n    return sorted(one.lower() for one in tools if one)",
        "def f(tools: frozenset[str]) -> set[str]:\n    return {one.lower() for one in tools}",
        "class A:\n    tools: frozenset[str]\nclass B:\n    def f(self, a):\n        return sorted(a.tools)",
    ],
)
def test_what_replays_is_let_through(content: str, tmp_path: Path) -> None:
    """Sets as sets, and tasks in a fixed order."""
    assert list(violations(modules(root=planted(tmp_path, {"sidecar/operations/x.py": content})))) == []
