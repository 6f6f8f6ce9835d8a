"""Tests wait for events instead of sleeping, use fakes instead of patches, and do not switch themselves off.

A module that imports from a module named `virtual_time` may sleep: there it costs nothing and depends on nothing.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.reading import Module, dotted, imported_names, modules, planted

PATCHING: Final = ("unittest.mock", "mock", "pytest_mock")
SWITCHED_OFF: Final = frozenset({"pytest.mark.skip", "pytest.mark.skipif"})


def violations(found: list[Module]) -> Iterator[str]:
    """Yield each dishonest place of the tests among `found`."""
    for module in found:
        if "tests" not in module.path.parts:
            continue
        imported = list(imported_names(module))
        virtual = any("virtual_time" in name.split(".") for name, _ in imported)
        for name, statement in imported:
            if any(name == one or name.startswith(f"{one}.") for one in PATCHING):
                yield f"{module.at(statement)} patches; use a fake behind the port"
        for node in module.nodes:
            if isinstance(node, ast.Call) and (problem := _problem(node, virtual=virtual)):
                yield f"{module.at(node)} {problem}"
            elif isinstance(node, ast.Attribute) and dotted(node) in SWITCHED_OFF:
                yield f"{module.at(node)} switches a test off; use needs_tool(...) for what a machine may lack"


def _problem(call: ast.Call, *, virtual: bool) -> str | None:
    called = dotted(call.func)
    if called == "time.sleep" or (called == "asyncio.sleep" and not virtual and not _is_nought(call)):
        return "sleeps; wait for an event or move the clock"
    if called == "monkeypatch.setattr":
        return "patches; use a fake behind the port"
    return None


def _is_nought(call: ast.Call) -> bool:
    """Whether the sleep only gives way once."""
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0


def test_the_tests_are_honest() -> None:
    """All of them, those of plugins and clients too."""
    assert list(violations(modules())) == []


@pytest.mark.parametrize(
    "line",
    [
        "import time\ntime.sleep(1)",
        "import asyncio\nasync def test_x(): await asyncio.sleep(0.1)",
        "from unittest.mock import Mock",
        "from unittest import mock",
        "def test_x(monkeypatch): monkeypatch.setattr('a.b', 1)",
        "import pytest\n@pytest.mark.skip(reason='later')\ndef test_x(): ...",
    ],
)
def test_a_dishonest_test_is_caught(line: str, tmp_path: Path) -> None:
    """One of each."""
    assert len(list(violations(modules(root=planted(tmp_path, {"tests/unit/test_x.py": line}))))) == 1


def test_giving_way_once_and_a_fake_clock_are_let_through(tmp_path: Path) -> None:
    """Neither depends on real time; nor does a sleep in virtual time."""
    line = """
        import asyncio
        from tests.support.virtual_time import in_virtual_time

        async def test_x(clock):
            await asyncio.sleep(0)
            await clock.sleep(5)
            await asyncio.sleep(9)
        """
    assert list(violations(modules(root=planted(tmp_path, {"tests/unit/test_x.py": line})))) == []
