"""A module says one thing, a function fits on a screen. No list of exceptions."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.reading import Module, dotted, modules, planted

MODULE_LINES: Final = 300
TEST_MODULE_LINES: Final = 400
FUNCTION_LINES: Final = 50
ARGUMENTS: Final = 6
"""Besides `self` or `cls`, of functions and methods; what an object is made of may be more, each with its name."""


def violations(found: list[Module]) -> Iterator[str]:
    """Yield each module and function that is too large."""
    for module in found:
        lines = len(module.text.splitlines())
        limit = TEST_MODULE_LINES if "tests" in module.path.parts else MODULE_LINES
        if lines > limit:
            yield f"{module.path}: {lines} lines, at most {limit}"
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                problems = [*_problems(node), *(() if "tests" in module.path.parts else _tuples(node))]
                yield from (f"{module.at(node)} {node.name}: {problem}" for problem in problems)


def _problems(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if lines > FUNCTION_LINES:
        yield f"{lines} lines, at most {FUNCTION_LINES}"
    positional = [*function.args.posonlyargs, *function.args.args]
    if positional and positional[0].arg in {"self", "cls"}:
        positional = positional[1:]
    arguments = len(positional) + len(function.args.kwonlyargs)
    if arguments > ARGUMENTS and function.name != "__init__":
        yield f"{arguments} arguments, at most {ARGUMENTS}"


def _tuples(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield each parameter that is several arguments in a row without their names: `tuple[Clock, Recorder]`."""
    for parameter in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        if parameter.annotation is not None and any(map(_is_row, _alternatives(parameter.annotation))):
            yield f"{parameter.arg} is a tuple of several things; give each a parameter, or the whole a class"


def _alternatives(annotation: ast.expr) -> Iterator[ast.expr]:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.BinOp):
        yield from _alternatives(annotation.left)
        yield from _alternatives(annotation.right)
    else:
        yield annotation


def _is_row(annotation: ast.expr) -> bool:
    if not (isinstance(annotation, ast.Subscript) and dotted(annotation.value).lower().endswith("tuple")):
        return False
    elements = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else []
    return len(elements) > 1 and not (isinstance(elements[-1], ast.Constant) and elements[-1].value is ...)


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
        ("sidecar/rpc/x.py", "def joined(outside: tuple[Clock, Recorder]): ..."),
        ("sidecar/rpc/x.py", "class A:\n    def __init__(self, *, times: 'tuple[int, int] | None'): ..."),
    ],
)
def test_what_is_too_large_is_caught(path: str, content: str, tmp_path: Path) -> None:
    """One line or argument too many, or arguments without names."""
    assert len(list(violations(modules(root=planted(tmp_path, {path: content}))))) == 1


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("sidecar/core/x.py", "X = 1\n" * 300),
        ("tests/unit/test_x.py", "X = 1\n" * 400),
        ("sidecar/rpc/x.py", "def long():\n" + "    x = 1\n" * 49),
        ("sidecar/rpc/x.py", "class A:\n    async def wide(self, a, b, c, d, /, e, *, f): ..."),
        ("sidecar/rpc/x.py", "class A:\n    def __init__(self, a, b, c, d, *, e, f, g): ..."),
        ("sidecar/rpc/x.py", "def alike(names: tuple[str, ...], pairs: list[tuple[str, int]]): ..."),
    ],
)
def test_what_just_fits_is_let_through(path: str, content: str, tmp_path: Path) -> None:
    """Exactly at the limit."""
    assert list(violations(modules(root=planted(tmp_path, {path: content})))) == []
