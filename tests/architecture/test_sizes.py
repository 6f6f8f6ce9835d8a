"""A module says one thing, a function fits on a screen. No list of exceptions."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.reading import Module, modules, planted

MODULE_LINES: Final = 300
TEST_MODULE_LINES: Final = 400
FUNCTION_LINES: Final = 50
ARGUMENTS: Final = 6
"""Besides `self` or `cls`."""


def violations(found: list[Module]) -> Iterator[str]:
    """Yield each module and function that is too large."""
    for module in found:
        lines = len(module.text.splitlines())
        limit = TEST_MODULE_LINES if "tests" in module.path.parts else MODULE_LINES
        if lines > limit:
            yield f"{module.path}: {lines} lines, at most {limit}"
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from (f"{module.at(node)} {node.name}: {problem}" for problem in _problems(node))


def _problems(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if lines > FUNCTION_LINES:
        yield f"{lines} lines, at most {FUNCTION_LINES}"
    positional = [*function.args.posonlyargs, *function.args.args]
    if positional and positional[0].arg in {"self", "cls"}:
        positional = positional[1:]
    arguments = len(positional) + len(function.args.kwonlyargs)
    if arguments > ARGUMENTS:
        yield f"{arguments} arguments, at most {ARGUMENTS}"


def test_everything_is_small() -> None:
    """Every module and function of ours, tests and scripts too."""
    assert list(violations(modules())) == []


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("sidecar/core/x.py", "X = 1\n" * 301),
        ("tests/unit/test_x.py", "X = 1\n" * 401),
        ("sidecar/rpc/x.py", "def long():\n" + "    x = 1\n" * 50),
        ("sidecar/rpc/x.py", "class A:\n    async def wide(self, a, b, c, d, /, e, *, f, g): ..."),
    ],
)
def test_what_is_too_large_is_caught(path: str, content: str, tmp_path: Path) -> None:
    """One line or argument too many."""
    assert len(list(violations(modules(root=planted(tmp_path, {path: content}))))) == 1


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("sidecar/core/x.py", "X = 1\n" * 300),
        ("tests/unit/test_x.py", "X = 1\n" * 400),
        ("sidecar/rpc/x.py", "def long():\n" + "    x = 1\n" * 49),
        ("sidecar/rpc/x.py", "class A:\n    async def wide(self, a, b, c, d, /, e, *, f): ..."),
    ],
)
def test_what_just_fits_is_let_through(path: str, content: str, tmp_path: Path) -> None:
    """Exactly at the limit."""
    assert list(violations(modules(root=planted(tmp_path, {path: content})))) == []
