"""Which test claims which rows, read from the sources without importing them."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

MARK: Final = "requirement"
SEARCHED: Final = ("tests", "plugins", "clients")
NOT_OURS: Final = frozenset({"node_modules", ".venv", "build", "dist", "__pycache__"})

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Claim:
    """The rows that one test names."""

    path: str
    """File, from the root of the tree, with `/`."""
    test: str
    """Function, or `Class.function`."""
    ids: tuple[str, ...]
    """As written: all marks of the function and of the classes around it."""
    problems: tuple[str, ...] = ()
    """What makes the claim worthless: not a literal, or on something that pytest never runs."""

    @property
    def place(self) -> str:
        """Where to look, as `file::test`."""
        return f"{self.path}::{self.test}"


def claims_in(source: str, path: str) -> Iterator[Claim]:
    """The claims of one file, in the order of its functions.

    Args:
        source: Python text.
        path: goes into the claims; tells whether pytest collects the file.
    """
    yield from _claims_of(ast.parse(source).body, path, around=())


@cache
def claims_under(root: Path) -> tuple[Claim, ...]:
    """All claims in `tests`, `plugins` and `clients` below `root`; read once, then remembered."""
    return tuple(claim for path in _sources(root) for claim in claims_in(path.read_text("utf-8"), _shown(path, root)))


def _sources(root: Path) -> Iterator[Path]:
    for folder in SEARCHED:
        for path in sorted((root / folder).rglob("*.py")):
            if not NOT_OURS.intersection(path.relative_to(root).parts) and f"{MARK}(" in path.read_text("utf-8"):
                yield path


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _claims_of(body: Iterable[ast.stmt], path: str, around: tuple[ast.ClassDef, ...]) -> Iterator[Claim]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _claims_of(node.body, path, (*around, node))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = [mark for marked in (*around, node) for mark in _marks_on(marked)]
            if marks:
                yield _claim(node, path, around, marks)


def _marks_on(marked: _Function | ast.ClassDef) -> Iterator[ast.Call]:
    for decorator in marked.decorator_list:
        yield from (node for node in ast.walk(decorator) if isinstance(node, ast.Call) and _is_mark(node.func))


def _is_mark(called: ast.expr) -> bool:
    return (isinstance(called, ast.Name) and called.id == MARK) or (
        isinstance(called, ast.Attribute) and called.attr == MARK
    )


def _claim(node: _Function, path: str, around: tuple[ast.ClassDef, ...], marks: list[ast.Call]) -> Claim:
    written = [argument for mark in marks for argument in mark.args]
    literals = [one.value for one in written if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    problems = []
    if len(literals) < len(written):
        problems.append("names a row by something other than a string literal")
    if not _is_collected(node.name, path):
        problems.append("sits on something that pytest never runs")
    name = ".".join((*(one.name for one in around), node.name))
    return Claim(path, name, tuple(literals), tuple(problems))


def _is_collected(function: str, path: str) -> bool:
    file = Path(path).name
    return function.startswith("test_") and (file.startswith("test_") or file.endswith("_test.py"))
